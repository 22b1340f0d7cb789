"""The groups in ZooKeeper, and the live consumers of each group."""

from __future__ import annotations

from functools import partial
from typing import Any

from offsetlog.errors import CorruptionError
from offsetlog.manager.work import Steps, Work
from offsetlog.manager.zookeeper.session import Session
from offsetlog.types import OffsetAndMetadata, TopicPartition
from offsetlog.zookeeper.connection import Node, NodeStat
from offsetlog.zookeeper.consumer_offsets import CONSUMERS, group_node, offset_in, partition_in

_NOTHING = OffsetAndMetadata(-1)


def kept_value(offset: int, stat: NodeStat) -> OffsetAndMetadata:
    """Returns the value of a fetch for an offset, with the time at which ZooKeeper wrote it."""
    return OffsetAndMetadata(offset, commit_timestamp=stat.modified_ms)


def value_in(node: Node | None, path: str) -> OffsetAndMetadata:
    """Returns the position in a node; its offset is -1 if the node does not exist.

    Raises:
        CorruptionError: the node does not contain an offset.
    """
    return _NOTHING if node is None else kept_value(offset_in(node.data, path), node.stat)


def group_names(session: Session, work: Work[Any]) -> Steps[list[str]]:
    """Returns the names below /consumers, sorted; an empty list if that node does not exist."""
    yield from session.sync(work)
    (names,) = yield from session.read(work, lambda: [session.connection.children_async(CONSUMERS)])
    return names or []


def owners(session: Session, work: Work[Any], group: str) -> Steps[dict[TopicPartition, str]]:
    """Returns the consumer threads that own partitions.

    Raises:
        CorruptionError: the name of a node is not a partition number, or its content is not text;
            `path` names the node.
    """
    connection, above = session.connection, f"{group_node(group)}/owners"
    yield from session.sync(work)
    (topics,) = yield from session.read(work, lambda: [connection.children_async(above)])
    questions = [partial(connection.children_async, f"{above}/{topic}") for topic in topics or ()]
    listed = yield from session.read_many(work, questions)
    names = [(topic, name) for topic, found in zip(topics or (), listed, strict=True) for name in found or ()]
    paths = [f"{above}/{topic}/{name}" for topic, name in names]
    nodes = yield from session.read_many(work, [partial(connection.get_async, path) for path in paths])
    found: dict[TopicPartition, str] = {}
    for (topic, name), path, node in zip(names, paths, nodes, strict=True):
        if node is not None:
            found[TopicPartition(topic, partition_in(name, path))] = _text(node.data, path)
    return found


def _text(data: bytes | None, path: str) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        raise CorruptionError("the node does not hold text", path=path) from None
