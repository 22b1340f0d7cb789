"""Requests of administrators about groups: lists, descriptions, deletes, and positions of several groups."""

from __future__ import annotations

from offsetlog.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)

from .cluster_cases import NOBODYS_ID, versions
from .group_steps import Group
from .recorder import Recorder


def five_groups(r: Recorder, key: str) -> dict[str, str]:
    """A group in each state, and one that is not of consumers; state -> name."""
    empty, stable, preparing, completing, other = (
        Group(r, f"{key}{each}", kind)
        for each, kind in zip("espco", ["consumer"] * 4 + ["connect"], strict=True)
    )
    empty.commit("a position of a group without members", 5)
    stable.stable()
    member = preparing.stable(conn=1)
    preparing.join("joins", conn=2, version=3, client_id="second", is_answered=False)
    preparing.await_rebalance(1, member)
    completing.enter(client_id="alone")
    other.stable(client_id="worker")
    return {
        "Empty": empty.name, "Stable": stable.name, "PreparingRebalance": preparing.name,
        "CompletingRebalance": completing.name, "connect": other.name,
    }


def list_groups(r: Recorder) -> None:
    r.begin("list-groups", "groups in every state, by state and type, every version")
    five_groups(r, "l")
    ours = [{"path": "groups", "key": "group_id", "prefix": r.group("l")}]
    for version in versions(ListGroupsRequest):
        r.ask("all", ListGroupsRequest(), version, arrays=ours)
        if version >= 4:
            for states in (("Stable",), ("Empty", "Dead"), ("stable", "completingrebalance"), ("PreparingRebalance",),
                           ("nothing",), (" Stable",), ("",), ("Stable", "nothing")):
                r.ask(f"states {states}", ListGroupsRequest(states), version, arrays=ours)
        if version >= 5:
            for types in (("classic",), ("Classic",), ("consumer",), ("share", "streams"), ("nothing",), ("",),
                          ("classic", "nothing"), (" classic",), ("unknown",)):
                r.ask(f"types {types}", ListGroupsRequest((), types), version, arrays=ours)
            r.ask("both", ListGroupsRequest(("Stable",), ("classic",)), version, arrays=ours)
            r.ask("both, none fits", ListGroupsRequest(("Stable",), ("consumer",)), version, arrays=ours)


def describe_groups(r: Recorder) -> None:
    r.begin("describe-groups", "groups in every state, every version")
    names = five_groups(r, "d")
    two = two_members(r)
    members = [{"path": "groups.members", "key": "client_id"}]
    for version in versions(DescribeGroupsRequest):
        for state, name in names.items():
            r.ask(state, DescribeGroupsRequest((name,)), version, arrays=members)
        r.ask("two members", DescribeGroupsRequest((two,)), version, arrays=members)
        r.ask("one that is not there", DescribeGroupsRequest((r.group("none"),)), version)
        r.ask("an empty name", DescribeGroupsRequest(("",)), version)
        r.ask("none", DescribeGroupsRequest(()), version)
        several = (names["Empty"], r.group("none"), names["Empty"])
        by_name = [{"path": "groups", "key": "group_id"}]
        r.ask("several, one of them twice", DescribeGroupsRequest(several), version, arrays=by_name)
        if version >= 3:
            r.ask("operations", DescribeGroupsRequest((names["Empty"],), True), version)
            r.ask("operations of none", DescribeGroupsRequest((r.group("none"),), True), version)


def two_members(r: Recorder) -> str:
    """A stable group of two, one of them static, who agree on their second choice."""
    group = Group(r, "two", offered=("range", "sticky"))
    first = group.enter(conn=3, client_id="first")
    other = Group(r, "two", offered=("sticky",))
    other.join("a static member", instance="inst", conn=4, client_id="second", is_answered=False)
    group.beat("until the rebalance", 1, first, until=lambda answer: answer.error_code == 27)
    by_client = [{"path": "members", "key": "group_instance_id"}]
    group.join("again", member=first, conn=3, client_id="first", arrays=by_client)
    second = r.take("the static member", JoinGroupRequest, 7, conn=4).member_id
    group.sync("the leader's", 2, first, assigned=(first, second), protocol="sticky")
    group.sync("the other's", 2, second, "inst", protocol="sticky")
    return group.name


def delete_groups(r: Recorder) -> None:
    by_name = [{"path": "results", "key": "group_id"}]
    for version in versions(DeleteGroupsRequest):
        r.begin(f"delete-groups-v{version}", "groups that are deleted, and that are refused")
        names = five_groups(r, f"x{version}")
        r.ask("none", DeleteGroupsRequest(()), version)
        r.ask("one that is not there", DeleteGroupsRequest((r.group("none"),)), version)
        r.ask("an empty name", DeleteGroupsRequest(("",)), version)
        for state in ("Stable", "PreparingRebalance", "CompletingRebalance", "connect"):
            r.ask(state, DeleteGroupsRequest((names[state],)), version)
        several = (names["Empty"], r.group("none"), names["Stable"])
        r.ask("several", DeleteGroupsRequest(several), version, arrays=by_name)
        r.ask("what is gone", DescribeGroupsRequest((names["Empty"],)), 5)
        r.ask("one that is gone", DeleteGroupsRequest((names["Empty"],)), version)
        left = Group(r, f"left{version}")
        left.leave("the last member", (left.stable(), None))
        left.commit("a position", 3)
        r.ask("one that was left", DeleteGroupsRequest((left.name,)), version)
        again = Group(r, f"again{version}")
        again.commit("a position", 3)
        r.ask("the same twice", DeleteGroupsRequest((again.name, again.name)), version)


