"""Consumer offsets in ZooKeeper: /consumers/GROUP/offsets/TOPIC/PARTITION contains a decimal number in ASCII.

All nodes above this node are empty.  ZooKeeper stores no metadata of a position.  docs/format/brokers.md §15.2
describes the nodes that brokers and consumers of Kafka 0.8 to 1.1 wrote.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from offsetlog.errors import (
    CorruptionError,
    GroupError,
    InvalidArgumentError,
    NoNodeError,
    TopicError,
    ZooKeeperError,
    ZooKeeperUnavailableError,
)
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import Answer, Node, NodeStat, ZooKeeperConnection

CONSUMERS = "/consumers"
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1

#: More than the text of any offset needs; a node can hold a megabyte.
_TEXT_BYTES_MAX = 100
_NUMBER = re.compile(rb"[0-9]{1,19}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
# ZooKeeper's own rule for paths, by UTF-16 unit: no control characters, no surrogates (hence no character above
# U+FFFF), no private-use characters, no specials.
_NOT_IN_PATHS = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff/]")

K = TypeVar("K")
T = TypeVar("T")


class OffsetNode(NamedTuple):
    """The node of an offset as ZooKeeper stores it; its name and its bytes have not been checked.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the name of the node, which should be the number of a partition.
        data: the bytes of the node; None if the node has null instead of bytes.
        stat: the version and the times of the node.
    """

    group: str
    topic: str
    partition: str
    data: bytes | None
    stat: NodeStat

    @property
    def node(self) -> str:
        """The path of the node."""
        return f"{topic_node(self.group, self.topic)}/{self.partition}"

    def key(self) -> TopicPartition:
        """Returns the topic and partition of the node.

        Raises:
            CorruptionError: the name of the node is not a partition number; `path` names the node.
        """
        return TopicPartition(self.topic, partition_in(self.partition, self.node))

    def offset(self) -> int:
        """Returns the offset.  Raises CorruptionError, with the node's path, if the bytes are not an offset."""
        return offset_in(self.data, self.node)


def partition_in(name: str, node: str) -> int:
    """Parses the name of a partition's node.

    Raises:
        CorruptionError: the name is not a partition number; `path` names the node.
    """
    if not _PARTITION.fullmatch(name) or int(name) > PARTITION_MAX:
        raise CorruptionError("the name of the node is not a partition number", path=node)
    return int(name)


def offset_in(data: bytes | None, node: str) -> int:
    """Parses the bytes of an offset's node.

    Raises:
        CorruptionError: the bytes are not a decimal number from 0 to 2**63 - 1; `path` names the node.
    """
    if data is None or not _NUMBER.fullmatch(data) or int(data) > OFFSET_MAX:
        shown = "null" if data is None else f"{len(data)} bytes, {data[:40]!r}"
        raise CorruptionError(f"the node must hold an offset, not {shown}", path=node)
    return int(data)


def text_of(data: bytes | None) -> str | None:
    """Returns the bytes of a node as text, or None for null.  A text that is too long for an offset is shortened."""
    return None if data is None else data[:_TEXT_BYTES_MAX].decode("utf-8", "replace")


def data_of(offset: int) -> bytes:
    """Returns the bytes with which consumers write an offset."""
    return b"%d" % offset


def is_node_name(name: str) -> bool:
    """Whether ZooKeeper accepts a name for a node."""
    return name not in ("", ".", "..") and not _NOT_IN_PATHS.search(name)


def check_group(group: str) -> None:
    """Raises GroupError if no node can have the group's name."""
    if not is_node_name(group):
        raise GroupError(f"the group {group!r} cannot be kept in ZooKeeper: no node can have this name")


def check_topic(topic: str) -> None:
    """Raises TopicError if no node can have the topic's name."""
    if not is_node_name(topic):
        raise TopicError(f"the topic {topic!r} cannot be kept in ZooKeeper: no node can have this name")


def group_node(group: str) -> str:
    """Returns the path of the node above all nodes of a group."""
    return f"{CONSUMERS}/{group}"


def offsets_node(group: str) -> str:
    """Returns the path of the node above the topics of a group."""
    return f"{CONSUMERS}/{group}/offsets"


