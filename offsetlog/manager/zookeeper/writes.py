"""Computes the writes of a commit from the existing nodes and the new positions.  No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from offsetlog.errors import ExpectedOffsetError, RewindError
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.consumer_offsets import CONSUMERS, data_of, group_node, offset_node, offsets_node, topic_node
from offsetlog.zookeeper.operations import ANY_VERSION, Create, Operation, SetData


def nodes_above(group: str, keys: Iterable[TopicPartition]) -> list[str]:
    """Returns the paths of all nodes above the positions, parents before children."""
    topics = dict.fromkeys(topic_node(group, key[0]) for key in keys)
    return [CONSUMERS, group_node(group), offsets_node(group), *topics]


def writes_over(group: str, offsets: Mapping[TopicPartition, int]) -> list[Operation]:
    """Returns the writes of a commit whose nodes all exist."""
    return [SetData(offset_node(group, key), data_of(offset)) for key, offset in offsets.items()]


def writes(
    group: str,
    offsets: Mapping[TopicPartition, int],
    there: Collection[str],
    versions: Mapping[TopicPartition, int],
) -> list[Operation]:
    """Returns the writes of a commit.

    Args:
        group: the consumer group.
        offsets: the positions to commit.
        there: those nodes of the positions, and above them, that exist.  The writes create the
            other nodes.
        versions: for some of the positions, the version that the node must still have.
    """
    made: list[Operation] = [Create(node) for node in nodes_above(group, offsets) if node not in there]
    for key, offset in offsets.items():
        node, data = offset_node(group, key), data_of(offset)
        made.append(SetData(node, data, versions.get(key, ANY_VERSION)) if node in there else Create(node, data))
    return made


def check_conditions(
    group: str,
    offsets: Mapping[TopicPartition, int],
    expected: Mapping[TopicPartition, int | None],
    monotonic: bool,
    found: Mapping[TopicPartition, int | None],
) -> None:
    """Refuses a commit if one of its conditions does not hold for the offsets that were read.

    Raises:
        ExpectedOffsetError, RewindError.
    """
    for key, wanted in expected.items():
        if found[key] != wanted:
            raise ExpectedOffsetError.found(group, key[0], key[1], expected=wanted, actual=found[key])
    for key, offset in offsets.items() if monotonic else ():
        actual = found[key]
        if actual is not None and offset < actual:
            raise RewindError.found(group, key[0], key[1], asked=offset, actual=actual)
