"""Every way leads to one state, and where one does not its keys are named."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import offsetlog
from offsetlog import OffsetStore, TopicPartition, errors, opening
from offsetlog._native.cleaner import replay_cleaned
from offsetlog._native.codec import crc32c
from offsetlog._native.replay import Replay
from offsetlog._native.snapshot import FILE_NAME
from offsetlog._native.state_diff import LiveComparison, compare, cut
from offsetlog.config import StoreConfig
from offsetlog.types import Way
from offsetlog.verify import Verification, replays, verify
from offsetlog.verify.findings import Finding, KeyDifference
from offsetlog.verify.store import StoreVerification

from .conftest import tree

SEGMENT = "__consumer_offsets-0/00000000000000000000.log"
#: The states compared for a partition of a store, and of a directory.
LIVE_WAYS = ["live", "replay", "cleaned"]
OFFLINE_WAYS = ["replay", "loaded", "cleaned"]


@pytest.fixture
def small(path: Path) -> Iterator[OffsetStore]:
    """One partition, whose segments are rolled after some commits."""
    config = StoreConfig(segment_bytes=1 << 14, batch_bytes_max=1 << 13)
    opened = offsetlog.open(path, partitions=1, durability="process", config=config)
    yield opened
    opened.close()


def names_of(ways: list[Way]) -> list[str]:
    return [way.name for way in ways if way.digest is not None]


def check_equal(ways: list[Way], expected: list[str]) -> None:
    """Each partition went all ways, and they led to the same state."""
    for number in {way.log_partition for way in ways}:
        mine = [way for way in ways if way.log_partition == number]
        assert names_of(mine) == expected
        assert len({(way.digest, way.end) for way in mine if way.digest is not None}) == 1


def check_agree(ways: list[Way]) -> set[str]:
    """Checks that the compared states agree, and returns their names; a busy cleaner can prevent some comparisons."""
    assert len({(way.digest, way.end) for way in ways if way.digest is not None}) == 1
    names = names_of(ways)
    if "replay" not in names:
        # On a machine with other work the cleaner may be faster than every reader: then, and only then, it is left out.
        assert "the log was cleaned faster than it could be read" in [way.note for way in ways if way.name == "replay"]
    assert names[: 1 + ("replay" in names)] == ["live", "replay"][: 1 + ("replay" in names)]
    return set(names)


def places_of(findings: list[Finding]) -> set[str]:
    return {key.place for finding in findings for key in finding.keys}


def only_digest(found: StoreVerification | Verification) -> Finding:
    """The one problem, which is that two ways differ."""
    problems = [each for each in found.findings if each.severity == "problem"]
    assert [each.kind for each in problems] == ["digest"], problems
    return problems[0]


# ------------------------------------------------------------------------------------------ files with other contents


def batches_of(log: bytes) -> Iterator[tuple[int, int]]:
    """Position and size of each batch."""
    position = 0
    while position + 61 <= len(log) and (length := struct.unpack_from(">i", log, position + 8)[0]) > 0:
        yield position, 12 + length
        position += 12 + length


def tamper(path: Path, old: bytes, new: bytes) -> None:
    """Puts other bytes in the place of some, wherever they stand in a segment, and makes the CRCs right."""
    assert len(old) == len(new)
    log = bytearray(path.read_bytes())
    for position, size in batches_of(log):
        whole = bytes(log[position : position + size])
        if old in whole[61:]:
            whole = whole[:61] + whole[61:].replace(old, new)
            log[position : position + size] = whole[:17] + struct.pack(">I", crc32c(whole[21:])) + whole[21:]
    with path.open("r+b") as file:
        file.write(log)


def offset_bytes(offset: int) -> bytes:
    """The beginning of an offset value of version 3."""
    return struct.pack(">hq", 3, offset)


# ---------------------------------------------------------------------------------------------------- a sound store


def test_the_ways_of_a_store(store, path):
    for turn in range(200):
        store.commit_one(f"g{turn % 20}", "t", turn % 7, turn)
    found = store.verify()
    assert found == []
    check_equal(found.ways, LIVE_WAYS)
    ends = {way.log_partition: way.end for way in found.ways if way.name == "live"}
    assert sum(ends.values()) == 200
    store.close()
    offline = verify(path)
    assert offline.sound
    check_equal(offline.ways, OFFLINE_WAYS)
    assert {way.log_partition: way.end for way in offline.ways if way.digest is not None} == ends
    live = {(way.log_partition, way.digest) for way in found.ways if way.digest is not None}
    assert {(way.log_partition, way.digest) for way in offline.ways if way.digest is not None} == live


def test_everything_that_a_store_can_do(small):
    for turn in range(300):
        small.commit("g", {TopicPartition("t", turn % 40): turn})
    small.delete("g", [TopicPartition("t", 3)])
    with small.transaction("g", producer_id=5) as transaction:
        transaction.commit({TopicPartition("t", 4): 9})
    left_open = small.transaction("h", producer_id=6)
    left_open.__enter__()
    left_open.commit({TopicPartition("t", 4): 9, TopicPartition("t", 5): 9})
    small.commit_one("h", "t", 4, 10)
    small.delete("g")
    found = small.verify()
    assert found == []
    check_equal(found.ways, LIVE_WAYS)


def test_verifying_changes_nothing(path):
    config = StoreConfig(segment_bytes=1 << 14, batch_bytes_max=1 << 13)
    with opening.open_with(path, partitions=1, durability="process", config=config, background=False) as store:
        for turn in range(1000):
            store.commit_one("g", "t", turn % 40, turn)
        before = tree(path)
        assert store.verify() == []
        assert tree(path) == before
        flushed = store._open_core.partition(0).log_facts()["flushed"]
        assert flushed < 1000


def test_an_empty_store(store, path):
    assert store.verify() == []
    assert store.verify().ways == []
    store.close()
    assert verify(path).sound


# ----------------------------------------------------------------------------------------------------- keys that differ


def test_a_value_that_is_another_in_the_file_is_named(small, path):
    for number in range(50):
        small.commit_one("g", "t", number, 1000 + number)
    tamper(path / SEGMENT, offset_bytes(1007), offset_bytes(2007))
    found = small.verify()
    finding = only_digest(found)
    (key,) = finding.keys
    assert key.place == "group 'g', topic 't', partition 7"
    assert key.ways == ("live", "replay")
    assert [side["offset"] for side in key.sides] == [1007, 2007]
    assert str(key) == "group 'g', topic 't', partition 7: live offset 1007, replay offset 2007"
    assert finding.reason.endswith("differs from the state from a replay of its files: 1 key differs")
    assert str(key) in str(found[0])
    live, replay = found.ways[:2]
    assert live.digest != replay.digest
    assert (live.digest.group_records, live.digest.pending) == (replay.digest.group_records, replay.digest.pending)


def test_a_key_that_is_another_in_the_file_is_named_on_both_sides(small, path):
    small.commit_one("gg", "topic-a", 1, 5)
    small.commit_one("gg", "topic-b", 1, 5)
    small.commit_one("hh", "topic-a", 1, 5)
    tamper(path / SEGMENT, b"topic-b", b"topic-c")
    keys = only_digest(small.verify()).keys
    assert [(key.topic, [side is None for side in key.sides]) for key in keys] == [
        ("topic-b", [False, True]),
        ("topic-c", [True, False]),
    ]
    assert str(keys[1]) == "group 'gg', topic 'topic-c', partition 1: live has none, replay offset 5 log offset 1"


def test_exactly_the_keys_that_were_changed_are_named(small, path):
    chosen = random.Random(5)
    for run in range(5):
        for number in range(200):
            small.commit_one(f"g{number % 11}", "t", number, 10_000 * run + number)
        changed = set(chosen.sample(range(200), 1 + 3 * run))
        for segment in sorted(path.glob("*/*.log")):
            for number in changed:
                old = 10_000 * run + number
                tamper(segment, offset_bytes(old), offset_bytes(old + 5_000_000))
        finding = only_digest(small.verify())
        assert {key.partition for key in finding.keys} == changed
        # Positions committed again are right again.
        for number in range(200):
            small.commit_one(f"g{number % 11}", "t", number, 10_000 * run + number)
        assert small.verify() == []


def test_twenty_keys_are_named_and_all_are_counted(small, path):
    for number in range(64):
        small.commit_one("g", "t", number, 1000 + number)
    tamper(path / SEGMENT, b"\x00\x03" + bytes(6), b"\x00\x03" + bytes(5) + b"\x01")
    finding = only_digest(small.verify())
    assert len(finding.keys) == 20
    assert "64 keys differ" in finding.reason


def test_pending_values_and_group_records_are_named(small, path):
    for producer in (7, 8):
        transaction = small.transaction("g", producer_id=producer)
        transaction.__enter__()
        transaction.commit({TopicPartition("t", 3): 1000 + producer})
    small.commit_one("g", "t", 3, 5)
    tamper(path / SEGMENT, offset_bytes(1008), offset_bytes(2008))
    (key,) = only_digest(small.verify()).keys
    assert (key.kind, key.producer_id) == ("pending", 8)
    assert key.place == "pending of producer 8: group 'g', topic 't', partition 3"
    for producer in (7, 8):
        small.abort_transaction(producer)
    assert small.verify() == []


def test_metadata_and_times_are_reported(small, path):
    small.commit("g", {TopicPartition("t", 3): offsetlog.OffsetAndMetadata(5, "what", 7, 1_700_000_000_000)})
    tamper(path / SEGMENT, b"what", b"that")
    (key,) = only_digest(small.verify()).keys
    assert str(key).endswith("partition 3: live offset 5 metadata 'what', replay offset 5 metadata 'that'")
    row = key.row()
    assert row["live"] == {
        "offset": 5,
        "log_offset": 0,
        "leader_epoch": 7,
        "metadata": "what",
        "commit_timestamp": 1_700_000_000_000,
        "expire_timestamp": -1,
        "topic_id": None,
    }
    assert row["replay"] == {**row["live"], "metadata": "that"}


def test_a_group_record_is_known_by_its_key():
    sides = ({"bytes": 4, "xxh3_128": "aa", "log_offset": 3, "timestamp": 5}, None)
    key = KeyDifference("group record", None, "g", None, None, b"\x00\x02\x00\x01g", ("replay", "cleaned"), sides)
    assert str(key) == "record 0002000167 of group 'g': replay bytes 4 log offset 3, cleaned has none"
    assert key.row()["key"] == "0002000167"


# ------------------------------------------------------------------------------------------------------------- replays


def replayed(path: Path, *skipped: int, until: int = 2**62) -> Replay:
    """The state that the files lead to, without the batches at these log offsets."""
    replay = Replay()
    for segment in sorted(path.glob("*/*.log")):
        position: int | None = 0
        for offset in sorted(skipped):
            position = replay.apply(segment, position=position, until=offset)["position"]
            position += dict(batches_of(segment.read_bytes()))[position]
        replay.apply(segment, position=position, until=until)
    return replay


def test_a_replay_that_leaves_out_records(path):
    with offsetlog.open(path, partitions=1, durability="process") as store:
        for number in range(30):
            store.commit_one("g", "t", number, number)
        store.delete("g", [TopicPartition("t", 4)])
    whole, holed = replayed(path), replayed(path, 9, 30)
    rows, left_out = compare(whole, holed)
    assert [(row[0], row[4], row[6] is None, row[7] is None) for row in rows] == [
        ("position", 4, True, False),
        ("position", 9, False, True),
    ]
    assert left_out == 0
    assert compare(whole, whole) == ([], 0)
    assert compare(whole, holed, limit=1)[1] == 1


def test_a_live_comparison_names_what_still_differs(small, path):
    for number in range(30):
        small.commit_one("g", "t", number, number)
    partition = small._open_core.partition(0)
    sums, end, view = cut(partition)
    with view:
        assert view.is_current
        assert view.segments() == [str(path / SEGMENT)]
        holed = replayed(path, 9, 11, until=end)
        assert holed.digest(physical=True) != sums
        found = LiveComparison(partition, holed, end)
        assert found.count == 2
        small.commit_one("g", "t", 9, 100)
        small.commit_one("h", "t", 9, 100)
        applied, newer = found.read()
        newer.close()
        assert applied == end + 2
        found.settle(replayed(path, 9, 11, until=applied))
        assert [row[4] for row in found.rows()] == [11]
        assert LiveComparison(partition, holed, end, limit=0).left_out == 1


def test_a_view_ends_with_its_partition(small):
    small.commit_one("g", "t", 1, 1)
    partition = small._open_core.partition(0)
    _, _, view = cut(partition)
    closing = threading.Thread(target=small.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    view.close()
    closing.join(10)
    assert not closing.is_alive()
    with pytest.raises(errors.ClosedError):
        view.segments()
    with pytest.raises(errors.ClosedError):
        cut(partition)


# ----------------------------------------------------------------------------------------------------- beside commits


def commit_at_random(store: OffsetStore, seed: int, stop: threading.Event) -> None:
    chosen = random.Random(seed)
    while not stop.is_set():
        group = f"g{chosen.randrange(30)}"
        keys = [TopicPartition("t", chosen.randrange(50)) for _ in range(4)]
        store.commit(group, {key: chosen.randrange(10**6) for key in keys})
        if chosen.random() < 0.1:
            store.delete(group, keys[:1])
        if chosen.random() < 0.05:
            with store.transaction(group, producer_id=100 + seed) as transaction:
                transaction.commit({keys[0]: 5})
                if chosen.random() < 0.5:
                    transaction.abort()
        if chosen.random() < 0.02:
            store.flush()  # rolled segments are held open until then
            stop.wait(0.01)  # a log that grows faster than it is read is never read to its end


@contextmanager
def beside(*work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs each in a thread until the end of the block; what they raise is raised."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run(each: Callable[[threading.Event], None]) -> None:
        try:
            each(stop)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def test_no_false_alarm_beside_commits_and_rolls(small):
    small.commit_one("g", "t", 1, 1)
    small.snapshot()
    compared: set[str] = set()
    with beside(*(partial(commit_at_random, small, seed) for seed in range(3))):
        end = turns = 0
        while end < 20_000 or turns < 25:
            turns += 1
            found = small.verify()
            assert found == []
            names = check_agree(found.ways)
            assert names >= set(LIVE_WAYS)
            compared |= names
            end = found.ways[0].end
    assert "snapshot" in compared


def test_no_false_alarm_beside_cleaning(small, path):
    """Tombstones and markers go at once here, so that a reader of segments of two times would see what was deleted."""
    small.commit_one("g", "t", 1, 1)
    cleanings = 0

    def clean(stop: threading.Event) -> None:
        nonlocal cleanings
        while not stop.is_set():
            small.compact(again=True, delete_retention_ms=0)
            cleanings += 1

    def snapshot(stop: threading.Event) -> None:
        while not stop.is_set():
            small.snapshot()

    compared: set[str] = set()
    with beside(clean, snapshot, *(partial(commit_at_random, small, seed) for seed in range(2))):
        end = 0
        until = time.monotonic() + 300
        while end < 5_000 or cleanings < 5 or not compared >= {"replay", "cleaned"}:
            assert time.monotonic() < until, f"{end} offsets, {cleanings} cleanings, compared: {compared}"
            found = small.verify()
            assert found == []
            compared |= check_agree(found.ways)
            end = found.ways[0].end
    small.close()
    assert verify(path).sound


@pytest.mark.parametrize("failures", [1, 100])
def test_a_view_that_could_not_keep_its_files_is_no_failure(small, monkeypatch, failures):
    """A view keeps only so many files of segments that are cleaned away: the log is read again, or the way left out."""
    calls = 0

    def commit() -> None:
        for number in range(1, 500):
            small.commit_one("g", "t", number % 3, number)

    def replay(state, paths, **bounds):
        nonlocal calls
        calls += 1
        if calls <= failures:
            commit()
            small.compact(again=True)
            raise errors.MissingFileError("the segment was replaced or removed while it was read")
        return replays.replay_files(state, paths, **bounds)

    commit()
    monkeypatch.setattr("offsetlog.verify.store.replay_files", replay)
    found = small.verify()
    assert found == []
    assert ("replay" in names_of(found.ways)) == (failures == 1)


def test_a_directory_beside_its_writer(path):
    """Somebody else's files: what is read of two times is read again."""
    config = StoreConfig(segment_bytes=1 << 20, batch_bytes_max=1 << 13)
    with offsetlog.open(path, partitions=1, durability="process", config=config) as store:
        store.commit_one("g", "t", 1, 1)
        turn = threading.Event()

        def clean(stop: threading.Event) -> None:
            while not stop.is_set():
                if turn.wait(0.01):
                    turn.clear()
                    stop.wait(random.random() * 0.05)
                    store.compact(again=True, delete_retention_ms=0)

        compared = 0
        with beside(clean, partial(commit_at_random, store, 1)):
            for _ in range(30):
                turn.set()
                found = verify(path)
                assert found.problems == []
                compared += len({way.digest for way in found.ways if way.digest is not None}) == 1
        assert compared > 0