def offset_delete(r: Recorder) -> None:
    def ask(name: str, group: str, *topics: tuple[str, tuple[int, ...]]) -> None:
        asked = tuple(
            OffsetDeleteRequestTopic(r.topic(topic), tuple(OffsetDeleteRequestTopicPartition(each) for each in parts))
            for topic, parts in topics
        )
        r.ask(name, OffsetDeleteRequest(group, asked), 0, arrays=[{"path": "topics", "key": "name"}])

    r.begin("offset-delete", "positions of groups with and without members")
    names = five_groups(r, "o")
    empty = names["Empty"]
    ask("of a group that is not there", r.group("none"), ("a", (0,)))
    ask("of no group", "", ("a", (0,)))
    ask("no topics", empty)
    ask("no partitions", empty, ("a", ()))
    ask("a topic that is not there", empty, ("none", (0, 1)))
    ask("a partition that is not there", empty, ("a", (99, -1)))
    ask("positions that are not there", empty, ("a", (1, 2)), ("b", (0,)))
    ask("one that is there, and one that is not", empty, ("none", (0,)), ("a", (0,)))
    for state in ("Stable", "PreparingRebalance", "CompletingRebalance", "connect"):
        ask(f"{state}: a topic that members read", names[state], ("a", (0,)))
        ask(f"{state}: two topics", names[state], ("b", (0,)), ("a", (0,)))
    Group(r, "oe").commit("positions again", 5, partitions=(0, 1))
    ask("a partition twice", empty, ("a", (0, 0)))


def offset_fetch(r: Recorder) -> None:
    for version in range(8, 11):
        r.begin(f"offset-fetch-groups-v{version}", "positions of several groups, some of which are refused")
        one, other, none = (Group(r, f"f{each}{version}") for each in ("one", "other", "none"))
        one.commit("positions", 7, partitions=(0, 3))
        member = other.stable()
        other.commit("a position of a member", 9, 1, member)

        def topics(*keys: str, version: int = version) -> tuple[OffsetFetchRequestGroupTopic, ...]:
            by_id = version >= 10
            return tuple(
                OffsetFetchRequestGroupTopic(
                    "" if by_id else r.topic(key),
                    (r.topic_id(key) if key in "abc" else NOBODYS_ID) if by_id else bytes(16),
                    (0, 1),
                )
                for key in keys
            )

        def ask(name: str, *groups: OffsetFetchRequestGroup, stable: bool = False, version: int = version) -> None:
            request = OffsetFetchRequest(groups=groups, require_stable=stable)
            by_name = {"path": "groups.topics", "key": "name"}
            by_number = {"path": "groups.topics.partitions", "key": "partition_index"}
            # Ids of topics are in no order that two servers share: those requests name one topic each.
            inner = [by_name, by_number] if version < 10 else [by_number]
            r.ask(name, request, version, arrays=[{"path": "groups", "key": "group_id"}, *inner])

        def of(group: Group, *keys: str, member: str | None = None, epoch: int = -1) -> OffsetFetchRequestGroup:
            return OffsetFetchRequestGroup(group.name, member, epoch, topics(*keys))

        ask("three groups", of(one, "a", "b"), of(none, "a"), of(other, "a"))
        ask("a topic that is not there", of(one, "none", "a"), of(other, "none"))
        ask("no name", OffsetFetchRequestGroup("", None, -1, topics("a")), of(one, "a"))
        ask("all topics of two", OffsetFetchRequestGroup(one.name, None, -1, None),
            OffsetFetchRequestGroup(none.name, None, -1, None), OffsetFetchRequestGroup(other.name, None, -1, None),
            )
        ask("stable", of(one, "a"), of(other, "a"), stable=True)
        if version >= 9:
            ask("a member of a classic group", of(other, "a", member=member, epoch=1))
            ask("a member with another generation", of(other, "a", member=member, epoch=7), of(one, "a"))
            ask("nobody of a group without members", of(one, "a", member="nobody", epoch=0))
            ask("a member of no group", of(none, "a", member="nobody", epoch=0), of(one, "a"))
            ask("an empty member id", of(other, "a", member="", epoch=1))


FILES = {
    "list_groups": (list_groups,),
    "describe_groups": (describe_groups,),
    "delete_groups": (delete_groups, offset_delete),
    "offset_fetch_groups": (offset_fetch,),
}
