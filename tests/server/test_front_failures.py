"""Answers of the native front that wait for the disk: failures, connections that end, stops, limits, memory."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.faults.fault_fs import FaultFileSystem

from offsetlog.error_codes import COORDINATOR_LOAD_IN_PROGRESS
from offsetlog.errors import PartitionFailedError
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DescribeClusterRequest,
    DescribeClusterResponse,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
)
from offsetlog.server.clock import LoopClock
from offsetlog.server.connection_limits import ConnectionLimits
from offsetlog.server.handlers import HANDLERS

from .running import SECONDS, Client, RunningServer


def commit(group: str, offset: int, number: int = 0, metadata: str = "", version: int = 9) -> bytes:
    position = OffsetCommitRequestTopicPartition(0, offset, -1, committed_metadata=metadata)
    topic = OffsetCommitRequestTopic("orders", partitions=(position,))
    return encode_request(OffsetCommitRequest(group, topics=(topic,)), version, number, "test")


def fetch(group: str, number: int = 0, partitions: int = 1) -> bytes:
    topic = OffsetFetchRequestGroupTopic("orders", partition_indexes=(0,) * partitions)
    asked = OffsetFetchRequestGroup(group, topics=(topic,))
    return encode_request(OffsetFetchRequest(groups=(asked,)), 9, number, "test")


def committed(frame: bytes | None) -> tuple[int, int]:
    """The number of an answered commit, and its error."""
    assert frame is not None
    number, answer = decode_response(OffsetCommitResponse, 9, frame)
    return number, answer.topics[0].partitions[0].error_code


def fetched(frame: bytes | None) -> tuple[int, int]:
    assert frame is not None
    number, answer = decode_response(OffsetFetchResponse, 9, frame)
    return number, answer.groups[0].topics[0].partitions[0].committed_offset


def fetched_when_loaded(client: Client, group: str) -> int:
    while True:
        client.send(fetch(group))
        frame = client.receive()
        assert frame is not None
        _, answer = decode_response(OffsetFetchResponse, 9, frame)
        if answer.groups[0].error_code != COORDINATOR_LOAD_IN_PROGRESS.code:
            return fetched(frame)[1]


def serve(path: Path, durability: str = "disk", **more) -> RunningServer:
    running = RunningServer(path, durability, 2, **more)
    with Client(running.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),), 1000), 7)
    return running


def groups_of_both(running: RunningServer) -> tuple[str, str]:
    """A group in each of the two log partitions."""
    found = {running.server.node.manager.partition_for(f"group-{i}"): f"group-{i}" for i in range(20)}
    return found[0], found[1]


def admit(client: Client, *groups: str) -> None:
    for group in groups:
        client.send(commit(group, 1))
        assert committed(client.receive())[1] == 0


def on_loop(running: RunningServer, work):
    async def called():
        return work()

    return asyncio.run_coroutine_threadsafe(called(), running.loop).result(SECONDS)


def test_a_flush_that_fails_refuses_the_commits_of_its_log_alone(tmp_path):
    (tmp_path / "root").mkdir()
    fs = FaultFileSystem(tmp_path / "root")
    running = serve(tmp_path / "root" / "data", fs=fs)
    try:
        with Client(running.address) as client:
            groups = groups_of_both(running)
            admit(client, *groups)
            before = running.server.node.front.commits
            metrics = running.server.node.metrics
            counted = (metrics.commits, metrics.positions)
            # Fetches between them, so that whole runs are taken apart.
            wanted = [groups[i % 2] for i in range(20)]
            frames = [commit(group, 10 + i, 2 * i) + fetch(group, 2 * i + 1) for i, group in enumerate(wanted)]
            fs.fail_flush(fs.flushes + 1, errno.EIO)
            client.send(b"".join(frames))
            errors = []
            for i in range(len(wanted)):
                number, error = committed(client.receive())
                assert number == 2 * i
                errors.append(error)
                assert fetched(client.receive())[0] == 2 * i + 1
            assert running.server.node.front.commits > before
            of_group = [set(errors[::2]), set(errors[1::2])]
            assert [len(each) for each in of_group] == [1, 1]
            assert {0} in of_group
            assert of_group[0] != of_group[1]
            # Those of the sound log are counted, also where they share a run with refused ones.
            added = (metrics.commits - counted[0], metrics.positions - counted[1])
            assert added == (errors.count(0), errors.count(0))
            (refused,) = set(errors) - {0}
            assert metrics.errors[8, refused] == len(errors) - errors.count(0)
            # The other log goes on, and the failed one refuses.
            sound = groups[of_group.index({0})]
            admit(client, sound)
            client.send(commit(groups[1 - of_group.index({0})], 99))
            assert committed(client.receive())[1] != 0
    finally:
        # It writes what can be written, and says that a log failed before.
        with pytest.raises(PartitionFailedError):
            running.stop()


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_connection_that_ends_while_its_answers_wait_leaves_nothing(tmp_path, durability):
    with serve(tmp_path / "data", durability) as running, Client(running.address) as other:
        admit(other, "group")
        for i in range(20):
            with Client(running.address) as client:
                client.send(b"".join(commit("group", 100 * i + each) for each in range(50)))
        # The last one may be read after this one's: what it has committed is whole or not there.
        other.send(commit("other", 1, 5) + fetch("group", 6))
        assert committed(other.receive()) == (5, 0)
        number, offset = fetched(other.receive())
        assert number == 6
        assert 1 <= offset < 2000


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_pipelined_commits_above_the_limit_in_flight_are_all_answered(tmp_path, durability):
    limits = ConnectionLimits(requests_in_flight_max=7)
    with serve(tmp_path / "data", durability, limits=limits) as running, Client(running.address) as client:
        admit(client, "group")
        frames = [commit("group", i, i) if i % 3 else encode_request(ApiVersionsRequest(), 0, i) for i in range(500)]
        client.send(b"".join(frames))
        for i in range(500):
            frame = client.receive()
            assert frame is not None
            assert int.from_bytes(frame[:4], "big") == i
            if i % 3:
                assert committed(frame) == (i, 0)


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_stop_answers_the_commits_that_wait(tmp_path, durability):
    running = serve(tmp_path / "data", durability)
    with Client(running.address) as client:
        admit(client, "group")
        client.send(b"".join(commit("group", 10 + i, i) for i in range(200)))
        first = client.receive()
        running.stop()
        answers = [committed(first)]
        while (frame := client.receive()) is not None:
            answers.append(committed(frame))
    assert answers == [(i, 0) for i in range(len(answers))]
    with RunningServer(tmp_path / "data", durability, 2) as again, Client(again.address) as client:
        assert fetched_when_loaded(client, "group") >= 10 + len(answers) - 1


def test_a_client_that_does_not_read_is_not_read_from_and_gets_all_answers(tmp_path):
    with serve(tmp_path / "data", "process") as running, Client(running.address) as client:
        client.send(commit("group", 3, 0, "m" * 4000))
        assert committed(client.receive())[1] == 0
        front = running.server.node.front
        # 500 answers of 400 KB each: far more than a socket holds.
        frames = [fetch("group", number, 100) for number in range(500)]
        sender = threading.Thread(target=client.send, args=(b"".join(frames),))
        sender.start()
        admitted = 0
        with Client(running.address) as other:
            for _ in range(50):
                admit(other, "other")
                admitted = front.fetches
        assert admitted < 500
        for number in range(500):
            assert fetched(client.receive()) == (number, 3)
        sender.join()


def test_large_frames_give_their_memory_back(tmp_path):
    limits = ConnectionLimits(queued_request_bytes_max=200_000)
    with serve(tmp_path / "data", limits=limits) as running, Client(running.address) as client:
        admit(client, "group")
        front = running.server.node.front
        before = front.fetches
        for number in range(20):
            client.send(fetch("group", number, 40_000)[:100])
            client.send(fetch("group", number, 40_000)[100:])
            assert fetched(client.receive()) == (number, 1)
        assert front.fetches == before + 20
        left = on_loop(running, lambda: running.server._connections.memory.left)
        assert left == 200_000


def test_commits_that_wait_for_the_disk_hold_memory(tmp_path):
    limits = ConnectionLimits(queued_request_bytes_max=20_000)
    running = serve(tmp_path / "data", limits=limits)
    with running, Client(running.address) as client, Client(running.address) as other:
        memory = running.server._connections.memory
        admit(client, "group")
        least: list[int] = []
        add = memory.add
        memory.add = lambda size: (add(size), least.append(memory.left))[0]
        frames = [commit("group", number, number, "m" * 1000) for number in range(400)]
        client.send(b"".join(frames))
        for number in range(len(frames)):
            assert committed(client.receive()) == (number, 0)
        # More than there is was never let in by far: a read has no more than 256 KiB.
        assert -(256 << 10) - 20_000 <= min(least) < 20_000 - 1000
        admit(other, "other")
        client.send(b"".join(frames))
        client.close()
        admit(other, "other")
        end = time.monotonic() + SECONDS
        while on_loop(running, lambda: memory.left) != 20_000:
            assert time.monotonic() < end


@pytest.fixture
def is_failing(monkeypatch):
    """While it is set the time of day cannot be asked for, which a commit of version 3 does."""
    failing = threading.Event()
    now_ms = LoopClock.now_ms

    def asked(clock: LoopClock) -> int:
        if failing.is_set():
            raise RuntimeError("no time of day")
        return now_ms(clock)

    monkeypatch.setattr(LoopClock, "now_ms", asked)
    return failing


def test_a_run_that_fails_midway_leaves_no_answers_to_others(tmp_path, is_failing):
    with serve(tmp_path / "data") as running, Client(running.address) as other:
        admit(other, "group")
        errors: list[dict[str, Any]] = []
        running.loop.set_exception_handler(lambda _, context: errors.append(context))
        is_failing.set()
        with Client(running.address) as client:
            client.send(commit("group", 5, 1) + commit("group", 6, 2, version=3))
            assert client.receive() is None
        is_failing.clear()
        other.send(commit("group", 7, 77))
        assert committed(other.receive()) == (77, 0)
        assert errors


def test_a_run_that_fails_after_it_was_held_ends_its_connection(tmp_path, monkeypatch, is_failing):
    # It is taken up again by the loop, and not by the transport, which would end the connection by itself.
    unanswered: list[Any] = []

    def wait(_, exchange) -> None:
        exchange.wait()
        unanswered.append(exchange)

    monkeypatch.setitem(HANDLERS, 60, wait)
    with serve(tmp_path / "data") as running, Client(running.address) as other:
        admit(other, "group")
        running.loop.set_exception_handler(lambda *_: None)
        is_failing.set()
        with Client(running.address) as client:
            client.send(encode_request(DescribeClusterRequest(), 0, 1, "test"))
            client.send(commit("group", 5, 2) + commit("group", 6, 3, version=3))
            end = time.monotonic() + SECONDS
            while not unanswered:
                assert time.monotonic() < end
            running.loop.call_soon_threadsafe(unanswered[0].reply, DescribeClusterResponse())
            assert int.from_bytes(client.receive()[:4], "big") == 1
            assert client.receive() is None
        is_failing.clear()
        other.send(commit("group", 7, 77))
        assert committed(other.receive()) == (77, 0)
