"""Metrics and health of a server: each number against what was done to the server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import json
import os
import re
import socket
import threading
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.faults.fault_fs import FaultFileSystem

from offsetlog._native.histogram import BOUNDS, Histogram
from offsetlog._native.request_metrics import RequestMetrics
from offsetlog.errors import ConfigError, PartitionFailedError, StorageError
from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from offsetlog.server import disk, monitoring, status
from offsetlog.server.connection_limits import ConnectionLimits, OpenConnections
from offsetlog.server.metrics import METRICS
from offsetlog.server.status import ServerStatus, health, readiness

from .batches import produced_batch
from .running import Client, RunningServer
from .test_life import commit as commit_as
from .test_life import member_of
from .topic_requests import NOW, create, delete, fetch, produce

ASK = ApiVersionsRequest("test", "1.0")
METRICS_ANYWHERE = {"metrics_host": "127.0.0.1", "metrics_port": 0}


def get(server: RunningServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(*server.server.metrics_address, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


class Seen(dict):
    """The samples of one look, by name and values of labels in the order of the labels' names."""

    def __init__(self, server: RunningServer) -> None:
        code, text = get(server, "/metrics")
        assert code == 200
        self.families = list(text_string_to_metric_families(text))
        for family in self.families:
            for sample in family.samples:
                self[(sample.name, *(value for _, value in sorted(sample.labels.items())))] = sample.value


def commit(client: Client, topic: str, *offsets: int, group: str = "g") -> list[int]:
    partitions = tuple(OffsetCommitRequestTopicPartition(0, each) for each in offsets)
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))
    (answer,) = client.ask(request, 9).topics
    return [each.error_code for each in answer.partitions]


@pytest.fixture
def server(tmp_path):
    limits = ConnectionLimits(connections_max=2)
    with RunningServer(tmp_path / "data", "disk", 4, limits=limits, **METRICS_ANYWHERE) as running:
        yield running


def test_requests_errors_and_bytes_are_counted(server):
    with Client(server.address) as client:
        for _ in range(3):
            client.ask(ASK, 3)
        assert client.ask(HeartbeatRequest("nobody", 1, "m"), 4).error_code == 25
        frame = encode_request(ASK, 3, 7, "test")
        sent = 3 * len(frame) + len(encode_request(HeartbeatRequest("nobody", 1, "m"), 4, 7, "test"))
        seen = Seen(server)
        assert seen["offsetlog_request_duration_seconds_count", "ApiVersions"] == 3
        assert seen["offsetlog_request_duration_seconds_bucket", "ApiVersions", "+Inf"] == 3
        assert 0 < seen["offsetlog_request_duration_seconds_sum", "ApiVersions"] < 20
        assert seen["offsetlog_request_errors_total", "Heartbeat", "UNKNOWN_MEMBER_ID"] == 1
        assert ("offsetlog_request_errors_total", "ApiVersions", "NONE") not in seen
        assert seen["offsetlog_received_bytes_total",] == sent
        client.send(frame)
        answer = client.receive()
        assert Seen(server)["offsetlog_sent_bytes_total",] == seen["offsetlog_sent_bytes_total",] + 4 + len(answer)


def test_connections_are_counted(server):
    with Client(server.address) as one, Client(server.address) as two:
        one.ask(ASK, 3)
        two.ask(ASK, 3)
        with Client(server.address) as third:
            assert third.receive() is None
        seen = Seen(server)
        assert seen["offsetlog_connections",] == 2
        assert seen["offsetlog_connections_accepted_total",] == 2
        assert seen["offsetlog_connections_refused_total",] == 1


def test_open_logs_of_topics_are_counted(tmp_path):
    with RunningServer(tmp_path / "data", **METRICS_ANYWHERE) as running, Client(running.address) as client:
        create(client, partitions=3)
        assert Seen(running)["offsetlog_topic_logs_open",] == 0
        for count in range(1, 4):
            produce(client, produced_batch(1, timestamp=NOW), partition=count - 1)
            assert Seen(running)["offsetlog_topic_logs_open",] == count
    with RunningServer(tmp_path / "data", **METRICS_ANYWHERE) as running, Client(running.address) as client:
        assert Seen(running)["offsetlog_topic_logs_open",] == 0
        fetch(client, 0, partition=1)
        assert Seen(running)["offsetlog_topic_logs_open",] == 1
        assert delete(client) == 0
        assert Seen(running)["offsetlog_topic_logs_open",] == 0