def test_keys_are_named_beside_commits(small, path):
    small.commit_one("the one", "t", 7, 1007)
    for number in range(100):
        small.commit_one("others", "t", number, number)
    tamper(path / SEGMENT, offset_bytes(1007), offset_bytes(2007))

    def work(stop: threading.Event) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            small.commit_one("others", "t", turn % 100, turn)
            if turn % 50 == 0:
                small.flush()
                stop.wait(0.005)

    with beside(work):
        for _ in range(10):
            assert places_of(small.verify().findings) == {"group 'the one', topic 't', partition 7"}


# ----------------------------------------------------------------------------------------------------- read-only stores


def test_a_read_only_store_beside_its_writer(small, path):
    for turn in range(100):
        small.commit_one("g", "t", turn, turn)
    with offsetlog.open(path, read_only=True) as reader:
        for turn in range(1000):
            small.commit_one("g", "t", turn % 100, turn)
        found = reader.verify()
        assert found == []
        check_equal(found.ways, ["live", "replay"])
        assert found.ways[0].end == 100


def test_read_only_stores_that_open_beside_commits(small, path):
    small.commit_one("g", "t", 1, 1)
    with beside(partial(commit_at_random, small, 1)):
        for _ in range(20):
            with offsetlog.open(path, read_only=True) as reader:
                assert reader.verify() == []


