"""Requests of administrators about groups: lists, descriptions, deletions of groups and of positions."""

from __future__ import annotations

import pytest

import offsetlog
from offsetlog._native.encoding import encode_key, encode_value
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestTopicPartition,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

from .running import Client, RunningServer
from .test_life import positions

#: A subscription to the topic "read", version 0, without user data.
SUBSCRIPTION = bytes.fromhex("0000" "00000001" "0004") + b"read" + bytes.fromhex("ffffffff")
#: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
ALL_OPERATIONS = 3400


@pytest.fixture
def client(server):
    with Client(server.address) as connected:
        asked = tuple(CreateTopicsRequestTopic(name, 2, 1) for name in ("read", "left"))
        connected.ask(CreateTopicsRequest(asked), 7)
        yield connected


def commit(client, group, *topics, **more) -> set[int]:
    partitions = tuple(OffsetCommitRequestTopicPartition(number, 5) for number in range(2))
    asked = tuple(OffsetCommitRequestTopic(topic, partitions=partitions) for topic in topics)
    answer = client.ask(OffsetCommitRequest(group, topics=asked, **more), 9)
    return {each.error_code for topic in answer.topics for each in topic.partitions}


def joined(client, group, protocol_type="consumer", metadata=SUBSCRIPTION) -> str:
    protocol = JoinGroupRequestProtocol("range", metadata)
    join = JoinGroupRequest(group, 10_000, 60_000, "", None, protocol_type, (protocol,))
    member_id = client.ask(join, 9).member_id
    assert client.ask(join._replace(member_id=member_id), 9).generation_id == 1
    return member_id


def stable(client, group, protocol_type="consumer", metadata=SUBSCRIPTION) -> str:
    member_id = joined(client, group, protocol_type, metadata)
    assigned = (SyncGroupRequestAssignment(member_id, b"all"),)
    sync = SyncGroupRequest(group, 1, member_id, None, protocol_type, "range", assigned)
    assert client.ask(sync, 5).error_code == 0
    return member_id


def leave(client, group, member_id) -> None:
    client.ask(LeaveGroupRequest(group, members=(LeaveGroupRequestMember(member_id),)), 5)


def listed(client, **filters) -> set[tuple[str, str, str, str]]:
    answer = client.ask(ListGroupsRequest(**filters), 5)
    assert answer.error_code == 0
    return {tuple(each) for each in answer.groups}


def described(client, group, version=6, **more):
    return client.ask(DescribeGroupsRequest((group,), **more), version).groups[0]


def deleted(client, *groups) -> list[tuple[str, int]]:
    return [tuple(each) for each in client.ask(DeleteGroupsRequest(groups), 2).results]


def delete_offsets(client, group, **topics):
    asked = tuple(
        OffsetDeleteRequestTopic(name, tuple(OffsetDeleteRequestTopicPartition(each) for each in numbers))
        for name, numbers in topics.items()
    )
    answer = client.ask(OffsetDeleteRequest(group, asked), 0)
    errors = {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
    return answer.error_code, errors


# ---------------------------------------------------------------------------------------- lists, states


def test_groups_are_listed_with_their_states(client):
    commit(client, "simple", "read")
    stable(client, "running")
    left = stable(client, "left")
    leave(client, "left", left)
    joined(client, "joining", "connect", b"")
    assert listed(client) == {
        ("simple", "", "Empty", "classic"),
        ("running", "consumer", "Stable", "classic"),
        ("left", "consumer", "Empty", "classic"),
        ("joining", "connect", "CompletingRebalance", "classic"),
    }
    assert {each[0] for each in listed(client, states_filter=(" stable ", "PREPARINGrebalance"))} == {"running"}
    assert {each[0] for each in listed(client, types_filter=("Classic",))} == {"simple", "running", "left", "joining"}
    assert listed(client, types_filter=("consumer",)) == set()
    assert listed(client, states_filter=("no such state",)) == set()


def test_a_group_is_described_with_its_members(client):
    member_id = joined(client, "g")
    group = described(client, "g")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("CompletingRebalance", "consumer", "")
    assert (group.members[0].member_metadata, group.members[0].member_assignment) == (b"", b"")
    sync = SyncGroupRequest(
        "g", 1, member_id, None, "consumer", "range", (SyncGroupRequestAssignment(member_id, b"all"),)
    )
    client.ask(sync, 5)
    group = described(client, "g", include_authorized_operations=True)
    assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
    assert group.authorized_operations == ALL_OPERATIONS
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"all")


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, 69)])
def test_a_group_that_is_not_there_is_dead(client, version, error):
    group = described(client, "nowhere", version)
    assert (group.error_code, group.group_state, group.members) == (error, "Dead", ())
    assert group.authorized_operations == -(1 << 31)


