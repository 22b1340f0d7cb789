"""CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

from offsetlog import error_codes
from offsetlog.directory.log_directory import random_topic_id
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import ConfigError, StorageError
from offsetlog.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
    CreateTopicsResponseTopicConfig,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseResponse,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.metadata_store import Topic, name_in_metrics, with_partitions
from offsetlog.server.node import NodeState
from offsetlog.topics import configs
from offsetlog.topics.found_topics import CLUSTER_METADATA

_log = logging.getLogger(__name__)

#: Topic names that a directory can have (docs/format/directory.md §1.1).
NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

#: The most partitions that one request may create, as in Kafka: each costs memory, and a part of
#: every answer about all topics.
PARTITIONS_MAX = 9_999

#: From this version on, DeleteTopics also takes ids.
DELETE_BY_ID = 6
NO_ID = bytes(16)
#: The name or the id of a topic to delete.
_Asked = tuple[str | None, bytes]

#: The source, in answers, of a setting that was given with the topic.
DYNAMIC_TOPIC_CONFIG = 1
#: The source, in answers, of a default.
DEFAULT_CONFIG = 5


def is_valid_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return NAME.fullmatch(name) is not None and name not in (".", "..")


def new_topic(name: str, partitions: int, own: dict[str, str] | None = None) -> Topic:
    """Makes a topic with a new id."""
    return Topic(name, random_topic_id(), partitions, MappingProxyType(own or {}))


class _RefusedError(Exception):
    def __init__(self, error: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


# --------------------------------------------------------------------------------------------- create


def create_topics(node: NodeState, exchange: Exchange) -> None:
    """Creates topics, or only validates the request."""
    node.disk.answer(exchange, _create_topics(node, exchange))


async def _create_topics(node: NodeState, exchange: Exchange) -> None:
    request: CreateTopicsRequest = exchange.request.message
    async with making(node, [each.name for each in request.topics]):
        made, results = _made_topics(node, request)
        try:
            await node.metadata.put_topics(made)
        except StorageError as failure:
            _log.error("topics could not be created: %s", failure)
            results = [_not_written(each, failure) for each in results]
    exchange.reply(CreateTopicsResponse(topics=tuple(results)))


@asynccontextmanager
async def making(node: NodeState, names: Collection[str]) -> AsyncIterator[None]:
    """Prevents other changes of topics while the caller creates topics with these names.

    First waits until no positions of deleted topics with these names are left, since positions are
    deleted by topic name.
    """
    while True:
        await node.deleted_positions.settle(names)
        async with node.metadata.changing:
            # One of the topics may have been deleted while this waited for the lock.
            if not node.deleted_positions.is_deleting(names):
                yield
                return


def _not_written(
    result: CreateTopicsResponseTopic, failure: StorageError
) -> CreateTopicsResponseTopic:
    if result.error_code:
        return result
    return CreateTopicsResponseTopic(
        result.name, error_code=error_codes.KAFKA_STORAGE_ERROR.code, error_message=str(failure)
    )


def _made_topics(
    node: NodeState, request: CreateTopicsRequest
) -> tuple[list[Topic], list[CreateTopicsResponseTopic]]:
    # Returns the topics to create, with no two equal names in metrics, and the answers.
    counts = Counter(each.name for each in request.topics)
    made: list[Topic] = []
    made_names: dict[str, str] = {}
    results = []
    left = PARTITIONS_MAX
    for asked in {each.name: each for each in request.topics}.values():
        try:
            if counts[asked.name] > 1:
                raise _RefusedError(
                    error_codes.INVALID_REQUEST, f"topic {asked.name} appears more than once in the request"
                )
            topic = _checked_topic(node, asked)
            _check_name_in_metrics(asked.name, made_names.get(name_in_metrics(asked.name)))
            left = _without(left, topic.partitions)
            if not request.validate_only:
                made.append(topic)
                made_names[name_in_metrics(asked.name)] = asked.name
        except _RefusedError as refused:
            results.append(
                CreateTopicsResponseTopic(
                    asked.name, error_code=refused.error.code, error_message=refused.reason
                )
            )
            continue
        results.append(_created(topic, is_made=not request.validate_only))
    return made, results


def _without(left: int, partitions: int) -> int:
    if partitions > left:
        raise _RefusedError(
            error_codes.POLICY_VIOLATION,
            f"the request would create more than {PARTITIONS_MAX} partitions at once",
        )
    return left - partitions


def _checked_topic(node: NodeState, asked: CreateTopicsRequestTopic) -> Topic:
    if not is_valid_name(asked.name):
        raise _RefusedError(
            error_codes.INVALID_TOPIC_EXCEPTION,
            f"{asked.name!r} is not a valid topic name: use 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', "
            "but not '.' or '..'",
        )
    if asked.name == CLUSTER_METADATA:
        raise _RefusedError(
            error_codes.INVALID_REQUEST,
            f"{CLUSTER_METADATA} is the log of the brokers' own metadata; choose another name",
        )
    if node.metadata.topic(asked.name) is not None:
        raise _RefusedError(
            error_codes.TOPIC_ALREADY_EXISTS, f"topic {asked.name} already exists"
        )
    _check_name_in_metrics(asked.name, node.metadata.named_alike(asked.name))
    partitions = asked.num_partitions
    if asked.assignments:
        _check_assignments(node, asked)
        partitions = len(asked.assignments)
    elif partitions == -1:
        partitions = node.topic_defaults.partitions
    if partitions < 1:
        raise _RefusedError(
            error_codes.INVALID_PARTITIONS, f"the number of partitions must be at least 1, not {partitions}"
        )
    nodes = len(node.placement.nodes())
    replicas = 1 if asked.assignments or asked.replication_factor == -1 else asked.replication_factor
    if not 1 <= replicas <= nodes:
        raise _RefusedError(
            error_codes.INVALID_REPLICATION_FACTOR,
            f"the replication factor must be from 1 to the number of nodes, {nodes}, not {replicas}",
        )
    own: dict[str, str] = {}
    for each in asked.configs:
        if each.value is None:
            raise _RefusedError(error_codes.INVALID_CONFIG, f"{each.name} has no value")
        try:
            configs.check(each.name, each.value)
        except ConfigError as failure:
            raise _RefusedError(error_codes.INVALID_CONFIG, failure.message) from None
        own[each.name] = each.value
    return new_topic(asked.name, partitions, own)


def _check_name_in_metrics(name: str, other: str | None) -> None:
    if other is not None:
        raise _RefusedError(
            error_codes.INVALID_TOPIC_EXCEPTION,
            f"{name} would have the same name in metrics as topic {other}",
        )


def _check_assignments(node: NodeState, asked: CreateTopicsRequestTopic) -> None:
    if asked.num_partitions != -1 or asked.replication_factor != -1:
        raise _RefusedError(
            error_codes.INVALID_REQUEST,
            "the request assigns replicas, so the number of partitions and the replication factor must be -1",
        )
    _check_replicas(node, [tuple(each.broker_ids) for each in asked.assignments])
    numbers = sorted(each.partition_index for each in asked.assignments)
    if numbers != list(range(len(numbers))):
        raise _RefusedError(
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            "the partition numbers of the assignments must begin at 0 and have no gaps or duplicates",
        )


def _check_replicas(node: NodeState, assigned: Sequence[tuple[int, ...]]) -> None:
    known = {each.node_id for each in node.placement.nodes()}
    for replicas in assigned:
        if not replicas or len(set(replicas)) < len(replicas) or not known.issuperset(replicas):
            raise _RefusedError(
                error_codes.INVALID_REPLICA_ASSIGNMENT,
                f"each partition needs distinct replicas out of the nodes {sorted(known)}, not {list(replicas)}",
            )


def _created(topic: Topic, *, is_made: bool) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(
        topic.name,
        topic.topic_id if is_made else NO_ID,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=1,
        configs=tuple(
            CreateTopicsResponseTopicConfig(
                name,
                value,
                config_source=DYNAMIC_TOPIC_CONFIG if name in topic.configs else DEFAULT_CONFIG,
            )
            for name, value in sorted(configs.effective(topic.configs).items())
        ),
    )


# --------------------------------------------------------------------------------------------- delete


def delete_topics(node: NodeState, exchange: Exchange) -> None:
    """Deletes topics, and the positions that groups have in them."""
    node.disk.answer(exchange, _delete_topics(node, exchange))


async def _delete_topics(node: NodeState, exchange: Exchange) -> None:
    request: DeleteTopicsRequest = exchange.request.message
    if exchange.version < DELETE_BY_ID:
        asked: list[_Asked] = [(each, NO_ID) for each in request.topic_names]
    else:
        asked = [(each.name, each.topic_id) for each in request.topics]
    counts = Counter(asked)
    results = []
    async with node.metadata.changing:
        both_ways = _named_both_ways(node, counts)
        for each, count in counts.items():
            topic = both_ways.get(each)
            if count > 1:
                results.append(_refused_delete(*each, "the topic appears more than once in the request"))
            elif topic is None:
                results.append(await _delete(node, *each))
            elif each[0] is not None:  # one answer for both
                reason = "the request names the topic both by name and by id"
                results.append(_refused_delete(topic.name, topic.topic_id, reason))
        deleted = [each.name for each in results if each.error_code == 0 and each.name]
        if deleted:
            node.deleted_positions.delete(deleted)
    exchange.reply(DeleteTopicsResponse(responses=tuple(results)))


def _named_both_ways(node: NodeState, counts: Counter[_Asked]) -> dict[_Asked, Topic]:
    # Returns the topics that are requested once by name and once by id, under both keys.
    found: dict[_Asked, Topic] = {}
    for name, topic_id in list(counts):
        topic = node.metadata.topic_of_id(topic_id) if name is None else None
        if topic is not None and counts[topic.name, NO_ID] == 1:
            found[topic.name, NO_ID] = found[None, topic_id] = topic
    return found


def _refused_delete(
    name: str | None, topic_id: bytes, reason: str
) -> DeleteTopicsResponseResponse:
    return DeleteTopicsResponseResponse(
        name, topic_id, error_codes.INVALID_REQUEST.code, reason
    )


async def _delete(
    node: NodeState, name: str | None, topic_id: bytes
) -> DeleteTopicsResponseResponse:
    is_by_id = name is None
    if is_by_id != any(topic_id):
        return _refused_delete(name, topic_id, "the request must give either the name of a topic or its id")
    topic = node.metadata.topic_of_id(topic_id) if name is None else node.metadata.topic(name)
    if topic is None:
        error = (
            error_codes.UNKNOWN_TOPIC_ID if is_by_id else error_codes.UNKNOWN_TOPIC_OR_PARTITION
        )
        return DeleteTopicsResponseResponse(name, topic_id, error.code, "the topic does not exist")
    if topic.is_internal:
        return DeleteTopicsResponseResponse(
            topic.name, topic.topic_id, error_codes.INVALID_REQUEST.code,
            "the offsets topic cannot be deleted",
        )
    try:
        # Removes the directories first: a topic without logs is only empty, while the next start
        # would find logs without a topic again.
        async with node.topics.deleted(topic.name, topic.topic_id):
            await node.metadata.remove_topic(topic.name)
    except StorageError as failure:
        return DeleteTopicsResponseResponse(
            topic.name, topic.topic_id, error_codes.KAFKA_STORAGE_ERROR.code, str(failure)
        )
    return DeleteTopicsResponseResponse(topic.name, topic.topic_id)


# ----------------------------------------------------------------------------------------- partitions


def create_partitions(node: NodeState, exchange: Exchange) -> None:
    """Adds partitions to topics, or only validates the request."""
    node.disk.answer(exchange, _create_partitions(node, exchange))


async def _create_partitions(node: NodeState, exchange: Exchange) -> None:
    request: CreatePartitionsRequest = exchange.request.message
    async with node.metadata.changing:
        grown, results = _grown_topics(node, request)
        try:
            await node.metadata.put_topics(grown)
        except StorageError as failure:
            _log.error("partitions could not be added: %s", failure)
            error = error_codes.KAFKA_STORAGE_ERROR.code
            results = [
                each if each.error_code else each._replace(error_code=error, error_message=str(failure))
                for each in results
            ]
    exchange.reply(CreatePartitionsResponse(results=tuple(results)))


def _grown_topics(
    node: NodeState, request: CreatePartitionsRequest
) -> tuple[list[Topic], list[CreatePartitionsResponseResult]]:
    grown = []
    results = []
    left = PARTITIONS_MAX
    counts = Counter(each.name for each in request.topics)
    for asked in {each.name: each for each in request.topics}.values():
        try:
            if counts[asked.name] > 1:
                raise _RefusedError(
                    error_codes.INVALID_REQUEST, f"topic {asked.name} appears more than once in the request"
                )
            before = node.metadata.topic(asked.name)
            topic = _with_more_partitions(node, asked)
            left = _without(left, topic.partitions - (0 if before is None else before.partitions))
            if not request.validate_only:
                grown.append(topic)
            results.append(CreatePartitionsResponseResult(asked.name))
        except _RefusedError as refused:
            results.append(
                CreatePartitionsResponseResult(asked.name, refused.error.code, refused.reason)
            )
    return grown, results


def _with_more_partitions(node: NodeState, asked: CreatePartitionsRequestTopic) -> Topic:
    topic = node.metadata.topic(asked.name)
    if topic is None:
        raise _RefusedError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
    if topic.is_internal:
        raise _RefusedError(
            error_codes.INVALID_REQUEST, "the number of partitions of the offsets topic cannot change"
        )
    if asked.count_ <= topic.partitions:
        raise _RefusedError(
            error_codes.INVALID_PARTITIONS,
            f"the topic has {topic.partitions} partitions; the new count must be higher, not {asked.count_}",
        )
    if asked.assignments is not None:
        added = asked.count_ - topic.partitions
        if len(asked.assignments) != added:
            raise _RefusedError(
                error_codes.INVALID_REPLICA_ASSIGNMENT,
                f"the request adds {added} partitions but assigns replicas to {len(asked.assignments)} partitions",
            )
        _check_replicas(node, [tuple(each.broker_ids) for each in asked.assignments])
    return with_partitions(topic, asked.count_)
