"""The digest from columns: the vectors of docs/digest.md."""

from __future__ import annotations

import base64

import pyarrow as pa

from offsetlog.spark.jobs.tasks.hashing import MODULUS, from_limbs, group_record_hashes, position_hashes

MOMENT = 1700000000000
TOPIC_ID = base64.urlsafe_b64encode(bytes(range(1, 17))).decode().rstrip("=")
P1 = ("my-group", "orders", 3, 42, 7, "meta", MOMENT, -1, None)
P2 = ("", "bé", -1, 0, -1, "", MOMENT, MOMENT + 600000, TOPIC_ID)
TYPES = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.string()]


def positions(rows, producer_id=-1, log_offsets=None):
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), TYPES, strict=True)]
    found = position_hashes(
        *columns, pa.array([producer_id] * len(rows)), pa.array(log_offsets or [-1] * len(rows), pa.int64())
    )
    return [from_limbs(tuple(each.values())) for each in found.to_pylist()]


def hexadecimal(numbers):
    return [f"{each:032x}" for each in numbers]


def test_positions():
    found = positions([P1, P2])
    assert hexadecimal(found) == ["9b49e4a6592ae0eb8e4172587feb2f2f", "0578c31d123b88390b2f15ef578f56cc"]
    assert f"{sum(found) % MODULUS:032x}" == "a0c2a7c36b66692499708847d77a85fb"


def test_positions_with_log_offsets():
    found = positions([P1, P2], log_offsets=[100, 101])
    assert hexadecimal(found) == ["93fd811bd31b69188702f1d509f61f93", "eeb480845dc363c31576065628ff6bc4"]


def test_pending_positions():
    row = ("my-group", "orders", 3, 50, -1, "", MOMENT, -1, None)
    assert f"{positions([row], 4000)[0]:032x}" == "5303e5fd85f4ffabb833054c5891631f"
    assert f"{positions([row], 4000, [103])[0]:032x}" == "f53cec5f7ce08cb3c5107931978ab981"


def test_group_records():
    key, value = bytes.fromhex("000200086d792d67726f7570"), bytes.fromhex("000376616c7565")

    def hashed(log_offset):
        found = group_record_hashes(
            pa.array([b"", key]).slice(1), pa.array([value]), pa.array([MOMENT]), pa.array([log_offset])
        )
        return f"{from_limbs(tuple(found[0].as_py().values())):032x}"

    assert hashed(-1) == "92c20e294e99758119fc44824466c2ca"
    assert hashed(105) == "da77aeefed1b040240493da2be20f203"


def test_a_topic_id_of_zeros_is_none():
    zeros = base64.urlsafe_b64encode(bytes(16)).decode().rstrip("=")
    assert positions([(*P1[:8], zeros)]) == positions([P1])


def test_of_nothing():
    assert len(position_hashes(*[pa.array([], kind) for kind in TYPES], pa.array([]), pa.array([]))) == 0
    assert len(group_record_hashes(pa.array([], pa.binary()), pa.array([]), pa.array([]), pa.array([]))) == 0


def test_sums_of_limbs_carry():
    assert from_limbs((1, 0, 0, 2**32)) == (1 << 96) + (1 << 32)
    assert from_limbs((2**32, 0, 0, 7)) == 7
