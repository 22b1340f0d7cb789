"""Our cleaner over copies of every real directory, by many schedules: the broker's answers stay the same."""

from __future__ import annotations

import random
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from depth import by_depth, first_seed

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, TopicPartition
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.types import CleaningReport, Digest

from . import checks, oracle
from .cleaning_rules import Contents, Place, check_cleaned, contents_of, last_words, superseded_left
from .kafka_answers import read_stable_offsets
from .scenarios import SCENARIOS, Scenario

SEEDS = [first_seed() + number for number in range(by_depth(gate=1, long=4))]
DAY_MS = 24 * 3600 * 1000
MAPS = (4096, 16384, 64 << 20)
"""Room for the keys of one pass: from about a hundred to all there are."""

BY_HAND = MaintenanceConfig(enabled=False)

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)


@dataclass(frozen=True)
class Pass:
    """One call of `compact`."""

    again: bool
    roll: bool
    delete_retention_ms: int
    partitions: list[int] | None
    interrupted: bool


@dataclass(frozen=True)
class Visit:
    """A store is opened, cleans some times, and is closed."""

    map_bytes: int
    bytes_per_second: int
    passes: list[Pass]


def schedule(seed: int, partitions: int) -> list[Visit]:
    """Draws some visits; the last one cleans everything that can be cleaned, in as little memory as any."""
    draw = random.Random(seed)
    retention = draw.choice((0, DAY_MS))
    visits = [
        Visit(
            draw.choice(MAPS),
            draw.choice((0, 0, 300_000)),
            [
                Pass(
                    again=draw.random() < 0.6,
                    roll=draw.random() < 0.8,
                    delete_retention_ms=retention,
                    partitions=draw.choice((None, draw.sample(range(partitions), draw.randint(1, partitions)))),
                    interrupted=draw.random() < 0.2,
                )
                for _ in range(draw.randint(1, 3))
            ],
        )
        for _ in range(draw.randint(1, 3))
    ]
    everything = Pass(again=True, roll=True, delete_retention_ms=retention, partitions=None, interrupted=False)
    return [*visits, Visit(draw.choice(MAPS), 0, [everything, everything])]


class Interrupted(Exception):
    """Ends a pass on its way."""


def run(store: OffsetStore, step: Pass) -> list[CleaningReport] | None:
    """One pass; None where it was interrupted."""

    def interrupt(number: int, done: int, total: int) -> None:
        raise Interrupted

    try:
        return store.compact(
            step.partitions,
            roll=step.roll,
            again=step.again,
            delete_retention_ms=step.delete_retention_ms,
            progress=interrupt if step.interrupted else None,
        )
    except Interrupted:
        return None


def digests(store: OffsetStore) -> tuple[Digest, Digest]:
    """Returns the digest of committed, pending and group state; and the same with its places in the log."""
    return store.digest(), store.digest(physical=True)


class Cleaned:
    """A copy of a scenario, and what is known of it."""

    def __init__(self, scenario: Scenario, path: Path) -> None:
        shutil.copytree(scenario.log, path)
        self.path = path
        folders = [each.name for each in path.glob(f"{oracle.TOPIC}-*")]
        self.partitions = 1 + max(int(name.rpartition("-")[2]) for name in folders)
        # Recovers what a broker left when it was killed.
        with offsetlog.open(path, self.partitions, maintenance=BY_HAND) as store:
            self.digests = digests(store)
            assert store.problems() == []
        self.before = self.contents()
        self.ends: dict[int, int] = {}

    def contents(self) -> Contents:
        """Returns the contents of the files, by the oracle."""
        return contents_of(oracle.read_log(self.path))

    def visit(self, visit: Visit) -> list[CleaningReport]:
        """Opens a store, cleans, and looks after every pass at what it answers."""
        config = replace(BY_HAND, cleaner_map_bytes=visit.map_bytes, cleaner_bytes_per_second=visit.bytes_per_second)
        reports = None
        with offsetlog.open(self.path, self.partitions, maintenance=config) as store:
            assert digests(store) == self.digests
            for step in visit.passes:
                reports = run(store, step)
                assert digests(store) == self.digests
                self.note(reports)
            assert store.verify() == []
        return reports or []

    def note(self, reports: list[CleaningReport] | None) -> None:
        """Keeps how far each partition was cleaned; an interrupted pass has no reports."""
        if reports is None:
            self.ends = dict(self.before.ends)
        for report in reports or []:
            assert report.quarantined == 0
            assert report.complete
            assert not report.stopped
            if report.cleaned:
                self.ends[report.log_partition] = max(self.ends.get(report.log_partition, 0), report.floor)


