"""Kafka's own commands and console clients, of 4.3.0, at the server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from server.running import SECONDS, Client, RunningServer

from offsetlog.protocol.messages import DescribeGroupsRequest

TOOLS = "org.apache.kafka.tools."
TOPICS = f"{TOOLS}TopicCommand"
GROUPS = f"{TOOLS}consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = f"{TOOLS}GetOffsetShell"
PRODUCER = f"{TOOLS}ConsoleProducer"
CONSUMER = f"{TOOLS}consumer.ConsoleConsumer"


@pytest.fixture
def server(tmp_path):
    with RunningServer(tmp_path / "data", partitions=4) as running:
        yield running


@pytest.fixture
def run(kafka_packages, server):
    bootstrap = "{}:{}".format(*server.address)

    def command(main: str, *arguments: str, stdin: str = "") -> str:
        return kafka_packages.run(main, "--bootstrap-server", bootstrap, *arguments, stdin=stdin)

    return command


def all_of(server: RunningServer, group: str) -> tuple[str, ...]:
    """Arguments that read the records of a group's log partition to the end, once the group has no members.

    The number of records ends the command, and nothing is waited for; without a group of its own it writes nothing.
    """
    end = time.monotonic() + SECONDS
    with Client(server.address) as client:
        while client.ask(DescribeGroupsRequest((group,)), 5).groups[0].group_state != "Empty":
            assert time.monotonic() < end
            time.sleep(0.01)
    manager = server.server.node.manager
    number = manager.partition_for(group)
    count = manager.positions(number).log_end
    where = ("--topic", "__consumer_offsets", "--partition", str(number), "--offset", "earliest")
    return (*where, "--max-messages", str(count), "--timeout-ms", "60000")


def test_topics(run):
    assert "Created topic orders" in run(TOPICS, "--create", "--topic", "orders", "--partitions", "3")
    assert run(TOPICS, "--list").split() == ["__consumer_offsets", "orders"]
    run(TOPICS, "--alter", "--topic", "orders", "--partitions", "5")
    assert len(run(OFFSETS, "--topic", "orders").split()) == 5
    given = ("--entity-type", "topics", "--entity-name", "orders")
    run(CONFIGS, *given, "--alter", "--add-config", "retention.ms=1000")
    assert "retention.ms=1000" in run(CONFIGS, *given, "--describe")
    assert re.search(r"PartitionCount: 5.*retention.ms=1000", run(TOPICS, "--describe", "--topic", "orders"))
    run(TOPICS, "--delete", "--topic", "orders")
    assert run(TOPICS, "--list").split() == ["__consumer_offsets"]


def test_a_group_reads_goes_back_and_is_deleted(run):
    run(TOPICS, "--create", "--topic", "orders", "--partitions", "2")
    run(PRODUCER, "--topic", "orders", stdin="a\nb\nc\n")
    read = ("--topic", "orders", "--group", "billing", "--from-beginning", "--max-messages", "3")
    assert sorted(run(CONSUMER, *read).split()) == ["a", "b", "c"]
    assert run(GROUPS, "--list").split() == ["billing"]
    assert lags(run(GROUPS, "--describe", "--group", "billing")) == [(0, 0), (3, 0)]
    run(GROUPS, "--group", "billing", "--topic", "orders", "--reset-offsets", "--to-earliest", "--execute")
    assert lags(run(GROUPS, "--describe", "--group", "billing")) == [(0, 0), (0, 3)]
    assert sorted(run(CONSUMER, *read).split()) == ["a", "b", "c"]
    assert "successful" in run(GROUPS, "--delete", "--group", "billing")
    assert run(GROUPS, "--list").split() == []


def test_a_reset_is_undone_through_kafka(run, server, tmp_path):
    """The way of docs/how-to/offsets-were-reset.md for several replicas; the broker is this server."""
    run(TOPICS, "--create", "--topic", "orders", "--partitions", "2")
    run(PRODUCER, "--topic", "orders", stdin="a\nb\nc\n")
    run(CONSUMER, "--topic", "orders", "--group", "billing", "--from-beginning", "--max-messages", "3")
    run(GROUPS, "--group", "billing", "--topic", "orders", "--reset-offsets", "--to-earliest", "--execute")
    run(TOPICS, "--create", "--topic", "later", "--partitions", "1")
    run(GROUPS, "--group", "billing", "--topic", "later", "--reset-offsets", "--to-earliest", "--execute")
    data = (str(tmp_path / "data"), "--partitions", "4", "--format", "json")
    (reset,) = rows_of("rewinds", *data, "--by-group")
    at = f"offset:{reset['restore_at']}"
    make_files_of_the_page(tmp_path, at)
    names = ("offsets.csv", "present.csv", "deleted.txt", "added.txt")
    contents = {name: (tmp_path / name).read_text() for name in names}
    partition = contents["offsets.csv"].split(",")[1]
    assert contents == {
        "offsets.csv": f"orders,{partition},3\n",
        "present.csv": f"later,0,0\norders,{partition},0\n",
        "deleted.txt": "later:0\n",
        "added.txt": "",
    }
    back = ("--group", "billing", "--reset-offsets", "--from-file", str(tmp_path / "offsets.csv"))
    run(GROUPS, *back, "--dry-run")
    assert lags(run(GROUPS, "--describe", "--group", "billing")) == [(0, 0), (0, 3)]
    run(GROUPS, *back, "--execute")
    run(GROUPS, "--group", "billing", "--delete-offsets", "--topic", "later:0")
    assert lags(run(GROUPS, "--describe", "--group", "billing")) == [(0, 0), (3, 0)]
    # Kafka's command writes no leader epochs.
    left = rows_of("diff", data[0], at, "--group", "billing", *data[1:])
    assert [(each["step"], each["leader_epoch_after"]) for each in left] == [(0, -1)]


def make_files_of_the_page(folder: Path, moment: str) -> None:
    """Runs the page's lines that make its files, for the data in a folder."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "offsets-were-reset.md").read_text(encoding="utf-8")
    blocks = (token.content for token in MarkdownIt().parse(page) if token.type == "code_block")
    (block,) = (each for each in blocks if "changes.tsv" in each)
    for text, here in {"/var/kafka-logs": "data", "offset:9": moment, "--partitions 50": "--partitions 4"}.items():
        assert text in block
        block = block.replace(text, here)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", block], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert "would be refused: the lock is held by" in done.stderr


