"""A repartitioned directory under a real broker: every group and every position is where Kafka looks for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from broker import CHECKPOINTS, CLEAN_MARKER, OFFSETS_TOPIC, copy_template, partition_folders
from kafka_answers import CommittedOffset, read_expected
from kafka_dump import dump_log, segment_files

from offsetlog._native.codec import partition_for

try:
    import pyspark  # noqa: F401  (the job runs on it)
except ImportError:
    if os.environ.get("OFFSETLOG_REQUIRE_KAFKA") == "1":
        raise
    pytest.skip("no pyspark", allow_module_level=True)

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"


def repartitioned(source: Path, target: Path, partitions: int) -> dict[str, Any]:
    """Runs `offsetlog spark repartition` as an operator would; returns what it says."""
    call = [sys.executable, "-m", "offsetlog", "spark", "repartition", str(source), str(target)]
    call += ["--partitions", str(partitions), "--master", "local[2]", "--driver-memory", "1g", "--format", "json"]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment["PYTHONPATH"] = os.pathsep.join([*filter(None, sys.path)])
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def some_rows() -> list[CommittedOffset]:
    """Positions of 40 groups in two topics, with and without metadata and leader epoch."""
    return sorted(
        CommittedOffset(f"group {number}", topic, partition, 100 * number, partition - 1, "é" * (number % 3))
        for number in range(40)
        for topic, partition in (("orders", 0), ("orders", 3), ("clicks.eu-west", 1))
    )


def by_command(rows: list[CommittedOffset]) -> dict[tuple[str, str, int], int]:
    return {row[:3]: row.offset for row in rows}


@pytest.mark.long
def test_a_cluster_gets_its_own_directory_back_with_more_partitions(
    kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path
):
    """docs/spark.md, "Under a broker": the topic grows while the broker runs, and then its partitions change places."""
    log_dir = copy_template(kafka_template(4), tmp_path / "log")
    rows = some_rows()
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(4)
        ask = kafka_answers(broker)
        ask.create_topics({"orders": 4, "clicks.eu-west": 2})
        ask.commit([row._replace(offset=row.offset + 1000) for row in rows])
        ask.commit(rows)
        deleted = ["--bootstrap-server", broker.bootstrap, "--delete", "--group", "group 7"]
        kafka_packages.run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *deleted)
        rows = [row for row in rows if row.group != "group 7"]
        assert ask.offsets() == rows
        grown = ["--bootstrap-server", broker.bootstrap, "--alter", "--topic", OFFSETS_TOPIC, "--partitions", "7"]
        kafka_packages.run(TOPIC_COMMAND, *grown)
    # The new ones are empty, or hold what was committed at last where nobody would look for it.
    old = tmp_path / "old"
    shutil.copytree(log_dir, old)
    for number in range(4, 7):
        shutil.rmtree(old / f"{OFFSETS_TOPIC}-{number}", ignore_errors=True)

    report = repartitioned(old, tmp_path / "new", 7)
    assert (report["partitions_before"], report["partitions_after"]) == (4, 7)

    for folder in partition_folders(log_dir).values():
        shutil.rmtree(folder)
    for folder in partition_folders(tmp_path / "new").values():
        shutil.copytree(folder, log_dir / folder.name)
    (log_dir / CLEAN_MARKER).unlink()
    for name in CHECKPOINTS:
        (log_dir / name).unlink(missing_ok=True)
    assert_served(kafka_broker(log_dir, offsets_topic_num_partitions=7), 7, rows, kafka_answers, kafka_packages)


def assert_served(broker, partitions, rows, kafka_answers, kafka_packages) -> None:
    """Starts a broker, asks it and its command for all positions, lets it go on writing, and asks again."""
    with broker:
        broker.wait_until_loaded(partitions)
        assert broker.strays() == []
        ask = kafka_answers(broker)
        assert ask.offsets() == rows
        assert {group.group for group in ask.groups()} == {row.group for row in rows}
        ask.create_topics_of(rows)
        assert ask.offsets_by_command() == by_command(rows)
        more = [row._replace(offset=row.offset + 1) for row in rows[::3]]
        ask.commit(more)
        rows = sorted({row[:3]: row for row in [*rows, *more]}.values())
        assert ask.offsets() == rows
    dump = dump_log(kafka_packages, segment_files(broker.log_dir))
    assert dump.faults == []
    # A restarted broker leads with the old records, and with those that it wrote after them.
    with broker:
        broker.wait_until_loaded(partitions)
        assert kafka_answers(broker).offsets() == rows


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "after"), [("txn", 3), ("groups", 5), ("compressed-zstd", 11)])
def test_what_brokers_wrote_in_another_cluster(
    scenario, after, kafka_data, kafka_install, kafka_broker, kafka_answers, kafka_packages, tmp_path
):
    """Transactions that ended and that are open, groups with members, compressed batches."""
    source = kafka_data / scenario / "log"
    before = len(partition_folders(source))
    expected = read_expected(kafka_data / scenario / "expected" / "offsets.tsv")
    with kafka_broker(kafka_install(source, before, marker="keep")) as broker:
        broker.wait_until_loaded(before)
        groups = kafka_answers(broker).groups()
        stable = kafka_answers(broker).offsets(stable=True)

    repartitioned(source, tmp_path / "new", after)
    found = partition_folders(tmp_path / "new")
    assert sorted(found) == list(range(after))
    log_dir = kafka_install(tmp_path / "new", after, marker="keep")
    assert (log_dir / CLEAN_MARKER).exists()
    with kafka_broker(log_dir, offsets_topic_num_partitions=after) as broker:
        broker.wait_until_loaded(after)
        ask = kafka_answers(broker)
        assert ask.offsets() == expected
        assert ask.offsets(stable=True) == stable
        assert ask.groups() == groups
    dump = dump_log(kafka_packages, segment_files(log_dir))
    assert dump.faults == []
    placed = {row.group: partition_for(row.group, after) for row in expected}
    assert set(placed.values()) <= set(found)