def check_state(log: Path, scenario: Scenario) -> None:
    """The oracle reads the state that the broker answered."""
    state = oracle.replay(oracle.read_log(log))
    checks.check_offsets(oracle.offset_rows(state), scenario)
    if scenario.expected("groups.tsv").exists() or scenario.expected("groups.json").exists():
        checks.check_groups(oracle.group_rows(state), scenario)
    stable = scenario.expected("offsets-stable.tsv")
    if stable.exists():
        unstable = (row for row in read_stable_offsets(stable) if row.error != "NONE")
        named = {(row.committed.group, row.committed.topic, row.committed.partition) for row in unstable}
        assert state.unstable() == named


@every_scenario
@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule_changes_no_answer(scenario: Scenario, seed: int, tmp_path: Path) -> None:
    log = Cleaned(scenario, tmp_path / "log")
    visits = schedule(seed, log.partitions)
    print(f"seed {seed}: {visits}")
    tombstones_stay = visits[0].passes[0].delete_retention_ms > 0
    for visit in visits:
        reports = log.visit(visit)
        check_state(log.path, scenario)
        after = log.contents()
        check_cleaned(log.before, after, log.ends, tombstones_stay=tombstones_stay)
    # The last visit took out all that can go.  Records of a transaction below the floor are left if it ended above.
    ends = {report.log_partition: report.checkpoint for report in reports if report.cleaned}
    assert ends or scenario.name == "nothing"
    assert superseded_left(after, ends) == []


# ------------------------------------------------------------------------------------------- more keys than fit the map


def write_many_keys(path: Path, seed: int) -> None:
    """Commits, deletes and transactions over two thousand positions, in small segments of one partition."""
    draw = random.Random(seed)
    config = StoreConfig(segment_bytes=32 * 1024)
    with offsetlog.open(path, 1, durability="process", config=config, maintenance=BY_HAND) as store:
        for number in range(1500):
            group = f"group {draw.randrange(5)}"
            keys = [TopicPartition("topic", draw.randrange(400)) for _ in range(draw.randint(1, 6))]
            kind = draw.random()
            if kind < 0.7:
                store.commit(group, dict.fromkeys(keys, number))
            elif kind < 0.85:
                store.delete(group, keys)
            else:
                with store.transaction(group, draw.randrange(3)) as transaction:
                    transaction.commit(dict.fromkeys(keys, number))
                    if draw.random() < 0.5:
                        transaction.abort()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_with_more_keys_than_fit_the_map(seed: int, tmp_path: Path) -> None:
    write_many_keys(tmp_path / "log", seed)
    segments = oracle.read_log(tmp_path / "log")
    before, committed = contents_of(segments), oracle.offset_rows(oracle.replay(segments))
    small = replace(BY_HAND, cleaner_map_bytes=MAPS[0])
    with offsetlog.open(tmp_path / "log", 1, maintenance=small) as store:
        held = digests(store)
        for again in (False, True, True):
            (report,) = store.compact(again=again, delete_retention_ms=0)
            assert (report.complete, report.quarantined) == (True, 0)
            assert digests(store) == held
    segments = oracle.read_log(tmp_path / "log")
    after, ends = contents_of(segments), {0: report.floor}
    assert oracle.offset_rows(oracle.replay(segments)) == committed
    check_cleaned(before, after, ends, tombstones_stay=False)
    assert superseded_left(after, ends) == []
    # The third one dropped every tombstone that the second one had found alone.
    assert [entry.place for entry in after.entries.values() if not entry.is_value] == []


