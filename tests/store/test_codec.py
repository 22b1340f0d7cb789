"""The format's small functions, and the vectors of the spec in both directions.

Source: docs/format/conventions.md §0, docs/format/records.md §3, docs/format/partitioning.md §4,
docs/format/vectors.md §14.2.
"""

from __future__ import annotations

import pytest
import xxhash

from offsetlog import errors
from offsetlog._native.codec import crc32c, java_hash, partition_for, utf16_units, xxh3_128
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog._native.records import decode_key, decode_value

T = 0x18BCFE56800
VECTORS = [
    (1, None, "000100086d792d67726f757000066f726465727300000003"),
    (0, None, "000000086d792d67726f757000066f726465727300000003"),
    (2, None, "000200086d792d67726f7570"),
    (3, None, "0003000167"),
    (5, None, "000500016700016d"),
    (8, None, "000800016700016d"),
    (0, 0, "0000000000000000002a00046d6574610000018bcfe56800"),
    (1, 1, "0001000000000000002a00046d6574610000018bcfe568000000018bcfee8fc0"),
    (1, 2, "0002000000000000002a00046d6574610000018bcfe56800"),
    (1, 3, "0003000000000000002a0000000700046d6574610000018bcfe56800"),
    (1, 4, "0004000000000000002a00000007056d6574610000018bcfe5680000"),
    (2, 0, "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132372e30"
            "2e302e310000afc800000002000100000003020304"),
    (2, 3, "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d31000369"
            "2d31000163000a2f3132372e302e302e31000493e00000afc800000002000100000003020304"),
    (2, 4, "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680002046d2d3104692d3102630b2f3132"
            "372e302e302e31000493e00000afc8030001040203040000"),
    (2, 3, "00030008636f6e73756d657200000006ffffffff0000018bcfe5680000000000"),
    (3, 0, "00000000000900"),
    (4, 0, "0000020102030405060708090a0b0c0d0e0f10027400000003010000"),
    (5, 0, "00000002720263032f68030261026200000493e00000"),
    (5, 0, "00000002720263032f68030261026200000493e000010012010000afc8020672616e6765040102030000"),
    (6, 0, "00000000000900"),
    (7, 0, "0000020102030405060708090a0b0c0d0e0f100300000000000000020000"),
    (8, 0, "0000000000090000000800020102030405060708090a0b0c0d0e0f100200000000000100"),
]  # fmt: skip


@pytest.mark.parametrize(("key_type", "version", "text"), VECTORS)
def test_vectors_in_both_directions(key_type, version, text):
    raw = bytes.fromhex(text)
    if version is None:
        decoded = decode_key(raw)
        assert decoded["type"] == str(key_type)
        assert encode_key(key_type, decoded["data"]) == raw
    else:
        decoded = decode_value(key_type, raw)
        assert decoded["version"] == str(version)
        assert encode_value(key_type, version, decoded["data"]) == raw


def test_the_golden_batch():
    keys = [encode_key(1, {"group": "my-group", "topic": "orders", "partition": number}) for number in (3, 4, 5)]
    values = [
        encode_value(1, 3, {"offset": offset, "leaderEpoch": epoch, "metadata": "", "commitTimestamp": T})
        for offset, epoch in ((42, 7), (43, -1))
    ]
    batch = encode_batch(100, T, list(zip(keys, [*values, None], strict=True)), leader_epoch=6)
    assert batch.hex() == (
        "0000000000000064000000be000000060277c25c610000000000020000018bcfe568000000018bcfe56800ffffffffffffffffffff0000000000"
        "0000036c00000030000100086d792d67726f757000066f726465727300000003300003000000000000002a0000000700000000018bcfe56800006c"
        "00000230000100086d792d67726f757000066f726465727300000004300003000000000000002bffffffff00000000018bcfe56800003c00000430"
        "000100086d792d67726f757000066f7264657273000000050100"
    )


def test_what_cannot_be_written():
    with pytest.raises(errors.InvalidArgumentError):
        encode_key(9, {})
    with pytest.raises(errors.InvalidArgumentError):
        encode_key(1, {"group": "g", "topic": "t"})
    with pytest.raises(errors.InvalidArgumentError):
        encode_value(1, 3, {"offset": 1, "leaderEpoch": 2**40, "metadata": "", "commitTimestamp": 0})
    with pytest.raises(errors.OffsetLogError):
        encode_value(1, 3, {"offset": 1, "leaderEpoch": 1, "metadata": None, "commitTimestamp": 0})
    assert len(encode_key(2, {"group": "g" * 32767})) == 32767 + 4


@pytest.mark.parametrize(
    ("group", "value", "partitions"),
    [
        ("testGroup", -1202336499, {50: 49, 7: 0, 100: 99, 1: 0}),
        ("", 0, {50: 0}),
        ("my-group", -1906497762, {50: 12, 7: 1, 100: 62}),
        ("polygenelubricants", -(2**31), {50: 0, 7: 0, 100: 0}),
        ("group-é", 293427483, {50: 33, 7: 6, 100: 83}),
        ("組-1", 30818792, {50: 42, 7: 4}),
        ("😀", 1772899, {50: 49, 7: 2, 100: 99}),
        (b"\xed\xa0\x80", 65533, {50: 33}),
    ],
)
def test_traps_1_to_4_the_partition_of_a_group(group, value, partitions):
    assert java_hash(group) == value
    for count, number in partitions.items():
        assert partition_for(group, count) == number
    with pytest.raises(ValueError, match="at least one partition"):
        partition_for(group, 0)


def test_checksums_hashes_and_lengths():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    for size in (0, 1, 16, 17, 240, 241, 10_000):
        data = bytes(range(256)) * (size // 256 + 1)
        assert xxh3_128(data[:size]) == xxhash.xxh3_128_intdigest(data[:size])
    assert [utf16_units(text) for text in ("", "abc", "é" * 10, "😀")] == [0, 3, 10, 2]