def test_a_read_only_store_whose_log_was_cleaned(small, path):
    for turn in range(600):
        small.commit_one("g", "t", turn, turn)
    small.close()
    segments = sorted(path.glob("*/*.log"))
    assert len(segments) > 2
    with offsetlog.open(path, read_only=True) as reader:
        segments[0].unlink()
        segments[0].write_bytes(b"")
        found = reader.verify()
        assert found == []
        assert [(way.name, way.digest is None, way.note) for way in found.ways] == [
            ("live", False, ""),
            ("replay", True, "the log was cleaned since the store was opened or last refreshed"),
        ]


# ------------------------------------------------------------------------------------------------------ the cleaned log


def test_the_cleaned_way_leaves_out_what_was_superseded(small, monkeypatch):
    reports = []

    def watched(*arguments: Any, **named: Any) -> dict[str, Any]:
        reports.append(replay_cleaned(*arguments, **named))
        return reports[-1]

    monkeypatch.setattr(replays, "replay_cleaned", watched)
    for turn in range(1000):
        small.commit_one("g", "t", turn % 10, turn)
    assert small.verify() == []
    assert (reports[0]["records_kept"], reports[0]["superseded"]) == (10, 990)
    assert reports[0]["sink_end"] == 1000


def test_a_cleaner_that_loses_a_record_is_found(small, path, monkeypatch):
    for number in range(30):
        small.commit_one("g", "t", number, number)

    def losing(_: Any, into: Replay, **named: Any) -> dict[str, Any]:
        """As if the records of the log offsets 9 and 11 had been taken for superseded."""
        log = (path / SEGMENT).read_bytes()
        positions = [position for position, _ in batches_of(log)]
        for first, behind in ((0, 9), (10, 11), (12, 30)):
            into.apply(path / SEGMENT, position=positions[first], until=behind)
        return {"quarantined": 0, "truncated": False, "sink_end": named["end_max"]}

    monkeypatch.setattr(replays, "replay_cleaned", losing)
    finding = only_digest(small.verify())
    assert finding.reason.startswith("the state from a replay of the records that the cleaner would keep differs")
    assert [(key.partition, key.ways, key.sides[0]) for key in finding.keys] == [
        (9, ("cleaned", "replay"), None),
        (11, ("cleaned", "replay"), None),
    ]
    small.close()
    finding = only_digest(verify(path))
    assert [(key.partition, key.ways, key.sides[0]) for key in finding.keys] == [
        (9, ("cleaned", "replay"), None),
        (11, ("cleaned", "replay"), None),
    ]


