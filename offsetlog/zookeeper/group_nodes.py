"""Reads all nodes of groups below /consumers, for example before an atomic write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from offsetlog.errors import NoNodeError, ZooKeeperError
from offsetlog.zookeeper.connection import ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import OffsetNode, group_node, is_node_name, offsets_node, topic_node
from offsetlog.zookeeper.many_reads import ManyReads
from offsetlog.zookeeper.nodes import Node, NodeStat
from offsetlog.zookeeper.requests import Found, Read, ReadListing, ReadNames, ReadNode

#: The number of times that a group is read while other clients change it.
PASSES = 20


@dataclass(slots=True)
class GroupNodes:
    """A group as ZooKeeper stores it, unchecked, without the nodes that were removed during the read.

    Attributes:
        group: the name of the group.
        has_group: whether the group has a node.
        has_offsets: whether the node above the group's topics exists.
        has_consumers: whether the group has live consumers, that is, whether its node `ids` has a child node.
        topics: the topics that have a node.
        offsets: the nodes of the group's positions.
        not_given: the error of each node that ZooKeeper refused to return, for example because a permission is missing.
        stood_together: whether the positions are a snapshot of one moment, so that no commit was read in part.
    """

    group: str
    has_group: bool = False
    has_offsets: bool = False
    has_consumers: bool = False
    topics: set[str] = field(default_factory=set)
    offsets: list[OffsetNode] = field(default_factory=list)
    not_given: list[ZooKeeperError] = field(default_factory=list)
    stood_together: bool = True
    #: The newest transaction that was known before the group was read.
    known_zxid: int = 0


class _Key(NamedTuple):
    """The node to which a read refers: a group, its `ids`, a topic, or a position."""

    group: GroupNodes
    topic: str | None = None
    partition: str | None = None


def read_groups(connection: ZooKeeperConnection, groups: Iterable[str], in_flight: int = 64) -> Iterator[GroupNodes]:
    """Yields the groups in the given order.  A group that does not exist, or cannot exist, has no nodes.

    If a group changes while it is read, it is read again, up to 20 times in all.  If it changes during the last read,
    too, its positions may be from different moments.  Wait for `connection.sync_async()` before this function to see
    the earlier writes of other clients.

    Args:
        connection: a started connection.
        groups: the names of the groups.
        in_flight: the largest number of reads of each kind that wait for answers.

    Raises:
        ZooKeeperUnavailableError: no server answers.
    """
    reads = ManyReads(connection, in_flight)
    for nodes in _read(connection, reads, groups):
        yield _settled(connection, reads, nodes)


def _settled(connection: ZooKeeperConnection, reads: ManyReads, nodes: GroupNodes) -> GroupNodes:
    passes = 1
    while not nodes.stood_together and passes < PASSES:
        (nodes,) = _read(connection, reads, [nodes.group])
        passes += 1
    return nodes


def _read(connection: ZooKeeperConnection, reads: ManyReads, groups: Iterable[str]) -> Iterator[GroupNodes]:
    # There are four levels of questions; the questions of each level depend on the answers of the level above.  For
    # each group, a key without a question passes through all levels, so that the group is yielded after all answers
    # about it.

    def whole_groups() -> Iterator[tuple[GroupNodes, Read | None]]:
        for group in groups:
            nodes = GroupNodes(group, known_zxid=connection.last_zxid)
            yield nodes, ReadNames(group_node(group)) if is_node_name(group) else None

    def parts() -> Iterator[tuple[tuple[GroupNodes, str], Read | None]]:
        for nodes, found in reads.answers(whole_groups()):
            names = _names(nodes, found)
            nodes.has_group = found is not None and not isinstance(found, NoNodeError)
            if "ids" in names:
                yield (nodes, "ids"), ReadNames(f"{group_node(nodes.group)}/ids")
            if "offsets" in names:
                yield (nodes, "offsets"), ReadListing(offsets_node(nodes.group))
            yield (nodes, ""), None

    def topics() -> Iterator[tuple[_Key, Read | None]]:
        for (nodes, part), found in reads.answers(parts()):
            if part == "":
                yield _Key(nodes), None
            elif part == "ids":
                nodes.has_consumers = not isinstance(found, ZooKeeperError) and bool(found)
            else:
                nodes.has_offsets = not isinstance(found, NoNodeError)
                for topic in _listed(nodes, found):
                    yield _Key(nodes, topic), ReadListing(topic_node(nodes.group, topic))

    def positions() -> Iterator[tuple[_Key, Read | None]]:
        for key, found in reads.answers(topics()):
            nodes, topic, _ = key
            if topic is None:
                yield key, None
                continue
            if not isinstance(found, NoNodeError):
                nodes.topics.add(topic)
            above = topic_node(nodes.group, topic)
            for partition in _listed(nodes, found):
                yield _Key(nodes, topic, partition), ReadNode(f"{above}/{partition}")

    for (nodes, topic, partition), found in reads.answers(positions()):
        if topic is None or partition is None:
            yield nodes
        elif isinstance(found, ZooKeeperError):
            _not_given(nodes, found)
        else:
            node = cast("Node", found)
            nodes.offsets.append(OffsetNode(nodes.group, topic, partition, node.data, node.stat))
            if node.stat.modified_zxid > nodes.known_zxid:
                nodes.stood_together = False


def _names(nodes: GroupNodes, found: Found | ZooKeeperError | None) -> list[str]:
    """Returns the names below a node; an empty list if the node does not exist.

    If ZooKeeper refuses to return the names, records the error.
    """
    if isinstance(found, ZooKeeperError):
        if not isinstance(found, NoNodeError):
            nodes.not_given.append(found)
        return []
    return [] if found is None else cast("list[str]", found)


def _listed(nodes: GroupNodes, found: Found | ZooKeeperError | None) -> list[str]:
    """Returns the names below a node; records whether one was created or removed since the read of the group began."""
    if isinstance(found, ZooKeeperError):
        _not_given(nodes, found)
        return []
    names, stat = cast("tuple[list[str], NodeStat]", found)
    if stat.children_zxid > nodes.known_zxid:
        nodes.stood_together = False
    return names


def _not_given(nodes: GroupNodes, failure: ZooKeeperError) -> None:
    if isinstance(failure, NoNodeError):
        # The node existed when the node above it was read.
        nodes.stood_together = False
    else:
        nodes.not_given.append(failure)
