"""A server whose log partitions have followers: answers wait for W, which the test moves."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from offsetlog.types import TopicPartition

from .running import SECONDS, Client, RunningServer
from .test_fences import commit as commit_of_member
from .test_fences import member_of
from .test_front_failures import commit, committed, fetch, fetched, groups_of_both, on_loop

ORDERS = TopicPartition("orders", 0)
NOT_COORDINATOR, NOT_AVAILABLE, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 16, 15, 25, 27


class Replicated:
    """A server that leads two log partitions of three replicas each.

    Args:
        path: its log directory.
        seconds: that an answer waits for W.

    Attributes:
        follows: whether W follows each write at once.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        more = {"replication_factor": 3, "commit_timeout": seconds}
        self.running = RunningServer(path, "replicas", 2, kept=more)
        self.manager = self.running.server.node.manager
        self.front = self.running.server.node.front
        self.follows = True
        self.manager.listen_to_writes(self._written)
        with self.client() as client:
            client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),), 1000), 7)

    def client(self) -> Client:
        return Client(self.running.address)

    def _written(self, number: int) -> None:
        if self.follows:
            self.settle(number)

    def settle(self, number: int) -> None:
        """All that is written in a log partition counts from now on."""
        self.manager.advance(number, self.manager.leader_epoch(number), self.log_end(number))

    def log_end(self, number: int) -> int:
        return self.manager.positions(number).log_end

    def hold(self, client: Client, *groups: str) -> None:
        """Has the front answer for groups, whose position is 1, and W stand from now on."""
        for group in groups:
            while committed_by(client, group, 1) == 14:
                pass
        self.follows = False

    def wait_for_write(self, number: int, end: int) -> None:
        while self.log_end(number) < end:
            pass


def commit_above_w(replicated: Replicated, client: Client) -> tuple[str, str, int]:
    """Sends a commit of 10 that stays above W.

    Returns its group, one of another log partition, both of which had position 1, and the number of
    the group's log partition.
    """
    group, other = groups_of_both(replicated.running)
    replicated.hold(client, group, other)
    number = replicated.manager.partition_for(group)
    end = replicated.log_end(number)
    client.send(commit(group, 10))
    replicated.wait_for_write(number, end + 1)
    return group, other, number


def committed_by(client: Client, group: str, offset: int) -> int:
    client.send(commit(group, offset))
    return committed(client.receive())[1]


def is_answered(client: Client) -> bool:
    return bool(select.select([client.socket], [], [], 0)[0])


def stable(number: int, *groups: str) -> bytes:
    topics = (OffsetFetchRequestGroupTopic("orders", partition_indexes=(0,)),)
    asked = tuple(OffsetFetchRequestGroup(group, topics=topics) for group in groups)
    return encode_request(OffsetFetchRequest(groups=asked, require_stable=True), 9, number, "test")


def found(frame: bytes | None) -> list[tuple[int, int]]:
    """Error and offset of each group."""
    assert frame is not None
    _, answer = decode_response(OffsetFetchResponse, 9, frame)
    return [
        (group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1)
        for group in answer.groups
    ]


@pytest.fixture
def replicated(tmp_path):
    made = Replicated(tmp_path / "data", 3600.0)
    yield made
    made.running.stop()


@pytest.fixture
def impatient(tmp_path):
    """Whoever waits for W waits a moment."""
    made = Replicated(tmp_path / "data", 0.1)
    yield made
    made.running.stop()


def test_commits_at_the_front_are_answered_when_w_has_passed_them(replicated):
    with replicated.client() as client, replicated.client() as other:
        group, second = groups_of_both(replicated.running)
        replicated.hold(client, group, second)
        number = replicated.manager.partition_for(group)
        before, end = replicated.front.commits, replicated.log_end(number)
        client.send(b"".join(commit(group, 10 + i, i) for i in range(3)))
        replicated.wait_for_write(number, end + 3)
        assert replicated.front.commits == before + 3
        other.send(fetch(group))
        assert fetched(other.receive())[1] == 1
        assert not is_answered(client)
        replicated.settle(number)
        assert [committed(client.receive()) for _ in range(3)] == [(i, 0) for i in range(3)]
        other.send(fetch(group))
        assert fetched(other.receive())[1] == 12


def test_a_commit_at_the_front_that_waits_too_long_is_answered_and_not_undone(impatient):
    with impatient.client() as client:
        group, other = groups_of_both(impatient.running)
        impatient.hold(client, group, other)
        before = impatient.front.commits
        # A fetch between them, so that the run is taken apart.
        client.send(commit(group, 10, 1) + fetch(other, 2) + commit(group, 11, 3))
        assert committed(client.receive()) == (1, NOT_AVAILABLE)
        assert fetched(client.receive()) == (2, 1)
        assert committed(client.receive()) == (3, NOT_AVAILABLE)
        assert impatient.front.commits == before + 2
        client.send(fetch(group))
        assert fetched(client.receive())[1] == 1
        impatient.settle(impatient.manager.partition_for(group))
        client.send(fetch(group))
        assert fetched(client.receive())[1] == 11
        assert committed_by(client, group, 12) == NOT_AVAILABLE


def test_a_commit_of_a_handler_that_waits_too_long_is_answered_and_not_undone(impatient):
    with impatient.client() as client:
        group, _ = groups_of_both(impatient.running)
        impatient.hold(client, group)
        before = impatient.front.commits
        new = next(f"new-{i}" for i in range(20) if impatient.manager.partition_for(f"new-{i}") == 0)
        assert committed_by(client, new, 5) == NOT_AVAILABLE
        assert impatient.front.commits == before
        assert impatient.manager.fetch(new) == {}
        impatient.settle(0)
        assert impatient.manager.fetch(new)[ORDERS].offset == 5


