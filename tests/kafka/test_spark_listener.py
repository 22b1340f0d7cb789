"""Spark jobs as Kafka's own tools see them: a real broker, Spark's own Kafka source, `kafka-consumer-groups`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from broker import KafkaBroker, copy_template

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition, errors

try:
    import confluent_kafka
    import confluent_kafka.admin
    import pyspark  # noqa: F401  (the listener is one of its classes)
except ImportError as missing:
    if os.environ.get("OFFSETLOG_REQUIRE_KAFKA") == "1":
        raise
    pytest.skip(f"no {missing.name}", allow_module_level=True)

from offsetlog.spark import import_checkpoint, read_checkpoint, starting_offsets
from offsetlog.spark.targets import make_target

HERE = Path(__file__).parent
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def spark_run(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """`spark_run(**asked) -> answer`: runs a query in a Spark that has Kafka's source; see spark_session.py."""
    command = [sys.executable, str(HERE / "spark_session.py"), ",".join(map(str, spark_jars))]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment["PYTHONPATH"] = os.pathsep.join([*filter(None, sys.path)])
    log = tmp_path_factory.mktemp("spark") / "stderr.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
        )

    def run(**asked: Any) -> dict[str, Any]:
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        raise AssertionError(f"Spark ended: {log.read_text()[-4000:]}")

    # Leaving this closes the pipes, on which the program ends, and waits for its end.
    with process:
        yield run


@pytest.fixture(scope="module")
def cluster(kafka_packages, kafka_template, tmp_path_factory) -> Iterator[KafkaBroker]:
    """A broker with the topics orders, of three partitions, and bills, of one."""
    path = tmp_path_factory.mktemp("cluster")
    with KafkaBroker(kafka_packages, copy_template(kafka_template(4), path / "log"), path / "broker") as broker:
        broker.wait_until_loaded(4)
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        wanted = [confluent_kafka.admin.NewTopic("orders", 3, 1), confluent_kafka.admin.NewTopic("bills", 1, 1)]
        for made in admin.create_topics(wanted).values():
            made.result(30)
        yield broker