# -------------------------------------------------------------------------------------------- what the rules would see


def without(log: Contents, place: Place) -> Contents:
    """The log without one record."""
    entries = {at: entry for at, entry in log.entries.items() if at != place}
    return replace(log, entries=entries)


@pytest.fixture
def canary() -> Contents:
    """A log with transactions, tombstones, and much that is superseded."""
    (scenario,) = (each for each in SCENARIOS if each.name == "kafka-4.3.0/txn")
    return contents_of(oracle.read_data(scenario.log))


def test_the_rules_see_that_a_needed_record_is_gone(canary: Contents) -> None:
    words = last_words(canary, canary.ends).values()
    for entry in words:
        needed = pytest.raises(AssertionError, match="1 needed records are gone")
        with needed if entry.is_value else nullcontext():
            check_cleaned(canary, without(canary, entry.place), canary.ends, tombstones_stay=False)
        with needed if entry.is_value or entry.batch.delete_horizon is None else nullcontext():
            check_cleaned(canary, without(canary, entry.place), canary.ends, tombstones_stay=True)
    assert not all(entry.is_value for entry in words)


def test_the_rules_see_what_is_superseded(canary: Contents) -> None:
    dead = superseded_left(canary, canary.ends)
    assert dead
    for place in dead:
        after = without(canary, place)
        check_cleaned(canary, after, canary.ends, tombstones_stay=True)
        assert place not in superseded_left(after, canary.ends)
        # Above the end of a clean it is not.
        with pytest.raises(AssertionError, match="needed records are gone"):
            check_cleaned(canary, after, {**canary.ends, place[0]: place[1]}, tombstones_stay=True)


def test_the_rules_see_a_record_that_was_changed(canary: Contents) -> None:
    place, entry = next(iter(canary.entries.items()))
    others = [
        replace(entry, record=replace(entry.record, value=b"other")),
        replace(entry, record=replace(entry.record, timestamp=entry.record.timestamp + 1)),
        replace(entry, record=replace(entry.record, key=None)),
    ]
    for other in others:
        changed = replace(canary, entries={**canary.entries, place: other})
        with pytest.raises(AssertionError, match="1 records"):
            check_cleaned(canary, changed, canary.ends, tombstones_stay=False)


def test_the_rules_see_a_frame_that_was_changed(canary: Contents) -> None:
    place, batch = next((place, batch) for place, batch in canary.batches.items() if batch.transactional)
    for other in (
        replace(batch, producer_id=batch.producer_id + 1),
        replace(batch, base_sequence=batch.base_sequence + 1),
        replace(batch, last_offset=batch.last_offset + 1),
        replace(batch, transactional=False),
    ):
        changed = replace(canary, batches={**canary.batches, place: other})
        with pytest.raises(AssertionError, match="the batch at"):
            check_cleaned(canary, changed, canary.ends, tombstones_stay=False)
    shorter = replace(canary, ends={**canary.ends, place[0]: canary.ends[place[0]] - 1})
    with pytest.raises(AssertionError, match="ends somewhere else"):
        check_cleaned(canary, shorter, canary.ends, tombstones_stay=False)


# ------------------------------------------------------------------------------------------------------ unknown records

#: Versions of keys that no broker has written yet, or never will.
UNKNOWN_TYPES = (9, 18, 24, 1000, 32767, -1)


def unknown_key(key_type: int, rest: bytes) -> bytes:
    return key_type.to_bytes(2, "big", signed=True) + rest


def offset_key(partition: int, trailing: bytes = b"", key_type: int = 1) -> bytes:
    return encode_key(key_type, {"group": "g", "topic": "t", "partition": partition}) + trailing


def offset_value(offset: int, version: int = 3) -> bytes:
    return encode_value(
        1,
        version,
        {
            "offset": offset,
            "leaderEpoch": -1,
            "metadata": "m",
            "commitTimestamp": 1_700_000_000_000,
            "expireTimestamp": -1,
        },
    )


