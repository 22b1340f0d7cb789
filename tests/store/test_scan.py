"""The scanner that Spark's executors read with, against the reader of single records."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

import offsetlog
from offsetlog import TopicPartition
from offsetlog._native import scan
from offsetlog._native.arrow_files import ArrowFileSystem
from offsetlog._native.records import SegmentReader
from offsetlog._native.replay import Replay
from offsetlog.errors import (
    ClosedError,
    CorruptionError,
    InvalidArgumentError,
    MissingFileError,
    ReadOnlyError,
)
from tests.conformance.scenarios import SCENARIOS, Scenario

SEED = 5


def segments(log: Path) -> list[Path]:
    return sorted(log.glob("__consumer_offsets-*/*.log"))


def read_all(
    path: Path, view: str, columns: list[str] | None = None, rows: int = 65536, **how: Any
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with scan.SegmentScan(path, view, columns, **how) as opened:
        while (batch := opened.read(rows)) is not None:
            batch.validate(full=True)
            found += batch.to_pylist()
            if opened.needs_outcomes:
                opened.outcomes = scan.outcomes_of([(path, 0, -1)], file_system=how.get("file_system"))
    return found


def reference(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the view `records` as far as the other reader tells them, how transactions ended included."""
    batches = []
    with SegmentReader(path) as reader:
        while (found := reader.read()) is not None:
            batches.append(found)
    for index, (batch, records) in enumerate(batches):
        outcome, marker = "plain", None
        if batch["transactional"] and not batch["control"]:
            outcome = "open"
            for later, ends in batches[index + 1 :]:
                if later["control"] and later["producer_id"] == batch["producer_id"]:
                    outcome = "committed" if ends[0]["key"]["type"] == "COMMIT" else "aborted"
                    marker = ends[0]["log_offset"]
                    break
        for record in records:
            yield {**batch, **record, "outcome": outcome, "marker_offset": marker}


SHARED = (
    "position",
    "base_offset",
    "last_offset",
    "batch_size",
    "magic",
    "codec",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "transactional",
    "delete_horizon",
    "timestamp_type",
    "log_offset",
    "timestamp",
    "kind",
    "outcome",
    "marker_offset",
)


def check_record(row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: row[name] for name in SHARED} == {name: expected[name] for name in SHARED}
    assert row["batch_leader_epoch"] == expected["leader_epoch"]
    assert row["header_keys"] == expected["headers"]
    key, value = expected["key"], expected["value"]
    if expected["kind"] == "marker":
        assert row["control"] == key["type"]
    elif expected["kind"] in ("offset_commit", "legacy_offset_commit", "offset_commit_legacy"):
        names = key["data"]
        assert (row["group"], row["topic"], row["partition"]) == (names["group"], names["topic"], names["partition"])
        if value is None:
            assert row["offset"] is row["metadata"] is row["commit_timestamp"] is row["value_version"] is None
        else:
            data = value["data"]
            assert (row["offset"], row["metadata"]) == (data["offset"], data["metadata"])
            assert row["commit_timestamp"] == data["commitTimestamp"]
            assert row["leader_epoch"] == data.get("leaderEpoch", -1)
            assert row["expire_timestamp"] == data.get("expireTimestamp", -1)
            assert row["topic_id"] == data.get("topicId")
            assert row["value_version"] == int(value["version"])
    elif key is not None:
        fields = json.loads(row["fields"])
        assert fields["key"] == key["data"]
        assert fields["value"] == (None if value is None else value["data"])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_records_are_what_the_other_reader_tells(scenario: Scenario):
    damaged = scenario.name.endswith("/torn")
    for path in segments(scenario.log):
        try:
            expected = list(reference(path))
        except CorruptionError:
            assert damaged
            continue
        for row, each in zip(read_all(path, "records", rows=61), expected, strict=True):
            check_record(row, each)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_replay_counts_the_records_below_a_log_offset(scenario: Scenario):
    for path in segments(scenario.log):
        if Replay().apply(path)["damage"] is not None:
            continue
        offsets = [row["log_offset"] for row in read_all(path, "records")]
        for until in [*offsets[:60:7], *offsets[-3:], 1 << 62]:
            replay = Replay()
            assert replay.apply(path, until=until)["damage"] is None
            assert replay.records_below == sum(offset < until for offset in offsets)
            assert replay.records_below <= replay.records <= len(offsets)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_positions_by_buckets_are_those_of_a_replay(scenario: Scenario):
    for folder in sorted({path.parent for path in segments(scenario.log)}):
        whole, parts = Replay(), [Replay(bucket=number, buckets=3) for number in range(3)]
        for path in sorted(folder.glob("*.log")):
            for replay in (whole, *parts):
                replay.apply(path)
        rows = [row for replay in parts for row in rows_of(replay)]
        expected = {(group.decode(), row[0], row[1]): row for group in whole.groups() for row in whole.positions(group)}
        assert len(rows) == len(expected)
        for row in rows:
            _, _, offset, epoch, metadata, committed, expires, _, log_offset = expected[
                row["group"], row["topic"], row["partition"]
            ]
            assert (row["offset"], row["leader_epoch"], row["metadata"]) == (offset, epoch, metadata)
            assert (row["commit_timestamp"], row["expire_timestamp"]) == (committed, expires)
            assert (row["log_offset"], row["log_partition"]) == (log_offset, 9)