def test_a_damaged_segment_cannot_be_cleaned(small, path):
    for turn in range(1000):
        small.commit_one("g", "t", turn % 10, turn)
    segment = sorted(path.glob("*/*.log"))[0]
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    found = small.verify()
    assert {each.kind for each in found.findings} >= {"batch"}
    (cleaned,) = [way for way in found.ways if way.name == "cleaned"]
    assert cleaned.digest is None
    assert cleaned.note.startswith("the cleaner would not rewrite a damaged segment: ")


# ---------------------------------------------------------------------------------------------------------- snapshots


def test_the_snapshot_and_its_tail(small, path):
    for turn in range(500):
        small.commit_one("g", "t", turn % 50, turn)
    small.snapshot()
    for turn in range(300):
        small.commit_one("h", "t", turn % 50, turn)
    small.delete("g", [TopicPartition("t", 4)])
    before = tree(path)
    found = small.verify()
    assert found == []
    check_equal(found.ways, [*LIVE_WAYS, "snapshot"])
    offline = verify(path)
    assert offline.sound
    check_equal(offline.ways, [*OFFLINE_WAYS, "snapshot"])
    assert tree(path) == before


def test_a_snapshot_that_leads_elsewhere_is_a_problem(small, path):
    for number in range(30):
        small.commit_one("g", "t", number, 1000 + number)
    small.snapshot()
    small.commit_one("g", "t", 29, 5)
    tamper(path / SEGMENT, offset_bytes(1007), offset_bytes(2007))
    live, snapshot = small.verify().findings
    assert [key.ways for key in live.keys] == [("live", "replay")]
    assert [key.ways for key in snapshot.keys] == [("snapshot", "replay")]
    small.close()
    finding = only_digest(verify(path))
    (key,) = finding.keys
    assert (key.partition, key.ways) == (7, ("snapshot", "replay"))
    assert [side["offset"] for side in key.sides] == [1007, 2007]