def write_partition(path: Path, batches: list[list[tuple[bytes | None, bytes | None]]]) -> None:
    """A log of these batches, as a broker that was killed leaves it."""
    folder = path / f"{oracle.TOPIC}-0"
    folder.mkdir(parents=True)
    data, offset = b"", 0
    for number, records in enumerate(batches):
        data += encode_batch(offset, 1_700_000_000_000 + number, records)
        offset += len(records)
    (folder / f"{0:020d}.log").write_bytes(data)


def compact_all(path: Path, *, map_bytes: int = 64 << 20, times: int = 2) -> int:
    """Cleans everything, with no time for tombstones; the digest stays.  Returns the passes of the last time."""
    config = replace(BY_HAND, cleaner_map_bytes=map_bytes)
    with offsetlog.open(path, 1, maintenance=config) as store:
        before = digests(store)
        for _ in range(times):
            (report,) = store.compact(again=True, delete_retention_ms=0)
            assert report.cleaned
            assert report.quarantined == 0
            assert digests(store) == before
    return report.passes


def left(path: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """Log offset, key and value of every record that is left."""
    entries = contents_of(oracle.read_log(path)).entries
    return [(offset, entry.record.key, entry.record.value) for (_, offset), entry in sorted(entries.items())]


@pytest.mark.parametrize("map_bytes", MAPS)
def test_records_of_unknown_kinds_survive_byte_for_byte(map_bytes: int, tmp_path: Path) -> None:
    """The last word of each key, whatever it is; many keys, so that a small map needs several passes."""
    draw = random.Random(7)
    rests = [b"", b"\0", b"ab", draw.randbytes(300), *(draw.randbytes(draw.randint(1, 40)) for _ in range(60))]
    keys = [unknown_key(key_type, rest) for key_type in UNKNOWN_TYPES for rest in rests]
    values = [b"", b"\0", b"value", draw.randbytes(5000), None]
    written = [(draw.choice(keys), draw.choice(values)) for _ in range(6000)]
    write_partition(tmp_path, [written[start : start + 7] for start in range(0, len(written), 7)])
    last = {key: (offset, value) for offset, (key, value) in enumerate(written)}
    passes = compact_all(tmp_path, map_bytes=map_bytes)
    # Only the map knows records that are in no table.
    assert (passes > 1) == (map_bytes == MAPS[0])
    live = {key: record for key, record in last.items() if record[1] is not None}
    found = left(tmp_path)
    assert {key: (offset, value) for offset, key, value in found if value is not None} == live
    assert len([value for _, _, value in found if value is not None]) == len(live)
    # Their tombstones go, too, once there is nothing left that they could delete.
    assert [key for _, key, value in found if value is None] == []


def test_one_slot_in_all_its_spellings(tmp_path: Path) -> None:
    """A key of version 0, or with bytes after it, is about the same offset; Kafka's cleaner keeps all of them."""
    spellings = [offset_key(1, key_type=0), offset_key(1), offset_key(1, b"\0"), offset_key(1, b"more")]
    values = [offset_value(number, 0 if spelling == spellings[0] else 3) for number, spelling in enumerate(spellings)]
    for number, last in enumerate(spellings):
        order = [spelling for spelling in spellings if spelling is not last] + [last]
        path = tmp_path / str(number)
        records = [(spelling, values[spellings.index(spelling)]) for spelling in order]
        write_partition(path, [[record] for record in records])
        compact_all(path, times=1)
        assert left(path) == [(3, last, values[number])]


def test_a_deleted_offset_stays_deleted_whatever_the_spelling(tmp_path: Path) -> None:
    """The tombstone is of the newer key version: it may go only when the values of the older one have gone."""
    records = [(offset_key(1, key_type=0), offset_value(1, 0)), (offset_key(1), None), (offset_key(2), offset_value(2))]
    write_partition(tmp_path, [[record] for record in records])
    compact_all(tmp_path, times=3)
    assert left(tmp_path) == [(2, *records[2])]
