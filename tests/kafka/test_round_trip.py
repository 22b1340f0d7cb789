"""Kafka takes back what offsetlog wrote, goes on with it, and offsetlog goes on with what Kafka left."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from uuid import UUID

import commit_stream
import pytest
from broker import CLEAN_MARKER, OFFSETS_TOPIC, KafkaBroker, Template, copy_template, partition_folders
from commit_stream import CONFIG, GROUPS, TOPICS, CommitStream, Committed, State, oversize_offsets
from depth import first_seed
from kafka_answers import CommittedOffset, KafkaAnswers
from kafka_dump import LogDump, dump_log, segment_files
from kafka_packages import DEADLINE_SECONDS, KafkaPackages

import offsetlog
from offsetlog import OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition
from offsetlog._native.codec import partition_for

PARTITIONS = 8
OWN_PRODUCER_IDS = 2**62
"""Producer ids from here on are those of commits that were larger than a batch."""

STEPS = 150


def seed_or(default: int) -> int:
    """Returns the seed that ``OL_SEED`` gives, else the default, and prints it."""
    seed = first_seed(default)
    print(f"seed {seed}")
    return seed


def open_store(log_dir: Path, template: Template, config: StoreConfig = CONFIG) -> OffsetStore:
    """Opens a store that has joined the template's cluster."""
    topic_id = UUID(bytes=base64.urlsafe_b64decode(template.topic_id + "=="))
    return offsetlog.open(
        log_dir, template.partitions, config=config, topic_id=topic_id, cluster_id=template.cluster_id
    )


def state_of(store: OffsetStore) -> State:
    """Returns what a store answers for all its groups."""
    return {
        (group, topic, partition): Committed(value.offset, value.leader_epoch, value.metadata)
        for group in store.groups()
        for (topic, partition), value in store.fetch(group).items()
    }


def read_state(log_dir: Path) -> State:
    """Returns what a read-only store answers."""
    with offsetlog.open(log_dir, read_only=True) as store:
        assert store.problems() == []
        return state_of(store)


def rows_of(state: State) -> list[CommittedOffset]:
    """Returns a state in the form and order of the broker's answers."""
    return sorted(CommittedOffset(*key, *value) for key, value in state.items())


def assert_command_agrees(ask: KafkaAnswers, state: State) -> None:
    """Asks kafka-consumer-groups for every group that has a position; the topics must exist."""
    printed = ask.offsets_by_command(sorted({group for group, _, _ in state}))
    assert printed == {key: value.offset for key, value in state.items()}


def assert_no_faults(packages: KafkaPackages, log_dir: Path) -> LogDump:
    """Lets Kafka's dump-log tool read every file of every partition, which must have been neither cut nor cleaned."""
    dump = dump_log(packages, segment_files(log_dir))
    assert dump.faults == []
    # To the tool every segment that does not begin with offset 0 begins with a gap.
    assert set(dump.gaps) <= {f"{path}: -1 is followed by {int(path.stem)}" for path in segment_files(log_dir)}
    ends: dict[Path, int] = {}
    for batch in sorted(dump.batches, key=lambda batch: (batch.file, batch.position)):
        assert batch.base_offset == ends.get(batch.file.parent, 0)
        ends[batch.file.parent] = batch.last_offset + 1
    return dump