def test_a_snapshot_that_is_discarded_is_a_note(small, path):
    for number in range(30):
        small.commit_one("g", "t", number, 1000 + number)
    small.snapshot()
    file = path / "__consumer_offsets-0" / FILE_NAME
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)
    found = small.verify()
    assert found == []
    note = found.ways[-1].note
    assert found.ways[-1].digest is None
    assert note
    offline = verify(path)
    assert offline.sound
    (finding,) = [each for each in offline.findings if each.kind == "snapshot"]
    assert finding.reason == f"the next open will not use it: {note}"
    assert finding.path == str(file)
    file.write_bytes(b"")
    assert [each.kind for each in verify(path).findings] == ["snapshot"]


# ------------------------------------------------------------------------------------------------- a directory alone


def test_a_directory_whose_ways_differ(path, monkeypatch):
    with offsetlog.open(path, partitions=1, durability="process") as store:
        for number in range(30):
            store.commit_one("g", "t", number, number)
    from offsetlog.verify import partition as partition_check

    class Holed(Replay):
        """Leaves out the commit at log offset 9."""

        def apply(self, file: Any, **arguments: Any) -> dict[str, Any]:
            if arguments.get("position", 0) == 0:
                super().apply(file, **{**arguments, "until": 9})
                arguments["position"] = list(batches_of(Path(file).read_bytes()))[10][0]
            return super().apply(file, **arguments)

    monkeypatch.setattr(partition_check, "Replay", Holed)
    found = verify(path)
    assert [each.kind for each in found.problems] == ["digest", "digest"]
    for finding, way in zip(found.problems, ("loaded", "cleaned"), strict=True):
        (key,) = finding.keys
        assert (key.partition, key.ways) == (9, (way, "replay"))
        assert key.sides[1] is None
        assert finding.row()["keys"] == [key.row()]
    assert not found.sound


def test_a_cleaned_log_is_compared_with_the_replay(path, monkeypatch):
    """A loading that is wrong accuses no other way."""
    with offsetlog.open(path, partitions=1, durability="process") as store:
        for number in range(30):
            store.commit_one("g", "t", number, number)
    from offsetlog.verify import partition as partition_check

    plain = partition_check.cut

    def wrong(partition: Any) -> Any:
        sums, *others = plain(partition)
        return ((sums[0] ^ 1, *sums[1:]), *others)

    monkeypatch.setattr(partition_check, "cut", wrong)
    monkeypatch.setattr(partition_check.WaysCheck, "differ_live", lambda self, way, *others: differing.append(way))
    differing: list[str] = []
    found = verify(path)
    assert (differing, found.problems) == (["loaded"], [])
