"""A server starts in a new directory or one with a past, keeps what it answered, and stops."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import offsetlog
from offsetlog import TopicPartition
from offsetlog.cli.app import run
from offsetlog.errors import ConfigError, CorruptionError, LockedError, UnsupportedVersionError
from offsetlog.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from offsetlog.server.metadata_store import FILE

from .running import Client, RunningServer


def made(client: Client, *names: str, partitions: int = 2) -> None:
    asked = tuple(CreateTopicsRequestTopic(name, partitions, 1) for name in names)
    answer = client.ask(CreateTopicsRequest(asked), 7)
    assert [each.error_code for each in answer.topics] == [0] * len(names)


def commit(client: Client, group: str, topic: str, offset: int, **more) -> int:
    partition = OffsetCommitRequestTopicPartition(1, offset, 5, committed_metadata="m")
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=(partition,)),), **more)
    (answer,) = client.ask(request, 9).topics
    return answer.partitions[0].error_code


def positions(client: Client, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),))
    end = time.monotonic() + 10
    while (answer := client.ask(asked, 9).groups[0]).error_code == 14 and time.monotonic() < end:
        time.sleep(0.01)    # it loads
    assert answer.error_code == 0
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.metadata)
        for topic in answer.topics
        for each in topic.partitions
    }


def member_of(client: Client, group: str) -> str:
    """A member of a stable group of generation 1."""
    protocol = JoinGroupRequestProtocol("range", b"")
    join = JoinGroupRequest(group, 10_000, 60_000, "", None, "consumer", (protocol,))
    member_id = client.ask(join, 9).member_id
    assert client.ask(join._replace(member_id=member_id), 9).generation_id == 1
    assigned = (SyncGroupRequestAssignment(member_id, b"all"),)
    sync = SyncGroupRequest(group, 1, member_id, None, "consumer", "range", assigned)
    assert client.ask(sync, 5).error_code == 0
    return member_id


def topic_of(client: Client, name: str):
    asked = (MetadataRequestTopic(name=name),)
    return client.ask(MetadataRequest(asked, allow_auto_topic_creation=False), 12).topics[0]


def test_what_was_answered_is_there_after_a_restart(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        made(client, "orders")
        topic = topic_of(client, "orders")
        cluster_id = client.ask(MetadataRequest(topics=()), 12).cluster_id
        assert commit(client, "g", "orders", 42) == 0
        member_id = member_of(client, "members")
        assert commit(client, "members", "orders", 7, generation_id_or_member_epoch=1, member_id=member_id) == 0
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        assert topic_of(client, "orders").topic_id == topic.topic_id
        assert client.ask(MetadataRequest(topics=()), 12).cluster_id == cluster_id
        assert positions(client, "g") == {("orders", 1): (42, 5, "m")}
        assert positions(client, "members") == {("orders", 1): (7, 5, "m")}
        # The group lives on with its member, and its generation goes on.
        assert client.ask(HeartbeatRequest("members", 1, member_id), 4).error_code == 0
        assert commit(client, "members", "orders", 8) == 25
        assert commit(client, "members", "orders", 8, generation_id_or_member_epoch=1, member_id=member_id) == 0


def test_the_library_reads_what_the_server_wrote_and_the_other_way_round(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=50) as store:
        store.commit("g", {TopicPartition("orders", 0): 11})
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        assert positions(client, "g") == {("orders", 0): (11, -1, "")}
        made(client, "orders")
        assert commit(client, "g", "orders", 12) == 0
    with offsetlog.open(tmp_path / "data") as store:
        fetched = {key: value.offset for key, value in store.fetch("g").items()}
        assert fetched == {TopicPartition("orders", 0): 11, TopicPartition("orders", 1): 12}
        assert store.verify() == []


def test_two_servers_do_not_share_a_directory(tmp_path):
    with RunningServer(tmp_path / "data"), pytest.raises(LockedError):
        RunningServer(tmp_path / "data")


def test_off_loopback_only_with_leave(tmp_path):
    with pytest.raises(ConfigError, match=r"listening on 0\.0\.0\.0 needs --allow-any-host"):
        RunningServer(tmp_path / "data", host="0.0.0.0")


def test_metadata_that_were_changed_are_refused(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        made(client, "orders")
    file = tmp_path / "data" / FILE
    text = file.read_text()
    file.write_text(text.replace('"partitions":2', '"partitions":3'))
    with pytest.raises(CorruptionError, match="checksum"):
        RunningServer(tmp_path / "data")
    file.write_text(text.replace('"format":2', '"format":3'))
    with pytest.raises(UnsupportedVersionError, match="the file has format 3"):
        RunningServer(tmp_path / "data")
    file.write_text(text)
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        assert topic_of(client, "orders").error_code == 0


def test_topics_are_made_grown_and_deleted(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        made(client, "orders", "other")
        again = client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
        assert again.topics[0].error_code == 36
        refused = [
            (CreateTopicsRequestTopic("a/b", 1, 1), 17),
            (CreateTopicsRequestTopic("none", 0, 1), 37),
            (CreateTopicsRequestTopic("many", 1, 3), 38),
        ]
        answer = client.ask(CreateTopicsRequest(tuple(each for each, _ in refused)), 7)
        assert [each.error_code for each in answer.topics] == [error for _, error in refused]
        grown = client.ask(CreatePartitionsRequest((CreatePartitionsRequestTopic("orders", 5, None),)), 3)
        assert grown.results[0].error_code == 0
        assert len(topic_of(client, "orders").partitions) == 5
        less = client.ask(CreatePartitionsRequest((CreatePartitionsRequestTopic("orders", 5, None),)), 3)
        assert less.results[0].error_code == 37
        assert commit(client, "g", "orders", 1) == 0
        deleted = client.ask(DeleteTopicsRequest((DeleteTopicsRequestTopic("orders"),)), 6)
        assert deleted.responses[0].error_code == 0
        assert topic_of(client, "orders").error_code == 3
        assert commit(client, "g", "orders", 2) == 3
        internal = client.ask(DeleteTopicsRequest((DeleteTopicsRequestTopic("__consumer_offsets"),)), 6)
        assert internal.responses[0].error_code == 42


def test_asking_for_a_topic_makes_it_only_if_that_is_wanted(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        assert topic_of(client, "new").error_code == 3
        asked = (MetadataRequestTopic(name="new"), MetadataRequestTopic(name="a/b"))
        answer = client.ask(MetadataRequest(asked), 12)
        assert [each.error_code for each in answer.topics] == [0, 17]
        assert topic_of(client, "new").error_code == 0


def test_it_is_found_where_it_says(tmp_path):
    advertised = {"advertised_host": "broker.example", "advertised_port": 1234}
    with RunningServer(tmp_path / "data", **advertised) as server, Client(server.address) as client:
        (node,) = client.ask(MetadataRequest(topics=()), 12).brokers
        found = client.ask(FindCoordinatorRequest("g"), 3)
    assert (node.host, node.port) == (found.host, found.port) == ("broker.example", 1234)
    assert found.error_message == "NONE"  # as Kafka says it in these versions


# -------------------------------------------------------------------------------------- the command


@contextlib.contextmanager
def started(path, *options: str, open_files: int | None = None):
    """The command on a free port, and its address; it is killed if it still runs at the end."""
    command = [sys.executable, "-m", "offsetlog", "serve", str(path), "--listen", "127.0.0.1:0", *options]
    if open_files is not None:
        command = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline()
            found = re.fullmatch(r"offsetlog listens on (127\.0\.0\.1):(\d+)\n", line)
            assert found, line + process.stderr.read()
            yield process, (found[1], int(found[2]))
        finally:
            watchdog.cancel()
            process.kill()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stops_in_order_on_request(tmp_path, sent):
    with started(tmp_path / "data") as (process, address), Client(address) as client:
        made(client, "orders")
        assert commit(client, "g", "orders", 3) == 0
        process.send_signal(sent)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    assert os.path.exists(tmp_path / "data" / ".kafka_cleanshutdown")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stops_while_it_recovers(tmp_path, sent):
    # A recovery that never ends.
    script = (
        "import sys, threading\n"
        "from offsetlog.cli.app import run\n"
        "from offsetlog.manager.log_manager import LogManager\n"
        "def start(self):\n"
        "    print('recovers', flush=True)\n"
        "    threading.Event().wait()\n"
        "LogManager.start = start\n"
        "sys.exit(run(['serve', sys.argv[1], '--listen', '127.0.0.1:0']))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "recovers\n"
            process.send_signal(sent)
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("part", ["_topic_sweep", "_topic_compaction", "_topics"])
def test_a_stop_of_which_a_part_fails_releases_the_directory_and_leaves_no_marker(tmp_path, monkeypatch, part):
    def fail() -> None:
        raise ValueError("of a test")

    server = RunningServer(tmp_path / "data")
    close = getattr(server.server, part).close
    monkeypatch.setattr(getattr(server.server, part), "close", fail)
    with Client(server.address) as client:
        made(client, "orders")
        assert commit(client, "g", "orders", 3) == 0
    with pytest.raises(ValueError, match="of a test"):
        server.stop()
    close()
    assert not os.path.exists(tmp_path / "data" / ".kafka_cleanshutdown")
    with RunningServer(tmp_path / "data") as again, Client(again.address) as client:
        assert positions(client, "g") == {("orders", 1): (3, 5, "m")}


def test_a_stop_whose_first_part_fails_does_the_others(tmp_path, monkeypatch):
    async def fail() -> None:
        raise ValueError("of a test")

    server = RunningServer(tmp_path / "data")
    monkeypatch.setattr(server.server.node.groups.expiry, "close", fail)
    with Client(server.address) as client:
        with pytest.raises(ValueError, match="of a test"):
            server.stop()
        assert client.receive() is None
    with RunningServer(tmp_path / "data") as again:
        assert again.address


def test_a_server_that_listens_everywhere_is_found_by_the_name_of_its_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "broker.example")
    with RunningServer(tmp_path / "data", host="0.0.0.0", allow_any_host=True) as server:
        with Client(("127.0.0.1", server.address[1])) as client:
            (broker,) = client.ask(DescribeClusterRequest(), 0).brokers
        assert (broker.host, broker.port) == ("broker.example", server.address[1])


def test_a_commit_that_was_answered_survives_kill_9(tmp_path):
    with started(tmp_path / "data") as (process, address), Client(address) as client:
        made(client, "orders")
        for offset in range(20):
            assert commit(client, "g", "orders", offset) == 0
        process.kill()
        process.wait(20)
    with started(tmp_path / "data") as (process, address), Client(address) as client:
        assert positions(client, "g") == {("orders", 1): (19, 5, "m")}
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--listen", "nowhere"], "--listen: 'nowhere' is not HOST:PORT"),
        (["--metrics", "127.0.0.1:65536"], "'127.0.0.1:65536' is not HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "neither authenticated nor encrypted"),
        (["--partitions", "0"], "partitions"),
    ],
)
def test_the_command_says_in_one_line_why_it_does_not_start(tmp_path, options, text):
    command = [sys.executable, "-m", "offsetlog", "serve", str(tmp_path / "data"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_keeps_the_number_of_partitions_of_its_directory(tmp_path):
    asked = DescribeConfigsRequest((DescribeConfigsRequestResource(4, "0", None),))
    for options in (["--partitions", "7"], []):
        with started(tmp_path / "data", *options) as (process, address), Client(address) as client:
            described = client.ask(asked, 4).results[0].configs
            values = {each.name: each.value for each in described}
            assert values["offsets.topic.num.partitions"] == "7"
            process.terminate()
            assert process.wait(20) == 0
    with started(tmp_path / "new"):
        pass
    assert "partitions=4\n" in (tmp_path / "new" / "offsetlog.properties").read_text()


def test_the_command_asks_for_the_number_of_partitions_of_a_broker(tmp_path, capsys):
    log_partition = tmp_path / "data" / "__consumer_offsets-6"
    log_partition.mkdir(parents=True)
    (log_partition / f"{0:020}.log").touch()
    assert run(["serve", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]) == 2
    assert "give --partitions N" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_a_port_that_is_taken_is_named_and_nothing_is_made(tmp_path, capsys, option):
    options = [] if option == "--listen" else ["--listen", "127.0.0.1:0"]
    handlers = [signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGTERM)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = "{}:{}".format(*taken.getsockname())
        assert run(["serve", str(tmp_path / "data"), option, place, *options]) == 2
    assert f"cannot listen on {place}: Address already in use; stop the program" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
    # No handler of the closed event loop is left, which would swallow the signal.
    left = [signal.signal(*each) for each in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True)]
    assert left == [signal.default_int_handler] * 2