def test_commits_flushes_and_the_table_are_those_of_the_engine(server):
    with Client(server.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
        assert commit(client, "orders", 1) == [0]
        assert commit(client, "orders", 2, group="other") == [0]
        assert commit(client, "missing", 1) == [3]
    manager = server.server.status.manager
    seen = Seen(server)
    assert seen["offsetlog_commits_total",] == 2
    assert seen["offsetlog_committed_positions_total",] == 2
    assert seen["offsetlog_request_errors_total", "OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION"] == 1
    assert 1 <= seen["offsetlog_flush_duration_seconds_count", "offsets"] <= 2
    number = manager.partition_for("g")
    positions = manager.positions(number)
    assert seen["offsetlog_log_end_offset", str(number)] == positions.log_end
    assert seen["offsetlog_log_flushed_offset", str(number)] == positions.flushed
    assert sum(value for (name, *_), value in seen.items() if name == "offsetlog_table_entries") == 2
    assert seen["offsetlog_table_bytes", str(number)] > 0
    for partition in range(4):
        assert seen["offsetlog_partition_state", str(partition), "active"] == 1
        assert seen["offsetlog_partition_loaded_ratio", str(partition)] == 1


def test_requests_that_the_front_answers_are_counted_as_all_others(server):
    with Client(server.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 2, 1),)), 7)
        member_id = member_of(client, "members")
        for offset in range(5):
            more = {"generation_id_or_member_epoch": 1, "member_id": member_id}
            assert commit_as(client, "members", "orders", offset, **more) == 0
            assert client.ask(HeartbeatRequest("members", 1, member_id), 4).error_code == 0
        asked = OffsetFetchRequestGroupTopic("orders", partition_indexes=(1,))
        fetch = encode_request(OffsetFetchRequest(groups=(OffsetFetchRequestGroup("members", topics=(asked,)),)), 9, 7)
        client.send(fetch * 3)    # one read, and one run
        assert all(client.receive() for _ in range(3))
        front = server.server.status.front
        assert min(front.commits, front.fetches, front.heartbeats) > 0
        seen = Seen(server)
    for api, count in (("OffsetCommit", 5), ("Heartbeat", 5), ("OffsetFetch", 3)):
        assert seen["offsetlog_request_duration_seconds_count", api] == count
        assert seen["offsetlog_request_duration_seconds_sum", api] > 0
    assert seen["offsetlog_commits_total",] == seen["offsetlog_committed_positions_total",] == 5


def test_groups_are_counted_by_state(server):
    with Client(server.address) as client:
        member_of(client, "one")
        member_of(client, "two")
        assert Seen(server)["offsetlog_groups", "Stable", "classic"] == 2


def test_what_the_page_lists_is_what_is_answered(server):
    with Client(server.address) as client:
        client.ask(HeartbeatRequest("nobody", 1, "m"), 4)
    families = {each.name: each for each in Seen(server).families if each.name.startswith("offsetlog_")}
    assert {name: (each.type, each.documentation) for name, each in families.items()} == {
        name: (each.kind, each.meaning) for name, each in METRICS.items()
    }
    for name, family in families.items():
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(METRICS[name].labels)


#: The base units of Prometheus that are in use here, and what has none.
UNITS = ("_seconds", "_bytes", "_ratio", "_info")
UNITS_THAT_ARE_NONE = re.compile(r"_(ms|millis\w*|us|minutes|hours|kib|mib|kilobytes|percent|pct)(_|$)")


@pytest.mark.parametrize(("name", "kind"), METRICS.items())
def test_a_metric_follows_the_conventions_of_prometheus(name, kind):
    assert re.fullmatch(r"offsetlog(_[a-z]+)+", name)
    assert not UNITS_THAT_ARE_NONE.search(name)
    # Suffixes that Prometheus appends itself, or knows from the kind.
    assert not name.endswith(("_total", "_count", "_sum", "_bucket"))
    assert not re.search(r"_(gauge|counter|histogram|metric)(_|$)", name)
    units = [each for each in UNITS if each in name]
    assert units == [] or name.endswith(units[0])
    assert name.endswith("_seconds") or kind.kind != "histogram"
    assert re.fullmatch(r"[A-Z0-9].*\.", kind.meaning)
    for label in kind.labels:
        assert re.fullmatch("[a-z]+", label)


def test_groups_are_no_labels():
    assert not {"group", "topic", "client", "member"} & {each for kind in METRICS.values() for each in kind.labels}


