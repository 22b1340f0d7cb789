"""ListOffsets and OffsetForLeaderEpoch: find offsets in logs (docs/format/topics.md §17.4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from offsetlog import error_codes
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestTopicPartition,
    ListOffsetsResponse,
    ListOffsetsResponseTopic,
    ListOffsetsResponseTopicPartition,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestTopicPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseTopic,
    OffsetForLeaderEpochResponseTopicPartition,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers.fetch import READ_COMMITTED, epoch_error
from offsetlog.server.handlers.named_partitions import by_topic
from offsetlog.server.node import NodeState
from offsetlog.server.partition_logs import ReadableLog
from offsetlog.topics.partition_log import PartitionLog

#: Special timestamps: the log end, the log start, the newest record, and the start of the part that
#: is not only in remote storage.
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
#: Special timestamps about remote storage, which this server does not have.
REMOTE = (-5, -6)
#: The first version that may use each special timestamp; other times below 0 are not allowed.
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}
NEVER = 1 << 15

Answer = ListOffsetsResponseTopicPartition
EpochAnswer = OffsetForLeaderEpochResponseTopicPartition


def _log_of(
    node: NodeState, name: str, number: int, current_leader_epoch: int
) -> ReadableLog | ErrorCode:
    topic = node.metadata.topic(name)
    if topic is None or not 0 <= number < topic.partitions:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION
    log = node.logs.readable(topic, number)
    return epoch_error(current_leader_epoch, log.leader_epoch) or log


# -------------------------------------------------------------------------------------------- offsets


@dataclass(frozen=True, slots=True)
class _TimeQuestion:
    # The question about one partition; the answer reads and decompresses the batches around the
    # time.
    number: int
    log: ReadableLog
    timestamp: int
    end: int

    def answer(self) -> Answer:
        """Reads the log and returns the answer; any thread may call this."""
        try:
            found = self.log.record_at_time(self.timestamp, self.end)
        except ClosedError:
            return Answer(self.number, error_codes.UNKNOWN_TOPIC_OR_PARTITION.code)  # the partition was deleted
        except OffsetLogError:
            return Answer(self.number, error_codes.KAFKA_STORAGE_ERROR.code)
        if found is None:
            return Answer(self.number)
        return Answer(self.number, 0, found.timestamp, found.offset, found.leader_epoch)


#: The answers by topic, in the order of the request; questions by time are not answered yet.
Places = list[tuple[str, list[Answer | _TimeQuestion]]]


def list_offsets(node: NodeState, exchange: Exchange) -> None:
    """Answers with offsets for times, or the starts or ends of logs; another thread reads from the disk."""
    request: ListOffsetsRequest = exchange.request.message
    wanted = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    unopened = _unopened(node, wanted)
    if unopened:
        node.disk.answer(exchange, _list_opened(node, exchange, unopened))
        return
    places = _places(node, exchange)
    logs = _pinned(places)
    if logs:
        node.disk.answer(exchange, _list_read(node, exchange, places, logs))
    else:
        exchange.reply(_response(places))


async def _list_opened(node: NodeState, exchange: Exchange, unopened: list[PartitionLog]) -> None:
    async with node.logs.use(unopened):
        places = _places(node, exchange)
        await _list_read(node, exchange, places, _pinned(places))


def _pinned(places: Places) -> list[ReadableLog]:
    # Pins the logs that will be read, so that they stay open until then.
    logs = [each.log for _, own in places for each in own if isinstance(each, _TimeQuestion)]
    for log in logs:
        log.pin()
    return logs


async def _list_read(
    node: NodeState, exchange: Exchange, places: Places, logs: list[ReadableLog]
) -> None:
    # Reads one partition at a time, so that a request for many takes turns with other clients'
    # requests, and stops when its connection ends.
    try:
        for _, own in places:
            for at, each in enumerate(own):
                if isinstance(each, _TimeQuestion):
                    own[at] = await node.disk.run(each.answer)
                if exchange.is_abandoned:
                    return
    finally:
        for log in logs:
            log.unpin()
    exchange.reply(_response(places))


def _places(node: NodeState, exchange: Exchange) -> Places:
    request: ListOffsetsRequest = exchange.request.message
    is_committed_only = request.isolation_level == READ_COMMITTED
    counts = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )

    def answer(name: str, asked: ListOffsetsRequestTopicPartition) -> Answer | _TimeQuestion:
        if counts[name, asked.partition_index] > 1:
            return Answer(asked.partition_index, error_codes.INVALID_REQUEST.code)
        return _offset(node, name, asked, exchange.version, is_committed_only=is_committed_only)

    topics = by_topic(
        ((topic.name, topic.partitions) for topic in request.topics),
        lambda each: each.partition_index,
    )
    return [
        (name, [answer(name, each) for each in partitions.values()])
        for name, partitions in topics.items()
    ]


def _unopened(node: NodeState, wanted: list[tuple[str, int]]) -> list[PartitionLog]:
    return node.logs.unopened(
        (topic, number) for name, number in wanted if (topic := node.metadata.topic(name)) is not None
    )


def _response(places: Places) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsResponseTopic(
                name,
                tuple(each for each in own if not isinstance(each, _TimeQuestion)),
            )
            for name, own in places
        )
    )


def _offset(
    node: NodeState,
    name: str,
    asked: ListOffsetsRequestTopicPartition,
    version: int,
    *,
    is_committed_only: bool,
) -> Answer | _TimeQuestion:
    number = asked.partition_index
    if asked.timestamp < 0 and version < SINCE.get(asked.timestamp, NEVER):
        return Answer(number, error_codes.UNSUPPORTED_VERSION.code)
    try:
        log = _log_of(node, name, number, asked.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return Answer(number, log.code)
        end = log.last_stable_offset if is_committed_only else log.watermark
        return _found(log, number, asked.timestamp, end)
    except ClosedError:  # its topic is being deleted
        return Answer(number, error_codes.UNKNOWN_TOPIC_OR_PARTITION.code)
    except OffsetLogError:
        return Answer(number, error_codes.KAFKA_STORAGE_ERROR.code)


def _found(log: ReadableLog, number: int, timestamp: int, end: int) -> Answer | _TimeQuestion:
    if timestamp == LATEST:
        return Answer(number, offset=end, leader_epoch=log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epoch_at(log.start)
        return Answer(number, offset=log.start, leader_epoch=log.leader_epoch if epoch < 0 else epoch)
    if timestamp in REMOTE:
        return Answer(number)
    return _TimeQuestion(number, log, timestamp, end)


# --------------------------------------------------------------------------------------------- epochs


def offset_for_leader_epoch(node: NodeState, exchange: Exchange) -> None:
    """Answers with the end offsets of leader epochs."""
    request: OffsetForLeaderEpochRequest = exchange.request.message
    wanted = [(topic.topic, each.partition) for topic in request.topics for each in topic.partitions]
    unopened = _unopened(node, wanted)
    if unopened:
        node.disk.answer(exchange, _epoch_ends_opened(node, exchange, unopened))
    else:
        _answer_epoch_ends(node, exchange)


async def _epoch_ends_opened(
    node: NodeState, exchange: Exchange, unopened: list[PartitionLog]
) -> None:
    async with node.logs.use(unopened):
        _answer_epoch_ends(node, exchange)


def _answer_epoch_ends(node: NodeState, exchange: Exchange) -> None:
    request: OffsetForLeaderEpochRequest = exchange.request.message
    exchange.reply(
        OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderEpochResponseTopic(
                    topic.topic, tuple(_epoch_end(node, topic.topic, each) for each in topic.partitions)
                )
                for topic in request.topics
            )
        )
    )


def _epoch_end(
    node: NodeState, name: str, asked: OffsetForLeaderEpochRequestTopicPartition
) -> EpochAnswer:
    try:
        log = _log_of(node, name, asked.partition, asked.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return EpochAnswer(log.code, asked.partition)
        end = log.end_offset_for_epoch(asked.leader_epoch)
    except ClosedError:  # its topic is being deleted
        return EpochAnswer(error_codes.UNKNOWN_TOPIC_OR_PARTITION.code, asked.partition)
    except OffsetLogError:
        return EpochAnswer(error_codes.KAFKA_STORAGE_ERROR.code, asked.partition)
    return EpochAnswer(0, asked.partition, end.epoch, end.end_offset)
