"""`verify`: what brokers wrote is sound, and each kind of damage is found with its place."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("typer")

from handmade_batches import batch_of
from test_cli_read import DATA, FIRST, call, damage

import offsetlog
from offsetlog.cli.output import Format, Output
from offsetlog.cli.verify import print_finding, ways_text
from offsetlog.types import Digest, Way
from offsetlog.verify import Verification, verify
from offsetlog.verify.findings import Finding, KeyDifference
from offsetlog.verify.side_files import parse_epochs

SCENARIOS = sorted(path.parent for path in DATA.parent.glob("*/*/log"))
WAYS = {"replay", "loaded", "cleaned", "snapshot"}
COMPACTED = DATA.parent / "kafka-old" / "upgraded-compacted" / "log"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    shutil.copytree(DATA / "txn" / "log", path)
    return path


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_broker_wrote_is_sound(scenario, capsys):
    code, out, err = call(capsys, "verify", scenario / "log", "--format=json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert rows[-1]["sound"] is True
    kinds = {row["kind"] for row in rows[:-1]} - {"open transaction"}
    assert kinds == ({"unfinished tail"} if scenario.name == "torn" else set())
    assert all(row["severity"] == "note" for row in rows[:-1])
    numbers = {row["log_partition"] for row in rows[-1]["ways"]}
    compared = [row["way"] for row in rows[-1]["ways"] if row["digest"] is not None]
    assert compared == ["replay", "loaded", "cleaned"] * len(numbers)


def test_open_transactions_are_named(capsys):
    notes = [each for each in verify(DATA / "txn" / "log").findings if each.kind == "open transaction"]
    rows = [
        json.loads(line) for line in call(capsys, "transactions", DATA / "txn" / "log", "--format=json")[1].splitlines()
    ]
    assert [each.log_offset for each in notes] == [row["first_log_offset"] for row in rows]
    found = {(row["producer_id"], row["log_partition"]): (row["pending_offsets"], row["group_names"]) for row in rows}
    assert found[11, 1] == (2, ["c21-audit1"])
    assert found[10, 4] == (2, ["c15-audit1"])
    assert any(each.reason.startswith("of producer 11, log partition 1, open for ") for each in notes)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_as_many_records_are_counted_as_are_dumped(scenario, capsys):
    rows = [json.loads(line) for line in call(capsys, "dump", scenario / "log", "--format=json")[1].splitlines()]
    assert verify(scenario / "log").records == sum(row["kind"] != "empty" for row in rows)


def test_reading_changes_nothing(log):
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in log.rglob("*") if path.is_file()}
    verify(log)
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in log.rglob("*") if path.is_file()} == before


def test_a_partition_and_a_segment_alone(log):
    assert verify(log / "__consumer_offsets-0").sound
    assert verify(log / "__consumer_offsets-0" / FIRST).positions == verify(log / "__consumer_offsets-0").positions


def kinds_of(found: Verification) -> list[str]:
    """The kinds of the findings beside the open transactions, which the scenario is full of."""
    return [each.kind for each in found.findings if each.kind != "open transaction"]


def only(log: Path, **arguments: int) -> tuple[str, str, int | None]:
    """The kind, the file and the position of the one problem that is there."""
    found = verify(log, **arguments).problems
    assert len(found) == 1, found
    return found[0].kind, Path(found[0].path).name, found[0].position


def write_at(path: Path, position: int, content: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(content)] = content
    path.write_bytes(whole)


def test_a_flipped_bit_is_found_at_its_batch(log):
    damage(log / "__consumer_offsets-0" / FIRST, 100)
    assert ("batch", 0) in {(each.kind, each.position) for each in verify(log).problems}


def test_an_offset_that_goes_back_is_found(tmp_path):
    path = tmp_path / "__consumer_offsets-0" / FIRST
    path.parent.mkdir()
    path.write_bytes(
        batch_of(5, [(b"\x00\x63", b"")]) + batch_of(3, [(b"\x00\x63", b"")]) + batch_of(6, [(b"\x00\x63", b"")])
    )
    found = verify(tmp_path).problems[0]
    assert (found.kind, found.position) == ("batch", 0)
    # Either may be the one that lies: as for a load, damage begins with the first.
    assert "base offset 5 is too high: the next batch begins before this one ends" in found.reason


def test_a_base_offset_that_damage_made_the_greatest_is_found(tmp_path):
    path = tmp_path / "__consumer_offsets-0" / FIRST
    path.parent.mkdir()
    path.write_bytes(b"".join(batch_of(base, [(b"\x00\x63", b"")]) for base in (0, 2**63 - 1, 5)))
    found = verify(tmp_path)
    assert ("batch" in {each.kind for each in found.problems}, found.batches) == (True, 2)
    reason = f"base offset {2**63 - 1} is too high: the next batch begins before this one ends"
    assert reason in found.problems[0].reason


def test_a_record_that_a_broker_would_not_load_is_found(tmp_path):
    path = tmp_path / "__consumer_offsets-0" / FIRST
    path.parent.mkdir()
    path.write_bytes(batch_of(0, [(b"\x00\x01\x00\x05ab", b"\x00\x03")]))
    kinds = {each.kind for each in verify(tmp_path).problems}
    assert kinds == {"record"}


def test_a_segment_whose_name_lies_is_found(log):
    folder = log / "__consumer_offsets-0"
    for path in folder.glob(FIRST[:20] + "*"):
        path.rename(folder / ("00000000000000000007" + path.suffix))
    assert "segment" in {each.kind for each in verify(log).problems}


ENTRY = struct.Struct(">ii")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ENTRY.pack(10, 5), "not the start of a batch"),
        (ENTRY.pack(3, 70000000), ""),
        (ENTRY.pack(20, 300) + ENTRY.pack(10, 400), ""),
        (b"\x01" * 7, ""),
    ],
)
def test_an_offset_index_that_misleads_is_found(log, content, reason):
    (log / "__consumer_offsets-0" / FIRST).with_suffix(".index").write_bytes(content)
    assert only(log)[:2] == ("offset index", FIRST.replace(".log", ".index"))
    assert reason in verify(log).problems[0].reason


def test_a_time_index_that_misleads_is_found(log):
    (log / "__consumer_offsets-0" / FIRST).with_suffix(".timeindex").write_bytes(struct.pack(">qi", 5, 100))
    assert only(log)[0] == "time index"


def test_indexes_after_a_crash_are_made_again_and_no_problem(log):
    (log / ".kafka_cleanshutdown").unlink()
    (log / "recovery-point-offset-checkpoint").unlink()
    (log / "__consumer_offsets-0" / FIRST).with_suffix(".index").write_bytes(ENTRY.pack(10, 5))
    found = verify(log)
    assert found.sound
    assert kinds_of(found) == ["offset index"]


def test_an_aborted_transaction_that_the_index_lacks_is_found(log):
    path = (log / "__consumer_offsets-0" / FIRST).with_suffix(".txnindex")
    path.write_bytes(path.read_bytes()[34:])
    assert only(log)[:2] == ("transaction index", path.name)


def test_a_bad_producer_snapshot_is_found(log):
    (path,) = (log / "__consumer_offsets-0").glob("*.snapshot")
    damage(path, 20)
    assert only(log)[:2] == ("producer snapshot", path.name)


def test_a_producer_snapshot_of_another_log_is_found(log):
    (path,) = (log / "__consumer_offsets-0").glob("*.snapshot")
    (other,) = (log / "__consumer_offsets-1").glob("*.snapshot")
    path.write_bytes(other.read_bytes())
    found = verify(log)
    assert [each.kind for each in found.problems] in ([], ["producer snapshot"])
    path.rename(path.with_name("00000000000000009999.snapshot"))
    assert only(log)[0] == "producer snapshot"


@pytest.mark.parametrize(
    "content", ["0\n1\n0 5000000\n", "0\n2\n0 0\n", "1\n1\n0 0\n", "0\n2\n3 0\n1 5\n", "0\n1\n7 0\n"]
)
def test_leader_epochs_that_contradict_the_log_are_found(log, content):
    (log / "__consumer_offsets-0" / "leader-epoch-checkpoint").write_text(content)
    assert only(log)[:2] == ("leader epochs", "leader-epoch-checkpoint")


def test_leader_epochs_that_a_broker_dropped_are_a_note(tmp_path):
    """It leads with an older epoch than the log has where it was killed, and others worked before it came back."""
    for number in range(4):
        with offsetlog.open(tmp_path / "log", partitions=1) as store:
            store.commit_one("g", "t", number, number)
    path = tmp_path / "log" / "__consumer_offsets-0" / "leader-epoch-checkpoint"
    epochs = parse_epochs(path.read_bytes())
    left = [epochs[0], epochs[3]]
    path.write_text(f"0\n2\n{left[0][0]} {left[0][1]}\n{left[1][0]} {left[1][1]}\n")
    found = verify(tmp_path / "log")
    [note] = [each for each in found.findings if each.kind == "leader epochs"]
    assert (found.problems, note.log_offset) == ([], 1)
    assert note.reason.startswith(f"epoch {epochs[1][0]} of the batch at offset 1 is not in the checkpoint; ")


def test_empty_leader_epochs_are_none():
    assert parse_epochs(b"") == parse_epochs(b"0\n") == []


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_a_checkpoint_beyond_the_end_is_found(log, name):
    (log / name).write_text("0\n1\n__consumer_offsets 0 100000\n")
    assert only(log)[:2] == ("checkpoint", name)


def test_a_recovery_point_beyond_the_end_leaves_a_doubt(log):
    (log / "recovery-point-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 100000\n")
    [found] = verify(log).problems
    assert (found.kind, found.log_partition, found.lost_below) == ("in doubt", 0, 100000)


def test_a_checkpoint_that_cannot_be_read_is_found(log):
    (log / "replication-offset-checkpoint").write_text("0\n5\n")
    assert only(log)[:2] == ("checkpoint", "replication-offset-checkpoint")


def test_topic_ids_that_differ_are_found(log):
    path = log / "__consumer_offsets-0" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ")
    assert only(log)[0] == "topic id"
    path.write_text("what is this")
    assert only(log)[:2] == ("topic id", "partition.metadata")


def test_groups_in_the_wrong_partition_are_found(log):
    for count in (9, 16):
        *groups, last = verify(log, partitions=count).problems
        assert {each.kind for each in groups} == {"wrong partition"}
        assert last.kind == "partitions"
        assert f"so {count} is probably not the number of partitions of the topic" in last.reason
        assert f"{len(groups)} of " in last.reason
        assert last.reason.endswith("give the right number with --partitions")
    shutil.rmtree(log / "__consumer_offsets-2")
    found = verify(log)
    assert "partitions" in {each.kind for each in found.findings}
    assert verify(log, partitions=8).problems == []


def test_a_tail_beside_the_clean_marker_is_a_problem(log):
    path = log / "__consumer_offsets-0" / FIRST
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(16))
    assert only(log) == ("unfinished tail", FIRST, size)
    (log / ".kafka_cleanshutdown").unlink()
    assert kinds_of(verify(log)) == []
    path.write_bytes(path.read_bytes() + b"xyz")
    found = {(each.severity, each.kind) for each in verify(log).findings} - {("note", "open transaction")}
    assert found in ({("note", "unfinished tail")}, {("problem", "batch")})


def test_a_tail_below_the_recovery_point_is_a_problem(tmp_path):
    log = tmp_path / "log"
    shutil.copytree(DATA / "torn" / "log", log)
    (log / "recovery-point-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 224\n")
    assert {each.kind for each in verify(log).problems} == {"batch", "in doubt"}


def test_findings_are_reported_in_lines(log, capsys):
    damage(log / "__consumer_offsets-0" / FIRST, 100)
    code, out, err = call(capsys, "verify", log)
    assert (code, err) == (1, "")
    assert out.startswith("problem: batch: ")
    assert f"{FIRST}, byte 0" in out.splitlines()[0]


def test_the_digest_is_the_stores(log, tmp_path):
    with offsetlog.open(log, read_only=True) as store:
        assert verify(log).digest == store.digest()
        assert verify(log).digest_physical == store.digest(physical=True)


def test_the_ways_to_the_state_are_reported(log, capsys):
    _, out, _ = call(capsys, "verify", log, "--format=json")
    summary = json.loads(out.splitlines()[-1])
    found = verify(log)
    assert [row["digest"] for row in summary["ways"] if row["digest"]] == [
        str(way.digest) for way in found.ways if way.digest
    ]
    assert {row["way"] for row in summary["ways"]} == WAYS
    assert {row["log_partition"] for row in summary["ways"]} == set(range(8))
    assert all((row["digest"] is None) == (row["way"] == "snapshot") == (row["end"] < 0) for row in summary["ways"])
    assert {row["note"] for row in summary["ways"] if row["way"] == "snapshot"} == {"there is no snapshot"}
    _, out, _ = call(capsys, "verify", log)
    assert "ways compared                replay = loaded = cleaned in 8 partitions" in out.splitlines()
    _, out, _ = call(capsys, "verify", log, "--ways")
    table = out[out.index("log_partition\t") :].splitlines()
    assert table[1].split("\t")[:3] == ["0", "replay", str(found.ways[0].end)]
    assert len([line for line in table if line.count("\t") == 4]) == 1 + len(found.ways)


def test_keys_that_differ_are_reported_in_lines(capsys):
    sides = ({"offset": 7, "log_offset": 3}, {"offset": 8, "log_offset": 3})
    key = KeyDifference("position", None, "g\n", "t", 5, None, ("replay", "loaded"), sides)
    finding = Finding("problem", "digest", "they lead to different states: 1 key differs", 0, "d", keys=(key,))
    print_finding(Output(Format.TEXT), finding)
    assert capsys.readouterr().out.splitlines() == [
        "problem: digest: they lead to different states: 1 key differs (d)",
        r"  group 'g\n', topic 't', partition 5: replay offset 7, loaded offset 8",
    ]
    assert finding.row()["keys"][0]["loaded"] == {"offset": 8, "log_offset": 3}


@pytest.mark.parametrize(
    ("ways", "text"),
    [
        ([], "-"),
        ([(0, "replay", 1), (0, "loaded", 1), (1, "replay", 2), (1, "loaded", 2)], "replay = loaded in 2 partitions"),
        ([(0, "replay", 1), (0, "loaded", 2), (0, "cleaned", 1)], "replay = cleaned != loaded in 1 partition"),
        (
            [(0, "replay", 1), (1, "replay", 1), (1, "loaded", 1), (2, "snapshot", None)],
            "replay in 1 partition; replay = loaded in 1 partition",
        ),
    ],
)
def test_ways_are_reported_by_what_they_led_to(ways, text):
    digests = {number: Digest(number, 0, 0) for number in (1, 2)}
    assert ways_text([Way(number, name, 5, digests.get(digest)) for number, name, digest in ways]) == text


def committed(store: offsetlog.OffsetStore) -> None:
    for turn in range(50):
        store.commit_one(f"g{turn % 7}", "topic", turn % 5, turn)


@pytest.mark.parametrize("end", [lambda store: store.close(), lambda store: store.flush()])
def test_what_we_write_is_sound(tmp_path, end: Callable[[offsetlog.OffsetStore], None]):
    with offsetlog.open(tmp_path / "data", partitions=4, durability="process") as store:
        committed(store)
        assert store.verify() == []
        end(store)
        assert verify(tmp_path / "data").findings == []


def test_a_store_finds_what_was_damaged_under_it(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=1) as store:
        committed(store)
        damage(tmp_path / "data" / "__consumer_offsets-0" / FIRST, 90)
        kinds = [str(each).partition(":")[0] for each in store.verify()]
        damage(tmp_path / "data" / "__consumer_offsets-0" / FIRST, 90)
        assert "batch" in kinds
        assert store.verify() == []