def assert_sound(log_dir: Path) -> None:
    """Runs ``offsetlog verify`` on a directory."""
    call = [sys.executable, "-m", "offsetlog", "verify", str(log_dir), "--partitions", str(PARTITIONS)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def start(broker: KafkaBroker, *, complains: bool = False) -> None:
    """Starts a broker that must take every partition, without a word of warning unless ``complains``."""
    broker.start().wait_until_loaded(PARTITIONS)
    assert broker.load_failures() == {}
    assert broker.strays() == []
    assert complains or warnings_of(broker) == []


def warnings_of(broker: KafkaBroker) -> list[str]:
    """Returns what a broker complained of about the partitions, since its latest start."""
    lines = broker.log_text().splitlines()
    return [line for line in lines if OFFSETS_TOPIC in line and re.search(r"\] (WARN|ERROR|FATAL) ", line)]


def truncations_of(broker: KafkaBroker) -> dict[int, int]:
    """Returns partition -> log offset for those whose tail a broker cut; every complaint must be of such a tail."""
    cuts = {}
    for line in warnings_of(broker):
        cut = re.search(rf"{OFFSETS_TOPIC}-(\d+),.* Corruption found in segment 0, truncating to offset (\d+) ", line)
        assert cut or "Found invalid messages in log segment" in line, line
        if cut:
            cuts[int(cut[1])] = int(cut[2])
    return cuts


def ends_of(log_dir: Path) -> dict[int, int]:
    """Returns partition -> end of its log, as a read-only store sees it."""
    with offsetlog.open(log_dir, read_only=True) as store:
        return {partition.number: partition.log_facts()["end"] for partition in store._open_core.attached()}


def commit_by_kafka(ask: KafkaAnswers, state: State, number: int) -> None:
    """Lets the broker commit over some positions of ours, and for groups of its own; ``state`` follows."""
    groups = (*GROUPS[:5], f"Kafkas eigene {number}")
    rows = [
        CommittedOffset(group, topic, partition, 1000 * number + partition, partition - 1, f"von Kafka {number}")
        for group in groups
        for topic, partition in (("orders", 0), ("orders", 3), ("clicks.eu-west", 7))
    ]
    ask.commit(rows)
    state.update({(row.group, row.topic, row.partition): Committed(*row[3:]) for row in rows})


def delete_by_kafka(packages: KafkaPackages, broker: KafkaBroker, state: State, group: str) -> None:
    """Lets an operator delete a whole group; ``state`` follows."""
    arguments = ["--bootstrap-server", broker.bootstrap, "--delete", "--group", group]
    printed = packages.run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *arguments)
    assert "successful" in printed
    for key in [key for key in state if key[0] == group]:
        del state[key]


def names_by_partition() -> list[str]:
    """Returns one group for each partition."""
    names = (f"group {number}" for number in itertools.count())
    found: dict[int, str] = {}
    while len(found) < PARTITIONS:
        name = next(names)
        found.setdefault(partition_for(name, PARTITIONS), name)
    return [found[number] for number in range(PARTITIONS)]


# ------------------------------------------------------------------------------------------------ stopped cleanly