def topic_node(group: str, topic: str) -> str:
    """Returns the path of the node above the partitions of a topic."""
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset_node(group: str, key: TopicPartition) -> str:
    """Returns the path of a position."""
    return f"{CONSUMERS}/{group}/offsets/{key[0]}/{key[1]}"


def settled(
    questions: Iterable[tuple[K, Callable[[], Answer[T]]]], in_flight: int
) -> Iterator[tuple[K, T | ZooKeeperError]]:
    """Sends questions; yields (key, answer) in the order of the questions.

    If ZooKeeper refuses to return a node, the answer is the error.

    Args:
        questions: pairs of a key, which the caller chooses, and a call that sends the question.
        in_flight: the largest number of questions that wait for answers.

    Raises:
        ZooKeeperUnavailableError: no server answers, so no node can be read.
    """
    waiting: deque[tuple[K, Answer[T]]] = deque()

    def next_answer() -> tuple[K, T | ZooKeeperError]:
        key, answer = waiting.popleft()
        try:
            return key, answer.result()
        except ZooKeeperUnavailableError:
            raise
        except ZooKeeperError as failure:
            return key, failure

    some = in_flight // 8
    for key, ask in questions:
        if len(waiting) >= in_flight:
            # The loop waits for several answers at once, because one wait for many answers costs less than many waits.
            # It does not wait for all of them, so that the ensemble always has questions to answer.
            waiting[some][1].wait()
            yield next_answer()
            while waiting and waiting[0][1].done():
                yield next_answer()
        waiting.append((key, ask()))
    while waiting:
        yield next_answer()


def pipelined(questions: Iterable[tuple[K, Callable[[], Answer[T]]]], in_flight: int) -> Iterator[tuple[K, T | None]]:
    """Sends questions; yields (key, answer) in their order, with None for a missing node; see `settled`.

    Raises:
        ZooKeeperError: any error of an answer except NoNodeError.
    """
    for key, found in settled(questions, in_flight):
        if isinstance(found, NoNodeError):
            yield key, None
        elif isinstance(found, ZooKeeperError):
            raise found
        else:
            yield key, found


def groups_in(connection: ZooKeeperConnection) -> list[str]:
    """Returns the names below /consumers, sorted.

    Raises:
        InvalidArgumentError: /consumers does not exist.  Old Kafka always created this node, so the root is wrong.
        ZooKeeperError: ZooKeeper refuses to return the names.
    """
    try:
        return connection.children(CONSUMERS)
    except NoNodeError:
        reason = (
            f"ZooKeeper at {connection.settings.hosts!r} has no node {CONSUMERS}; check the root path after the hosts"
        )
        raise InvalidArgumentError(reason) from None


def read_offsets(connection: ZooKeeperConnection, groups: Iterable[str], in_flight: int = 64) -> Iterator[OffsetNode]:
    """Yields the offset nodes of groups, without the nodes that are removed during the read.

    Call `connection.sync_async()` before this function to see the earlier writes of other clients.

    Args:
        connection: a started connection.
        groups: the names of the groups.  A group has no nodes if it does not exist, or if no node can have its name.
        in_flight: the largest number of reads that wait for answers, of each kind (topics, partitions, offsets).

    Raises:
        ZooKeeperError: ZooKeeper refuses to return a node.
    """

    def topics() -> Iterator[tuple[str, Callable[[], Answer[list[str]]]]]:
        for group in filter(is_node_name, groups):
            yield group, partial(connection.children_async, offsets_node(group))

    def partitions() -> Iterator[tuple[tuple[str, str], Callable[[], Answer[list[str]]]]]:
        for group, names in pipelined(topics(), in_flight):
            for topic in names or ():
                yield (group, topic), partial(connection.children_async, topic_node(group, topic))

    def nodes() -> Iterator[tuple[tuple[str, str, str], Callable[[], Answer[Node]]]]:
        for (group, topic), names in pipelined(partitions(), in_flight):
            for partition in names or ():
                node = f"{topic_node(group, topic)}/{partition}"
                yield (group, topic, partition), partial(connection.get_async, node)

    for (group, topic, partition), found in pipelined(nodes(), in_flight):
        if found is not None:
            yield OffsetNode(group, topic, partition, found.data, found.stat)