def test_commits_of_groups_are_distinguished(server):
    with Client(server.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
        for offset in range(3):
            assert commit(client, "orders", offset) == [0]
        assert commit(client, "orders", 2, group="other \u00e4\n") == [0]
        assert commit(client, "missing", 1, group="refused") == [3]
    code, text = get(server, "/groups")
    assert (code, json.loads(text)) == (200, {"commits": {"g": 3, "other \u00e4\n": 1}})


def test_more_groups_than_one_part_are_all_there(server):
    front = server.server.status.front
    names = [f"group-{number}" for number in range(3000)]
    on_loop(server, lambda: [front.count_commit(name) for name in names])
    assert front.commit_counts(0)[0] == 1
    assert json.loads(get(server, "/groups")[1])["commits"] == dict.fromkeys(names, 1)


# ------------------------------------------------------------------------------------------- health


def test_it_is_healthy_and_ready(server):
    assert get(server, "/healthz") == (200, "healthy\n")
    assert get(server, "/readyz") == (200, "ready\n")
    assert get(server, "/readyz", "HEAD") == (200, "")
    seen = Seen(server)
    assert (seen["offsetlog_healthy",], seen["offsetlog_ready",]) == (1, 1)


def test_a_damaged_log_of_positions_is_named(tmp_path):
    path = tmp_path / "data"
    with RunningServer(path, "disk", 4) as running, Client(running.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
        for offset in range(3):
            assert commit(client, "orders", offset) == [0]
        number = running.server.status.manager.partition_for("g")
    (segment,) = (path / f"__consumer_offsets-{number}").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    for snapshot in path.rglob("*snapshot*"):
        snapshot.unlink()
    (path / ".kafka_cleanshutdown").unlink()
    with RunningServer(path, "disk", 4, **METRICS_ANYWHERE) as running:
        code, text = get(running, "/healthz")
        assert code == 503
        assert text.startswith(f"log partition {number} accepts no writes: ")
        assert segment.name in text
        assert Seen(running)["offsetlog_healthy",] == 0
        end = time.monotonic() + 20
        while "3 of 4 log partitions are loaded" not in get(running, "/readyz")[1] and time.monotonic() < end:
            time.sleep(0.01)    # the others load
        code, text = get(running, "/readyz")
        assert code == 503
        assert f"log partition {number} could not be loaded: the partition is open read-only" in text


def test_a_topic_that_takes_no_records_is_named(server):
    with Client(server.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
    topics = server.server.status.topics
    topics.get("orders", 0).refuse(StorageError("the disk is gone"))
    assert get(server, "/healthz") == (503, "orders-0 accepts no records: the disk is gone\n")
    assert Seen(server)["offsetlog_topic_partitions_unwritable",] == 1


@pytest.fixture
def disk_says(monkeypatch):
    """Has the disk of the log directory say something about itself."""
    statvfs = os.statvfs
    said = {}

    def asked(path):
        if "failure" in said:
            raise said["failure"]
        found = statvfs(path)
        flag = found.f_flag | (os.ST_RDONLY if said.get("read_only") else 0)
        free = said.get("free", found.f_bavail * found.f_frsize) // found.f_frsize
        return os.statvfs_result((*found[:4], free, *found[5:8], flag, found[9]))

    monkeypatch.setattr(disk.os, "statvfs", asked)
    return said


def test_a_disk_that_fills_up_is_not_healthy_before_it_is_full(server, disk_says):
    disk_says["free"] = 64 << 20
    code, text = get(server, "/healthz")
    assert code == 503
    assert re.fullmatch(
        r"the disk of \S+ has 67108864 bytes left, less than the reserve of 134217728 "
        r"\(disk.reserve.bytes\); free some space before writes fail\n",
        text,
    )
    # It still takes commits.
    assert get(server, "/readyz") == (200, "ready\n")
    seen = Seen(server)
    assert (seen["offsetlog_disk_free_bytes",], seen["offsetlog_healthy",]) == (64 << 20, 0)
    disk_says["free"] = 128 << 20
    assert get(server, "/healthz") == (200, "healthy\n")


def test_without_a_reserve_a_full_disk_is_passed_over(tmp_path, disk_says):
    disk_says["free"] = 0
    with RunningServer(tmp_path / "data", "disk", 4, disk_reserve_bytes=0, **METRICS_ANYWHERE) as running:
        assert get(running, "/healthz")[0] == 200


def test_a_read_only_disk_is_neither_healthy_nor_ready(server, disk_says):
    disk_says["read_only"] = True
    for path in ("/healthz", "/readyz"):
        code, text = get(server, path)
        assert code == 503
        assert "is read-only: no commit can be written" in text


def test_a_disk_that_does_not_answer_is_not_healthy(server, disk_says):
    disk_says["failure"] = OSError(5, "Input/output error")
    for path in ("/healthz", "/readyz"):
        code, text = get(server, path)
        assert code == 503
        assert re.search("cannot read the log directory .*: Input/output error; check its disk\n$", text)
    assert ("offsetlog_disk_free_bytes",) not in Seen(server)


def test_a_flush_that_failed_is_named(tmp_path):
    (tmp_path / "root").mkdir()
    fs = FaultFileSystem(tmp_path / "root")
    running = RunningServer(tmp_path / "root" / "data", "disk", 2, fs=fs, **METRICS_ANYWHERE)
    try:
        with Client(running.address) as client:
            client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
            assert commit(client, "orders", 1) == [0]
            fs.fail_flush(fs.flushes + 1, errno.EIO)
            assert commit(client, "orders", 2) != [0]
        number = running.server.status.manager.partition_for("g")
        code, text = get(running, "/healthz")
        assert code == 503
        assert text.startswith(f"log partition {number} accepts no writes: ")
        assert "failed before the write was known to be durable; the partition must be opened again" in text
    finally:
        # It says again that a log failed before.
        with pytest.raises(PartitionFailedError):
            running.stop()


def test_a_stuck_event_loop_is_found(server, monkeypatch):
    monkeypatch.setattr(status, "LOOP_SECONDS", 0.1)
    blocks, goes_on = threading.Event(), threading.Event()

    def block() -> None:
        blocks.set()
        goes_on.wait(20)

    server.loop.call_soon_threadsafe(block)
    assert blocks.wait(20)
    try:
        assert get(server, "/healthz") == (503, "requests have not been handled for 0.1 s\n")
    finally:
        goes_on.set()
    monkeypatch.setattr(status, "LOOP_SECONDS", 20.0)
    assert get(server, "/healthz")[0] == 200


def on_loop(server: RunningServer, call, *arguments) -> None:
    async def called() -> None:
        call(*arguments)

    asyncio.run_coroutine_threadsafe(called(), server.loop).result(20)


def test_it_is_not_ready_before_all_is_loaded(server):
    coordinator = server.server.status.groups.coordinator
    on_loop(server, coordinator.resign, 2)
    on_loop(server, coordinator.resign, 3)
    on_loop(server, coordinator.begin_load, 3)
    assert get(server, "/readyz") == (
        503,
        "2 of 4 log partitions are loaded\nlog partition 2 is waiting to be loaded\nlog partition 3: 100% loaded\n",
    )
    assert get(server, "/healthz")[0] == 200
    server.server.status.is_stopping = True
    assert get(server, "/readyz") == (503, "stopping\n")


def test_it_is_not_ready_before_the_directory_is_open():
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        made = ServerStatus(loop, OpenConnections(ConnectionLimits()), RequestMetrics())
        assert readiness(made) == (False, "the log directory is still being opened")
    assert health(made) == (False, "the server has stopped")


# --------------------------------------------------------------------------------------------- HTTP


def test_other_paths_and_methods_are_refused(server):
    assert get(server, "/")[0] == 404
    assert get(server, "/healthz", "POST")[0] == 405
    assert get(server, "/metrics", "DELETE")[0] == 405


def test_those_who_say_nothing_keep_nobody_out_for_ever(server):
    address = server.server.metrics_address
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(address, timeout=20))
            for _ in range(monitoring.REQUESTS_MAX)
        ]
        with socket.create_connection(address, timeout=20) as one_more:
            assert one_more.recv(1) == b""
        silent[0].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert silent[0].recv(20).startswith(b"HTTP/1.0 200")


def test_a_request_that_does_not_end_is_cut(server, monkeypatch):
    monkeypatch.setattr(monitoring, "REQUEST_SECONDS", 0.05)
    with socket.create_connection(server.server.metrics_address, timeout=20) as slow:
        slow.sendall(b"GET /healthz HTTP/1.0\r\na:")
        while slow.recv(100):
            pass
    monkeypatch.undo()
    assert get(server, "/healthz")[0] == 200


def test_an_address_that_is_taken_is_an_error(server, tmp_path):
    host, port = server.server.metrics_address
    with pytest.raises(OSError, match="in use"):
        RunningServer(tmp_path / "other", metrics_host=host, metrics_port=port)


def test_off_loopback_only_with_leave(tmp_path):
    with pytest.raises(ConfigError, match=r"listening on 0\.0\.0\.0 needs --allow-any-host"):
        RunningServer(tmp_path / "data", metrics_host="0.0.0.0")


def test_nothing_listens_after_a_stop(tmp_path):
    with RunningServer(tmp_path / "data", **METRICS_ANYWHERE) as running:
        address = running.server.metrics_address
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=20)


# -------------------------------------------------------------------------------------------- parts


def test_a_duration_is_counted_in_its_bucket():
    measured = Histogram()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, 59.0, 61.0):
        measured.observe(seconds)
    cumulative = dict(measured.cumulative())
    assert cumulative[BOUNDS[0]] == 2
    assert cumulative[BOUNDS[1]] == 3
    assert cumulative[60.0] == 4
    assert cumulative[float("inf")] == 5
    assert measured.seconds == pytest.approx(120.0, abs=0.01)
