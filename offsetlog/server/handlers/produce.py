"""Produce and InitProducerId (docs/format/topics.md §17.1, §17.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from offsetlog import error_codes
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import ClosedError, OffsetLogError, TooLargeError
from offsetlog.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
    ProduceResponse,
    ProduceResponseResponse,
    ProduceResponseResponsePartitionResponse,
    ProduceResponseResponsePartitionResponseRecordError,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers.named_partitions import by_topic
from offsetlog.server.metadata_store import Topic
from offsetlog.server.node import NodeState
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.settings import AppendRules
from offsetlog.types import Appended

_log = logging.getLogger(__name__)

#: From this version on, ids identify topics instead of names.
WITH_TOPIC_IDS = 13
#: From this version on, batches may be compressed with zstd.
WITH_ZSTD = 7

ALL_REPLICAS, LEADER, NOBODY = -1, 1, 0

#: The errors by the name of the refusal (`Appended.refusal`).
REFUSALS = {
    "not_one_batch": error_codes.INVALID_RECORD,
    "corrupt_message": error_codes.CORRUPT_MESSAGE,
    "invalid_record": error_codes.INVALID_RECORD,
    "message_too_large": error_codes.MESSAGE_TOO_LARGE,
    "invalid_timestamp": error_codes.INVALID_TIMESTAMP,
    "unsupported_compression": error_codes.UNSUPPORTED_COMPRESSION_TYPE,
    "invalid_txn_state": error_codes.INVALID_TXN_STATE,
    "out_of_order_sequence": error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "invalid_producer_epoch": error_codes.INVALID_PRODUCER_EPOCH,
}

#: Refusals for which Kafka's answer has no log start offset.
BEFORE_THE_LOG = (
    "not_one_batch",
    "corrupt_message",
    "message_too_large",
    "unsupported_compression",
)

#: The position of the compression in a batch (docs/format/batches.md §2.1).
AT_CODEC, CODEC_BITS = 22, 7
#: Limit for the refused records that an answer names, with their reasons, over all partitions.
NAMED_RECORDS_MAX = 10_000

Answer = ProduceResponseResponsePartitionResponse
#: The topics of a request, each partition once.
Asked = list[ProduceRequestTopicData]


@dataclass(slots=True)
class _Place:
    # One partition of the request; `awaited` is the watermark that its answer waits for, -1 for
    # none.
    answer: Answer
    partition: PartitionLog | None = None
    awaited: int = -1

    def is_done(self) -> bool:
        """Whether the records have reached the durability that the request requires."""
        partition = self.partition
        if partition is None or self.awaited < 0:
            return True
        return partition.log is not None and partition.watermark >= self.awaited

    def is_settled(self) -> bool:
        """Whether the wait for this partition can end."""
        partition = self.partition
        return self.is_done() or partition is None or partition.log is None or partition.has_failed

    def error(self) -> ErrorCode | None:
        """Returns the error if the records lack the required durability when the wait ends, else None."""
        if self.is_done() or self.partition is None:
            return None
        if self.partition.log is None:
            return error_codes.UNKNOWN_TOPIC_OR_PARTITION  # the topic was deleted
        if self.partition.has_failed:
            return error_codes.KAFKA_STORAGE_ERROR
        return error_codes.REQUEST_TIMED_OUT


@dataclass(frozen=True, slots=True)
class _Batch:
    # A batch for one partition of the topic that existed when the request came.
    topic: Topic
    number: int
    partition: PartitionLog
    records: bytes
    takes_zstd: bool


#: The partitions of a request, by topic.
Places = list[list[_Place]]
#: The partitions of a request, by topic, with the batches that are still to be appended.
_Placed = list[list[_Place | _Batch]]


def produce(node: NodeState, exchange: Exchange) -> None:
    """Appends one batch per partition, and answers when the records have the requested durability."""
    request: ProduceRequest = exchange.request.message
    asked = _asked(request)
    placed = _placed(node, exchange, asked, _refusal(request))
    batches = [each for topic in placed for each in topic if isinstance(each, _Batch)]
    is_slow = any(
        each.partition.needs_opening(makes=True)
        or (_is_compressed(each) and _rules(node, each.topic).needs_keys)
        for each in batches
    )
    if is_slow:
        partitions = [each.partition for each in batches]
        node.disk.answer(exchange, _produce_slowly(node, exchange, asked, placed, partitions))
    else:
        _answer(exchange, asked, _appended(node, placed))


def _is_compressed(batch: _Batch) -> bool:
    # If keys are needed, a compressed batch must be inflated to find them; bytes that are not a
    # batch are refused before that.
    records = batch.records
    return len(records) > AT_CODEC and bool(records[AT_CODEC] & CODEC_BITS)


def _rules(node: NodeState, topic: Topic) -> AppendRules:
    # The settings may have changed since the request came.
    topic = node.metadata.topic_of_id(topic.topic_id) or topic
    return AppendRules.of(topic.configs, node.topic_logs)


def _asked(request: ProduceRequest) -> Asked:
    topics = (((each.name, each.topic_id), each.partition_data) for each in request.topic_data)
    return [
        ProduceRequestTopicData(*key, tuple(partitions.values()))
        for key, partitions in by_topic(topics, lambda each: each.index_).items()
    ]


async def _produce_slowly(
    node: NodeState,
    exchange: Exchange,
    asked: Asked,
    placed: _Placed,
    partitions: list[PartitionLog],
) -> None:
    async with node.logs.use(partitions, makes=True):
        places = [
            [await _appended_slowly(node, each) if isinstance(each, _Batch) else each for each in topic]
            for topic in placed
        ]
        _answer(exchange, asked, places)


def _appended(node: NodeState, placed: _Placed) -> Places:
    return [
        [
            _append(node, each, _rules(node, each.topic)) if isinstance(each, _Batch) else each
            for each in topic
        ]
        for topic in placed
    ]


def _answer(exchange: Exchange, asked: Asked, places: Places) -> None:
    request: ProduceRequest = exchange.request.message
    _name_fewer(places)
    if request.acks == NOBODY:
        _answer_nobody(exchange, places)
        return
    waiting = [each for topic in places for each in topic if not each.is_done()]
    topics = [(topic.name, topic.topic_id) for topic in asked]

    def reply() -> None:
        exchange.reply(_response(topics, places))

    if request.acks == LEADER or not waiting:
        reply()
        return
    # The records are in their logs; the request's copy in memory would not be counted.
    exchange.drop_message()
    _wait(waiting, request.timeout_ms, reply)


def _name_fewer(places: Places) -> None:
    # The number of named records is limited.  A record of a few bytes, or of no bytes in a
    # compressed batch, would otherwise add an entry with the reason in words to the answer.
    left = NAMED_RECORDS_MAX
    for place in (each for topic in places for each in topic if each.answer.record_errors):
        errors = place.answer.record_errors[:left]
        place.answer = place.answer._replace(record_errors=errors)
        left -= len(errors)


def _refusal(request: ProduceRequest) -> ErrorCode | None:
    if request.acks not in (ALL_REPLICAS, LEADER, NOBODY):
        return error_codes.INVALID_REQUIRED_ACKS
    if request.transactional_id is not None:
        return error_codes.INVALID_TXN_STATE
    return None


def _placed(
    node: NodeState, exchange: Exchange, asked: Asked, refusal: ErrorCode | None
) -> _Placed:
    # Returns the batches to append, and the refusals of all other partitions.
    return [
        [_place(node, exchange, topic, each, refusal) for each in topic.partition_data]
        for topic in asked
    ]


def _place(
    node: NodeState,
    exchange: Exchange,
    asked: ProduceRequestTopicData,
    data: ProduceRequestTopicDataPartitionData,
    refusal: ErrorCode | None,
) -> _Place | _Batch:
    number = data.index_
    if refusal is not None:
        return _Place(Answer(number, refusal.code, base_offset=-1))
    topic = _topic(node, exchange.version, asked)
    if topic is None:
        is_by_id = exchange.version >= WITH_TOPIC_IDS
        unknown = (
            error_codes.UNKNOWN_TOPIC_ID if is_by_id else error_codes.UNKNOWN_TOPIC_OR_PARTITION
        )
        return _Place(Answer(number, unknown.code, base_offset=-1))
    if not 0 <= number < topic.partitions:
        return _Place(
            Answer(number, error_codes.UNKNOWN_TOPIC_OR_PARTITION.code, base_offset=-1)
        )
    if topic.is_internal:
        return _Place(Answer(number, error_codes.INVALID_TOPIC_EXCEPTION.code, base_offset=-1))
    partition = node.logs.writable(topic, number)
    return _Batch(topic, number, partition, data.records or b"", exchange.version >= WITH_ZSTD)


def _topic(node: NodeState, version: int, asked: ProduceRequestTopicData) -> Topic | None:
    if version >= WITH_TOPIC_IDS:
        return node.metadata.topic_of_id(asked.topic_id)
    return node.metadata.topic(asked.name)


def _append(node: NodeState, batch: _Batch, rules: AppendRules) -> _Place:
    try:
        appended = batch.partition.produce(
            batch.records, rules, node.groups.now_ms(), takes_zstd=batch.takes_zstd
        )
        return _answered(batch, appended)
    except OffsetLogError as failure:
        return _failed(batch, failure)


async def _appended_slowly(node: NodeState, batch: _Batch) -> _Place:
    # Runs on a thread if the batch must be inflated.
    rules = _rules(node, batch.topic)
    if not (rules.needs_keys and _is_compressed(batch)):
        return _append(node, batch, rules)
    partition = batch.partition
    append = partial(
        partition.append, batch.records, rules, node.groups.now_ms(), takes_zstd=batch.takes_zstd
    )
    try:
        appended = await node.disk.run_alone(append)
        partition.was_appended(appended, rules, len(batch.records))
        return _answered(batch, appended)
    except OffsetLogError as failure:
        return _failed(batch, failure)


def _failed(batch: _Batch, failure: OffsetLogError) -> _Place:
    error = error_codes.KAFKA_STORAGE_ERROR
    if isinstance(failure, TooLargeError):
        error = error_codes.RECORD_LIST_TOO_LARGE
    elif isinstance(failure, ClosedError):  # its topic is being deleted
        error = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    else:
        name, number = batch.topic.name, batch.number
        fields = {"topic": name, "number": number}
        _log.error("%s-%d: the batch could not be appended: %s", name, number, failure, extra=fields)
    return _Place(Answer(batch.number, error.code, base_offset=-1))


def _answered(batch: _Batch, appended: Appended) -> _Place:
    name, number, partition = batch.topic.name, batch.number, batch.partition
    if appended.refusal:
        fields = {"topic": name, "number": number}
        _log.info("%s-%d: a batch was refused: %s", name, number, appended.reason, extra=fields)
        return _Place(_refused(number, appended, partition.start))
    answer = Answer(
        number,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=partition.start,
    )
    return _Place(answer, partition, appended.next_offset)


def _refused(number: int, appended: Appended, log_start: int) -> Answer:
    error = REFUSALS[appended.refusal]
    answer = Answer(number, error.code, base_offset=-1)
    if appended.refusal not in BEFORE_THE_LOG:
        answer = answer._replace(log_start_offset=log_start)
    if not appended.refused_records:
        return answer
    # Kafka gives the reason only if it names records.
    errors = tuple(
        ProduceResponseResponsePartitionResponseRecordError(each, appended.reason)
        for each in appended.refused_records
    )
    return answer._replace(record_errors=errors, error_message=appended.reason)


def _answer_nobody(exchange: Exchange, places: Places) -> None:
    failed = next((each for topic in places for each in topic if each.answer.error_code), None)
    if failed is None:
        exchange.reply_nothing()
        return
    # The producer learns of the failure in no other way.
    exchange.end(f"a produce request with acks=0 failed with error {failed.answer.error_code}")


def _wait(waiting: list[_Place], timeout_ms: int, reply: Callable[[], None]) -> None:
    partitions = {id(each.partition): each.partition for each in waiting if each.partition}
    timer: asyncio.TimerHandle | None = None

    def finish() -> None:
        assert timer is not None
        timer.cancel()
        for partition in partitions.values():
            partition.unwatch(look)
        for place in waiting:
            error = place.error()
            if error is not None:
                place.answer = Answer(place.answer.index_, error.code, base_offset=-1)
        reply()

    def look() -> None:
        if all(each.is_settled() for each in waiting):
            finish()

    timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, finish)
    for partition in partitions.values():
        partition.watch(look)


def _response(topics: list[tuple[str, bytes]], places: Places) -> ProduceResponse:
    return ProduceResponse(
        responses=tuple(
            ProduceResponseResponse(name, topic_id, tuple(each.answer for each in answers))
            for (name, topic_id), answers in zip(topics, places, strict=True)
        )
    )


# --------------------------------------------------------------------------------------- producer ids


def init_producer_id(node: NodeState, exchange: Exchange) -> None:
    """Answers with a new producer id for an idempotent producer."""
    request: InitProducerIdRequest = exchange.request.message
    has_id, has_epoch = request.producer_id != -1, request.producer_epoch != -1
    if request.transactional_id == "" or has_id != has_epoch:
        exchange.reply(
            InitProducerIdResponse(
                error_code=error_codes.INVALID_REQUEST.code, producer_id=-1, producer_epoch=-1
            )
        )
        return
    if request.transactional_id is not None:
        # This error is fatal to a client, which then reports that the server has no transactions.
        exchange.reply(
            InitProducerIdResponse(
                error_code=error_codes.UNSUPPORTED_VERSION.code, producer_id=-1, producer_epoch=-1
            )
        )
        return
    if node.producer_ids.has_more():
        _give_producer_id(node, exchange)
    else:
        node.disk.answer(exchange, _reserve_producer_ids(node, exchange))


def _give_producer_id(node: NodeState, exchange: Exchange) -> None:
    exchange.reply(
        InitProducerIdResponse(producer_id=node.producer_ids.take(), producer_epoch=0)
    )


async def _reserve_producer_ids(node: NodeState, exchange: Exchange) -> None:
    try:
        await node.producer_ids.reserve()
    except OffsetLogError:
        exchange.reply(
            InitProducerIdResponse(
                error_code=error_codes.COORDINATOR_NOT_AVAILABLE.code,
                producer_id=-1,
                producer_epoch=-1,
            )
        )
        return
    _give_producer_id(node, exchange)
