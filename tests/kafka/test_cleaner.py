"""Our cleaner and Kafka's over the same logs, in turns: Kafka answers what it answered before either of them."""

from __future__ import annotations

import base64
import itertools
import json
import random
import shutil
import time
from collections.abc import Collection
from pathlib import Path
from uuid import UUID

import pytest
from broker import CLEAN_MARKER, OFFSETS_TOPIC, KafkaBroker, Template, copy_template, partition_folders
from cleaning import (
    EAGER,
    checkpoint_of,
    cleans_in,
    complaints_in,
    forget_cleaning,
    wait_until_cleaned,
)
from commit_stream import TOPICS, CommitStream, Committed, State
from faults import FaultFileSystem
from kafka_answers import CommittedOffset, KafkaAnswers, read_expected
from kafka_dump import LogDump, dump_log, segment_files
from kafka_packages import DEADLINE_SECONDS, KafkaPackages
from test_round_trip import (
    PARTITIONS,
    STEPS,
    assert_sound,
    commit_by_kafka,
    delete_by_kafka,
    names_by_partition,
    read_state,
    rows_of,
    seed_or,
    state_of,
)

import offsetlog
from offsetlog import OffsetStore, StoreConfig, TopicPartition, opening
from offsetlog._native.codec import partition_for
from offsetlog.config import MaintenanceConfig

DAY_MS = 24 * 3600 * 1000
MAPS = (4096, 64 << 20)
SEGMENTS = StoreConfig(segment_bytes=48 * 1024, batch_bytes_max=8192)
"""Segments so small that a stream of commits fills several of them in each partition."""

UNFINISHED = {".cleaned", ".swap", ".deleted"}
"""Files that a stopped cleaner leaves."""

EAGERLY = {name.replace(".", "_"): value for name, value in EAGER.items()}


def by_hand(draw: random.Random) -> MaintenanceConfig:
    """Nothing is cleaned unasked; memory for all keys, or for hardly any."""
    return MaintenanceConfig(enabled=False, cleaner_map_bytes=draw.choice(MAPS))


def open_store(log_dir: Path, template: Template, draw: random.Random) -> OffsetStore:
    """Opens a store that has joined the template's cluster."""
    topic_id = UUID(bytes=base64.urlsafe_b64decode(template.topic_id + "=="))
    return offsetlog.open(
        log_dir,
        template.partitions,
        config=SEGMENTS,
        maintenance=by_hand(draw),
        topic_id=topic_id,
        cluster_id=template.cluster_id,
    )


def clean(store: OffsetStore, draw: random.Random) -> dict[int, int]:
    """Cleans some times, looks after each time at what the store holds, and returns how far each log was cleaned."""
    before = store.digest(), store.digest(physical=True)
    ends: dict[int, int] = {}
    retention_ms = draw.choice((0, DAY_MS))
    for again in draw.choice(([True], [False, True], [True, True])):
        for report in store.compact(again=again, delete_retention_ms=retention_ms):
            assert (report.complete, report.quarantined) == (True, 0)
            if report.cleaned:
                ends[report.log_partition] = report.checkpoint
        assert (store.digest(), store.digest(physical=True)) == before
    assert store.verify() == []
    return ends


def time_indexes(log_dir: Path) -> dict[Path, bytes]:
    """Returns each time index with what is in it."""
    return {path: path.read_bytes() for path in segment_files(log_dir) if path.suffix == ".timeindex"}


def assert_readable(packages: KafkaPackages, log_dir: Path, kafkas: dict[Path, bytes] | None = None) -> LogDump:
    """Lets Kafka's dump-log tool read every file of every partition; it must find nothing to complain of.

    Time indexes that are still what Kafka has left, ``kafkas``, are not read: its cleaner writes entries for batches
    that it empties, and its tool complains of them.
    """
    left_out = set(time_indexes(log_dir).items()) & set((kafkas or {}).items())
    dump = dump_log(packages, [path for path in segment_files(log_dir) if path not in dict(left_out)])
    assert dump.faults == []
    return dump


def closed_segments(log_dir: Path) -> dict[int, int]:
    """Returns partition -> how many closed segments it has, where it has any."""
    counts = {number: len(list(path.glob("*.log"))) - 1 for number, path in partition_folders(log_dir).items()}
    return {number: count for number, count in counts.items() if count > 0}


