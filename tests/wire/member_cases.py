"""Members: joins that are refused, votes, static members that are fenced, and leaves of several."""

from __future__ import annotations

from offsetlog.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from .cluster_cases import versions
from .group_steps import Group, protocols
from .recorder import Recorder

BY_CLIENT = [{"path": "members", "key": "group_instance_id"}]


def joins(r: Recorder) -> None:
    for version in versions(JoinGroupRequest):
        r.begin(f"join-refused-v{version}", "joins that are refused, in a new group and in a stable one")
        new, known = Group(r, f"new{version}"), Group(r, f"known{version}")
        known.stable()
        for session in (0, -1, 5_999, 1_800_001, 2**31 - 1):
            new.join(f"a session of {session} ms", version, session=session)
        for group, what in ((new, "new"), (known, "stable")):
            group.join(f"no protocols, {what}", version, offered=())
            group.join(f"no protocol type, {what}", version, protocol_type="")
            group.join(f"a member id that nobody has, {what}", version, "nobody")
            group.join(f"no protocols and an unknown member id, {what}", version, "nobody", offered=())
        known.join("another protocol type", version, protocol_type="connect")
        known.join("no common protocol", version, offered=protocols("other", "another"))
        unnamed = Group(r, f"unnamed{version}")
        unnamed.name = ""
        unnamed.join("no group", version)
        if version >= 5:
            known.join("an instance id and an unknown member id", version, "nobody", "inst")
            new.join("an instance id and a member id, in a new group", version, "nobody", "inst")


def requests_of_nobody(r: Recorder) -> None:
    r.begin("of-nobody", "SyncGroup, Heartbeat and LeaveGroup of members that are not there, every version")
    known, none, rest = Group(r, "known"), Group(r, "none"), Group(r, "unnamed")
    rest.name = ""
    member = known.stable()
    for version in versions(HeartbeatRequest):
        for group, what in ((known, "known"), (none, "none"), (rest, "unnamed")):
            group.beat(f"nobody, {what}", 1, "nobody", version=version)
            group.beat(f"no id, {what}", 1, "", version=version)
        known.beat("generation -1", -1, member, version=version)
        if version >= 3:
            known.beat("an instance id that nobody has", 1, member, "inst", version=version)
    for version in versions(SyncGroupRequest):
        for group, what in ((known, "known"), (none, "none"), (rest, "unnamed")):
            group.sync(f"nobody, {what}", 1, "nobody", version=version)
        known.sync("generation -1", -1, member, version=version)
        known.sync("again", 1, member, version=version)
        if version >= 3:
            known.sync("an instance id that nobody has", 1, member, "inst", version=version)
        if version >= 5:
            known.sync("another protocol", 1, member, version=version, protocol="other")
            known.sync("no protocol", 1, member, version=version, protocol=None)
    for version in versions(LeaveGroupRequest):
        for group, what in ((known, "known"), (none, "none"), (rest, "unnamed")):
            group.leave(f"nobody, {what}", ("nobody", None), version=version)
            group.leave(f"no id, {what}", ("", None), version=version)


def votes(r: Recorder) -> None:
    r.begin("votes", "the protocol that most members prefer among those that all support")
    group = Group(r, "votes")
    first = group.enter(conn=1, client_id="one", offered=protocols("x", "y", "z"))
    group.sync("the first alone", 1, first, assigned=(first,), protocol="x")
    group.join("the second", 5, instance="two", conn=2, client_id="two", offered=protocols("z", "y"), is_answered=False)
    group.await_rebalance(1, first)
    group.join("the third", 5, instance="three", conn=3, client_id="three", offered=protocols("z", "x", "y"),
               is_answered=False)
    group.await_members(3)
    group.join("the first again", 7, first, conn=1, offered=protocols("x", "y", "z"), arrays=BY_CLIENT)
    second = r.take("the second", JoinGroupRequest, 5, conn=2).member_id
    third = r.take("the third", JoinGroupRequest, 5, conn=3).member_id
    group.sync("a protocol that was not chosen", 2, second, "two", protocol="y")
    group.sync("the second waits", 2, second, "two", protocol="z", conn=2, is_answered=False)
    group.sync("an assignment with strangers", 2, first, assigned=("nobody", second, first), protocol="z", conn=1)
    r.take("the second", SyncGroupRequest, 5, conn=2)
    group.sync("the third was given nothing", 2, third, "three", protocol="z", conn=3)
    group.join("a member without the common protocol", 3, offered=protocols("x"), conn=4)
    group.join("the third with less", 7, third, "three", offered=protocols("x"), conn=3)


