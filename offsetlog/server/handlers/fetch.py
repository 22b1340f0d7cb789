"""Fetch: reads records from logs, and waits if too few exist (docs/format/topics.md §17.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from offsetlog import error_codes
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import ClosedError, OffsetLogError, OffsetOutOfRangeError
from offsetlog.protocol.messages import (
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    FetchResponse,
    FetchResponseResponse,
    FetchResponseResponsePartition,
    FetchResponseResponsePartitionAbortedTransaction,
    FetchResponseResponsePartitionDivergingEpoch,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers.named_partitions import by_topic
from offsetlog.server.metadata_store import Topic
from offsetlog.server.node import NodeState
from offsetlog.server.partition_logs import ReadableLog
from offsetlog.topics.partition_log import PartitionLog

#: From this version on, ids identify topics instead of names.
WITH_TOPIC_IDS = 13
#: The largest size of one answer (``fetch.max.bytes`` of a broker).
BYTES_MAX = 55 << 20
#: A read from the disk takes at least this much memory, since the first batch is read whole: the
#: default of ``message.max.bytes``.
FIRST_BATCH_BYTES = 1 << 20

READ_COMMITTED = 1
#: The session epochs with which a client asks for all partitions.  -1 asks for no session, and 0
#: asks to begin a session.
FULL_FETCH = (-1, 0)

UNKNOWN = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.UNKNOWN_TOPIC_ID)

Answer = FetchResponseResponsePartition
#: The topics of a request, each partition once.
Asked = list[FetchRequestTopic]


@dataclass(frozen=True, slots=True)
class _Place:
    # One partition of the request, with its log or with the error that refuses it.
    asked: FetchRequestTopicPartition
    log: ReadableLog | None
    error: ErrorCode = error_codes.NONE


class _Found(NamedTuple):
    # The answers read so far, by topic; their size in bytes; and whether they can be sent at once.
    answers: list[list[Answer]]
    size: int
    is_enough: bool


def fetch(node: NodeState, exchange: Exchange) -> None:
    """Answers with records, once enough exist or the client's maximum wait has passed."""
    request: FetchRequest = exchange.request.message
    # This server keeps no fetch sessions, so none can be continued.
    if request.session_epoch not in FULL_FETCH:
        exchange.reply(FetchResponse(error_code=error_codes.FETCH_SESSION_ID_NOT_FOUND.code))
        return
    asked = _asked(request)
    wanted = (
        (found, each.partition)
        for topic in asked
        if (found := _topic(node, exchange.version, topic)) is not None
        for each in topic.partitions
    )
    unopened = node.logs.unopened(wanted)
    if unopened:
        node.disk.answer(exchange, _opened_first(node, exchange, asked, unopened))
    else:
        _Fetch(node, exchange, asked).begin()


def _asked(request: FetchRequest) -> Asked:
    topics = (((each.topic, each.topic_id), each.partitions) for each in request.topics)
    return [
        FetchRequestTopic(*key, tuple(partitions.values()))
        for key, partitions in by_topic(topics, lambda each: each.partition).items()
    ]


async def _opened_first(
    node: NodeState, exchange: Exchange, asked: Asked, unopened: list[PartitionLog]
) -> None:
    async with node.logs.use(unopened):
        await _Fetch(node, exchange, asked).begin_cold()