def test_a_group_of_positions_alone_is_empty(client):
    commit(client, "simple", "read")
    group = described(client, "simple")
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Empty", "")


# ------------------------------------------------------------------------------------------- deletions


def test_groups_without_members_are_deleted_with_their_positions(client):
    commit(client, "simple", "read")
    member_id = stable(client, "left")
    commit(client, "left", "read", generation_id_or_member_epoch=1, member_id=member_id)
    stable(client, "running")
    leave(client, "left", member_id)
    assert deleted(client, "simple", "left", "running", "nowhere", "", "simple") == [
        ("simple", 0), ("left", 0), ("running", 68), ("nowhere", 69), ("", 69),
    ]
    assert positions(client, "simple") == positions(client, "left") == {}
    assert {each[0] for each in listed(client)} == {"running"}
    assert described(client, "left").error_code == 69
    assert deleted(client) == []


def test_a_deleted_group_begins_again(tmp_path, client, server):
    member_id = stable(client, "g")
    leave(client, "g", member_id)
    assert deleted(client, "g") == [("g", 0)]
    assert stable(client, "g") != member_id
    assert described(client, "g").group_state == "Stable"


def test_positions_of_topics_that_nobody_reads_are_deleted(client):
    member_id = stable(client, "g")
    commit(client, "g", "read", "left", generation_id_or_member_epoch=1, member_id=member_id)
    error, errors = delete_offsets(client, "g", read=[0], left=[0, 7], nowhere=[0])
    assert error == 0
    assert errors == {("read", 0): 86, ("left", 0): 0, ("left", 7): 3, ("nowhere", 0): 3}
    assert set(positions(client, "g")) == {("read", 0), ("read", 1), ("left", 1)}
    leave(client, "g", member_id)
    assert delete_offsets(client, "g", read=[0, 1]) == (0, {("read", 0): 0, ("read", 1): 0})
    assert set(positions(client, "g")) == {("left", 1)}


def test_positions_are_not_deleted_of_groups_that_are_not_there_or_of_others(client):
    assert delete_offsets(client, "nowhere", read=[0]) == (69, {})
    assert delete_offsets(client, "", read=[0]) == (24, {})
    stable(client, "workers", "connect", b"")
    assert delete_offsets(client, "workers", read=[0]) == (68, {})
    stable(client, "unreadable", metadata=b"?")
    assert delete_offsets(client, "unreadable", read=[0]) == (0, {("read", 0): 86})


# ----------------------------------------------------------------------------------- groups of other kinds


def test_groups_of_other_kinds_are_listed_and_left_alone(tmp_path):
    with RunningServer(tmp_path / "data") as server:
        manager = server.server._manager
        records = [
            (3, {"groupId": "modern"}, {"epoch": 4}),
            (11, {"groupId": "shared"}, {"epoch": 1, "metadataHash": 0}),
        ]
        for key_type, key, value in records:
            written = (encode_key(key_type, key), encode_value(key_type, 0, value))
            manager.group_log.write_async(key["groupId"], [written]).result(10)
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        positions(client, "modern")
        assert listed(client) == {
            ("modern", "consumer", "Empty", "consumer"),
            ("shared", "share", "Empty", "share"),
        }
        assert described(client, "modern").error_code == 69
        protocol = JoinGroupRequestProtocol("range", b"")
        join = JoinGroupRequest("modern", 10_000, 60_000, "", None, "consumer", (protocol,))
        assert client.ask(join, 9).error_code == 23
        assert deleted(client, "modern") == [("modern", 0)]
        assert {each[0] for each in listed(client)} == {"shared"}
    with offsetlog.open(tmp_path / "data", partitions=50) as store:
        assert store.verify() == []