def static_members(r: Recorder) -> None:
    for version in (5, 7, 8, 9):
        r.begin(f"fenced-v{version}", "a static member that comes back, and its former self")
        group = Group(r, f"fenced{version}")
        former = group.enter(version, "inst", client_id="one")
        group.sync("its assignment", 1, former, "inst", assigned=(former,))
        group.commit("a commit", 3, 1, former, "inst")
        returned = group.join("comes back", version, instance="inst", client_id="one").member_id
        for member, what in ((former, "former"), (returned, "present"), ("nobody", "unknown"), ("", "unnamed")):
            group.beat(f"the {what} one", 1, member, "inst")
            group.sync(f"the {what} one", 1, member, "inst")
            group.commit(f"the {what} one", 4, 1, member, "inst")
            group.commit(f"the {what} one without its instance id", 4, 1, member)
        group.join("the former one joins", version, former, "inst")
        group.join("the former one joins without its instance id", version, former)
        group.leave("the former one leaves", (former, "inst"))
        group.commit("a generation that has not begun", 5, 2, returned, "inst")
        group.commit("no generation", 5, -1, returned, "inst")
        group.join("comes back with other metadata", version, instance="inst", client_id="one",
                   offered=protocols("range"))
        group.join("comes back with another protocol", version, instance="inst", client_id="one",
                   offered=protocols("sticky"))
        group.leave("by its instance id", ("", "inst"))
        group.commit("a commit of nobody", 6)
        group.commit("a commit of a former generation", 6, 1, returned, "inst")


def leaves(r: Recorder) -> None:
    for version in range(3, 6):
        r.begin(f"leave-several-v{version}", "several members leave at once, some of whom are not there")
        group = Group(r, f"several{version}")
        first = group.stable("one", conn=1)
        group.join("the second", 7, instance="two", conn=2, is_answered=False)
        group.await_rebalance(1, first, "one")
        group.join("the third", 7, instance="three", conn=3, is_answered=False)
        group.await_members(3)
        group.join("the first again", 7, first, "one", conn=1, arrays=BY_CLIENT)
        second = r.take("the second", JoinGroupRequest, 7, conn=2).member_id
        third = r.take("the third", JoinGroupRequest, 7, conn=3).member_id
        group.sync("the third waits", 2, third, "three", conn=3, is_answered=False)
        group.sync("the leader's", 2, first, "one", assigned=(first, second, third), conn=1)
        r.take("the third", SyncGroupRequest, 5, conn=3)
        group.leave("none", version=version)
        group.leave("a fenced one, a stranger and a member", (first, "two"), ("nobody", None), (second, "two"),
                    version=version)
        group.await_rebalance(2, first, "one")
        group.leave("the same twice, and one by its instance id", (first, None), (first, None), ("", "three"),
                    version=version)
        group.leave("the last one again", (third, "three"), version=version)
        group.beat("of one that left", 2, first, "one")
        group.commit("a commit of one that left", 3, 2, first, "one")


def given_ids(r: Recorder) -> None:
    r.begin("given-ids", "member ids that are given out and not used yet")
    group = Group(r, "given")
    given = group.join("an id is given out").member_id
    group.beat("with that id", 0, given)
    group.sync("with that id", 0, given)
    group.commit("with that id", 3, 0, given)
    group.join("with that id and an instance id", 7, given, "inst")
    group.leave("with that id", (given, None))
    group.leave("with that id again", (given, None))
    group.join("with an id that was given back", 7, given)


FILES = {
    "joins": (joins, requests_of_nobody, votes, given_ids),
    "static_members": (static_members, leaves),
}
