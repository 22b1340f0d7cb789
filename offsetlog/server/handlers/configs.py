"""DescribeConfigs and IncrementalAlterConfigs: the settings of topics and of the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from offsetlog import error_codes
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import ConfigError, StorageError
from offsetlog.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseResultConfig,
    DescribeConfigsResponseResultConfigSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResponse,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers.topics import is_valid_name
from offsetlog.server.metadata_store import Topic
from offsetlog.server.node import NodeState
from offsetlog.server.properties import PROPERTIES
from offsetlog.topics import configs
from offsetlog.topics.configs import TOPIC_CONFIGS, Kind

TOPIC, BROKER = 2, 4
#: The types of resources: topics and nodes, and the types that only Kafka describes, which are
#: loggers of a broker, metrics of clients, and groups.
KNOWN_TYPES = frozenset((TOPIC, BROKER, 8, 16, 32))

#: The sources of values.
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Entry = DescribeConfigsResponseResultConfig
Synonym = DescribeConfigsResponseResultConfigSynonym
Described = DescribeConfigsResponseResult


class _RefusedError(Exception):
    def __init__(self, error: ErrorCode, reason: str | None) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


# ------------------------------------------------------------------------------------------- describe


def describe_configs(node: NodeState, exchange: Exchange) -> None:
    """Answers with the settings of topics and this node; a resource named twice with the same keys is answered once."""
    request: DescribeConfigsRequest = exchange.request.message
    asked = tuple(dict.fromkeys(request.resources))
    if any(each.resource_type not in KNOWN_TYPES for each in asked):
        results = tuple(_refused_type(each) for each in asked)
    else:
        topic_entries = _TopicEntries(request, node.properties)
        results = tuple(_described(node, topic_entries, each) for each in asked)
    exchange.reply(DescribeConfigsResponse(results=results))


def _refused_type(asked: DescribeConfigsRequestResource) -> Described:
    reason = "the request names a resource of an unknown type"
    error = error_codes.INVALID_REQUEST.code
    return Described(error, reason, asked.resource_type, asked.resource_name)


class _TopicEntries:
    # Topics with the same settings share one list of entries within a request, which may name all
    # topics.

    def __init__(self, request: DescribeConfigsRequest, properties: Mapping[str, str]) -> None:
        self._request = request
        self._properties = properties
        self._made: dict[frozenset[tuple[str, str]], tuple[Entry, ...]] = {}

    def of(self, topic: Topic) -> tuple[Entry, ...]:
        own = frozenset(topic.configs.items())
        if own not in self._made:
            self._made[own] = tuple(_topic_entries(topic.configs, self._request, self._properties))
        return self._made[own]


def _described(
    node: NodeState, topic_entries: _TopicEntries, asked: DescribeConfigsRequestResource
) -> Described:
    kind, name = asked.resource_type, asked.resource_name
    entries: Sequence[Entry]
    try:
        if kind == TOPIC:
            entries = topic_entries.of(_topic(node, name))
        elif kind == BROKER:
            entries = _node_entries(node, name)
        else:
            raise _RefusedError(error_codes.INVALID_REQUEST, f"resource type {kind} has no settings")
    except _RefusedError as refused:
        return Described(refused.error.code, refused.reason, kind, name)
    if asked.configuration_keys:  # null and an empty list ask for all, as in Kafka
        wanted = frozenset(asked.configuration_keys)
        entries = [each for each in entries if each.name in wanted]
    return Described(0, "", kind, name, tuple(entries))


def _topic(node: NodeState, name: str) -> Topic:
    if not is_valid_name(name):
        raise _RefusedError(
            error_codes.INVALID_TOPIC_EXCEPTION,
            f"{name!r} is not a valid topic name: use 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..'",
        )
    topic = node.metadata.topic(name)
    if topic is None:
        raise _RefusedError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, "")
    return topic


def _topic_entries(
    own: Mapping[str, str], request: DescribeConfigsRequest, properties: Mapping[str, str]
) -> list[Entry]:
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        sources = []
        if name in own:
            sources.append(Synonym(name, own[name], DYNAMIC_TOPIC_CONFIG))
        if config.broker_name in properties:
            set_here = properties[config.broker_name]
            sources.append(Synonym(config.broker_name, set_here, STATIC_BROKER_CONFIG))
        if config.broker_name:
            sources.append(Synonym(config.broker_name, config.default, DEFAULT_CONFIG))
        first = sources[0] if sources else Synonym(name, config.default, DEFAULT_CONFIG)
        entries.append(
            Entry(
                name,
                first.value,
                config_source=first.source,
                synonyms=tuple(sources) if request.include_synonyms else (),
                config_type=config.kind,
                documentation=config.explained() if request.include_documentation else None,
            )
        )
    return entries


def _node_entries(node: NodeState, name: str) -> list[Entry]:
    own = str(node.metadata.node_id)
    if name == "":
        return []
    if name != own:
        raise _RefusedError(error_codes.INVALID_REQUEST, f"this is node {own}, not {name}")
    facts: Mapping[str, tuple[Kind, object]] = {
        "auto.create.topics.enable": (Kind.BOOLEAN, node.topic_defaults.auto_create),
        "log.dirs": (Kind.STRING, node.manager.settings.path),
        "node.id": (Kind.INT, own),
        "num.partitions": (Kind.INT, node.topic_defaults.partitions),
        "offset.metadata.max.bytes": (Kind.INT, node.metadata_max_units),
        "offsets.topic.num.partitions": (Kind.INT, node.manager.partitions),
    }
    entries = [
        Entry(key, _text(value), True, STATIC_BROKER_CONFIG, config_type=kind)
        for key, (kind, value) in facts.items()
    ]
    entries.extend(
        Entry(key, value, True, STATIC_BROKER_CONFIG, config_type=PROPERTIES[key].kind)
        for key, value in node.properties.items()
        if key not in facts
    )
    entries.extend(
        Entry(config.broker_name, config.default, True, DEFAULT_CONFIG, config_type=config.kind)
        for config in TOPIC_CONFIGS.values()
        if config.broker_name and config.broker_name not in node.properties
    )
    return entries


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------------------------------------- alter


def incremental_alter_configs(node: NodeState, exchange: Exchange) -> None:
    """Changes settings of topics, or only validates the change; a topic gets all of its changes or none."""
    node.disk.answer(exchange, _alter_configs(node, exchange))


async def _alter_configs(node: NodeState, exchange: Exchange) -> None:
    request: IncrementalAlterConfigsRequest = exchange.request.message
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = []
    for asked in request.resources:
        error, reason = error_codes.NONE, None
        try:
            if counts[asked.resource_type, asked.resource_name] > 1:
                raise _RefusedError(error_codes.INVALID_REQUEST, "the resource appears more than once in the request")
            async with node.metadata.changing:
                topic = _altered(node, asked)
                if not request.validate_only:
                    await node.metadata.put_topics((topic,))
                    node.topics.change_settings(topic.name)
        except _RefusedError as refused:
            error, reason = refused.error, refused.reason
        except StorageError as failure:
            error, reason = error_codes.KAFKA_STORAGE_ERROR, str(failure)
        responses.append(
            IncrementalAlterConfigsResponseResponse(
                error.code, reason, asked.resource_type, asked.resource_name
            )
        )
    exchange.reply(IncrementalAlterConfigsResponse(responses=tuple(responses)))


def _altered(node: NodeState, asked: IncrementalAlterConfigsRequestResource) -> Topic:
    if asked.resource_type != TOPIC:
        raise _RefusedError(
            error_codes.INVALID_REQUEST, "only settings of topics can be changed while the server runs"
        )
    names = [each.name for each in asked.configs]
    if len(set(names)) < len(names):
        raise _RefusedError(error_codes.INVALID_REQUEST, "a setting appears more than once in the request")
    topic = node.metadata.topic(asked.resource_name)
    if topic is None:
        raise _RefusedError(
            error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"topic {asked.resource_name} does not exist"
        )
    own = dict(topic.configs)
    for change in asked.configs:
        _apply(own, change)
    return replace(topic, configs=MappingProxyType(own))


def _apply(own: dict[str, str], change: IncrementalAlterConfigsRequestResourceConfig) -> None:
    name, operation, value = change.name, change.config_operation, change.value
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise _RefusedError(error_codes.INVALID_CONFIG, f"{name} is not a setting of topics")
    if operation == DELETE:
        own.pop(name, None)
        return
    if value is None:
        raise _RefusedError(error_codes.INVALID_REQUEST, f"{name} has no value")
    if operation in (APPEND, SUBTRACT):
        if config.kind is not Kind.LIST:
            raise _RefusedError(
                error_codes.INVALID_CONFIG, f"{name} is not a list; values cannot be appended or subtracted"
            )
        value = _list_after(configs.parts(own.get(name, config.default)), operation, configs.parts(value))
    elif operation != SET:
        raise _RefusedError(error_codes.UNKNOWN_SERVER_ERROR, None)
    _check(name, value)
    own[name] = value


def _list_after(before: list[str], operation: int, given: list[str]) -> str:
    if operation == SUBTRACT:
        return ",".join(each for each in before if each not in given)
    return ",".join(dict.fromkeys((*before, *given)))


def _check(name: str, value: str) -> None:
    try:
        configs.check(name, value)
    except ConfigError as failure:
        raise _RefusedError(error_codes.INVALID_CONFIG, failure.message) from None
