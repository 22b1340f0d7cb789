"""OffsetCommit and OffsetFetch (docs/format/coordinator.md §5.1, §5.3, docs/format/brokers.md §15.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple, ParamSpec, TypeVar
from uuid import UUID

from offsetlog import error_codes
from offsetlog.coordinator.classic_group import ClassicGroup, GroupState
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import OffsetLogError, StringTooLongError
from offsetlog.manager.interface import Pending, PendingCommit
from offsetlog.protocol import Request, encode_response
from offsetlog.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetCommitResponseTopicPartition,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
    OffsetDeleteResponseTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopicPartition,
)
from offsetlog.server.answer_errors import error_answer
from offsetlog.server.exchange import Exchange
from offsetlog.server.group_host import write_error
from offsetlog.server.metadata_store import Topic
from offsetlog.server.node import NodeState
from offsetlog.types import OffsetAndMetadata, TopicPartition

#: From this version on, ids identify topics instead of names.
WITH_TOPIC_IDS = 10
#: When the positions of groups that are fetched in full reach this number in an answer, the client
#: must ask for the other groups again.
POSITIONS_MAX = 100_000
#: From this version on, OffsetFetch takes any number of groups.
FETCH_OF_GROUPS = 8
#: Before this version, the error of a group is repeated for each of its partitions.
FETCH_WITH_ERROR = 2

#: In this version, a missing position is an error of its partition.
FETCH_WITHOUT_POSITION_UNKNOWN = 0

P = ParamSpec("P")
T = TypeVar("T")

NO_ID = bytes(16)
#: The last possible time, in ms since 1970.
TIME_MAX = 2**63 - 1
#: The answer of a fetch for a partition without a position.
NO_POSITION = OffsetAndMetadata(-1)


class _Key(NamedTuple):
    # A topic by its name and id, as the client gave them.
    name: str
    topic_id: bytes


# --------------------------------------------------------------------------------------------- commit


class _CommitAnswer:
    """The answer to a commit: first the partitions that do not exist, then the others in the client's order.

    If the request names a topic twice, the answer names the topic twice as well.  But if any
    requested partition does not exist, the answer names each topic once, as in Kafka.
    """

    def __init__(self) -> None:
        self._refused: dict[_Key, list[OffsetCommitResponseTopicPartition]] = {}
        self._decided: list[tuple[_Key, list[OffsetCommitResponseTopicPartition]]] = []

    def refuse(self, key: _Key, partitions: Iterable[int], error: ErrorCode) -> None:
        """Adds partitions that do not exist, with the error that says so."""
        self._refused.setdefault(key, []).extend(
            OffsetCommitResponseTopicPartition(each, error.code) for each in partitions
        )

    def add(self, key: _Key, errors: Iterable[tuple[int, ErrorCode | None]]) -> None:
        """Adds partitions of one topic, each with the error that prevents its commit, or None if there is none."""
        partitions = [
            OffsetCommitResponseTopicPartition(each, 0 if error is None else error.code)
            for each, error in errors
        ]
        self._decided.append((key, partitions))

    def message(self) -> OffsetCommitResponse:
        topics: Iterable[tuple[_Key, list[OffsetCommitResponseTopicPartition]]] = self._decided
        if self._refused:
            merged = {key: list(partitions) for key, partitions in self._refused.items()}
            for key, partitions in self._decided:
                merged.setdefault(key, []).extend(partitions)
            topics = merged.items()
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(key.name, key.topic_id, tuple(partitions))
                for key, partitions in topics
            )
        )


#: By topic, in the order of the request: partitions with the errors that keep them from being
#: committed.
_Errors = list[tuple[_Key, list[tuple[int, ErrorCode | None]]]]


def offset_commit(node: NodeState, exchange: Exchange) -> None:
    """Commits the positions of one request that are not refused: either all of these, or none."""
    request: OffsetCommitRequest = exchange.request.message
    answer = _CommitAnswer()
    known = _known_topics(node, request.topics, exchange.version, answer)
    if not known:
        exchange.reply(answer.message())
        return
    refusal = node.groups.coordinator.commit_refusal(
        request, exchange.version, node.groups.now()
    )
    if refusal is not None:
        for topic in known:
            key = _Key(topic.name, topic.topic_id)
            answer.add(key, [(each.partition_index, refusal) for each in topic.partitions])
        exchange.reply(answer.message())
        return
    _write(node, exchange, known, answer)


def _known_topics(
    node: NodeState,
    topics: Sequence[OffsetCommitRequestTopic],
    version: int,
    answer: _CommitAnswer,
) -> list[OffsetCommitRequestTopic]:
    known = []
    for asked in topics:
        key = _Key(asked.name, asked.topic_id)
        topic = _topic_of(node, asked.name, asked.topic_id, version)
        if topic is None:
            error = (
                error_codes.UNKNOWN_TOPIC_ID
                if version >= WITH_TOPIC_IDS
                else error_codes.UNKNOWN_TOPIC_OR_PARTITION
            )
            answer.refuse(key, [each.partition_index for each in asked.partitions], error)
            continue
        there = [each for each in asked.partitions if 0 <= each.partition_index < topic.partitions]
        if len(there) < len(asked.partitions):
            numbers = [each.partition_index for each in asked.partitions]
            missing = [each for each in numbers if not 0 <= each < topic.partitions]
            answer.refuse(key, missing, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        if there:
            known.append(asked._replace(partitions=there))
    return known


def _topic_of(node: NodeState, name: str, topic_id: bytes, version: int) -> Topic | None:
    if version >= WITH_TOPIC_IDS:
        return node.metadata.topic_of_id(topic_id)
    return node.metadata.topic(name)


def _write(
    node: NodeState,
    exchange: Exchange,
    topics: list[OffsetCommitRequestTopic],
    answer: _CommitAnswer,
) -> None:
    request: OffsetCommitRequest = exchange.request.message
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: _Errors = []
    now_ms = node.groups.now_ms()
    for asked in topics:
        topic = _topic_of(node, asked.name, asked.topic_id, exchange.version)
        assert topic is not None
        own: list[tuple[int, ErrorCode | None]] = []
        errors.append((_Key(asked.name, asked.topic_id), own))
        for each in asked.partitions:
            is_too_large = _utf16_units(each.committed_metadata) > node.metadata_max_units
            error = error_codes.OFFSET_METADATA_TOO_LARGE if is_too_large else None
            own.append((each.partition_index, error))
            if not is_too_large:
                key = TopicPartition(topic.name, each.partition_index)
                offsets[key] = _position(request, each, topic, now_ms)
    if not offsets:
        _answer_commit(exchange, answer, errors, None)
        return
    try:
        pending = node.manager.group_log.commit_async(request.group_id, offsets)
    except OffsetLogError as failure:
        _answer_commit(exchange, answer, errors, write_error(failure))
        return
    node.front.count_commit(request.group_id)
    pending.add_done_callback(
        lambda done: node.groups.call_soon(_committed, node, exchange, answer, errors, done)
    )


def _committed(
    node: NodeState,
    exchange: Exchange,
    answer: _CommitAnswer,
    errors: _Errors,
    pending: PendingCommit,
) -> None:
    failed = None
    try:
        pending.result(0)
        node.metrics.committed(sum(error is None for _, own in errors for _, error in own))
    except OffsetLogError as failure:
        failed = node.groups.write_failed(exchange.request.message.group_id, failure)
    _answer_commit(exchange, answer, errors, failed)


def commit_refused(request: Request, failure: OffsetLogError) -> bytes:
    """Returns the encoded answer to a commit that failed while it waited for durability."""
    answer = error_answer(request, write_error(failure).code)
    return encode_response(answer, request.api_version, request.correlation_id)


def _answer_commit(
    exchange: Exchange,
    answer: _CommitAnswer,
    errors: _Errors,
    failed: ErrorCode | None,
) -> None:
    for key, own in errors:
        answer.add(key, [(partition, failed or error) for partition, error in own])
    exchange.reply(answer.message())


def _position(
    request: OffsetCommitRequest,
    asked: OffsetCommitRequestTopicPartition,
    topic: Topic,
    now_ms: int,
) -> OffsetAndMetadata:
    expires = -1
    if request.retention_time_ms != -1:
        expires = min(max(now_ms + request.retention_time_ms, 0), TIME_MAX)
    return OffsetAndMetadata(
        asked.committed_offset,
        asked.committed_metadata or "",
        asked.committed_leader_epoch,
        max(asked.commit_timestamp, -1),
        expires,
        UUID(bytes=topic.topic_id),
    )


def _utf16_units(text: str | None) -> int:
    return 0 if text is None else len(text.encode("utf-16-le", "surrogatepass")) // 2


# --------------------------------------------------------------------------------------------- delete


def offset_delete(node: NodeState, exchange: Exchange) -> None:
    """Deletes positions of topics that the group does not read."""
    request: OffsetDeleteRequest = exchange.request.message
    refusal = node.groups.coordinator.offset_delete_refusal(request.group_id)
    if refusal is not None:
        exchange.reply(OffsetDeleteResponse(error_code=refusal.code))
        return
    group = node.groups.coordinator.group(request.group_id)
    refused: dict[str, list[OffsetDeleteResponseTopicPartition]] = {}
    deleted: dict[str, list[OffsetDeleteResponseTopicPartition]] = {}
    for asked in request.topics:
        topic = node.metadata.topic(asked.name)
        is_read = group is not None and _is_read(group, asked.name)
        for each in asked.partitions:
            number = each.partition_index
            if topic is None or not 0 <= number < topic.partitions:
                error, place = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code, refused
            elif is_read:
                error, place = error_codes.GROUP_SUBSCRIBED_TO_TOPIC.code, deleted
            else:
                error, place = 0, deleted
            answer = OffsetDeleteResponseTopicPartition(number, error)
            place.setdefault(asked.name, []).append(answer)
    _delete(node, exchange, refused, deleted)


def _is_read(group: ClassicGroup, topic: str) -> bool:
    return group.state is not GroupState.EMPTY and group.is_subscribed_to(topic)


def _delete(
    node: NodeState,
    exchange: Exchange,
    refused: dict[str, list[OffsetDeleteResponseTopicPartition]],
    deleted: dict[str, list[OffsetDeleteResponseTopicPartition]],
) -> None:
    topics = dict(refused)
    for name, partitions in deleted.items():
        topics[name] = [*topics.get(name, []), *partitions]
    answer = OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(name, tuple(partitions))
            for name, partitions in topics.items()
        )
    )
    keys = [
        TopicPartition(name, each.partition_index)
        for name, partitions in deleted.items()
        for each in partitions
        if each.error_code == 0
    ]
    if not keys:
        exchange.reply(answer)
        return
    try:
        pending = node.manager.delete_async(exchange.request.message.group_id, keys)
    except OffsetLogError as failure:
        exchange.reply(OffsetDeleteResponse(error_code=write_error(failure).code))
        return
    pending.add_done_callback(lambda done: node.groups.call_soon(_deleted, exchange, answer, done))


def _deleted(exchange: Exchange, answer: OffsetDeleteResponse, pending: Pending[int]) -> None:
    try:
        pending.result(0)
    except OffsetLogError as failure:
        answer = OffsetDeleteResponse(error_code=write_error(failure).code)
    exchange.reply(answer)


# ---------------------------------------------------------------------------------------------- fetch


#: The errors of log partitions whose written records are not in effect yet, by partition number.
_Unsettled = Mapping[int, ErrorCode]


def offset_fetch(node: NodeState, exchange: Exchange) -> None:
    """Answers with the positions of groups, for the requested partitions or for all.

    If the client requires stable positions, the answer waits until every record that was already
    written to the log partitions of these groups has taken effect.
    """
    request: OffsetFetchRequest = exchange.request.message
    is_of_groups = exchange.version >= FETCH_OF_GROUPS
    asked = request.groups if is_of_groups else [request]
    names = [each.group_id for each in asked]
    waits = _unsettled(node, names) if request.require_stable else {}
    if not waits:
        _answer_fetch(node, exchange, {})
        return
    exchange.wait()
    failed: dict[int, ErrorCode] = {}
    left = set(waits)

    def settled(number: int, pending: Pending[int]) -> None:
        left.discard(number)
        try:
            pending.result(0)
        except OffsetLogError as failure:
            failed[number] = write_error(failure)
        if not left:
            _answer_fetch(node, exchange, failed)

    for number, pending in waits.items():
        pending.add_done_callback(partial(node.groups.call_soon, settled, number))


def _unsettled(node: NodeState, groups: Iterable[str]) -> dict[int, Pending[int]]:
    found: dict[int, Pending[int]] = {}
    for group in groups:
        number = node.groups.partition_for(group)
        if number in found or node.groups.coordinator.refusal(group) is not None:
            continue
        pending = _if_storable(node.manager.group_log.settled_async, group)
        if pending is not None:
            found[number] = pending
    return found


def _if_storable(read: Callable[P, T], *asked: P.args, **more: P.kwargs) -> T | None:
    # Calls a function about a group; returns None if no record can hold the name of the group or
    # the topic.
    try:
        return read(*asked, **more)
    except StringTooLongError:
        return None


class _Reading:
    """Reads the positions for one request; reads each group once, however often it is named."""

    def __init__(self, node: NodeState, version: int, require_stable: bool) -> None:
        self.node = node
        self.version = version
        self._require_stable = require_stable
        self._unstable: dict[str, AbstractSet[tuple[str, int]]] = {}
        self._all: dict[str, tuple[OffsetFetchResponseGroupTopic, ...]] = {}
        self._answered = 0

    def unstable(self, group_id: str) -> AbstractSet[tuple[str, int]]:
        """Returns the partitions whose positions are not stable and must not be answered.

        Call this before reading the positions, because a transaction that ends between this call
        and the read may change them.  Raises the same errors as `GroupLog.pending`.
        """
        if not self._require_stable:
            return frozenset()
        if group_id not in self._unstable:
            pending = self.node.manager.group_log.pending
            self._unstable[group_id] = _if_storable(pending, group_id) or frozenset()
        return self._unstable[group_id]

    def all_positions(self, group_id: str) -> tuple[OffsetFetchResponseGroupTopic, ...] | None:
        """Returns all positions of a group, or None if the answer is full.

        Raises the same errors as `OffsetManager.fetch`.
        """
        if self._answered >= POSITIONS_MAX:
            return None
        if group_id not in self._all:
            unstable = self.unstable(group_id)
            self._all[group_id] = _all_positions(self.node, group_id, self.version, unstable)
        topics = self._all[group_id]
        self._answered += sum(len(each.partitions) for each in topics)
        return topics


def _answer_fetch(node: NodeState, exchange: Exchange, unsettled: _Unsettled) -> None:
    request: OffsetFetchRequest = exchange.request.message
    reading = _Reading(node, exchange.version, request.require_stable)
    if exchange.version >= FETCH_OF_GROUPS:
        groups = tuple(_fetched(reading, each, unsettled) for each in request.groups)
        exchange.reply(OffsetFetchResponse(groups=groups))
        return
    asked = OffsetFetchRequestGroup(
        request.group_id,
        topics=None
        if request.topics is None
        else tuple(
            OffsetFetchRequestGroupTopic(each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ),
    )
    group = _fetched(reading, asked, unsettled)
    exchange.reply(_old_answer(group, asked, exchange.version))


def _old_answer(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    topics: Sequence[OffsetFetchResponseGroupTopic] = group.topics
    if group.error_code and version < FETCH_WITH_ERROR:
        topics = tuple(
            OffsetFetchResponseGroupTopic(
                each.name,
                partitions=tuple(
                    _no_position(number, group.error_code) for number in each.partition_indexes
                ),
            )
            for each in asked.topics or ()
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                topic.name,
                tuple(OffsetFetchResponseTopicPartition(*each) for each in topic.partitions),
            )
            for topic in topics
        ),
    )


def _no_position(number: int, error: int = 0) -> OffsetFetchResponseGroupTopicPartition:
    return OffsetFetchResponseGroupTopicPartition(number, -1, -1, "", error)


def _fetched(
    reading: _Reading, asked: OffsetFetchRequestGroup, unsettled: _Unsettled
) -> OffsetFetchResponseGroup:
    node = reading.node
    refusal = node.groups.coordinator.fetch_refusal(
        asked.group_id, asked.member_id, asked.member_epoch
    )
    if refusal is None:
        refusal = unsettled.get(node.groups.partition_for(asked.group_id))
    if refusal is not None:
        return OffsetFetchResponseGroup(asked.group_id, error_code=refusal.code)
    try:
        topics = (
            reading.all_positions(asked.group_id)
            if asked.topics is None
            else _asked_positions(reading, asked.group_id, asked.topics)
        )
    except OffsetLogError as failure:
        return OffsetFetchResponseGroup(asked.group_id, error_code=failure.error_code)
    if topics is None:
        # Clients ask again only for groups with this error.
        ask_again = error_codes.COORDINATOR_LOAD_IN_PROGRESS
        return OffsetFetchResponseGroup(asked.group_id, error_code=ask_again.code)
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _all_positions(
    node: NodeState, group_id: str, version: int, unstable: AbstractSet[tuple[str, int]]
) -> tuple[OffsetFetchResponseGroupTopic, ...]:
    found: dict[str, list[OffsetFetchResponseGroupTopicPartition]] = {}
    for key, position in (_if_storable(node.manager.fetch, group_id) or {}).items():
        error = error_codes.UNSTABLE_OFFSET_COMMIT.code if key in unstable else 0
        found.setdefault(key.topic, []).append(_fetched_position(key.partition, position, error))
    topics = []
    for name, partitions in found.items():
        topic = node.metadata.topic(name)
        if version >= WITH_TOPIC_IDS and topic is None:
            continue    # the topic has no id, so the client could not identify it
        topic_id = NO_ID if topic is None else topic.topic_id
        topics.append(OffsetFetchResponseGroupTopic(name, topic_id, tuple(partitions)))
    return tuple(topics)


def _asked_positions(
    reading: _Reading, group_id: str, asked: Sequence[OffsetFetchRequestGroupTopic]
) -> tuple[OffsetFetchResponseGroupTopic, ...]:
    node, version = reading.node, reading.version
    unstable = reading.unstable(group_id)
    names = {each: _name_of(node, each, version) for each in asked}
    keys = {
        TopicPartition(name, number)
        for each, name in names.items()
        if name
        for number in each.partition_indexes
        if number >= 0
    }
    found = (_if_storable(node.manager.fetch, group_id, list(keys)) if keys else None) or {}
    known: list[OffsetFetchResponseGroupTopic] = []
    unknown: list[OffsetFetchResponseGroupTopic] = []
    for each in asked:
        name = names[each]
        if name is None:
            code = error_codes.UNKNOWN_TOPIC_ID.code
            partitions = tuple(_no_position(number, code) for number in each.partition_indexes)
        else:
            keys_of_topic = [TopicPartition(name, number) for number in each.partition_indexes]
            partitions = tuple(
                _asked_position(key, found.get(key, NO_POSITION), version, unstable)
                for key in keys_of_topic
            )
        place = unknown if name is None else known
        place.append(OffsetFetchResponseGroupTopic(each.name, each.topic_id, partitions))
    return (*known, *unknown)


def _asked_position(
    key: TopicPartition,
    position: OffsetAndMetadata,
    version: int,
    unstable: AbstractSet[tuple[str, int]],
) -> OffsetFetchResponseGroupTopicPartition:
    error = 0
    if key in unstable:
        error = error_codes.UNSTABLE_OFFSET_COMMIT.code
    elif position == NO_POSITION and version == FETCH_WITHOUT_POSITION_UNKNOWN:
        error = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    return _fetched_position(key.partition, position, error)


def _name_of(node: NodeState, asked: OffsetFetchRequestGroupTopic, version: int) -> str | None:
    if version < WITH_TOPIC_IDS:
        return asked.name
    topic = node.metadata.topic_of_id(asked.topic_id)
    return None if topic is None else topic.name


def _fetched_position(
    number: int, position: OffsetAndMetadata, error: int
) -> OffsetFetchResponseGroupTopicPartition:
    if error:
        return _no_position(number, error)
    return OffsetFetchResponseGroupTopicPartition(
        number, position.offset, position.leader_epoch, position.metadata, error
    )
