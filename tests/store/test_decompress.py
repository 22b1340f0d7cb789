"""Blocks that others compressed: whole, never beyond the limit, refused when damaged.

Source: docs/format/batches.md §2.3, §2.8.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash

import offsetlog
from offsetlog import errors
from offsetlog._native.decompress import inflate

DATA = b"hello world " * 5000
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
STREAMS = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}


def packed(name: str, data: bytes = DATA) -> bytes:
    return pa.Codec(name).compress(data, asbytes=True)


def xerial(*blocks: bytes) -> bytes:
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


FRAMED = xerial(*(packed("snappy", DATA[at : at + 1000]) for at in range(0, len(DATA), 1000)))


@pytest.mark.parametrize("codec", STREAMS)
def test_streams(codec):
    block = packed(STREAMS[codec])
    assert inflate(codec, block, len(DATA)) == DATA
    for limit in (0, 1, 100, len(DATA) - 1):
        with pytest.raises(errors.LimitError):
            inflate(codec, block, limit)
    for cut in range(1, len(block)):
        with pytest.raises(errors.CorruptionError):
            inflate(codec, block[:cut], len(DATA))


def test_snappy_framed_and_raw():
    assert inflate(SNAPPY, packed("snappy"), len(DATA)) == DATA
    assert inflate(SNAPPY, FRAMED, len(DATA)) == DATA
    assert inflate(SNAPPY, xerial(), 10) == b""
    assert inflate(SNAPPY, xerial(packed("snappy", b"ab")) + xerial(packed("snappy", b"cd")), 10) == b"abcd"
    for limit in (0, 999, len(DATA) - 1):
        with pytest.raises(errors.LimitError):
            inflate(SNAPPY, FRAMED, limit)


def test_snappy_cut_anywhere():
    for cut in range(len(FRAMED)):
        try:
            assert DATA.startswith(inflate(SNAPPY, FRAMED[:cut], len(DATA)))
        except errors.CorruptionError:
            continue


def test_a_snappy_block_cannot_claim_more_than_it_could_hold():
    with pytest.raises(errors.CorruptionError, match="cannot inflate"):
        inflate(SNAPPY, b"\xff\xff\xff\x7f\x00", 1 << 40)
    with pytest.raises(errors.LimitError):
        inflate(SNAPPY, b"\xff\xff\xff\xff\x0f\x00", 1 << 20)


def test_the_wrong_header_checksum_of_magic_0():
    block = packed("lz4")
    end = 6 + (8 if block[4] & 0x08 else 0)
    wrong = block[:end] + bytes([xxhash.xxh32(block[:end]).intdigest() >> 8 & 0xFF]) + block[end + 1 :]
    assert inflate(LZ4, wrong, len(DATA), magic=0) == DATA
    assert inflate(LZ4, block, len(DATA), magic=0) == DATA
    with pytest.raises(errors.CorruptionError):
        inflate(LZ4, wrong, len(DATA), magic=1)
    other = block[:end] + bytes([block[end] ^ 0x55]) + block[end + 1 :]
    with pytest.raises(errors.CorruptionError):
        inflate(LZ4, other, len(DATA), magic=0)


def test_a_bomb_is_an_error():
    bomb = packed("zstd", bytes(100 << 20))
    assert len(bomb) < 20_000
    with pytest.raises(errors.LimitError):
        inflate(ZSTD, bomb, 64 << 20)


@pytest.mark.parametrize("codec", [0, 5, 7])
def test_an_unknown_codec(codec):
    with pytest.raises(errors.UnsupportedVersionError):
        inflate(codec, b"", 10)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_what_interrupts_a_callback_is_raised_after_it(monkeypatch, interrupt):
    def interrupted(*_):
        raise interrupt

    directory = Path(__file__).parents[1] / "data" / "kafka-old" / "2.8.2-zstd" / "log"
    with monkeypatch.context() as patched:
        patched.setattr(pa, "CompressedInputStream", interrupted)
        with pytest.raises(interrupt):
            offsetlog.open(directory, read_only=True)
    with offsetlog.open(directory, read_only=True) as store:
        assert store.groups()