def let_kafka_clean(broker: KafkaBroker, ask: KafkaAnswers, partitions: Collection[int], number: int) -> State:
    """Commits to each of these partitions, which closes its active segment, and waits until all are cleaned.

    Twice, since an empty segment is not closed. Returns what was committed.
    """
    groups = _groups_of(broker.log_dir)
    rows = [CommittedOffset(groups[partition], "rolled", 0, number, -1, "") for partition in partitions]
    ask.create_topics_of(rows)
    ask.commit([row._replace(offset=0) for row in rows])
    ask.commit(rows)
    wait_until_cleaned(broker, partitions)
    return {row[:3]: Committed(*row[3:]) for row in rows}


def _groups_of(log_dir: Path) -> dict[int, str]:
    """Returns partition -> a group that belongs there."""
    count = max(partition_folders(log_dir)) + 1
    found: dict[int, str] = {}
    for name in (f"rolling {number}" for number in itertools.count()):
        found.setdefault(partition_for(name, count), name)
        if len(found) == count:
            return found
    raise AssertionError("names never end")


# ------------------------------------------------------------------------------------------------ real directories


SCENARIOS = (
    "compacted",
    "compressed-gzip",
    "compressed-lz4",
    "compressed-snappy",
    "compressed-zstd",
    "continued",
    "crash",
    "expiry",
    "groups",
    "plain",
    "recovered",
    "torn",
    "torn-recovered",
    "txn",
)
ONCE_MORE = {"compacted", "continued", "compressed-zstd", "groups", "txn"}
"""Kafka is asked about these once more, when our cleaner has run after Kafka's."""


def read_stable(path: Path) -> list[CommittedOffset] | None:
    """Reads an ``expected/offsets-stable.tsv``: what a request for all topics got without error; None for no file."""
    if not path.exists():
        return None
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        group, topic, partition, offset, leader_epoch, metadata, error, asked = line.split("\t")
        numbers = (int(partition), int(offset), int(leader_epoch))
        if (error, asked) == ("NONE", "all"):
            rows.append(CommittedOffset(json.loads(group), topic, *numbers, json.loads(metadata)))
    return sorted(rows)


def read_groups(path: Path) -> dict[tuple[str, str], bool]:
    """Reads an ``expected/groups.tsv``: name and type of each group, and whether it is known by its offsets alone.

    Kafka lists such a group also when all its offsets are deleted or aborted, until it loads a log in which nothing is
    left of it.
    """
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {(json.loads(name), kind.lower()): simple == "simple" for name, _, kind, _, simple, _ in lines}


def tier_of(scenario: str) -> pytest.MarkDecorator:
    """Returns the mark of the gate for the one broker that it starts, and of the full depth for the others."""
    return pytest.mark.gate if scenario == "txn" else pytest.mark.long