def rows_of(*call: str, code: int = 0) -> list[dict]:
    """The rows that a command of offsetlog prints as JSON."""
    done = subprocess.run([sys.executable, "-m", "offsetlog", *call], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lags(text: str) -> list[tuple[int, int]]:
    """(position, lag) of each partition."""
    return sorted((int(at), int(lag)) for at, lag in re.findall(r"orders +\d+ +(\d+) +\d+ +(\d+) ", text))


def test_positions_are_read_with_kafkas_formatter(run, server):
    run(TOPICS, "--create", "--topic", "orders", "--partitions", "1")
    run(PRODUCER, "--topic", "orders", stdin="a\nb\n")
    run(CONSUMER, "--topic", "orders", "--group", "billing", "--from-beginning", "--max-messages", "2")
    formatter = f"{TOOLS}consumer.OffsetsMessageFormatter"
    found = json.loads(run(CONSUMER, *all_of(server, "billing"), "--formatter", formatter).splitlines()[-1])
    assert found["key"]["data"] == {"group": "billing", "topic": "orders", "partition": 0}
    assert found["value"]["data"]["offset"] == 2


def documents(text: str) -> list[dict]:
    """The JSON documents that follow each other: this formatter ends no lines."""
    found, left = [], text.strip()
    while left:
        document, end = json.JSONDecoder().raw_decode(left)
        found.append(document)
        left = left[end:].lstrip()
    return found


def test_groups_are_read_with_kafkas_formatter(run, server):
    run(TOPICS, "--create", "--topic", "orders", "--partitions", "1")
    run(PRODUCER, "--topic", "orders", stdin="a\nb\n")
    run(CONSUMER, "--topic", "orders", "--group", "billing", "--from-beginning", "--max-messages", "2")
    formatter = f"{TOOLS}consumer.GroupMetadataMessageFormatter"
    found = documents(run(CONSUMER, *all_of(server, "billing"), "--formatter", formatter))
    assert {each["key"]["data"]["group"] for each in found} == {"billing"}
    values = [each["value"]["data"] for each in found]
    stable = next(each for each in values if each["members"])
    assert (stable["protocolType"], stable["generation"], len(stable["members"])) == ("consumer", 1, 1)
    assert (values[-1]["members"], values[-1]["generation"]) == ([], 2)
