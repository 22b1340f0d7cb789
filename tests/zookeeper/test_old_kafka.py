"""The tools of Kafka 0.9 read what the manager commits, and the manager reads what they write."""

from __future__ import annotations

import os
import subprocess

import pytest

from offsetlog.types import TopicPartition
from offsetlog.zookeeper.operations import Create
from tests.maven_packages import java, packages_or_skip

from .managers import leading

pytestmark = pytest.mark.ci

LOG4J = "log4j.rootLogger=ERROR, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n" + (
    "log4j.appender.out.target=System.err\nlog4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
)


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    """Runs a class of Kafka 0.9 to its end, and returns what it printed."""
    jars = packages_or_skip("kafka-0.9")
    settings = tmp_path_factory.mktemp("kafka-0.9") / "log4j.properties"
    settings.write_text(LOG4J)

    def run(main: str, *given: str) -> str:
        path = os.pathsep.join(str(jar) for jar in jars)
        command = [java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{settings}"]
        done = subprocess.run(
            [*command, "-cp", path, main, *given], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_what_the_manager_commits_is_exported_by_kafka(hosts, tool, tmp_path):
    given = {TopicPartition(f"topic-{n % 3}", n): 10**n for n in range(12)}
    with leading(hosts) as manager:
        manager.commit("billing", given)
        manager.commit("billing", {TopicPartition("topic-0", 0): 2**63 - 1})
    out = tmp_path / "offsets"
    tool("kafka.tools.ExportZkOffsets", "--zkconnect", hosts, "--group", "billing", "--output-file", str(out))
    found = {}
    for line in out.read_text().splitlines():
        node, offset = line.rsplit(":", 1)
        _, consumers, group, kind, topic, partition = node.split("/")
        assert (consumers, group, kind) == ("consumers", "billing", "offsets")
        found[TopicPartition(topic, int(partition))] = int(offset)
    assert found == given | {TopicPartition("topic-0", 0): 2**63 - 1}


def test_what_kafka_imports_is_what_the_manager_fetches(hosts, tool, tmp_path):
    lines = [f"/consumers/g-{n % 4}/offsets/topic/{n}:{7 * n}" for n in range(20)]
    source = tmp_path / "offsets"
    source.write_text("\n".join(lines) + "\n")
    with leading(hosts) as manager:
        # One of them stands there already, and Kafka writes over it.
        manager.commit("g-1", {TopicPartition("topic", 1): 99, TopicPartition("own", 0): 5})
        tool("kafka.tools.ImportZkOffsets", "--zkconnect", hosts, "--input-file", str(source))
        assert manager.groups() == [f"g-{n}" for n in range(4)]
        for number in range(4):
            found = {key: value.offset for key, value in manager.fetch(f"g-{number}").items()}
            own = {TopicPartition("own", 0): 5} if number == 1 else {}
            assert found == {TopicPartition("topic", n): 7 * n for n in range(number, 20, 4)} | own
        manager.commit("g-2", {TopicPartition("topic", 2): 15}, expected={TopicPartition("topic", 2): 14})


def test_kafka_lists_and_removes_a_group_of_the_manager(hosts, tool, connection):
    with leading(hosts) as manager:
        for group in ("billing", "kept"):
            manager.commit(group, {TopicPartition("topic", 0): 1})
            # The node that Kafka's tool counts the consumers below is made by the first of them.
            connection.multi([Create(f"/consumers/{group}/ids"), Create(f"/consumers/{group}/owners")])
        command = ("kafka.admin.ConsumerGroupCommand", "--zookeeper", hosts)
        assert sorted(tool(*command, "--list").split()) == ["billing", "kept"]
        assert "billing" in tool(*command, "--delete", "--group", "billing")
        assert (manager.fetch("billing"), manager.groups()) == ({}, ["kept"])
        manager.commit("billing", {TopicPartition("topic", 0): 2})
        assert manager.fetch("billing")[TopicPartition("topic", 0)].offset == 2
