"""ListOffsets and OffsetForLeaderEpoch: places in logs (docs/format/topics.md §17.4)."""

from __future__ import annotations

from offsetlog import error_codes
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import OffsetLogError
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
from offsetlog.server.node import NodeState
from offsetlog.server.partition_logs import ReadableLog

#: Times that are no times: the log end, the log start, the newest record, the start of what is here
#: and not in remote storage.
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
#: Ends of what is in remote storage, of which there is none.
REMOTE = (-5, -6)
#: The first version that may ask for each.
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}

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


def list_offsets(node: NodeState, exchange: Exchange) -> None:
    """Answers with offsets by time, the ends of logs among them."""
    request: ListOffsetsRequest = exchange.request.message
    is_committed_only = request.isolation_level == READ_COMMITTED
    exchange.reply(
        ListOffsetsResponse(
            topics=tuple(
                ListOffsetsResponseTopic(
                    topic.name,
                    tuple(
                        _offset(
                            node, topic.name, each, exchange.version, is_committed_only=is_committed_only
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )


def _offset(
    node: NodeState,
    name: str,
    asked: ListOffsetsRequestTopicPartition,
    version: int,
    *,
    is_committed_only: bool,
) -> Answer:
    number = asked.partition_index
    if asked.timestamp < 0 and version < SINCE.get(asked.timestamp, 0):
        return Answer(number, error_codes.UNSUPPORTED_VERSION.code)
    try:
        log = _log_of(node, name, number, asked.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return Answer(number, log.code)
        end = log.last_stable_offset if is_committed_only else log.watermark
        return _found(log, number, asked.timestamp, end)
    except OffsetLogError:
        return Answer(number, error_codes.KAFKA_STORAGE_ERROR.code)


def _found(log: ReadableLog, number: int, timestamp: int, end: int) -> Answer:
    if timestamp == LATEST:
        return Answer(number, offset=end, leader_epoch=log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epoch_at(log.start)
        return Answer(number, offset=log.start, leader_epoch=log.leader_epoch if epoch < 0 else epoch)
    if timestamp in REMOTE:
        return Answer(number)
    found = log.record_at_time(timestamp, end)
    return Answer(number) if found is None else Answer(
        number, 0, found.timestamp, found.offset, found.leader_epoch
    )


# --------------------------------------------------------------------------------------------- epochs


def offset_for_leader_epoch(node: NodeState, exchange: Exchange) -> None:
    """Answers where leader epochs end."""
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
    except OffsetLogError:
        return EpochAnswer(error_codes.KAFKA_STORAGE_ERROR.code, asked.partition)
    return EpochAnswer(0, asked.partition, end.epoch, end.end_offset)
