"""Blocks that we compress, in the framings that Kafka's clients read (docs/format/batches.md §2.3, §2.8)."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
import xxhash

from offsetlog import errors
from offsetlog._native.compress import deflate
from offsetlog._native.decompress import inflate

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NOISE = random.Random(20).randbytes(200_000)
SOURCES = {
    "empty": b"",
    "one byte": b"x",
    "text": b"hello world " * 20_000,
    "noise": NOISE,
    "noise and text": NOISE[:70_000] + b"hello" * 20_000 + NOISE[:70_000],
    "whole blocks": bytes(128 << 10),
}


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_what_was_deflated_is_inflated(codec, source, magic):
    block = deflate(codec, source, magic)
    assert inflate(codec, block, len(source), magic) == source
    assert len(block) < len(source) + 100 + len(source) // 1000


def test_a_codec_that_is_not_there():
    for codec in (0, 5, -1):
        with pytest.raises(errors.UnsupportedVersionError):
            deflate(codec, b"")


@pytest.mark.parametrize("codec", [(GZIP, "gzip"), (LZ4, "lz4"), (ZSTD, "zstd")])
def test_pyarrow_reads_the_streams(codec):
    number, name = codec
    with pa.CompressedInputStream(pa.BufferReader(deflate(number, SOURCES["text"])), name) as stream:
        assert stream.read() == SOURCES["text"]


def test_the_lz4_frame_is_one_that_kafka_reads():
    for source in SOURCES.values():
        frame = deflate(LZ4, source)
        assert frame[:4] == b"\x04\x22\x4d\x18"
        flags, blocks, checksum = frame[4:7]
        assert flags == 0b01_1_00000, "version 1, independent blocks, nothing else"
        assert blocks == 0x40, "of at most 64 KiB"
        assert checksum == (xxhash.xxh32(frame[4:6]).intdigest() >> 8) & 0xFF
        position, inflated = 7, b""
        while True:
            (word,) = struct.unpack_from("<I", frame, position)
            position += 4
            if word == 0:
                break
            size = word & 0x7FFFFFFF
            block = frame[position : position + size]
            position += size
            if word & 0x80000000:
                inflated += block
            else:
                left = min(len(source) - len(inflated), 64 << 10)
                inflated += pa.Codec("lz4_raw").decompress(block, decompressed_size=left, asbytes=True)
        assert position == len(frame)
        assert inflated == source


def test_the_wrong_checksum_of_magic_0():
    frame = deflate(LZ4, b"hello", 0)
    assert frame[6] == (xxhash.xxh32(frame[:6]).intdigest() >> 8) & 0xFF
    assert frame[6] != deflate(LZ4, b"hello")[6]


def test_the_snappy_framing_is_javas():
    block = deflate(SNAPPY, SOURCES["text"])
    assert block[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    position, inflated = 16, b""
    while position < len(block):
        (size,) = struct.unpack_from(">i", block, position)
        part = block[position + 4 : position + 4 + size]
        left = min(len(SOURCES["text"]) - len(inflated), 32 << 10)
        inflated += pa.Codec("snappy").decompress(part, decompressed_size=left, asbytes=True)
        position += 4 + size
    assert inflated == SOURCES["text"]
