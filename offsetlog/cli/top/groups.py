"""The groups of a broker, as it lists and describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from offsetlog import error_codes
from offsetlog.cli.top.kafka_client import KafkaClient
from offsetlog.errors import CoordinatorLoadingError
from offsetlog.protocol.messages import DescribeGroupsRequest, ListGroupsRequest

#: Groups that rebalance are listed first.  The other groups are sorted by their commits, with the largest number first.
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")
_ORDER = {"PreparingRebalance": 0, "CompletingRebalance": 1, "Stable": 2, "Empty": 3, "Dead": 4}


class Group(NamedTuple):
    """A group; `members` and `protocol` are None if the group was not described.

    Attributes:
        protocol: the protocol that assigns partitions to the members; "" for none.
        clients: the distinct client ids of the members.
    """

    name: str
    state: str
    group_type: str
    members: int | None = None
    protocol: str | None = None
    clients: tuple[str, ...] = ()


class Groups(NamedTuple):
    """The groups that were described, and the number of all groups by state."""

    shown: list[Group]
    by_state: Counter[str]


def groups_of(
    client: KafkaClient, count_max: int, rates: Mapping[str, float] | None = None
) -> Groups:
    """Lists the groups of a broker, and describes the first of them.

    Args:
        client: the connection to the broker.
        count_max: how many groups to describe.
        rates: commits per second by group, by which the groups are sorted; None if they are unknown.

    Raises:
        CoordinatorLoadingError: the broker is still loading the groups.
        ConnectionError: the broker refuses to list the groups.
        Any error that KafkaClient raises.
    """
    answer = client.ask(ListGroupsRequest())
    if answer.error_code == error_codes.COORDINATOR_LOAD_IN_PROGRESS.code:
        raise CoordinatorLoadingError("the server is still loading the groups")
    if answer.error_code:
        raise ConnectionError(f"the broker refuses to list the groups: error {answer.error_code}")
    listed = [Group(each.group_id, each.group_state, each.group_type) for each in answer.groups]
    listed.sort(key=lambda each: _ORDER.get(each.state, 5))
    by_state = Counter(each.state for each in listed)
    known = rates or {}
    listed.sort(
        key=lambda each: (
            each.state not in _REBALANCING,
            -known.get(each.name, 0.0),
            _ORDER.get(each.state, 5),
            each.name,
        )
    )
    return Groups(_described(client, listed[:count_max]), by_state)


def _described(client: KafkaClient, listed: list[Group]) -> list[Group]:
    # Groups of other types need other requests to describe them.
    names = [each.name for each in listed if each.group_type.lower() in ("", "classic")]
    if not names:
        return listed
    answer = client.ask(DescribeGroupsRequest(tuple(names)))
    found = {each.group_id: each for each in answer.groups if not each.error_code}
    return [
        each
        if (known := found.get(each.name)) is None
        else each._replace(
            state=known.group_state,
            members=len(known.members),
            protocol=known.protocol_data,
            clients=tuple(sorted({member.client_id for member in known.members})),
        )
        for each in listed
    ]
