"""The harness proves itself on what real brokers wrote: it gets their answers back, and sees faults that are there."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from broker import copy_template, read_properties
from kafka_answers import CommittedOffset, read_expected
from kafka_dump import dump_log, segment_files
from kafka_packages import KafkaFailed, KafkaMissing, KafkaPackages, find_packages

#: Real partitions of further kinds, with how many there are; the full depth reads them too.
OTHER_REAL = [("txn", 8), ("crash", 4), ("torn", 4)]


@pytest.mark.parametrize(
    ("scenario", "partitions"), [("plain", 8), *(pytest.param(*each, marks=pytest.mark.long) for each in OTHER_REAL)]
)
def test_a_broker_on_real_partitions_gives_their_own_answers(
    scenario, partitions, kafka_data, kafka_install, kafka_broker, kafka_answers, kafka_packages
):
    expected = read_expected(kafka_data / scenario / "expected" / "offsets.tsv")
    log_dir = kafka_install(kafka_data / scenario / "log", partitions, marker="keep")
    assert (log_dir / ".kafka_cleanshutdown").exists() == (scenario in {"plain", "txn"})
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(partitions)
        assert kafka_answers(broker).offsets() == expected
    dump = dump_log(kafka_packages, segment_files(log_dir))
    assert dump.faults == []
    assert dump.gaps == []
    printed = (kafka_data / scenario / "expected" / "dump-log.txt").read_text(encoding="utf-8").split("\n")
    assert len(dump.records) == sum(line.startswith("| offset: ") for line in printed)
    assert len(dump.batches) == sum(line.startswith("baseOffset: ") for line in printed)
    assert dump.other_entries


def test_the_command_agrees_where_it_can_be_asked(kafka_data, kafka_install, kafka_broker, kafka_answers):
    """Groups with blanks and letters of many scripts; not the empty name and not control characters."""
    expected = read_expected(kafka_data / "plain" / "expected" / "offsets.tsv")
    expected = [row for row in expected if row.group.isprintable() and row.group]
    log_dir = kafka_install(kafka_data / "plain" / "log", 8, marker="keep")
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(8)
        ask = kafka_answers(broker)
        ask.create_topics_of(expected)
        printed = ask.offsets_by_command(sorted({row.group for row in expected}))
        with pytest.raises(KafkaFailed, match="group id is invalid"):
            ask.offsets_by_command()
    shown = {(row.group, row.topic, row.partition): row.offset if row.offset >= 0 else None for row in expected}
    assert printed == shown


def test_stable_offsets_leave_out_what_a_transaction_holds(kafka_data, kafka_install, kafka_broker, kafka_answers):
    log_dir = kafka_install(kafka_data / "txn" / "log", 8, marker="keep")
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(8)
        stable = kafka_answers(broker).offsets(stable=True)
    lines = (kafka_data / "txn" / "expected" / "offsets-stable.tsv").read_text(encoding="utf-8").splitlines()
    assert len(stable) == sum(line.endswith("\tNONE\tall") for line in lines)


def test_kafka_goes_on_writing_after_batches_of_a_newer_leader(
    kafka_data, kafka_install, kafka_broker, kafka_answers, kafka_packages
):
    """The cluster of a template is young: what is installed may carry leader epochs above those of its broker."""
    expected = read_expected(kafka_data / "continued" / "expected" / "offsets.tsv")
    log_dir = kafka_install(kafka_data / "continued" / "log", 4, marker="keep")
    before = dump_log(kafka_packages, segment_files(log_dir))
    more = [CommittedOffset(f"later {number}", "later", 0, number, -1, "") for number in range(8)]
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(4)
        ask = kafka_answers(broker)
        ask.create_topics_of(more)
        ask.commit(more)
    after = dump_log(kafka_packages, segment_files(log_dir))
    assert after.faults == []
    assert len(after.records) == len(before.records) + len(more)
    written = set(after.batches) - set(before.batches)
    assert max(batch.leader_epoch for batch in written) < max(batch.leader_epoch for batch in before.batches)
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(4)
        assert kafka_answers(broker).offsets() == sorted([*expected, *more])


@pytest.mark.long
def test_commits_survive_a_clean_stop_and_a_kill(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "log")
    broker = kafka_broker(log_dir)
    rows = [CommittedOffset(f"group {number}", "orders", number, 10 + number, -1, "meta") for number in range(8)]
    broker.start().wait_until_loaded(4)
    ask = kafka_answers(broker)
    ask.create_topics({"orders": 8})
    ask.commit(rows[:4])
    broker.stop()
    assert (log_dir / ".kafka_cleanshutdown").exists()

    broker.start().wait_until_loaded(4)
    ask = kafka_answers(broker)
    assert ask.offsets() == rows[:4]
    ask.commit(rows[4:])
    pid = broker.pid
    broker.kill()
    assert not Path(f"/proc/{pid}").exists()
    assert not (log_dir / ".kafka_cleanshutdown").exists()

    with broker:
        broker.wait_until_loaded(4)
        ask = kafka_answers(broker)
        assert ask.offsets() == rows
        assert ask.offsets_by_command() == {row[:3]: row.offset for row in rows}
        assert [group.group for group in ask.groups()] == sorted({row.group for row in rows})
    dump = dump_log(kafka_packages, segment_files(log_dir))
    assert (dump.faults, dump.gaps, len(dump.records)) == ([], [], len(rows))
    assert all(record.value["data"]["topicId"] for record in dump.records)


def test_a_template_has_what_a_store_needs_to_join_the_cluster(kafka_template):
    template = kafka_template(4)
    meta = read_properties(template.path / "meta.properties")
    assert (meta["cluster.id"], meta["directory.id"]) == (template.cluster_id, template.directory_id)
    for number in range(4):
        partition = template.path / f"__consumer_offsets-{number}"
        assert read_properties(partition / "partition.metadata", separator=": ")["topic_id"] == template.topic_id
    assert (template.path / ".kafka_cleanshutdown").exists()


def test_partitions_of_another_topic_id_are_reported(kafka_data, kafka_install, kafka_broker):
    log_dir = kafka_install(kafka_data / "crash" / "log", 4, marker="keep", topic_id=False)
    with kafka_broker(log_dir) as broker, pytest.raises(KafkaFailed, match="set these folders aside"):
        broker.wait_until_loaded(4)


def test_a_partition_that_kafka_refuses_to_load_is_reported(kafka_data, kafka_install, kafka_broker):
    """Zero bytes after the last batch beside a clean-shutdown marker fail the load (docs/format/brokers.md §16)."""
    log_dir = kafka_install(kafka_data / "plain" / "log", 8, marker="write")
    with (log_dir / "__consumer_offsets-3" / f"{0:020d}.log").open("ab") as log:
        log.write(bytes(16))
    with kafka_broker(log_dir) as broker:
        with pytest.raises(KafkaFailed, match="refused to load"):
            broker.wait_until_loaded(8)
        broker.wait_until_loaded(8, allow_failures=True)
        assert set(broker.load_failures()) == {3}


def test_a_missing_partition_and_missing_checkpoints_are_made_again(
    kafka_data, kafka_install, kafka_broker, kafka_answers, tmp_path
):
    """A store makes the folder of a partition when it first needs it; Kafka makes those that are not there."""
    part = tmp_path / "part"
    left_out = shutil.ignore_patterns("__consumer_offsets-3", ".kafka*")
    shutil.copytree(kafka_data / "plain" / "log", part, ignore=left_out)
    log_dir = kafka_install(part, 8, marker="remove", checkpoints=False)
    assert not (log_dir / "__consumer_offsets-3").exists()
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(8)
        served = kafka_answers(broker).offsets()
    expected = read_expected(kafka_data / "plain" / "expected" / "offsets.tsv")
    assert served
    assert set(served) < set(expected)
    assert (log_dir / "__consumer_offsets-3").is_dir()


@pytest.mark.parametrize(
    ("name", "position", "said"),
    [
        ("00000000000000000000.log", 5000, "the batch at position 4968 is not valid"),
        ("00000000000000000000.index", 3, "Mismatches in"),
        ("00000000000000000000.index", 7, "NoSuchElementException"),
        ("00000000000000000000.timeindex", 7, "Found timestamp mismatch"),
        ("00000000000000000331.snapshot", 3, "Snapshot is corrupt"),
    ],
)
def test_the_dump_reports_a_flipped_bit(name, position, said, kafka_data, kafka_packages, tmp_path):
    copy = tmp_path / "__consumer_offsets-0"
    shutil.copytree(kafka_data / "plain" / "log" / copy.name, copy)
    (copy / name).chmod(0o644)
    data = bytearray((copy / name).read_bytes())
    data[position] ^= 1
    (copy / name).write_bytes(data)
    assert any(said in fault for fault in dump_log(kafka_packages, segment_files(tmp_path)).faults)


def test_the_dump_reports_a_torn_tail_and_takes_gaps_for_gaps(kafka_data, kafka_packages, tmp_path):
    for scenario in ("torn", "compacted"):
        shutil.copytree(kafka_data / scenario / "log", tmp_path / scenario)
    torn = dump_log(kafka_packages, segment_files(tmp_path / "torn"))
    assert len(torn.faults) == 3
    assert all("invalid bytes at the end" in fault for fault in torn.faults)
    compacted = dump_log(kafka_packages, segment_files(tmp_path / "compacted"))
    assert compacted.faults == []
    assert compacted.gaps
    with pytest.raises(ValueError, match="cannot read"):
        dump_log(kafka_packages, [tmp_path / "torn" / "meta.properties"])


def test_a_broker_that_cannot_start_says_why(kafka_template, kafka_broker, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "log")
    broker = kafka_broker(log_dir, num_io_threads=0)
    with pytest.raises(KafkaFailed, match=r"num\.io\.threads"):
        broker.start()
    assert broker.pid is None


def test_a_broker_does_not_start_on_a_locked_directory(kafka_template, kafka_broker, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "log")
    with (log_dir / ".lock").open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with pytest.raises(KafkaFailed, match="Failed to acquire lock"):
            kafka_broker(log_dir).start()


def test_without_java_the_reason_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(KafkaMissing, match="no java on this machine"):
        find_packages()


def test_without_maven_the_reason_is_reported(kafka_packages: KafkaPackages, monkeypatch, tmp_path):
    for program in ("java", "javac"):
        found = shutil.which(program)
        assert found is not None
        os.symlink(found, tmp_path / program)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("OFFSETLOG_KAFKA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(KafkaMissing, match="no Maven"):
        find_packages()


def test_a_directory_of_somebody_else_is_not_replaced(kafka_packages: KafkaPackages, monkeypatch, tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    monkeypatch.setenv("OFFSETLOG_KAFKA_HOME", str(tmp_path))
    with pytest.raises(KafkaMissing, match="holds other things"):
        find_packages()
    assert (tmp_path / "letter.txt").read_text() == "mine"