def test_a_fetch_of_what_is_stable_waits_for_w(replicated):
    with replicated.client() as client, replicated.client() as reader:
        group, other, number = commit_above_w(replicated, client)
        # Without the flag the last stable one is answered, and so is a log partition where nothing waits.
        reader.send(fetch(group))
        assert fetched(reader.receive())[1] == 1
        reader.send(stable(1, other))
        assert found(reader.receive()) == [(0, 1)]
        reader.send(stable(2, group) + fetch(group, 3))
        # Later requests on the connection wait, too.
        on_loop(replicated.running, lambda: None)
        assert not is_answered(reader)
        replicated.settle(number)
        assert found(reader.receive()) == [(0, 10)]
        assert fetched(reader.receive()) == (3, 10)
        assert committed(client.receive())[1] == 0


@pytest.mark.parametrize("version", [7, 8, 9])
def test_every_version_with_the_flag_waits(replicated, version):
    with replicated.client() as client, replicated.client() as reader:
        group, _, number = commit_above_w(replicated, client)
        topics = (OffsetFetchRequestGroupTopic("orders", partition_indexes=(0,)),)
        groups = (OffsetFetchRequestGroup(group, topics=topics),)
        old = OffsetFetchRequest(group, (OffsetFetchRequestTopic("orders", (0,)),), require_stable=True)
        request = old if version < 8 else OffsetFetchRequest(groups=groups, require_stable=True)
        reader.send(encode_request(request, version, 1, "test"))
        on_loop(replicated.running, lambda: None)
        assert not is_answered(reader)
        replicated.settle(number)
        _, answer = decode_response(OffsetFetchResponse, version, reader.receive())
        topic = answer.topics[0] if version < 8 else answer.groups[0].topics[0]
        assert topic.partitions[0].committed_offset == 10


def test_a_fetch_of_what_is_stable_that_waits_too_long_fails_for_its_groups_alone(impatient):
    with impatient.client() as client, impatient.client() as reader:
        group, other = groups_of_both(impatient.running)
        impatient.hold(client, group, other)
        assert committed_by(client, group, 10) == NOT_AVAILABLE
        reader.send(stable(1, group, other))
        assert found(reader.receive()) == [(NOT_AVAILABLE, -1), (0, 1)]
        impatient.settle(impatient.manager.partition_for(group))
        reader.send(stable(2, group, other))
        assert found(reader.receive()) == [(0, 10), (0, 1)]


def test_a_fetch_that_waits_is_refused_when_another_leads(replicated):
    with replicated.client() as client, replicated.client() as reader:
        group, _, number = commit_above_w(replicated, client)
        reader.send(stable(1, group))
        on_loop(replicated.running, lambda: None)
        on_loop(replicated.running, lambda: replicated.running.server.node.groups.coordinator.resign(number))
        replicated.manager.resign(number, replicated.manager.leader_epoch(number) + 1).result(SECONDS)
        assert found(reader.receive()) == [(NOT_COORDINATOR, -1)]
        assert committed(client.receive())[1] == NOT_COORDINATOR


def test_a_fence_counts_when_w_has_passed_it_and_nobody_commits_above_it(replicated):
    with replicated.client() as client:
        member, generation = member_of(client)
        assert commit_of_member(client, 1, member, generation) == 0
        assert commit_of_member(client, 2, member, generation) == 0
        replicated.follows = False
        manager, number = replicated.manager, replicated.manager.partition_for("billing")
        end = replicated.log_end(number)
        fence = manager.fence_async("billing", {ORDERS: 100})
        replicated.wait_for_write(number, end + 2)
        before = replicated.front.commits
        assert commit_of_member(client, 3, member, generation) == REBALANCE_IN_PROGRESS
        assert (replicated.front.commits, replicated.log_end(number)) == (before, end + 2)
        assert manager.fetch("billing")[ORDERS].offset == 2
        assert not fence.done()
        replicated.settle(number)
        assert fence.result(SECONDS) == generation + 1
        assert manager.fetch("billing")[ORDERS].offset == 100
        assert commit_of_member(client, 4, member, generation) == UNKNOWN_MEMBER_ID


def test_a_stop_ends_the_connections_that_wait_for_a_w_that_never_comes(tmp_path):
    replicated = Replicated(tmp_path / "data", 3600.0)
    with replicated.client() as client, replicated.client() as reader:
        group, _, _ = commit_above_w(replicated, client)
        reader.send(stable(1, group))
        on_loop(replicated.running, lambda: None)
        replicated.running.stop()
        assert client.receive() is None
        assert reader.receive() is None
    # It was never acknowledged, and is there to be judged by who leads next.
    with RunningServer(tmp_path / "data", "disk", 2) as alone, Client(alone.address) as client:
        client.send(fetch(group))
        while (answer := fetched_or_none(client.receive())) is None:
            client.send(fetch(group))
        assert answer == 10


def fetched_or_none(frame: bytes | None) -> int | None:
    """The offset; None: the log partition loads."""
    assert frame is not None
    _, answer = decode_response(OffsetFetchResponse, 9, frame)
    (group,) = answer.groups
    return None if group.error_code else group.topics[0].partitions[0].committed_offset
