"""The fixtures' server, seen through plain frames: topics, groups, time, faults, stops."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from offsetlog.errors import ClosedError, InternalError, InvalidArgumentError
from offsetlog.protocol import APIS, Request, encode_request, encode_response
from offsetlog.protocol.messages import (
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from offsetlog.pytest.requests import REFUSED, refuse
from offsetlog.server.connection_limits import ConnectionLimits
from offsetlog.server.exchange import Exchange
from offsetlog.types import TopicPartition
from tests.server.batches import produced_batch
from tests.server.running import Client
from tests.server.topic_requests import NOW, fetch, produce

ORDERS = TopicPartition("orders", 0)
DAY = 24 * 3600


@pytest.fixture
def server(offsetlog_server):
    offsetlog_server.create_topic("orders", 2)
    return offsetlog_server


@pytest.fixture
def client(server):
    with Client((server.host, server.port)) as connected:
        yield connected


#: A subscription of version 0 to the topic "read".
READ = b"\0\0" + b"\0\0\0\1" + b"\0\4read" + b"\xff\xff\xff\xff"
#: The same, beside a topic that nobody can have.
READ_AND_NAMELESS = b"\0\0" + b"\0\0\0\2" + b"\0\4read" + b"\0\0" + b"\xff\xff\xff\xff"


def commit_of(group: str, offset: int, topic: str = "orders", **more) -> OffsetCommitRequest:
    partition = OffsetCommitRequestTopicPartition(0, offset, -1, committed_metadata="")
    return OffsetCommitRequest(
        group, topics=(OffsetCommitRequestTopic(topic, partitions=(partition,)),), **more
    )


def commit(client: Client, group: str, offset: int, **more) -> int:
    (topic,) = client.ask(commit_of(group, offset, **more), 9).topics
    return topic.partitions[0].error_code


def fetch_of(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),))


def member_of(
    client: Client, group: str, session_seconds: int = 10, subscription: bytes = b""
) -> tuple[str, int]:
    """A member of a stable group, and its generation."""
    protocol = JoinGroupRequestProtocol("range", subscription)
    join = JoinGroupRequest(
        group, session_seconds * 1000, 200_000, "", None, "consumer", (protocol,)
    )
    member_id = client.ask(join, 9).member_id
    generation = client.ask(join._replace(member_id=member_id), 9).generation_id
    assigned = (SyncGroupRequestAssignment(member_id, b"all"),)
    sync = SyncGroupRequest(group, generation, member_id, None, "consumer", "range", assigned)
    assert client.ask(sync, 5).error_code == 0
    return member_id, generation


def offsets(server, group: str) -> dict[TopicPartition, int]:
    return {key: position.offset for key, position in server.committed(group).items()}


# ------------------------------------------------------------------------------------ topics and groups


def test_topics_and_positions(server, client):
    topic = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),), False), 12).topics[0]
    assert len(topic.partitions) == 2
    with pytest.raises(InvalidArgumentError, match=r"topic 'orders' was not created: .*already exists"):
        server.create_topic("orders")
    with pytest.raises(InvalidArgumentError, match="was not created"):
        server.create_topic("small", configs={"retention.ms": "soon"})
    assert server.committed("billing") == {}
    assert commit(client, "billing", 42) == 0
    assert offsets(server, "billing") == {ORDERS: 42}


def test_groups_are_described(server, client):
    assert server.groups() == {}
    assert commit(client, "simple", 1) == 0
    member_of(client, "billing")
    groups = server.groups()
    assert groups["simple"] == ("Empty", "", ())
    assert groups["billing"] == ("Stable", "consumer", ("test",))


def test_another_server_goes_on_with_the_directory(offsetlog_server_factory):
    with offsetlog_server_factory(log_partitions=3) as first:
        first.create_topic("orders", 2)
        with Client((first.host, first.port)) as client:
            assert commit(client, "billing", 42) == 0
    first.stop()
    for call in (first.groups, lambda: first.advance(1), lambda: first.create_topic("more")):
        with pytest.raises(ClosedError):
            call()
    with offsetlog_server_factory(first.path) as second:
        assert offsets(second, "billing") == {ORDERS: 42}


def test_a_server_that_cannot_start_leaves_nothing(offsetlog_server_factory, tmp_path):
    before = threading.active_count()
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(Exception, match="file"):
        offsetlog_server_factory(tmp_path / "file")
    assert threading.active_count() == before


# ----------------------------------------------------------------------------------------------- time


def test_a_session_ends(server, client):
    member_id, generation = member_of(client, "billing", session_seconds=1800)
    beat = HeartbeatRequest("billing", generation, member_id)
    server.advance(1000)
    assert client.ask(beat, 4).error_code == 0
    server.advance(1000)
    assert client.ask(beat, 4).error_code == 0
    server.advance(1801)
    assert server.groups()["billing"].state == "Empty"
    assert client.ask(beat, 4).error_code == 25


def test_a_rebalance_does_not_wait_for_who_is_silent(server, client):
    member_id, _ = member_of(client, "billing", session_seconds=1800)
    with Client((server.host, server.port)) as other:
        protocols = (JoinGroupRequestProtocol("range"),)
        join = JoinGroupRequest("billing", 1_800_000, 200_000, "", None, "consumer", protocols)
        given = other.ask(join, 9).member_id
        answers = []
        waiting = threading.Thread(
            target=lambda: answers.append(other.ask(join._replace(member_id=given), 9))
        )
        waiting.start()
        until(lambda: server.groups()["billing"].state == "PreparingRebalance")
        server.advance(100)
        assert not answers
        server.advance(101)
        waiting.join(20)
    assert [each.member_id for each in answers[0].members] == [given]
    assert client.ask(HeartbeatRequest("billing", 1, member_id), 4).error_code == 25


def test_positions_expire(server, client):
    assert commit(client, "old", 1) == 0
    server.advance(4 * DAY)
    assert commit(client, "young", 2) == 0
    server.advance(4 * DAY)
    assert offsets(server, "old") == {}
    assert offsets(server, "young") == {ORDERS: 2}
    assert client.ask(fetch_of("old"), 9).groups[0].topics == ()
    server.advance(4 * DAY)
    assert server.groups() == {}


def test_records_of_topics_go_when_they_are_old(server, client):
    server.create_topic("kept", configs={"retention.ms": "-1"})
    for topic in ("orders", "kept"):
        assert produce(client, produced_batch(3, timestamp=NOW), topic=topic).error_code == 0

    def starts() -> list[int]:
        return [fetch(client, 3, topic=topic).log_start_offset for topic in ("orders", "kept")]

    server.advance(6 * DAY)
    assert starts() == [0, 0]
    server.advance(2 * DAY)
    assert starts() == [3, 0]
    assert fetch(client, 0).error_code == 1
    directory = server.path / "orders-0"
    assert len(list(directory.glob("*.log.deleted"))) == 1
    server.advance(60)
    assert not list(directory.glob("*.deleted"))


def test_positions_of_a_group_expire_after_its_last_member(server, client):
    member_id, generation = member_of(client, "billing", session_seconds=1800)
    assert (
        commit(client, "billing", 7, generation_id_or_member_epoch=generation, member_id=member_id)
        == 0
    )
    # The session ends after half an hour, and the week begins then.
    server.advance(7 * DAY + 900)
    assert server.groups()["billing"].state == "Empty"
    assert offsets(server, "billing") == {ORDERS: 7}
    server.advance(1000)
    assert offsets(server, "billing") == {}


@pytest.mark.parametrize("subscription", [READ, READ_AND_NAMELESS], ids=["one", "nameless"])
def test_of_a_group_with_members_those_positions_expire_that_nobody_reads(offsetlog_server_factory, subscription):
    with offsetlog_server_factory(retention_seconds=600) as server:
        server.create_topic("orders")
        server.create_topic("read")
        with Client((server.host, server.port)) as client:
            member_id, generation = member_of(client, "billing", 1800, subscription=subscription)
            member = {"generation_id_or_member_epoch": generation, "member_id": member_id}
            for request in (commit_of("billing", 7, **member), commit_of("billing", 8, topic="read", **member)):
                assert client.ask(request, 9).topics[0].partitions[0].error_code == 0
            server.advance(590)
            assert len(offsets(server, "billing")) == 2
            server.advance(20)
            assert offsets(server, "billing") == {TopicPartition("read", 0): 8}
            # Its member was not disturbed.
            assert client.ask(HeartbeatRequest("billing", generation, member_id), 4).error_code == 0
            assert server.groups()["billing"].state == "Stable"


def test_a_check_that_fails_does_not_keep_its_groups_from_changing(server, client, monkeypatch):
    assert commit(client, "old", 1) == 0
    expiry = server._manager.group_expiry
    expire = expiry.expire

    def fail(*_) -> None:
        raise RuntimeError("nobody had thought of this")

    monkeypatch.setattr(expiry, "expire", fail)
    with pytest.raises(InternalError, match="nobody had thought of this"):
        server.advance(8 * DAY)
    monkeypatch.setattr(expiry, "expire", expire)
    member_of(client, "old")
    server.advance(8 * DAY)
    assert offsets(server, "old") == {}


def test_what_expired_is_gone_after_a_restart(offsetlog_server_factory, tmp_path):
    with offsetlog_server_factory(tmp_path / "data") as server:
        server.create_topic("orders")
        with Client((server.host, server.port)) as client:
            assert commit(client, "old", 1) == 0
            server.advance(8 * DAY)
            assert commit(client, "new", 2) == 0
    with offsetlog_server_factory(tmp_path / "data") as server:
        assert set(server.groups()) == {"new"}


def test_a_manager_of_a_server_expires_through_the_coordinator(server, client):
    assert commit(client, "old", 1) == 0
    server._clock.offset += 8 * DAY
    server._clock.now_ms()
    assert server._manager.expire() == 1
    assert server.groups() == {}


def test_a_fence_removes_the_members_and_sets_positions(server, client):
    member_id, generation = member_of(client, "billing")
    own = {"generation_id_or_member_epoch": generation, "member_id": member_id}
    assert commit(client, "billing", 7, **own) == 0
    assert server.fence("billing", {ORDERS: 3}) == generation + 1
    assert commit(client, "billing", 8, **own) == 25
    assert offsets(server, "billing") == {ORDERS: 3}
    assert server.groups()["billing"] == ("Empty", "consumer", ())
    with pytest.raises(InvalidArgumentError):
        server.fence("billing", {ORDERS: -1})
    assert server.fence("billing") == generation + 2
    assert offsets(server, "billing") == {ORDERS: 3}
    assert server.fence("new", {ORDERS: 1}) == 1
    server.stop()
    with pytest.raises(ClosedError):
        server.fence("billing")


def test_nothing_expires_without_retention(offsetlog_server_factory):
    with offsetlog_server_factory(retention_seconds=None) as server:
        server.create_topic("orders")
        with Client((server.host, server.port)) as client:
            assert commit(client, "billing", 42) == 0
            server.advance(5000 * DAY)
        assert offsets(server, "billing") == {ORDERS: 42}


def test_connections_are_idle_by_real_time(server, client):
    connections = server._server._connections

    def look_for_idle_ones() -> None:
        server._loop.call_soon_threadsafe(server._server._end_idle, server._loop)

    assert commit(client, "billing", 1) == 0
    server.advance(DAY)
    look_for_idle_ones()
    assert commit(client, "billing", 2) == 0
    connections.limits = ConnectionLimits(idle_seconds=1e-6)
    look_for_idle_ones()
    assert client.receive() is None


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_time_does_not_go_back(server, seconds):
    with pytest.raises(InvalidArgumentError, match="seconds must be from 0 to"):
        server.advance(seconds)


# --------------------------------------------------------------------------------------------- faults


def test_a_coordinator_that_loads(server, client):
    member_id, generation = member_of(client, "billing")
    beat = HeartbeatRequest("billing", generation, member_id)
    with server.faults.loading("billing") as loading:
        assert (
            commit(client, "billing", 1, generation_id_or_member_epoch=1, member_id=member_id) == 14
        )
        assert client.ask(fetch_of("billing"), 9).groups[0].error_code == 14
        assert client.ask(beat, 4).error_code == 0
        assert commit(client, "other", 1) == 0
        assert server.committed("billing") == {}
    assert loading.hits == 3
    assert commit(client, "billing", 1, generation_id_or_member_epoch=1, member_id=member_id) == 0


@pytest.mark.parametrize("version", [3, 6])
@pytest.mark.parametrize("find_coordinator", [False, True])
def test_a_coordinator_that_has_moved(server, client, version, find_coordinator):
    asked = FindCoordinatorRequest("billing", 0, ("billing",))

    def found() -> tuple[int, int]:
        answer = client.ask(asked, version)
        one = answer if version < 4 else answer.coordinators[0]
        return one.error_code, one.port

    with server.faults.coordinator_moved("billing", find_coordinator=find_coordinator) as moved:
        assert commit(client, "billing", 1) == 16
        assert client.ask(HeartbeatRequest("billing", 1, "m"), 4).error_code == 16
        assert client.ask(LeaveGroupRequest("billing", "m"), 1).error_code == 16
        assert found() == ((15, -1) if find_coordinator else (0, server.port))
    assert moved.hits == 3 + find_coordinator
    assert found() == (0, server.port)
    assert commit(client, "billing", 1) == 0


def test_an_error_is_for_the_requests_that_it_names(server, client):
    fault = server.faults.error("ILLEGAL_GENERATION", group="billing", times=2)
    assert commit(client, "other", 1) == 0
    assert client.ask(fetch_of("billing"), 9).groups[0].error_code == 0
    assert [commit(client, "billing", 5) for _ in range(3)] == [22, 22, 0]
    assert fault.hits == 2
    assert not fault.is_active
    by_client = server.faults.error(27, client_id="another")
    assert commit(client, "billing", 6) == 0
    assert by_client.hits == 0
    assert by_client.is_active
    by_client.release()
    assert not by_client.is_active


def test_the_first_fault_that_fits_decides(server, client):
    server.faults.error(27)
    with server.faults.error(16, times=None):
        assert [commit(client, "billing", 5) for _ in range(2)] == [27, 16]


@pytest.mark.parametrize("version", [1, 2, 7, 9])
def test_a_refused_fetch_of_offsets_in_every_form(server, client, version):
    with server.faults.error(14, "OffsetFetch"):
        topics = (OffsetFetchRequestTopic("orders", (0,)),)
        answer = client.ask(
            OffsetFetchRequest(
                "billing", topics, (OffsetFetchRequestGroup("billing", topics=None),)
            ),
            version,
        )
    if version == 1:
        assert answer.topics[0].partitions[0].error_code == 14
    elif version < 8:
        assert answer.error_code == 14
    else:
        assert [(each.group_id, each.error_code) for each in answer.groups] == [("billing", 14)]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_every_refusal_can_be_encoded_in_every_version(name):
    api = next(each for each in APIS.values() if each.name == name)
    message = api.request(acks=-1) if name == "Produce" else api.request()
    for version in range(api.advertised_from, api.last_version + 1):
        answers = []
        request = Request(api.key, version, 7, "c", message)
        refuse(Exchange(request, "host", answers.append, pytest.fail), 16)
        assert encode_response(answers[0], version, 7)


def test_a_refused_fetch_names_its_partitions(server, client):
    asked = FetchRequest(
        topics=(FetchRequestTopic("orders", partitions=(FetchRequestTopicPartition(1),)),)
    )
    with server.faults.error("NOT_LEADER_OR_FOLLOWER", "Fetch"):
        answer = client.ask(asked, 12)
    assert [(each.partition_index, each.error_code) for each in answer.responses[0].partitions] == [
        (1, 6)
    ]


def test_a_slow_answer_comes_when_time_goes_ahead(server, client):
    with server.faults.slow(3600, "OffsetCommit") as slow:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(commit(client, "billing", 9)))
        waiting.start()
        slow.wait()
        assert server.committed("billing") == {}
        server.advance(1800)
        assert not answers
        server.advance(1800)
        waiting.join(20)
    assert answers == [0]
    assert offsets(server, "billing") == {ORDERS: 9}


def test_later_requests_of_its_connection_do_not_overtake_a_slow_one(server, client):
    with server.faults.slow(3600, "OffsetCommit", times=1) as slow:
        client.send(
            encode_request(commit_of("billing", 5), 9, 7, "test")
            + encode_request(commit_of("billing", 6), 9, 8, "test")
        )
        slow.wait()
        assert server.committed("billing") == {}
        server.advance(3600)
        answers = [client.receive() for _ in range(2)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [7, 8]
    assert offsets(server, "billing") == {ORDERS: 6}


def test_a_server_that_stops_does_not_wait_for_a_slow_request(server, client):
    with server.faults.slow(3600, "OffsetCommit") as slow:
        client.send(encode_request(commit_of("billing", 5), 9, 7, "test"))
        slow.wait()
        server.stop()
    assert client.receive() is None


def test_a_slow_request_is_handled_although_its_client_is_gone(server):
    with (
        server.faults.slow(3600, "OffsetCommit") as slow,
        Client((server.host, server.port)) as gone,
    ):
        gone.send(encode_request(commit_of("billing", 9), 9, 7, "test"))
        slow.wait()
    server.advance(3600)
    assert offsets(server, "billing") == {ORDERS: 9}


@pytest.mark.parametrize("after_handling", [False, True])
def test_a_lost_answer(server, client, after_handling):
    with server.faults.close_connection("OffsetCommit", after_handling=after_handling) as lost:
        client.send(encode_request(commit_of("billing", 9), 9, 7, "test"))
        assert client.receive() is None
    assert lost.hits == 1
    assert offsets(server, "billing") == ({ORDERS: 9} if after_handling else {})
    with Client((server.host, server.port)) as again:
        assert commit(again, "billing", 10) == 0


def test_a_fault_says_whether_it_was_met(server, client, caplog):
    caplog.set_level(logging.INFO, logger="offsetlog.pytest")
    with server.faults.error(16, group="billing"):
        commit(client, "billing", 1)
    unmet = server.faults.error(16, group="nobody")
    server.stop()
    said = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert (
        "INFO",
        "released: <Fault: error 16 for OffsetCommit of group 'billing'; hits: 1>",
    ) in said
    assert (
        "WARNING",
        "released a fault that affected no request: <Fault: error 16 for OffsetCommit of group 'nobody'; hits: 0>",
    ) in said
    with pytest.raises(TimeoutError, match="fewer than 1 matching requests came"):
        unmet.wait(timeout=0)


def test_wrong_faults_are_refused(server):
    faults = server.faults
    for make, words in [
        (lambda: faults.error("OOPS"), "code='OOPS' is not the name of an error"),
        (lambda: faults.error(0), "not an error code of Kafka"),
        (lambda: faults.error(1 << 15), "not an error code of Kafka"),
        (lambda: faults.error(16, "Commit"), "api='Commit' is not served"),
        (lambda: faults.error(16, "ApiVersions"), "cannot be answered with an error"),
        (lambda: faults.error(16, times=0), "times must be at least 1, not 0"),
        (lambda: faults.slow(0), "seconds must be above 0, not 0"),
        (lambda: faults.slow(1, "Commit"), "is not served"),
        (lambda: faults.close_connection("Commit"), "is not served"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            make()


def until(condition, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
