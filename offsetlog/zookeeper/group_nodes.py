"""The nodes of whole groups below /consumers: what an atomic write needs to know of a group before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

from offsetlog.errors import NoNodeError, ZooKeeperError
from offsetlog.zookeeper.connection import Answer, Node, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import OffsetNode, group_node, offsets_node, settled, topic_node

T = TypeVar("T")


@dataclass(slots=True)
class GroupNodes:
    """A group as it stands in ZooKeeper, not checked; what goes while it is read is left out.

    Attributes:
        group: its name.
        has_group: whether there is a node of the group.
        has_offsets: whether there is the node above its topics.
        has_consumers: whether consumers are alive: ephemeral nodes below `ids`.
        topics: those that have a node.
        offsets: the nodes of its positions.
        not_given: nodes of the group that ZooKeeper does not give, as for lack of a permission.
    """

    group: str
    has_group: bool = False
    has_offsets: bool = False
    has_consumers: bool = False
    topics: set[str] = field(default_factory=set)
    offsets: list[OffsetNode] = field(default_factory=list)
    not_given: list[ZooKeeperError] = field(default_factory=list)


class _Known(Generic[T]):
    """An answer that is there already; it keeps its place among the others."""

    def __init__(self, value: T) -> None:
        self._value = value

    def wait(self) -> bool:
        return True

    def done(self) -> bool:
        return True

    def result(self) -> T:
        return self._value


def _known(value: T) -> Callable[[], Answer[T]]:
    return partial(cast("Callable[[T], Answer[T]]", _Known), value)


class _Key(NamedTuple):
    """The node that a question is about: of a group, of its `ids`, of a topic, or of a position."""

    group: GroupNodes
    topic: str | None = None
    partition: str | None = None


def read_groups(connection: ZooKeeperConnection, groups: Iterable[str], in_flight: int = 64) -> Iterator[GroupNodes]:
    """Yields the groups, in this order; one that is not there has no nodes.

    Call `connection.sync_async()` before it, to see what other clients were answered before.

    Args:
        connection: started.
        groups: which.
        in_flight: how many answers of each kind are outstanding at most.

    Raises:
        ZooKeeperUnavailableError: nobody answers.
    """
    # Four floors of questions, each asked with the answers of the one above; an answer that is known already goes down
    # with them, so that a group comes after everything that is known of it.

    def whole_groups() -> Iterator[tuple[GroupNodes, Callable[[], Answer[list[str]]]]]:
        for group in groups:
            yield GroupNodes(group), partial(connection.children_async, group_node(group))

    def parts() -> Iterator[tuple[tuple[GroupNodes, str], Callable[[], Answer[list[str]]]]]:
        for nodes, found in settled(whole_groups(), in_flight):
            names = _names(nodes, found)
            nodes.has_group = not isinstance(found, NoNodeError)
            if "ids" in names:
                yield (nodes, "ids"), partial(connection.children_async, f"{group_node(nodes.group)}/ids")
            if "offsets" in names:
                yield (nodes, "offsets"), partial(connection.children_async, offsets_node(nodes.group))
            yield (nodes, ""), _known([])

    def topics() -> Iterator[tuple[_Key, Callable[[], Answer[list[str]]]]]:
        for (nodes, part), found in settled(parts(), in_flight):
            if part == "":
                yield _Key(nodes), _known([])
            elif part == "ids":
                nodes.has_consumers = not isinstance(found, ZooKeeperError) and bool(found)
            else:
                nodes.has_offsets = not isinstance(found, NoNodeError)
                for topic in _names(nodes, found):
                    yield _Key(nodes, topic), partial(connection.children_async, topic_node(nodes.group, topic))

    def positions() -> Iterator[tuple[_Key, Callable[[], Answer[Node | None]]]]:
        for key, found in settled(topics(), in_flight):
            if key.topic is None:
                yield key, _known(None)
                continue
            if not isinstance(found, NoNodeError):
                key.group.topics.add(key.topic)
            above = topic_node(key.group.group, key.topic)
            for partition in _names(key.group, found):
                ask = partial(connection.get_async, f"{above}/{partition}")
                yield _Key(key.group, key.topic, partition), cast("Callable[[], Answer[Node | None]]", ask)

    for (nodes, topic, partition), found in settled(positions(), in_flight):
        if topic is None or partition is None:
            yield nodes
        elif isinstance(found, ZooKeeperError):
            _names(nodes, found)
        elif found is not None:
            nodes.offsets.append(OffsetNode(nodes.group, topic, partition, found.data, found.stat))


def _names(nodes: GroupNodes, found: list[str] | ZooKeeperError) -> list[str]:
    """Returns the names below a node, none for one that is not there; keeps what ZooKeeper does not give."""
    if not isinstance(found, ZooKeeperError):
        return found
    if not isinstance(found, NoNodeError):
        nodes.not_given.append(found)
    return []
