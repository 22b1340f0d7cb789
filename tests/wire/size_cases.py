"""Groups of at most two members (`group.max.size`): who is refused, and who has a place in spite of that."""

from __future__ import annotations

from offsetlog.protocol.messages import JoinGroupRequest

from .cluster_cases import versions
from .group_steps import Group
from .member_cases import BY_CLIENT
from .recorder import Recorder

#: With which Kafka is recorded, and the server plays.
SETTINGS = {"group.max.size": "2"}


def _two(group: Group) -> tuple[str, str]:
    """A stable group of the static members "one" and "two", generation 2."""
    first = group.stable("one", conn=1)
    group.join("the second", 5, instance="two", conn=2, is_answered=False)
    group.await_rebalance(1, first, "one")
    group.join("the first again", 7, first, "one", conn=1, arrays=BY_CLIENT)
    second = group.r.take("the second", JoinGroupRequest, 5, conn=2).member_id
    group.sync("the leader's", 2, first, "one", assigned=(first, second))
    group.sync("the second's", 2, second, "two")
    return first, second


def full(r: Recorder) -> None:
    for version in versions(JoinGroupRequest):
        r.begin(f"full-v{version}", "a third member at a stable group of two, and again when one has left")
        group = Group(r, f"full{version}")
        first, second = _two(group)
        group.join("a third", version)
        group.join("an id that nobody has", version, "nobody")
        if version >= 5:
            group.join("a third with an instance id", version, instance="inst")
        group.beat("the first stays", 2, first, "one")
        group.leave("the second leaves", (second, "two"))
        group.join("the first again", 7, first, "one", conn=1)
        group.join("a third gets an id, or waits", version, conn=3, is_answered=version >= 4)
        if version < 4:
            group.await_rebalance(3, first, "one")


def full_of_static_members(r: Recorder) -> None:
    for version in (5, 7, 9):
        r.begin(f"full-static-v{version}", "static members that come back to a group of two")
        group = Group(r, f"static{version}")
        first, second = _two(group)
        group.join("the second comes back", version, instance="two")
        group.join("the second with its id", version, second, "two")
        group.join("a third", version, instance="three")
        group.beat("the first", 2, first, "one")
        group.beat("the second", 2, second, "two")


FILES = {"group_size": (full, full_of_static_members)}