def rows_of(replay: Replay) -> list[dict[str, Any]]:
    opened, found = scan.PositionScan(replay, log_partition=9), []
    while (batch := opened.read(17)) is not None:
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment with commits, deletes and transactions that committed, aborted and are open."""
    generator = random.Random(SEED)
    with offsetlog.open(tmp_path / "data", partitions=1, durability="process") as store:
        for step in range(300):
            group = f"group-{generator.randrange(5)}"
            key = TopicPartition("orders", generator.randrange(4))
            kind = generator.randrange(8)
            if kind < 5:
                store.commit(group, {key: step})
            elif kind == 5:
                store.delete(group, [key])
            else:
                transaction = store.transaction(group, producer_id=step)
                transaction.commit({key: step, TopicPartition("other", 1): step})
                if kind == 6:
                    transaction.abort() if step % 3 else transaction.__exit__(None, None, None)
    (path,) = segments(tmp_path / "data")
    return path


def boundaries(path: Path) -> list[tuple[int, int]]:
    return scan.skim(path, every=1).marks


def test_a_walk_begins_anywhere_and_knows_how_transactions_ended(segment: Path):
    expected = list(reference(segment))
    print(f"seed {SEED}")
    generator = random.Random(SEED)
    marks = boundaries(segment)
    assert {row["outcome"] for row in expected} == {"plain", "committed", "aborted", "open"}
    for _ in range(20):
        chosen = sorted(generator.sample(marks[1:], 5))
        starts = [(0, 0), *chosen]
        ends = [*chosen, (-1, 1 << 62)]
        rows: list[dict[str, Any]] = []
        for (position, first), (limit, until) in zip(starts, ends, strict=True):
            outcomes = scan.outcomes_of([(segment, position, -1)], first=first, until=until)
            with scan.SegmentScan(
                segment, "records", position=position, limit=limit, first=first, until=until, outcomes=outcomes
            ) as opened:
                while (batch := opened.read(generator.randrange(1, 40))) is not None:
                    rows += batch.to_pylist()
                assert opened.position == (limit if limit >= 0 else opened.limit)
        for row, each in zip(rows, expected, strict=True):
            check_record(row, each)


def test_what_ends_at_a_horizon_or_after_is_open(segment: Path):
    marks = boundaries(segment)
    ends = sorted({row["marker_offset"] for row in reference(segment) if row["marker_offset"] is not None})
    for horizon in (0, ends[0], ends[0] + 1, ends[len(ends) // 2], ends[-1], ends[-1] + 1):
        outcomes = scan.outcomes_of([(segment, 0, -1)], horizon=horizon)
        assert outcomes.markers == sum(end < horizon for end in ends)
        # As a file would have it that ends there.
        limit = next((position for position, offset in marks if offset >= horizon), -1)
        assert outcomes.open == scan.outcomes_of([(segment, 0, limit)]).open


def test_what_is_not_asked_for_is_not_there(segment: Path):
    whole = read_all(segment, "commits")
    narrow = read_all(segment, "commits", ["offset", "group"])
    assert narrow == [{"offset": row["offset"], "group": row["group"]} for row in whole]
    with scan.SegmentScan(segment, "commits", []) as opened:
        batch = opened.read()
        assert (batch.num_columns, batch.num_rows) == (0, len(whole))
    assert scan.view_schema("commits").names == list(scan.VIEWS["commits"])


def test_filters_take_their_part(segment: Path):
    whole = read_all(segment, "commits")
    assert read_all(segment, "commits", group="group-1") == [row for row in whole if row["group"] == "group-1"]
    expected = [row for row in whole if (row["topic"], row["partition"]) == ("orders", 2)]
    assert read_all(segment, "commits", topic="orders", partition=2) == expected
    for by_group in (False, True):
        parts = [read_all(segment, "commits", bucket=number, buckets=3, by_group=by_group) for number in range(3)]
        assert sorted((row for part in parts for row in part), key=lambda row: row["log_offset"]) == whole
        names = ("group",) if by_group else ("group", "topic", "partition")
        keys = [{tuple(row[name] for name in names) for row in part} for part in parts]
        assert not keys[0] & keys[1] | keys[0] & keys[2] | keys[1] & keys[2]


def test_batches_stay_as_they_were_while_others_are_read(segment: Path):
    with scan.SegmentScan(segment, "commits", ["group", "offset"]) as opened:
        kept, copies = [], []
        while (batch := opened.read(7)) is not None:
            kept.append(batch)
            copies.append(batch.to_pylist())
            if len(kept) % 3 == 0:
                kept[-2] = None
    assert [each.to_pylist() for each in kept if each is not None] == [
        copy for each, copy in zip(kept, copies, strict=True) if each is not None
    ]


@pytest.mark.parametrize("view", ["commits", "records"])
def test_damage_is_reported_with_its_place_and_skipped(segment: Path, view: str):
    marks = boundaries(segment)
    position = marks[40][0]
    whole = read_all(segment, "records", ["position", "kind"])
    raw = bytearray(segment.read_bytes())
    raw[position + 70] ^= 1
    segment.write_bytes(raw)
    rows, failures = [], []
    with scan.SegmentScan(segment, view, ["log_offset"]) as opened:
        while True:
            try:
                batch = opened.read(10)
            except CorruptionError as failure:
                failures.append(failure)
                with pytest.raises(CorruptionError):
                    opened.read()
                assert opened.skip()
                continue
            if batch is None:
                break
            rows += batch.to_pylist()
    (failure,) = failures
    assert (failure.path, failure.position) == (str(segment), position)
    kept = [row for row in whole if row["position"] != position and (view == "records" or row["kind"] != "marker")]
    assert len(rows) == len(kept)


def test_a_tail_that_is_cut_ends_a_walk_with_its_place(segment: Path):
    marks = boundaries(segment)
    with segment.open("r+b") as file:
        file.truncate(marks[-1][0] + 30)
    skimmed = scan.skim(segment)
    assert skimmed.position == marks[-1][0]
    assert isinstance(skimmed.damage, CorruptionError)
    assert scan.next_batch(segment, skimmed.position, 0) is None
    assert scan.used_until(segment, skimmed.position) > skimmed.position
    assert scan.batch_at(segment, marks[3][0])[0] == marks[3][1]
    assert scan.batch_at(segment, marks[3][0] + 1) is None


def test_a_skim_ends_where_asked(segment: Path):
    whole = scan.skim(segment, check_crc=True)
    assert whole.damage is None
    assert (whole.position, whole.batches) == (segment.stat().st_size, len(boundaries(segment)))
    rows = read_all(segment, "batches")
    assert [(row["position"], row["base_offset"]) for row in rows] == boundaries(segment)
    assert all(row["crc_ok"] for row in rows)
    middle = rows[len(rows) // 2]
    assert scan.skim(segment, until=middle["base_offset"]).position == middle["position"]
    newest = middle["max_timestamp"]
    cut = scan.skim(segment, until_timestamp=newest)
    first = next((row for row in rows if row["max_timestamp"] > newest), None)
    assert cut.position == (first["position"] if first else whole.position)


def test_a_base_offset_that_damage_made_the_greatest_hides_nothing(segment: Path):
    before = scan.skim(segment), scan.outcomes_of([(segment, 0, -1)])
    batches = read_all(segment, "batches")[20:]
    plain = [row for row in batches if row["base_offset"] == row["last_offset"] and row["producer_id"] < 0]
    with segment.open("r+b") as file:
        file.seek(plain[0]["position"])
        file.write((2**63 - 1).to_bytes(8))
    after = scan.skim(segment), scan.outcomes_of([(segment, 0, -1)])
    assert (after[0].batches, after[0].position, after[0].damage) == (before[0].batches, before[0].position, None)
    assert (after[1].markers, after[1].open) == (before[1].markers, before[1].open)


def test_any_file_system_reads_the_same(segment: Path):
    files = pyarrow.fs._MockFileSystem()
    files.create_dir("bucket/log")
    with files.open_output_stream("bucket/log/00000000000000000000.log") as stream:
        stream.write(segment.read_bytes())
    port = ArrowFileSystem(files)
    path = Path("bucket/log/00000000000000000000.log")
    assert read_all(path, "records", file_system=port) == read_all(segment, "records")
    assert port.list("bucket/log") == [path.name]
    assert port.exists("bucket/log")
    assert not port.exists("bucket/other")
    assert port.read_file(path) == segment.read_bytes()
    with pytest.raises(MissingFileError, match=r"none\.log"):
        scan.SegmentScan("bucket/none.log", "commits", file_system=port)
    with pytest.raises(ReadOnlyError):
        port.remove(path)
    with pytest.raises(ReadOnlyError):
        port.replace_file(path, b"")
    replay = Replay(port)
    assert replay.apply(path)["damage"] is None
    local = Replay()
    local.apply(segment)
    assert replay.digest(physical=True) == local.digest(physical=True)


def test_wrong_arguments_are_refused(segment: Path):
    with pytest.raises(InvalidArgumentError, match="unknown view 'none'"):
        scan.SegmentScan(segment, "none")
    with pytest.raises(InvalidArgumentError, match="no column 'size'"):
        scan.SegmentScan(segment, "commits", ["size"])
    with pytest.raises(InvalidArgumentError, match="bucket must be from 0 to 2, not 3"):
        scan.SegmentScan(segment, "commits", bucket=3, buckets=3)
    with pytest.raises(InvalidArgumentError, match="bucket must be from 0 to 1, not 2"):
        Replay(bucket=2, buckets=2)
    opened = scan.SegmentScan(segment, "commits", ["outcome"])
    with pytest.raises(InvalidArgumentError, match="rows must be at least 1"):
        opened.read(0)
    with pytest.raises(InvalidArgumentError, match="nothing to skip"):
        opened.skip()
    while not opened.needs_outcomes:
        opened.read(5)
    with pytest.raises(InvalidArgumentError, match="set `outcomes` before reading on"):
        opened.read()
    opened.close()
    opened.close()
    with pytest.raises(ClosedError):
        opened.read()
