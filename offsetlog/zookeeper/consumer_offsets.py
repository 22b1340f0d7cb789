"""Consumer offsets in ZooKeeper: /consumers/GROUP/offsets/TOPIC/PARTITION contains a decimal number in ASCII.

The nodes above this node are empty.  Metadata is not kept.  docs/format/brokers.md §15.2 describes the nodes that
brokers and consumers of Kafka 0.8 to 1.1 left there.
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
    """The node of an offset as stored in ZooKeeper, unchecked.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the name of the node, which should be a number.
        data: the bytes of the node; None for null.
        stat: the version and times of the node.
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
    """Returns the bytes of a node as text, shortened if they are too long for an offset; None for null."""
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
    """Returns the path above all nodes of a group."""
    return f"{CONSUMERS}/{group}"


def offsets_node(group: str) -> str:
    """Returns the path above the topics of a group."""
    return f"{CONSUMERS}/{group}/offsets"


def topic_node(group: str, topic: str) -> str:
    """Returns the path above the partitions of a topic."""
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset_node(group: str, key: TopicPartition) -> str:
    """Returns the path of a position."""
    return f"{CONSUMERS}/{group}/offsets/{key[0]}/{key[1]}"


def settled(
    questions: Iterable[tuple[K, Callable[[], Answer[T]]]], in_flight: int
) -> Iterator[tuple[K, T | ZooKeeperError]]:
    """Yields (key, answer) in the order of the questions; the answer may be the error of a node.

    Args:
        questions: pairs of a key, which the caller chooses, and the call that sends the question.
        in_flight: the largest number of outstanding answers.

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
            # Some answers are awaited at once, because one wait for many answers costs less than many waits; not all of
            # them, so that the ensemble always has questions to answer.
            waiting[some][1].wait()
            yield next_answer()
            while waiting and waiting[0][1].done():
                yield next_answer()
        waiting.append((key, ask()))
    while waiting:
        yield next_answer()


def pipelined(questions: Iterable[tuple[K, Callable[[], Answer[T]]]], in_flight: int) -> Iterator[tuple[K, T | None]]:
    """Yields (key, answer) in the order of the questions, with None for a missing node; arguments as in `settled`.

    Raises:
        ZooKeeperError: the errors of the answers, except NoNodeError.
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
        InvalidArgumentError: /consumers does not exist, so the root is wrong: old Kafka always created this node.
        ZooKeeperError: ZooKeeper refuses to return the names.
    """
    try:
        return connection.children(CONSUMERS)
    except NoNodeError:
        reason = (
            f"ZooKeeper has no node {CONSUMERS} below the root of {connection.settings.hosts!r}; check the root"
        )
        raise InvalidArgumentError(reason) from None


def read_offsets(connection: ZooKeeperConnection, groups: Iterable[str], in_flight: int = 64) -> Iterator[OffsetNode]:
    """Yields the offset nodes of groups; leaves out nodes that are removed meanwhile.

    Call `connection.sync_async()` first, to see the writes of other clients that were answered before.

    Args:
        connection: a started connection.
        groups: names of groups; groups that do not exist have no nodes, nor do names that no node can have.
        in_flight: the largest number of outstanding answers of each kind (topics, partitions, offsets).

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
