"""ZooKeeper as the source or the target of a migration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from offsetlog.errors import (
    GroupError,
    InvalidArgumentError,
    NodeExistsError,
    NodeVersionError,
    NoNodeError,
    OffsetLogError,
    TopicError,
    UnknownOutcomeError,
    ZooKeeperUnavailableError,
)
from offsetlog.migration import rules
from offsetlog.migration.places import Fate, GroupOffsets, GroupWrite, Held, Refused, Written
from offsetlog.zookeeper.connection import Answer, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import (
    CONSUMERS,
    check_group,
    check_topic,
    data_of,
    group_node,
    groups_in,
    offset_node,
    offsets_node,
    text_of,
    topic_node,
)
from offsetlog.zookeeper.group_nodes import GroupNodes, read_groups
from offsetlog.zookeeper.requests import Multi

TOO_LARGE = (
    "the {count} writes of the group exceed the limit of one request to ZooKeeper ({most} bytes, jute.maxbuffer). "
    "With --split, they are sent in several requests; some of these may succeed and others fail"
)


class _Sent(NamedTuple):
    """The requests that write one group, after they have been sent."""

    write: GroupWrite
    requests: list[Multi]
    answers: list[Answer[None]]


class ZooKeeperPlace:
    """The offsets below /consumers in a ZooKeeper ensemble.  Not thread-safe.

    Args:
        connection: the connection, which must be started.
        in_flight: the largest number of reads of each kind that wait for answers.  At most a quarter as many groups
            are being written at a time.
        split: whether to write a group in several requests if it is too large for one.  Only part of such a write may
            be applied.
    """

    has: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    incomplete: tuple[str, ...] = ()

    def __init__(self, connection: ZooKeeperConnection, *, in_flight: int = 64, split: bool = False) -> None:
        self._connection = connection
        self._in_flight = in_flight
        self._split = split

    def groups(self) -> list[str]:
        """Returns the names below /consumers, sorted; raises InvalidArgumentError if that node does not exist."""
        self._connection.sync_async().result()
        return groups_in(self._connection)

    def prepare(self, *, dry_run: bool) -> None:
        """Creates /consumers, the node above all groups, if it does not exist.

        Raises:
            InvalidArgumentError: the root of the connection does not exist.  The root is not created, because it may
                be misspelt.
        """
        if self._connection.exists("/") is None:
            raise InvalidArgumentError(
                f"ZooKeeper has no node for the root in {self._connection.settings.hosts!r}; correct the "
                "root, or create the node with ZooKeeper's own client"
            )
        if dry_run or self._connection.exists(CONSUMERS) is not None:
            return
        try:
            self._connection.create(CONSUMERS)
        except (NodeExistsError, UnknownOutcomeError):
            # Another client created the node, or this request may have created it; if it is missing, the first write
            # reports that.
            return

    # -------------------------------------------------------------------------------------------------------- reading

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; raises ZooKeeperUnavailableError if no server answers."""
        self._connection.sync_async().result()
        for nodes in read_groups(self._connection, groups, self._in_flight):
            yield _group_of(nodes)

    # -------------------------------------------------------------------------------------------------------- writing

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns the reason why no ZooKeeper node can have the name of the group or of the topic, or None."""
        try:
            check_group(group)
            check_topic(topic)
        except (GroupError, TopicError) as refused:
            return str(refused)
        return None

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Executes each write as one request, which names the versions of the nodes that were read; see `Target`."""
        groups = max(1, self._in_flight // 4)
        waiting: deque[_Sent] = deque()
        for write in writes:
            if not write.changes:
                yield Written(write, Fate.MADE)
                continue
            if len(waiting) >= groups:
                yield _fate_of(waiting.popleft())
            multi = self._request_of(write)
            most = self._connection.settings.request_bytes_max
            if multi.size <= most:
                waiting.append(_Sent(write, [multi], [self._connection.send_async(multi)]))
            elif self._split:
                parts = list(multi.parts(most))
                waiting.append(_Sent(write, parts, [self._connection.send_async(each) for each in parts]))
            else:
                yield Written(write, Fate.REFUSED, TOO_LARGE.format(count=len(write.changes), most=most))
        while waiting:
            yield _fate_of(waiting.popleft())

    def _request_of(self, write: GroupWrite) -> Multi:
        group, nodes = write.group, write.target.nodes
        assert nodes is not None
        multi = self._connection.new_multi()
        if not nodes.has_group:
            multi.create(group_node(group))
        if not nodes.has_offsets:
            multi.create(offsets_node(group))
        above: dict[str, str] = {}
        for (topic, partition), held, current in write.changes:
            if topic not in above:
                above[topic] = topic_node(group, topic)
                if topic not in nodes.topics:
                    multi.create(above[topic])
            node = f"{above[topic]}/{partition}"
            if current is None:
                multi.create(node, data_of(held.offset))
            else:
                multi.set_data(node, data_of(held.offset), current.version)
        return multi


def _group_of(nodes: GroupNodes) -> GroupOffsets:
    group = GroupOffsets(nodes.group, has_consumers=nodes.has_consumers, nodes=nodes)
    for node in nodes.offsets:
        row = rules.Row(node.group, node.topic, node.partition, text_of(node.data))
        read = rules.read_row(row)
        if isinstance(read, str):
            group.refused.append(Refused(node.node, node.group, node.topic, node.partition, row.offset, read))
        else:
            group.offsets[read.key] = Held(read.offset, version=node.stat.version)
    for failure in nodes.not_given:
        place = failure.node or ""
        _, _, _, _, topic, partition = (*place.split("/"), *[""] * 6)[:6]
        group.refused.append(Refused(place, nodes.group, topic, partition, None, str(failure)))
    if nodes.not_given:
        group.is_closed = str(nodes.not_given[0])
    return group


class _Outcome(NamedTuple):
    """The outcome of one request, with the reason if it was refused.

    Attributes:
        lacks_node: whether the request failed because a node or its parent is missing.
    """

    fate: Fate
    reason: str = ""
    lacks_node: bool = False


def _fate_of(sent: _Sent) -> Written:
    """Waits for the answers to the requests of a group; returns the outcome of its write."""
    outcomes = [_outcome_of(each) for each in sent.answers]
    if len(outcomes) == 1:
        return Written(sent.write, *outcomes[0][:2])
    reason = ""
    refused: set[str] = set()
    for each, request in zip(outcomes, sent.requests, strict=True):
        # If a request was refused, a later one may lack a node that the refused one would have created.
        is_refused = each.fate is Fate.REFUSED or (each.lacks_node and reason != "")
        if is_refused:
            reason = reason or each.reason
            refused.update(request.nodes)
        elif each.fate is not Fate.MADE:
            # Some of the requests may have been executed: the next read of the target shows which.
            return Written(sent.write, Fate.UNKNOWN)
    if not refused:
        return Written(sent.write, Fate.MADE)
    group = sent.write.group
    keys = frozenset(key for key, _, _ in sent.write.changes if offset_node(group, key) in refused)
    return Written(sent.write, Fate.REFUSED, reason, keys)


def _outcome_of(answer: Answer[None]) -> _Outcome:
    try:
        answer.result()
    except (NodeVersionError, NodeExistsError):
        return _Outcome(Fate.CHANGED)
    except NoNodeError:
        return _Outcome(Fate.CHANGED, lacks_node=True)
    except (UnknownOutcomeError, ZooKeeperUnavailableError):
        return _Outcome(Fate.UNKNOWN)
    except OffsetLogError as refused:
        return _Outcome(Fate.REFUSED, str(refused))
    return _Outcome(Fate.MADE)