@pytest.mark.parametrize("scenario", [pytest.param(each, marks=tier_of(each)) for each in SCENARIOS])
def test_a_real_directory(scenario, kafka_data, kafka_install, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """Ours, then Kafka's, then ours: what the broker that wrote it answered is what Kafka answers in between."""
    draw = random.Random(f"{seed_or(44_001)} {scenario}")
    expected = kafka_data / scenario / "expected"
    rows = read_expected(expected / "offsets.tsv")
    stable = read_stable(expected / "offsets-stable.tsv")
    groups = read_groups(expected / "groups.tsv")

    copy = tmp_path / "copy"
    shutil.copytree(kafka_data / scenario / "log", copy)
    partitions = max(partition_folders(copy)) + 1
    kafkas = time_indexes(copy)
    with offsetlog.open(copy, partitions, config=SEGMENTS, maintenance=by_hand(draw)) as store:
        pinned = {transaction.log_partition for transaction in store.transactions()}
        ends = clean(store, draw)
    assert ends or pinned
    assert_readable(kafka_packages, copy, kafkas)
    assert checkpoint_of(copy).items() >= ends.items()
    log_dir = kafka_install(copy, partitions, marker="keep")
    assert (log_dir / CLEAN_MARKER).exists()
    goes_on = draw.random() < 0.5
    if not goes_on:
        forget_cleaning(log_dir)

    broker = kafka_broker(log_dir, **EAGERLY)
    broker.start().wait_until_loaded(partitions)
    ask = kafka_answers(broker)
    assert ask.offsets() == rows
    assert stable is None or ask.offsets(stable=True) == stable
    kept = {row.group for row in rows}
    listed = {(group.group, group.type.lower()) for group in ask.groups()}
    assert {group for group, is_simple in groups.items() if not is_simple or group[0] in kept} <= listed <= set(groups)
    if goes_on:
        # After our checkpoint there is something for Kafka's cleaner, and then it goes over what is below, too.
        cleanable = [number for number in partition_folders(copy) if number not in pinned]
        rows = sorted([*rows, *rows_of(let_kafka_clean(broker, ask, cleanable, 1))])
    else:
        wait_until_cleaned(broker, closed_segments(copy).keys() - pinned)
    broker.stop()
    assert complaints_in(broker.log_text()) == []
    kafkas = time_indexes(log_dir)

    with offsetlog.open(log_dir, partitions, config=SEGMENTS, maintenance=by_hand(draw)) as store:
        assert store.problems() == []
        assert rows_of(state_of(store)) == rows
        clean(store, draw)
        assert rows_of(state_of(store)) == rows
    assert_readable(kafka_packages, log_dir, kafkas)
    if scenario in ONCE_MORE:
        broker.start().wait_until_loaded(partitions)
        assert kafka_answers(broker).offsets() == rows
        broker.stop()


# ------------------------------------------------------------------------------------------------ turn and turn about


@pytest.mark.long
def test_both_cleaners_in_turns(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """Commits of every kind by us and by Kafka, and between them one cleaner and the other, three times over."""
    seed = seed_or(44_002)
    draw = random.Random(seed)
    template = kafka_template(PARTITIONS)
    log_dir = copy_template(template, tmp_path / "log")
    broker = kafka_broker(log_dir, **EAGERLY)
    stream = CommitStream(seed)
    kafkas: dict[Path, bytes] = {}
    for number in (1, 2, 3):
        with open_store(log_dir, template, draw) as stream.store:
            assert state_of(stream.store) == stream.state
            for _ in range(3):
                stream.run(2 * STEPS)
                clean(stream.store, draw)
                assert state_of(stream.store) == stream.state
        assert_readable(kafka_packages, log_dir, kafkas)
        assert_sound(log_dir)

        if number == 2:
            forget_cleaning(log_dir)
        broker.start().wait_until_loaded(PARTITIONS)
        ask = kafka_answers(broker)
        assert ask.offsets() == ask.offsets(stable=True) == rows_of(stream.state)
        ask.create_topics(TOPICS)
        commit_by_kafka(ask, stream.state, number)
        delete_by_kafka(kafka_packages, broker, stream.state, f"Kafkas eigene {number}")
        stream.state |= let_kafka_clean(broker, ask, range(PARTITIONS), number)
        broker.stop()
        assert complaints_in(broker.log_text()) == []
        cleaned = cleans_in(broker.log_text())
        assert sum(one.records_before for one in cleaned) > sum(one.records_after for one in cleaned)
        assert_readable(kafka_packages, log_dir, kafkas := time_indexes(log_dir))
        assert_sound(log_dir)
        assert read_state(log_dir) == stream.state
    with open_store(log_dir, template, draw) as store:
        clean(store, draw)
        assert state_of(store) == stream.state
    # Kafka's is the last word once more, on a log that ours was the last to clean.
    broker.start().wait_until_loaded(PARTITIONS)
    assert kafka_answers(broker).offsets() == rows_of(stream.state)
    broker.stop()


def test_a_transaction_that_stays_open_over_both(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """Pending values are neither cleaned away nor committed by a clean; their end counts, whoever cleans then."""
    seed = seed_or(44_003)
    draw = random.Random(seed)
    template = kafka_template(PARTITIONS)
    log_dir = copy_template(template, tmp_path / "log")
    groups = names_by_partition()
    keys = [TopicPartition("orders", number) for number in range(3)]
    stream = CommitStream(seed)
    with open_store(log_dir, template, draw) as stream.store:
        stream.run(STEPS)
        for producer_id, group in enumerate(groups, start=70):
            stream.store.commit(group, {keys[0]: 1, keys[1]: 1, keys[2]: 1})
            # Left open on purpose: the store learns neither of its end nor of an exception.
            stream.store.transaction(group, producer_id, 3).commit({keys[1]: 2})
            stream.state |= {(group, *key): Committed(1, -1, "") for key in keys}
        stream.run(3 * STEPS)
        clean(stream.store, draw)
        assert len(stream.store.transactions()) == PARTITIONS
        assert state_of(stream.store) == stream.state
    assert_readable(kafka_packages, log_dir)

    broker = kafka_broker(log_dir, **EAGERLY)
    broker.start().wait_until_loaded(PARTITIONS)
    ask = kafka_answers(broker)
    pending = {(group, *keys[1]) for group in groups}
    assert ask.offsets() == rows_of(stream.state)
    assert {row[:3] for row in ask.offsets()} - {row[:3] for row in ask.offsets(stable=True)} == pending
    broker.stop()
    kafkas = time_indexes(log_dir)

    with open_store(log_dir, template, draw) as stream.store:
        for producer_id, group in enumerate(groups, start=70):
            if producer_id % 2 == 0:
                number = partition_for(group, PARTITIONS)
                stream.store._open_core.partition(number).end_transaction(producer_id, 3, True)
                stream.state[group, *keys[1]] = Committed(2, -1, "")
            else:
                assert stream.store.abort_transaction(producer_id) == 1
        # A tombstone for what the transaction had written, and a plain commit over it.
        stream.store.delete(groups[0], [keys[1]])
        del stream.state[groups[0], *keys[1]]
        stream.store.commit(groups[2], {keys[1]: 5})
        stream.state[groups[2], *keys[1]] = Committed(5, -1, "")
        stream.run(STEPS)
        assert state_of(stream.store) == stream.state
        clean(stream.store, draw)
        assert state_of(stream.store) == stream.state
    assert_readable(kafka_packages, log_dir, kafkas)
    forget_cleaning(log_dir)
    broker.start().wait_until_loaded(PARTITIONS)
    ask = kafka_answers(broker)
    assert ask.offsets() == ask.offsets(stable=True) == rows_of(stream.state)
    stream.state |= let_kafka_clean(broker, ask, range(PARTITIONS), 1)
    broker.stop()
    with open_store(log_dir, template, draw) as store:
        clean(store, draw)
        assert state_of(store) == stream.state
        assert store.transactions() == []
    broker.start().wait_until_loaded(PARTITIONS)
    assert kafka_answers(broker).offsets(stable=True) == rows_of(stream.state)
    broker.stop()


# ------------------------------------------------------------------------------------------------ stopped on the way


def _crashed(source: Path, root: Path, number: int, stop: int | None, *, seed: int | None) -> tuple[Path, int]:
    """Cleans one partition of a copy of ``source`` on a machine that stops on the way.

    ``stop`` says before which of its file operations, from 0; None is a machine that does not. With a ``seed`` the
    power is lost, and what was not flushed is there or not by a draw; without, only the process ended. Returns the
    directory that is left, and the number of operations.
    """
    root.mkdir()
    shutil.copytree(source, root / "log")
    fs = FaultFileSystem(root)
    config = MaintenanceConfig(enabled=False)
    store = opening.open_with(root / "log", config=SEGMENTS, maintenance=config, fs=fs, background=False)
    before = fs.operations
    if stop is not None:
        fs.stop_at(before + 1 + stop)
    try:
        store.compact([number], again=True, delete_retention_ms=0)
        assert stop is None
    except offsetlog.errors.OffsetLogError:
        assert fs.stopped
    operations = fs.operations - before
    left = root / "left"
    left.mkdir()
    if stop is None:
        store.close()
    elif seed is None:
        fs.materialize_all(left)
    else:
        fs.materialize(left, seed)
    if stop is not None:
        with pytest.raises(offsetlog.errors.OffsetLogError):
            store.close()
    return left / "log", operations


@pytest.mark.long
@pytest.mark.parametrize("power", ["kept", "lost"])
def test_stopped_inside_a_clean(power, kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """In each partition our cleaner is stopped at another file operation; Kafka goes on from there, and cleans."""
    seed = seed_or(44_004)
    draw = random.Random(f"{seed} {power}")
    template = kafka_template(PARTITIONS)
    source = copy_template(template, tmp_path / "source")
    stream = CommitStream(seed)
    with open_store(source, template, draw) as stream.store:
        stream.run(8 * STEPS)
    log_dir = tmp_path / "log"
    shutil.copytree(source, log_dir)
    (log_dir / CLEAN_MARKER).unlink()
    written = closed_segments(source)
    assert len(written) >= 4
    for number in written:
        _, operations = _crashed(source, tmp_path / f"dry-{number}", number, None, seed=None)
        # Anywhere, but mostly near the end, where files take each other's places.
        stop = draw.randrange(operations) if number % 3 == 0 else operations - 1 - draw.randrange(20)
        print(f"partition {number} stops at {stop} of {operations} operations")
        seed_of_loss = draw.randrange(1000) if power == "lost" else None
        left, _ = _crashed(source, tmp_path / f"run-{number}", number, stop, seed=seed_of_loss)
        assert not (left / CLEAN_MARKER).exists()
        shutil.rmtree(log_dir / f"__consumer_offsets-{number}")
        shutil.copytree(left / f"__consumer_offsets-{number}", log_dir / f"__consumer_offsets-{number}")
    ours = tmp_path / "ours"
    shutil.copytree(log_dir, ours)

    broker = kafka_broker(log_dir, **EAGERLY)
    broker.start().wait_until_loaded(PARTITIONS)
    ask = kafka_answers(broker)
    assert ask.offsets() == ask.offsets(stable=True) == rows_of(stream.state)
    stream.state |= let_kafka_clean(broker, ask, range(PARTITIONS), 1)
    broker.stop()
    kafkas = time_indexes(log_dir)
    with open_store(log_dir, template, draw) as store:
        assert state_of(store) == stream.state
        clean(store, draw)
    assert_readable(kafka_packages, log_dir, kafkas)

    # We find our way from there, too, and Kafka's answers are the same then.
    with open_store(ours, template, draw) as store:
        assert store.problems() == []
        clean(store, draw)
    assert_readable(kafka_packages, ours)


# ------------------------------------------------------------------------------------------------ killed on its way


@pytest.mark.long
def test_kafka_is_killed_while_it_cleans(kafka_template, kafka_broker, kafka_packages, tmp_path):
    """We finish what it had begun, or take it back, as it would have; nothing of it is left over."""
    seed = seed_or(44_005)
    draw = random.Random(seed)
    template = kafka_template(PARTITIONS)
    log_dir = copy_template(template, tmp_path / "log")
    stream = CommitStream(seed)
    with open_store(log_dir, template, draw) as stream.store:
        stream.run(8 * STEPS)
    # So slowly that it can be met on its way.
    broker = kafka_broker(log_dir, **EAGERLY, log_cleaner_io_max_bytes_per_second=200_000)
    broker.start()
    end = time.monotonic() + DEADLINE_SECONDS
    while not list(log_dir.glob(f"{OFFSETS_TOPIC}-*/*.cleaned")):
        assert time.monotonic() < end, "Kafka's cleaner did not begin"
        time.sleep(0.005)
    broker.kill()
    left = [path for path in log_dir.glob(f"{OFFSETS_TOPIC}-*/*") if path.suffix in UNFINISHED]
    print(f"left: {[str(path.relative_to(log_dir)) for path in left]}")
    assert left
    with open_store(log_dir, template, draw) as store:
        assert store.problems() == []
        assert state_of(store) == stream.state
        clean(store, draw)
        assert state_of(store) == stream.state
    assert not [path for path in log_dir.glob(f"{OFFSETS_TOPIC}-*/*") if path.suffix in UNFINISHED]
    assert_readable(kafka_packages, log_dir)
    assert_sound(log_dir)


# ------------------------------------------------------------------------------------------------ how fast it is


@pytest.mark.long
def test_the_benchmark_lets_kafka_clean_the_same_bytes(kafka_packages, tmp_path, monkeypatch):
    """The goal to be ten times as fast is judged by what Kafka's cleaner says; here only that it is asked rightly."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2])
    from benchmarks.engine import cleaner_kafka, cleaner_log
    from benchmarks.keys import KeySpace
    from benchmarks.workload import Options, Run, Workload

    run = Run(Options(smoke=True), Workload("clean", lambda run: None, ""), None, tmp_path)
    log = cleaner_log.build(run, KeySpace(20, 10, 50), 3)
    rates = cleaner_kafka.clean(kafka_packages, log, run.new_directory())
    assert rates.bytes_cleaned == pytest.approx(log.closed_bytes, rel=0.05)
    assert min(rates.end_to_end, rates.indexing, rates.copying, rates.seconds) > 0
    assert rates.indexing > rates.end_to_end
