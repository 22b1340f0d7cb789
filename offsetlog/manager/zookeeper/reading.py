"""Reads the positions of a group so that they are a snapshot of one moment.

ZooKeeper reads one node after the other, and another client may commit in between.  A reader therefore first notes the
newest transaction of ZooKeeper that it knows, and then reads the nodes.  If no later transaction has changed a node,
the nodes are as they were right after the noted transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from offsetlog.manager.work import Steps, Work
from offsetlog.manager.zookeeper.session import Session
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import Node, NodeStat
from offsetlog.zookeeper.consumer_offsets import OffsetNode, offset_node, offsets_node, topic_node

#: How many times a group that changes during the read is read before commits of this process must wait for the read.
PASSES_BESIDE = 4
#: How many times the group is read while commits of this process wait.  Other processes may still commit, and many
#: clients that commit separately change a large group all the time.  After the last read, the fetch therefore returns
#: what it has: each position had its value at some moment of the call.
PASSES_ALONE = 40

#: For each topic, the names of the nodes of its partitions.
Shape = dict[str, list[str]]


def read_group(
    session: Session, work: Work[Any], group: str, passes: int = PASSES_ALONE
) -> Steps[tuple[list[OffsetNode], bool]]:
    """Returns the nodes of all positions of a group, and whether they are a snapshot of one moment.

    The read sees every write of any client that was answered before.  A group that does not exist has no nodes.

    Raises:
        ZooKeeperError: ZooKeeper refuses to return a node.
    """
    yield from session.sync(work)
    shape: Shape = {}
    nodes: list[OffsetNode] = []
    for _ in range(passes):
        known = session.connection.last_zxid
        found_shape, newest = yield from _shape(session, work, group, shape)
        found, newest_node = yield from _nodes(session, work, group, shape)
        nodes = [each for each in found if each is not None]
        if found_shape == shape and len(nodes) == len(found) and max(newest, newest_node) <= known:
            return nodes, True
        shape = found_shape
    return nodes, False


def _shape(session: Session, work: Work[Any], group: str, known: Shape) -> Steps[tuple[Shape, int]]:
    """Lists the topics of a group, and the partitions of those topics that are known.

    Also returns the newest transaction that changed any of these lists.
    """
    connection = session.connection
    questions = [partial(connection.listing_async, node) for node in (offsets_node(group),)]
    questions += [partial(connection.listing_async, topic_node(group, topic)) for topic in known]
    top, *listed = yield from session.read_many(work, questions)
    if top is None:
        return {}, 0
    partitions = {topic: found for topic, found in zip(known, listed, strict=True) if found is not None}
    # The next pass lists the partitions of a new topic.
    shape = {topic: partitions[topic][0] if topic in partitions else [] for topic in top[0]}
    if any(topic not in known for topic in shape):
        return shape, _NEVER
    return shape, max(stat.children_zxid for _, stat in [top, *partitions.values()])


_NEVER = 2**63


def _nodes(session: Session, work: Work[Any], group: str, shape: Shape) -> Steps[tuple[list[OffsetNode | None], int]]:
    names = [(topic, partition) for topic, partitions in shape.items() for partition in partitions]
    paths = [f"{topic_node(group, topic)}/{partition}" for topic, partition in names]
    answers = yield from session.read_many(work, [partial(session.connection.get_async, path) for path in paths])
    found = [
        None if node is None else OffsetNode(group, topic, partition, node.data, node.stat)
        for (topic, partition), node in zip(names, answers, strict=True)
    ]
    return found, _newest(node.stat for node in answers if node is not None)


def read_positions(
    session: Session, work: Work[Any], group: str, keys: Sequence[TopicPartition], passes: int = PASSES_ALONE
) -> Steps[tuple[list[Node | None], bool]]:
    """Returns the nodes of positions in the order of the keys, with None for a missing node; see `read_group`."""
    yield from session.sync(work)
    paths = [offset_node(group, key) for key in keys]
    questions = [partial(session.connection.get_async, path) for path in paths]
    missing_before: list[bool] | None = None
    nodes: list[Node | None] = []
    for _ in range(passes):
        known = session.connection.last_zxid
        nodes = yield from session.read_many(work, questions)
        missing = [each is None for each in nodes]
        # A missing node has no transaction to compare, so it must be missing in two passes.
        is_settled = all(missing) or not any(missing) or missing == missing_before
        if len(keys) < 2 or (is_settled and _newest(each.stat for each in nodes if each is not None) <= known):
            return nodes, True
        missing_before = missing
    return nodes, False


def _newest(stats: Iterable[NodeStat]) -> int:
    return max((each.modified_zxid for each in stats), default=0)