def produce(broker: KafkaBroker, counts: dict[int, int], text: str) -> list[list[Any]]:
    """Sends records to partitions of orders; returns them as spark_session tells them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    sent = [[partition, f"{text} {number}"] for partition, count in counts.items() for number in range(count)]
    for partition, value in sent:
        producer.produce("orders", value.encode(), partition=partition)
    assert producer.flush(30) == 0
    return sorted(sent)


def described(packages, broker: KafkaBroker, group: str) -> dict[int, tuple[int, int, int]]:
    """Returns the output of kafka-consumer-groups: partition of orders -> (CURRENT-OFFSET, LOG-END-OFFSET, LAG)."""
    printed = packages.run(
        GROUP_COMMAND, "--bootstrap-server", broker.bootstrap, "--describe", "--offsets", "--group", group
    )
    header = next(line for line in printed.splitlines() if line.startswith("GROUP"))
    assert header.split()[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    rows = re.findall(rf"^{re.escape(group)} +orders +(\d+) +(\d+) +(\d+) +(\d+) ", printed, re.MULTILINE)
    return {int(partition): (int(current), int(end), int(lag)) for partition, current, end, lag in rows}


@pytest.mark.long
def test_kafkas_own_tools_see_a_spark_job_and_a_second_one_goes_on_there(
    spark_run, cluster, kafka_packages, kafka_answers, tmp_path
):
    first = produce(cluster, {0: 5, 1: 3, 2: 1}, "first")
    store_path = tmp_path / "store"
    asked = {"bootstrap": cluster.bootstrap, "topic": "orders"}
    both = [[cluster.bootstrap, "spark-{query}"], [str(store_path), "spark-{query}"]]
    answer = spark_run(
        **asked, name="lake", starting="earliest", checkpoint=str(tmp_path / "checkpoint-1"), listeners=both
    )
    assert (answer["values"], answer["failures"]) == (first, [])
    assert answer["end"] == {"orders": {"0": 5, "1": 3, "2": 1}}

    # The broker's own answers: the command's, and those of Kafka's Admin client.
    assert described(kafka_packages, cluster, "spark-lake") == {0: (5, 5, 0), 1: (3, 3, 0), 2: (1, 1, 0)}
    metadata = json.dumps({"query": "lake", "id": answer["id"], "batch": 0}, separators=(",", ":"))
    # confluent-kafka sends the NUL that ends a string in C along with it.
    committed = [row for row in kafka_answers(cluster).offsets() if row.group == "spark-lake"]
    assert [(row.topic, row.partition, row.offset, row.metadata.removesuffix("\0")) for row in committed] == [
        ("orders", partition, offset, metadata) for partition, offset in enumerate((5, 3, 1))
    ]
    second = produce(cluster, {0: 2, 2: 4}, "second")
    assert described(kafka_packages, cluster, "spark-lake") == {0: (5, 7, 2), 1: (3, 3, 0), 2: (1, 5, 4)}

    # The store got the same.
    with offsetlog.open(store_path, read_only=True) as store:
        found = store.fetch("spark-lake")
    assert {key.partition: (value.offset, value.metadata) for key, value in found.items()} == {
        0: (5, metadata),
        1: (3, metadata),
        2: (1, metadata),
    }

    # The way back, from the cluster and from the store: what was read is not read again.
    from_cluster = starting_offsets(cluster.bootstrap, "spark-lake", ["orders"])
    assert json.loads(from_cluster) == answer["end"]
    assert starting_offsets(store_path, "spark-lake", "orders", partitions=cluster.bootstrap) == from_cluster
    again = spark_run(
        **asked, name="sea", starting=from_cluster, checkpoint=str(tmp_path / "checkpoint-2"), listeners=both[:1]
    )
    assert (again["values"], again["failures"]) == (second, [])
    assert described(kafka_packages, cluster, "spark-sea") == {0: (7, 7, 0), 1: (3, 3, 0), 2: (5, 5, 0)}

    # The query's own checkpoint says the same, and is imported into the cluster.
    checkpoint = read_checkpoint(tmp_path / "checkpoint-2")
    assert (checkpoint.query_id, checkpoint.planned) == (again["id"], None)
    report = import_checkpoint(cluster.bootstrap, "imported", tmp_path / "checkpoint-2")
    assert {key.partition: value.offset for key, value in report.committed.items()} == {0: 7, 1: 3, 2: 5}
    assert described(kafka_packages, cluster, "imported") == described(kafka_packages, cluster, "spark-sea")


def test_a_cluster_says_what_it_does_not_take(cluster, kafka_answers, tmp_path):
    target = make_target(cluster.bootstrap)
    orders = [TopicPartition("orders", number) for number in range(3)]
    refused = target.commit(
        "g",
        {
            orders[0]: OffsetAndMetadata(5, "é warum ö"),
            orders[2]: OffsetAndMetadata(6),
            TopicPartition("orders", 9): OffsetAndMetadata(1),
            TopicPartition("nowhere", 0): OffsetAndMetadata(1),
        },
    )
    assert {key: error.code for key, error in refused.items()} == {
        TopicPartition("orders", 9): "UNKNOWN_TOPIC_OR_PART",
        TopicPartition("nowhere", 0): "UNKNOWN_TOPIC_OR_PART",
    }
    assert all(isinstance(error, errors.ClusterError) and not error.retriable for error in refused.values())
    assert {key: value[:2] for key, value in target.fetch("g").items()} == {
        orders[0]: (5, "é warum ö"),
        orders[2]: (6, ""),
    }
    [whole, _] = [row.metadata for row in kafka_answers(cluster).offsets() if row.group == "g"]
    assert whole.removesuffix("\0") == "é warum ö"
    [too_large] = target.commit("g", {orders[0]: OffsetAndMetadata(5, "m" * 5000)}).values()
    assert too_large.code == "OFFSET_METADATA_TOO_LARGE"
    with pytest.raises(errors.GroupError):
        target.commit("", {orders[0]: OffsetAndMetadata(5)})

    assert json.loads(starting_offsets(cluster.bootstrap, "g")) == {"orders": {"0": 5, "1": -2, "2": 6}}
    latest = starting_offsets({"bootstrap.servers": cluster.bootstrap}, "g", ["bills", "orders"], "latest")
    assert json.loads(latest) == {"bills": {"0": -1}, "orders": {"0": 5, "1": -1, "2": 6}}
    with pytest.raises(errors.ClusterError, match="'nowhere'") as caught:
        starting_offsets(cluster.bootstrap, "g", "nowhere")
    assert caught.value.code == "UNKNOWN_TOPIC_OR_PART"
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"nowhere":{"0":1}}')
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(errors.ClusterError, match="nowhere:0"):
        import_checkpoint(cluster.bootstrap, "g", tmp_path)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_keeps_its_positions(cluster, protocol):
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "busy", "group.protocol": protocol, "log_level": 2}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    target = make_target(cluster.bootstrap)
    position = {TopicPartition("orders", 0): OffsetAndMetadata(0)}
    try:
        consumer.subscribe(["orders"])
        for _ in range(300):
            consumer.poll(0.1)
            if consumer.assignment():
                break
        assert consumer.assignment()
        with pytest.raises(errors.ActiveGroupError, match="'busy' has active members") as caught:
            target.commit("busy", position)
        assert (caught.value.group, caught.value.retriable) == ("busy", False)
    finally:
        consumer.close()
    assert target.commit("busy", position) == {}


def test_a_cluster_that_is_not_there_does_not_answer():
    target = make_target("127.0.0.1:1", timeout_seconds=1.0)
    with pytest.raises(errors.ClusterUnavailableError) as caught:
        target.fetch("g")
    assert caught.value.retriable