class _Fetch:
    # One fetch request, from its first look at the logs to its answer.

    def __init__(self, node: NodeState, exchange: Exchange, asked: Asked) -> None:
        self._node = node
        self._request: FetchRequest = exchange.request.message
        self._exchange = exchange
        self._is_committed_only = self._request.isolation_level == READ_COMMITTED
        self._bytes_max = max(min(self._request.max_bytes, BYTES_MAX), 0)
        # A wait for more bytes than an answer may hold would never succeed.
        self._bytes_min = min(self._request.min_bytes, self._bytes_max)
        self._places = [
            (topic, [self._place(topic, each) for each in topic.partitions])
            for topic in asked
        ]
        self._logs = {
            id(place.log): place.log
            for _, places in self._places
            for place in places
            if place.log is not None
        }
        self._timer: asyncio.TimerHandle | None = None
        self._was_off_loop = False

    def _place(self, topic: FetchRequestTopic, asked: FetchRequestTopicPartition) -> _Place:
        place = _place(self._node, self._exchange.version, topic, asked)
        request = self._request
        is_of_replica = max(request.replica_id, request.replica_state.replica_id) >= 0
        if is_of_replica and place.log is not None:
            # Only this node has the partition, and it knows no other replicas.
            return _Place(asked, None, error_codes.NOT_LEADER_OR_FOLLOWER)
        return place

    # ------------------------------------------------------------------------------------------- waiting

    def begin(self) -> None:
        """Answers at once, or begins to wait; another thread reads records that are not in memory."""
        if self._is_warm():
            self._answer_or_wait(self._read_enough())
        else:
            self._begin_reading(self._read_enough, self._answer_or_wait)

    async def begin_cold(self) -> None:
        """Reads on another thread, then continues like `begin`."""
        self._pin()
        await self._read_cold(self._read_enough, self._answer_or_wait)

    def _begin_reading(
        self, read: Callable[[], _Found], then: Callable[[_Found], None]
    ) -> None:
        # Pins the logs before the task begins to run, so that none is closed before that.
        self._pin()
        self._node.disk.answer(self._exchange, self._read_cold(read, then))

    async def _read_cold(
        self, read: Callable[[], _Found], then: Callable[[_Found], None]
    ) -> None:
        self._was_off_loop = True
        disk = self._node.disk
        try:
            # The memory is given back when the answer is written; from then on, the answer counts
            # as unread.
            async with disk.read_memory.share(self._size_max()) as share:
                if self._exchange.is_abandoned:
                    return
                found = await disk.run(read)
                share.resize(found.size)
                then(found)
        finally:
            for log in self._logs.values():
                log.unpin()

    def _pin(self) -> None:
        for log in self._logs.values():
            log.pin()

    def _size_max(self) -> int:
        # The most bytes that `_read` may find, unless a first batch is larger.
        asked = sum(
            max(place.asked.partition_max_bytes, 0)
            for _, places in self._places
            for place in places
            if place.log is not None
        )
        size: int = min(asked, self._bytes_max)
        return max(size, FIRST_BATCH_BYTES)

    def _read_enough(self) -> _Found:
        # Like `_read`, but also checks the minimum size that the client waits for.  Runs on any
        # thread.
        found = self._read()
        size = found.size
        is_enough = size >= self._bytes_min or (size > 0 and self._has_enough())
        return found._replace(is_enough=found.is_enough or is_enough)

    def _answer_or_wait(self, found: _Found) -> None:
        if found.is_enough or self._request.max_wait_ms <= 0 or not self._places:
            self._reply(found)
        elif not self._exchange.is_abandoned:
            self._wait()

    def _wait(self) -> None:
        for log in self._logs.values():
            log.watch(self._look)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._finish)
        self._exchange.on_abandoned(self._stop)
        self._exchange.wait()
        # Records that arrived between the read on another thread and the `watch` woke no request.
        if self._was_off_loop:
            self._look()

    def _look(self) -> None:
        if self._has_enough():
            self._finish()

    def _has_enough(self) -> bool:
        # Like Kafka, counts all existing bytes, not only the whole batches that fit the limits.
        size = 0
        for _, places in self._places:
            for place in places:
                if place.log is None:
                    return True
                asked = place.asked
                try:
                    there = place.log.size_between(
                        asked.fetch_offset, self._end_of(place.log), self._bytes_max
                    )
                except OffsetLogError:
                    return True
                size += min(there, max(asked.partition_max_bytes, 0))
                if size >= self._bytes_min:
                    return True
        return False

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for log in self._logs.values():
            log.unwatch(self._look)

    def _finish(self) -> None:
        self._stop()
        if self._is_warm():
            self._reply(self._read())
        else:
            self._begin_reading(self._read, self._reply)

    # ------------------------------------------------------------------------------------------- reading

    def _is_warm(self) -> bool:
        return all(
            place.log is None or place.log.is_warm(place.asked.fetch_offset)
            for _, places in self._places
            for place in places
        )

    def _end_of(self, log: ReadableLog) -> int:
        return log.last_stable_offset if self._is_committed_only else log.watermark

    def _read(self) -> _Found:
        # The answers are enough if one of them must be sent at once.  Runs on any thread.
        left = self._bytes_max
        size, must_answer = 0, False
        answers = []
        for _, places in self._places:
            own = []
            for place in places:
                answer, is_urgent = self._read_partition(place, left, is_first=size == 0)
                read = len(answer.records or b"")
                left -= read
                size += read
                must_answer |= is_urgent
                own.append(answer)
            answers.append(own)
        return _Found(answers, size, must_answer)

    def _read_partition(
        self, place: _Place, left: int, *, is_first: bool
    ) -> tuple[Answer, bool]:
        asked, log = place.asked, place.log
        if log is None:
            return _refused(asked, place.error), True
        try:
            diverging = _diverging(asked, log)
            end = self._end_of(log)
            records = b""
            if diverging is None:
                size_max = min(asked.partition_max_bytes, max(left, 0))
                records = log.read(asked.fetch_offset, end, size_max, whole_first=is_first)
            answer = Answer(
                asked.partition,
                high_watermark=log.watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.start,
                aborted_transactions=self._aborted(log, asked.fetch_offset, records),
                records=records,
            )
        except OffsetOutOfRangeError:
            return _refused(asked, error_codes.OFFSET_OUT_OF_RANGE), True
        except ClosedError:  # its topic was deleted
            answer = _refused(asked, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
            return answer._replace(aborted_transactions=None), True
        except OffsetLogError:
            return _refused(asked, error_codes.KAFKA_STORAGE_ERROR), True
        if diverging is not None:
            return answer._replace(diverging_epoch=diverging), True
        return answer, False

    def _aborted(
        self, log: ReadableLog, offset: int, records: bytes
    ) -> tuple[FetchResponseResponsePartitionAbortedTransaction, ...] | None:
        if not self._is_committed_only:
            return None
        if not records:
            return ()
        return tuple(
            FetchResponseResponsePartitionAbortedTransaction(*each)
            for each in log.aborted(offset, next_offset(records))
        )

    def _reply(self, found: _Found) -> None:
        self._exchange.reply(
            FetchResponse(
                responses=tuple(
                    FetchResponseResponse(topic.topic, topic.topic_id, tuple(own))
                    for (topic, _), own in zip(self._places, found.answers, strict=True)
                )
            )
        )


def _topic(node: NodeState, version: int, topic: FetchRequestTopic) -> Topic | None:
    if version >= WITH_TOPIC_IDS:
        return node.metadata.topic_of_id(topic.topic_id)
    return node.metadata.topic(topic.topic)


def _place(
    node: NodeState, version: int, topic: FetchRequestTopic, asked: FetchRequestTopicPartition
) -> _Place:
    found = _topic(node, version, topic)
    if found is None:
        is_by_id = version >= WITH_TOPIC_IDS
        return _Place(asked, None, UNKNOWN[1] if is_by_id else UNKNOWN[0])
    if not 0 <= asked.partition < found.partitions:
        return _Place(asked, None, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    log = node.logs.readable(found, asked.partition)
    try:
        error = epoch_error(asked.current_leader_epoch, log.leader_epoch)
    except OffsetLogError:
        return _Place(asked, None, error_codes.KAFKA_STORAGE_ERROR)
    return _Place(asked, log) if error is None else _Place(asked, None, error)


def epoch_error(asked: int, own: int) -> ErrorCode | None:
    """Returns the error for a client whose leader epoch `asked` differs from this node's epoch `own`.

    Returns None if the epochs are equal, or if the client does not know the epoch (-1).
    """
    if asked in (-1, own):
        return None
    return (
        error_codes.FENCED_LEADER_EPOCH if asked < own else error_codes.UNKNOWN_LEADER_EPOCH
    )


def _diverging(
    asked: FetchRequestTopicPartition, log: ReadableLog
) -> FetchResponseResponsePartitionDivergingEpoch | None:
    # Returns where the client's log diverges from this one (docs/format/leader-epochs.md §12).
    if asked.last_fetched_epoch < 0:
        return None
    end = log.end_offset_for_epoch(asked.last_fetched_epoch)
    if end.epoch < 0:
        raise OffsetOutOfRangeError(f"the log has no leader epoch at or below {asked.last_fetched_epoch}")
    if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
        return FetchResponseResponsePartitionDivergingEpoch(end.epoch, end.end_offset)
    return None


def _refused(asked: FetchRequestTopicPartition, error: ErrorCode) -> Answer:
    # As in Kafka, this is an empty list if the partition does not exist, and null otherwise.
    aborted = () if error in UNKNOWN else None
    return Answer(
        asked.partition, error.code, high_watermark=-1, aborted_transactions=aborted, records=b""
    )


def next_offset(records: bytes) -> int:
    """Returns the offset after the last batch in `records`, which are whole batches (docs/format/batches.md §2.1)."""
    position = last = 0
    while position < len(records):
        last = position
        position += 12 + int.from_bytes(records[position + 8 : position + 12], "big")
    base = int.from_bytes(records[last : last + 8], "big")
    return base + int.from_bytes(records[last + 23 : last + 27], "big") + 1
