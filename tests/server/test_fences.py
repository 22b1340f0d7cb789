"""Fences of a manager that is served: clients of the old generation are refused, at the front as in handlers."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from offsetlog.errors import (
    ArgumentTypeError,
    ClosedError,
    CommitTimeoutError,
    InvalidArgumentError,
    LimitError,
    NotCoordinatorError,
    OffsetError,
)
from offsetlog.manager.async_manager import AsyncOffsetManager
from offsetlog.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from offsetlog.types import OffsetAndMetadata, TopicPartition

from .running import SECONDS, Client, RunningServer
from .test_front_failures import on_loop, serve

GROUP = "billing"
ORDERS = TopicPartition("orders", 0)
UNKNOWN_MEMBER_ID = 25
RANGE = (JoinGroupRequestProtocol("range", b"r"),)


def join_request(member: str) -> JoinGroupRequest:
    return JoinGroupRequest(GROUP, 10_000, 60_000, member, None, "consumer", RANGE)


def sync_request(member: str, generation: int) -> SyncGroupRequest:
    given = (SyncGroupRequestAssignment(member, b"all of it"),)
    return SyncGroupRequest(GROUP, generation, member, None, "consumer", "range", given)


def member_of(client: Client) -> tuple[str, int]:
    """A member whose group is stable, and its generation."""
    member = client.ask(join_request(""), 9).member_id
    generation = client.ask(join_request(member), 9).generation_id
    assert client.ask(sync_request(member, generation), 5).error_code == 0
    return member, generation


def commit(client: Client, offset: int, member: str, generation: int) -> int:
    position = OffsetCommitRequestTopicPartition(0, offset, -1)
    topic = OffsetCommitRequestTopic("orders", partitions=(position,))
    request = OffsetCommitRequest(GROUP, generation, member, topics=(topic,))
    return client.ask(request, 9).topics[0].partitions[0].error_code


@pytest.fixture(params=["process", "disk"])
def running(tmp_path, request):
    with serve(tmp_path / "data", request.param) as running:
        yield running


@pytest.fixture
def manager(running):
    return running.server.node.manager


@pytest.fixture
def client(running):
    with Client(running.address) as client:
        yield client


def test_the_old_generation_is_refused_at_the_front_too(running, manager, client):
    member, generation = member_of(client)
    front = running.server.node.front
    assert commit(client, 1, member, generation) == 0
    before = front.commits
    assert commit(client, 2, member, generation) == 0
    assert front.commits == before + 1    # it is admitted there
    assert manager.fence(GROUP, {ORDERS: OffsetAndMetadata(100, "reset")}) == generation + 1
    assert commit(client, 3, member, generation) == UNKNOWN_MEMBER_ID
    assert client.ask(HeartbeatRequest(GROUP, generation, member), 4).error_code == UNKNOWN_MEMBER_ID
    position = manager.fetch(GROUP)[ORDERS]
    assert (position.offset, position.metadata) == (100, "reset")
    assert front.commits == before + 1
    again, newer = member_of(client)
    assert newer == generation + 2
    assert commit(client, 4, again, newer) == 0


def test_record_and_positions_are_one_batch(manager, client):
    member_of(client)
    number = manager.partition_for(GROUP)
    end = manager.positions(number).log_end
    manager.fence(GROUP, {ORDERS: 5, TopicPartition("orders", 1): 6})
    buffer = bytearray(10_000)
    size = manager.read_into(number, end, buffer)
    assert int.from_bytes(buffer[57:61], "big") == 3    # records of the first batch
    assert 12 + int.from_bytes(buffer[8:12], "big") == size
    (value,) = (value for key, value in manager.group_log.records(number) if GROUP.encode() in key)
    assert value[-4:] == bytes(4)    # no members


def test_members_that_wait_in_a_join_are_answered(running, manager, client):
    member_of(client)
    with Client(running.address) as other, concurrent.futures.ThreadPoolExecutor(1) as pool:
        newcomer = other.ask(join_request(""), 9).member_id
        waiting = pool.submit(other.ask, join_request(newcomer), 9)
        groups = running.server.node.groups

        def is_joined() -> bool:
            group = groups.coordinator.group(GROUP)
            return newcomer in group.members

        while not on_loop(running, is_joined):
            assert not waiting.done()
        manager.fence(GROUP)
        assert waiting.result(SECONDS).error_code == UNKNOWN_MEMBER_ID


def test_commits_beside_fences_never_stand_above_them(running, manager, client):
    """A client commits as fast as it can; the position of a fence stays until a new member commits."""
    for turn in range(20):
        member, generation = member_of(client)
        with Client(running.address) as other, concurrent.futures.ThreadPoolExecutor(1) as pool:

            def commits(other=other, member=member, generation=generation) -> int:
                offset = 0
                while commit(other, offset, member, generation) == 0:
                    offset += 1
                return offset

            front = running.server.node.front
            wanted = front.commits + 1 + turn % 5
            done = pool.submit(commits)
            while front.commits < wanted:
                assert not done.done()
            assert manager.fence(GROUP, {ORDERS: 1_000_000 + turn}) == generation + 1
            assert done.result(SECONDS) > turn % 5
        assert manager.fetch(GROUP)[ORDERS].offset == 1_000_000 + turn


def test_a_fence_is_there_after_a_restart(tmp_path):
    with serve(tmp_path / "data") as running, Client(running.address) as client:
        member, generation = member_of(client)
        fenced = running.server.node.manager.fence(GROUP, {ORDERS: 9})
    with RunningServer(tmp_path / "data", "disk", 2) as again, Client(again.address) as client:
        while (error := commit(client, 10, member, generation)) == 14:
            pass
        assert error == UNKNOWN_MEMBER_ID
        assert again.server.node.manager.fetch(GROUP)[ORDERS].offset == 9
        assert again.server.node.manager.fence(GROUP) == fenced + 1


def test_it_is_awaited_in_the_loop_of_the_server(running, manager, client):
    _, generation = member_of(client)

    async def fenced() -> int:
        return await AsyncOffsetManager(manager).fence(GROUP, {ORDERS: 3})

    assert asyncio.run_coroutine_threadsafe(fenced(), running.loop).result(SECONDS) == generation + 1


def test_what_is_wrong_is_said_and_changes_nothing(running, manager, client):
    member, generation = member_of(client)
    with pytest.raises(OffsetError):
        manager.fence(GROUP, {ORDERS: -1})
    with pytest.raises(ArgumentTypeError):
        manager.fence(5)
    with pytest.raises(InvalidArgumentError):
        manager.fence(GROUP, 5)
    with pytest.raises(InvalidArgumentError):
        manager.fence(GROUP, {ORDERS: 1}, timeout=-1)
    assert commit(client, 1, member, generation) == 0
    assert manager.fetch(GROUP)[ORDERS].offset == 1


def test_a_group_of_another_kind_and_one_in_its_last_generation_are_refused(running, manager):
    coordinator = running.server.node.groups.coordinator
    number = manager.partition_for(GROUP)

    def plant() -> None:
        from offsetlog.coordinator.coordinator import OtherGroup
        from offsetlog.coordinator.group_record import GroupRecord

        last = next(name for name in map(str, range(20)) if manager.partition_for(name) == number)
        found.append(last)
        coordinator.loaded(number, [(last, GroupRecord("", 2**31 - 1))], 0.0, {GROUP: OtherGroup("share", False)})

    found: list[str] = []
    on_loop(running, plant)
    with pytest.raises(InvalidArgumentError, match="not a classic group"):
        manager.fence(GROUP)
    with pytest.raises(LimitError, match="at its maximum"):
        manager.fence(found[0])


def test_a_fence_that_is_not_written_in_time_says_so_and_may_yet_count(running, manager, client, monkeypatch):
    member_of(client)
    groups = running.server.node.groups
    held = []
    monkeypatch.setattr(groups, "_written", lambda *arguments, **more: held.append((arguments, more)))
    with pytest.raises(CommitTimeoutError, match="may still take effect"):
        manager.fence(GROUP, {ORDERS: 4}, timeout=0.01)
    monkeypatch.undo()
    while not held:
        pass
    on_loop(running, lambda: [groups._written(*arguments, **more) for arguments, more in held])
    assert manager.fetch(GROUP)[ORDERS].offset == 4


def test_a_stop_refuses_the_fences_that_wait(running, manager, client, monkeypatch):
    member_of(client)
    monkeypatch.setattr(running.server.node.groups, "_written", lambda *_, **__: None)
    waiting = manager.fence_async(GROUP)
    on_loop(running, running.server.node.groups.close)
    with pytest.raises(NotCoordinatorError):
        waiting.result(SECONDS)
    with pytest.raises(NotCoordinatorError):
        manager.fence(GROUP)


def test_after_a_stop_there_is_nobody_to_ask(tmp_path):
    with serve(tmp_path / "data") as running:
        manager = running.server.node.manager
    with pytest.raises(ClosedError):
        manager.fence(GROUP)