def test_a_clean_stop_both_ways_twice(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    seed = seed_or(43_001)
    template = kafka_template(PARTITIONS)
    log_dir = copy_template(template, tmp_path / "log")
    broker = kafka_broker(log_dir)
    stream = CommitStream(seed)
    for number in (1, 2):
        with open_store(log_dir, template) as stream.store:
            assert not (log_dir / CLEAN_MARKER).exists()
            assert state_of(stream.store) == stream.state
            stream.run(STEPS)
            _commit_many_groups(stream.store, stream.state, number)
            assert state_of(stream.store) == stream.state
            assert stream.store.verify() == []
        assert (log_dir / CLEAN_MARKER).exists()
        _assert_every_kind_was_written(assert_no_faults(kafka_packages, log_dir), with_topic_ids=number == 2)

        start(broker)
        ask = kafka_answers(broker)
        assert ask.offsets(stable=number == 2) == rows_of(stream.state)
        ask.create_topics(TOPICS)
        assert_command_agrees(ask, stream.state)
        commit_by_kafka(ask, stream.state, number)
        delete_by_kafka(kafka_packages, broker, stream.state, GROUPS[5 + number])
        broker.stop()
        assert (log_dir / CLEAN_MARKER).exists()
        assert_no_faults(kafka_packages, log_dir)
        assert_sound(log_dir)
        assert read_state(log_dir) == stream.state
    with offsetlog.open(log_dir) as store:
        assert state_of(store) == stream.state
        assert store.verify() == []


def _commit_many_groups(store: OffsetStore, state: State, number: int) -> None:
    """Commits for groups of every partition at once, and from the second round on with a topic id from Kafka."""
    key = TopicPartition("orders", 3)
    of_kafka = store.fetch_one("Kafkas eigene 1", *key)
    topic_id = of_kafka.topic_id if of_kafka is not None else None
    assert (topic_id is None) == (number == 1)
    offsets = {
        group: {key: OffsetAndMetadata(number, "columnar", 4), TopicPartition("audit_log", 0): OffsetAndMetadata(9)}
        for group in (*GROUPS, *names_by_partition())
    }
    store.commit_arrow(commit_stream.arrow_batch(offsets))
    offsets["with topic id"] = {key: OffsetAndMetadata(77, "", 1, topic_id=topic_id)}
    store.commit("with topic id", offsets["with topic id"])
    assert store.fetch_one("with topic id", *key).topic_id == topic_id
    for group, positions in offsets.items():
        for position, value in positions.items():
            state[group, *position] = Committed(value.offset, value.leader_epoch, value.metadata)


def _assert_every_kind_was_written(dump: LogDump, *, with_topic_ids: bool) -> None:
    """Asserts that the files hold all that the test is about, as Kafka's tool sees it."""
    assert any("ol.flushed" in record.header_keys for record in dump.records)
    assert {record.marker for record in dump.records} == {None, "COMMIT", "ABORT"}
    assert any(batch.producer_id >= OWN_PRODUCER_IDS for batch in dump.batches)
    assert any(0 <= batch.producer_id < OWN_PRODUCER_IDS for batch in dump.batches)
    assert any(record.value == "<DELETE>" for record in dump.records)
    versions = {record.value["version"] for record in dump.records if isinstance(record.value, dict)}
    print(f"versions of values: {sorted(versions)}")
    assert {"1", "3", *(["4"] if with_topic_ids else [])} <= set(map(str, versions))
    assert {path.suffix for path in dump.other_entries} >= {".snapshot"}


# ------------------------------------------------------------------------------------------------ killed


def test_a_killed_process(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    seed, acknowledged = seed_or(43_002), 200
    log_dir = copy_template(kafka_template(PARTITIONS), tmp_path / "log")
    last = _kill_while_it_commits(log_dir, seed, acknowledged)
    print(f"killed when {last} steps were acknowledged")
    assert not (log_dir / CLEAN_MARKER).exists()
    expected = list(itertools.islice(commit_stream.states(seed), last, last + 2))
    state = read_state(log_dir)
    assert state in expected

    copy = tmp_path / "copy"
    shutil.copytree(log_dir, copy)
    with offsetlog.open(copy) as store:
        assert state_of(store) == state
        assert store.verify() == []

    broker = kafka_broker(log_dir)
    ends = ends_of(log_dir)
    start(broker, complains=True)
    # Nothing was cut but zeros after the end.
    assert truncations_of(broker).items() <= ends.items()
    assert truncations_of(broker)
    ask = kafka_answers(broker)
    assert ask.offsets() == rows_of(state)
    ask.create_topics(TOPICS)
    commit_by_kafka(ask, state, 1)
    broker.stop()
    assert_no_faults(kafka_packages, log_dir)
    assert_sound(log_dir)
    assert read_state(log_dir) == state
    with offsetlog.open(log_dir) as store:
        assert state_of(store) == state
        store.commit_one("afterwards", "orders", 0, 5)
    assert_no_faults(kafka_packages, log_dir)


def _kill_while_it_commits(log_dir: Path, seed: int, acknowledged: int) -> int:
    """Runs a stream in a process, kills it (SIGKILL), and returns the last step that it reported as committed."""
    call = [sys.executable, commit_stream.__file__, str(log_dir), str(PARTITIONS), str(seed)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = list(itertools.islice(process.stdout, acknowledged))
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return int(lines[-1])


STOPPED_COMMIT = """
    import os, signal, sys

    import offsetlog
    from commit_stream import oversize_offsets
    from faults import FaultFileSystem

    from offsetlog.opening import open_with

    path, partitions, group, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    fs = FaultFileSystem(path)
    config = offsetlog.StoreConfig(batch_bytes_max=2048)
    store = open_with(path, partitions, config=config, fs=fs, background=False)
    store.commit(group, oversize_offsets(10))
    store.commit_one(group, "orders", 0, 11)
    before = fs.operations
    if stop > 0:
        fs.stop_at(before + stop)
    try:
        store.commit(group, oversize_offsets(5000), durability="process")
        print(fs.operations - before, flush=True)
    except offsetlog.errors.OffsetLogError:
        print("stopped", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""Commits more than a batch holds, and is killed at a file operation inside of it: every note that bytes were stored in
the mapped segment is one."""


def test_killed_inside_an_oversize_commit(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """Each partition is killed at another point: from after the first batch to before the marker."""
    template = kafka_template(PARTITIONS)
    groups = names_by_partition()
    operations = int(_run_stopped_commit(copy_template(template, tmp_path / "dry"), groups[0], 0))
    batches = len(oversize_offsets(0))
    print(f"{operations} operations, {batches} batches")
    log_dir = copy_template(template, tmp_path / "log")
    (log_dir / CLEAN_MARKER).unlink()
    for number, group in enumerate(groups):
        stop = operations - batches + round(number * (batches - 1) / (PARTITIONS - 1))
        run_dir = copy_template(template, tmp_path / f"run-{number}")
        assert _run_stopped_commit(run_dir, group, stop) == "stopped"
        assert not (run_dir / CLEAN_MARKER).exists()
        shutil.rmtree(log_dir / f"__consumer_offsets-{number}")
        shutil.copytree(run_dir / f"__consumer_offsets-{number}", log_dir / f"__consumer_offsets-{number}")
    state: State = {}
    for group in groups:
        for position, value in oversize_offsets(10).items():
            state[group, *position] = Committed(value.offset, -1, value.metadata)
        state[group, "orders", 0] = Committed(11, -1, "")
    assert read_state(log_dir) == state
    with offsetlog.open(log_dir, read_only=True) as store:
        assert _open_transactions(store) == [1] * PARTITIONS

    broker = kafka_broker(log_dir)
    ends = ends_of(log_dir)
    start(broker, complains=True)
    # Nothing was cut but zeros after the end.
    assert truncations_of(broker).items() <= ends.items()
    assert truncations_of(broker)
    ask = kafka_answers(broker)
    assert ask.offsets() == rows_of(state)
    stable = ask.offsets(stable=True)
    assert set(stable) < set(rows_of(state))
    # The first batch of each commit is there, and the last partition has all of them.
    assert [row.topic for row in stable if row.group == groups[-1]] == ["orders"]
    broker.stop()
    assert_no_faults(kafka_packages, log_dir)
    assert_sound(log_dir)

    with open_store(log_dir, template) as store:
        assert _open_transactions(store) == [0] * PARTITIONS
        assert state_of(store) == state
        assert store.verify() == []
    dump = assert_no_faults(kafka_packages, log_dir)
    assert sorted(record.marker for record in dump.records if record.marker) == sorted(["ABORT", "COMMIT"] * PARTITIONS)
    start(broker)
    assert kafka_answers(broker).offsets(stable=True) == rows_of(state)
    broker.stop()
    assert_sound(log_dir)


def _run_stopped_commit(log_dir: Path, group: str, stop: int) -> str:
    """Runs STOPPED_COMMIT and returns what it said."""
    call = [sys.executable, "-c", textwrap.dedent(STOPPED_COMMIT), str(log_dir), str(PARTITIONS), group, str(stop)]
    folder = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(folder.parent)}  # where `faults` is
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, cwd=folder, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


def _open_transactions(store: OffsetStore) -> list[int]:
    """Returns how many transactions are open in each partition that is there."""
    return [len(partition.transactions()) for partition in store._open_core.attached()]


# ------------------------------------------------------------------------------------------------ left open


def test_an_open_transaction_of_a_client(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """Kafka serves the old values, and tells stable reads to wait, as for transactions that it wrote itself."""
    template = kafka_template(PARTITIONS)
    log_dir = copy_template(template, tmp_path / "log")
    keys = [TopicPartition("orders", number) for number in range(3)]
    state: State = {}
    with open_store(log_dir, template) as store:
        for producer_id, group in enumerate(("committed", "aborted", "overtaken"), start=70):
            store.commit(group, {keys[0]: 1, keys[1]: 1})
            # Left open on purpose: the store learns neither of its end nor of an exception.
            store.transaction(group, producer_id, 3).commit({keys[1]: 2, keys[2]: 2})
            state.update({(group, *key): Committed(1, -1, "") for key in keys[:2]})
        assert state_of(store) == state
    assert (log_dir / CLEAN_MARKER).exists()
    assert_no_faults(kafka_packages, log_dir)

    broker = kafka_broker(log_dir)
    start(broker)
    ask = kafka_answers(broker)
    assert ask.offsets() == rows_of(state)
    assert ask.offsets(stable=True) == rows_of({key: value for key, value in state.items() if key[2] == 0})
    ask.create_topics(TOPICS)
    ask.commit([CommittedOffset("overtaken", "orders", 1, 3, -1, "")])
    state["overtaken", "orders", 1] = Committed(3, -1, "")
    broker.stop()
    assert_sound(log_dir)

    with open_store(log_dir, template) as store:
        assert state_of(store) == state
        assert sum(_open_transactions(store)) == 3
        assert store.abort_transaction(71) == 1
        for group, producer_id in (("committed", 70), ("overtaken", 72)):
            store._open_core.partition(partition_for(group, PARTITIONS)).end_transaction(producer_id, 3, True)
            state[group, "orders", 2] = Committed(2, -1, "")
        state["committed", "orders", 1] = Committed(2, -1, "")
        # A plain commit after a value of the transaction in the log is newer, whenever the transaction ends.
        assert state_of(store) == state
    assert_no_faults(kafka_packages, log_dir)
    start(broker)
    assert kafka_answers(broker).offsets(stable=True) == rows_of(state)
    broker.stop()


# ------------------------------------------------------------------------------------------------ segments


def test_segments_indexes_and_kafkas_cleaner(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    """Several segments a partition, each with index entries; Kafka reads all, cleans them, and offsetlog goes on."""
    seed = seed_or(43_005)
    template = kafka_template(PARTITIONS)
    log_dir = copy_template(template, tmp_path / "log")
    config = StoreConfig(segment_bytes=48 * 1024, batch_bytes_max=8192)
    with open_store(log_dir, template, config) as store:
        stream = CommitStream(seed, store)
        stream.run(8 * STEPS)
        assert store.verify() == []
    partitions = [path for path in partition_folders(log_dir).values() if len(list(path.glob("*.log"))) > 2]
    assert len(partitions) > PARTITIONS // 2
    dump = assert_no_faults(kafka_packages, log_dir)
    entries = dump.other_entries
    for path in partitions:
        *closed, _ = sorted(path.glob("*.log"))
        for segment in closed:
            assert entries[segment.with_suffix(".index")] > 1
            assert entries[segment.with_suffix(".timeindex")] > 0
        assert entries[max(path.glob("*.snapshot"))] > 0
    assert any(path.suffix == ".txnindex" and count > 0 for path, count in entries.items())
    assert_sound(log_dir)

    broker = kafka_broker(log_dir, log_cleaner_backoff_ms=200, log_cleaner_min_cleanable_ratio="0.001")
    start(broker)
    ask = kafka_answers(broker)
    assert ask.offsets() == rows_of(stream.state)
    _wait_until_cleaned(log_dir, partitions)
    ask.create_topics(TOPICS)
    commit_by_kafka(ask, stream.state, 1)
    broker.stop()
    assert warnings_of(broker) == []
    cleaned = _dump_cleaned(kafka_packages, log_dir)
    assert len(cleaned.records) < len(dump.records)
    assert any(batch.count == 0 for batch in cleaned.batches)
    assert_sound(log_dir)
    assert read_state(log_dir) == stream.state
    with open_store(log_dir, template, config) as stream.store:
        stream.run(STEPS)
        assert state_of(stream.store) == stream.state
        assert stream.store.verify() == []
    _dump_cleaned(kafka_packages, log_dir)
    assert_sound(log_dir)


def _dump_cleaned(packages: KafkaPackages, log_dir: Path) -> LogDump:
    """Lets the tool read what Kafka has cleaned, but for the time indexes.

    The cleaner writes entries for batches that it has emptied, and the tool misses the record of such an entry.
    """
    dump = dump_log(packages, [path for path in segment_files(log_dir) if path.suffix != ".timeindex"])
    assert dump.faults == []
    return dump


def _wait_until_cleaned(log_dir: Path, partitions: list[Path]) -> None:
    """Waits until Kafka's cleaner has been through the closed segments of the partitions."""
    names = {path.name for path in partitions}
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        checkpoint = log_dir / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
        cleaned = {"-".join(line.split(" ")[:2]) for line in lines if not line.endswith(" 0")}
        if names <= cleaned:
            return
        if time.monotonic() > end:
            pytest.fail(f"Kafka's cleaner did not come to {json.dumps(sorted(names - cleaned))}")
        time.sleep(0.1)
