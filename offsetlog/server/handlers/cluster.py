"""ApiVersions, Metadata, DescribeCluster, FindCoordinator (docs/format/wire.md §11.4)."""

from __future__ import annotations

import re

from offsetlog import error_codes
from offsetlog.protocol import APIS
from offsetlog.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
    MetadataResponseTopicPartition,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers.auto_creation import make_topics, names_to_make
from offsetlog.server.handlers.topics import is_valid_name
from offsetlog.server.metadata_store import INTERNAL_TOPICS
from offsetlog.server.node import NodeState
from offsetlog.server.placement import Node

#: The keys of the APIs that are served.
SERVED: set[int] = set()

#: Older librdkafka takes a broker without Produce 0 for one older than 0.10.  As in Kafka, the
#: version is announced but not served.
PRODUCE = 0

#: The names and versions of client software that are allowed, from ApiVersions 3 on.
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

#: The key types of groups and transactional ids in FindCoordinator.
GROUP, TRANSACTION = 0, 1

#: From this version on, a client asks Metadata for all topics with null.  In earlier versions, it
#: sends an empty list.
METADATA_WITH_NULL = 1
#: From this version on, Metadata finds topics by id.  The two versions before it have the field for
#: an id, but requests with an id fail.
METADATA_BY_ID = 12
#: The operations that are allowed, one bit each: every client may do everything.
TOPIC_OPERATIONS, CLUSTER_OPERATIONS = 0xDF8, 0x1FA0
NOT_ASKED_FOR = -(1 << 31)
#: The endpoint types of DescribeCluster.  Requests for the endpoints of controllers must be sent to
#: a controller.
BROKERS, CONTROLLERS = 1, 2
#: From this version on, FindCoordinator takes any number of keys.
FIND_COORDINATORS = 4
#: Before that version, an answer without an error carries this message, as in Kafka.
NO_ERROR = "NONE"


def served_versions() -> tuple[ApiVersionsResponseApiKey, ...]:
    """Returns the APIs and versions that the server announces to clients."""
    return tuple(
        ApiVersionsResponseApiKey(
            api.key, 0 if api.key == PRODUCE else api.advertised_from, api.last_version
        )
        for api in APIS.values()
        if api.key in SERVED
    )


def api_versions(node: NodeState, exchange: Exchange) -> None:
    """Answers with the served APIs and versions."""
    request = exchange.request.message
    is_named = SOFTWARE.fullmatch(request.client_software_name) and SOFTWARE.fullmatch(
        request.client_software_version
    )
    if exchange.version >= 3 and not is_named:
        exchange.reply(ApiVersionsResponse(error_code=error_codes.INVALID_REQUEST.code))
        return
    exchange.reply(ApiVersionsResponse(api_keys=served_versions()))


def unsupported_api_versions() -> ApiVersionsResponse:
    """Returns the answer, in version 0, to an ApiVersions request of an unserved version."""
    own = tuple(each for each in served_versions() if each.api_key == 18)
    return ApiVersionsResponse(error_code=error_codes.UNSUPPORTED_VERSION.code, api_keys=own)


# ------------------------------------------------------------------------------------------- metadata


def metadata(node: NodeState, exchange: Exchange) -> None:
    """Answers with the nodes and the requested topics; may create missing topics."""
    request: MetadataRequest = exchange.request.message
    names = names_to_make(node, request)
    if names:
        node.disk.answer(exchange, _make_and_answer(node, exchange, names))
    else:
        _answer_metadata(node, exchange)


async def _make_and_answer(node: NodeState, exchange: Exchange, names: list[str]) -> None:
    await make_topics(node, names)
    _answer_metadata(node, exchange)


def _answer_metadata(node: NodeState, exchange: Exchange) -> None:
    request: MetadataRequest = exchange.request.message
    names_ids = any(each.name is None or any(each.topic_id) for each in request.topics or ())
    if names_ids and exchange.version < METADATA_BY_ID:
        exchange.reply(_refused_metadata(request, error_codes.INVALID_REQUEST))
        return
    if any(each.name is None and not any(each.topic_id) for each in request.topics or ()):
        exchange.reply(_refused_metadata(request, error_codes.UNKNOWN_SERVER_ERROR))
        return
    is_for_all = request.topics is None or (
        exchange.version < METADATA_WITH_NULL and not request.topics
    )
    topics = _all_topics(node) if is_for_all else _topics_asked_for(node, request)
    if request.include_topic_authorized_operations:
        topics = [
            each._replace(topic_authorized_operations=TOPIC_OPERATIONS) if each.name else each
            for each in topics
        ]
    asks_for_cluster = request.include_cluster_authorized_operations
    exchange.reply(
        MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(each.node_id, each.host, each.port, each.rack)
                for each in node.placement.nodes()
            ),
            cluster_id=node.metadata.cluster_id,
            controller_id=node.placement.controller_id,
            topics=tuple(topics),
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if asks_for_cluster else NOT_ASKED_FOR
            ),
        )
    )


def _refused_metadata(
    request: MetadataRequest, error: error_codes.ErrorCode
) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=tuple(
            MetadataResponseTopic(error.code, each.name or "", each.topic_id)
            for each in request.topics or ()
        )
    )


def _all_topics(node: NodeState) -> list[MetadataResponseTopic]:
    return [_described(node, name) for name in sorted(node.metadata.topics())]


def _topics_asked_for(node: NodeState, request: MetadataRequest) -> list[MetadataResponseTopic]:
    """Returns each requested topic once, with existing topics first.

    If any topic is requested by its id, topics that are requested by their names are ignored.
    """
    asked = tuple(dict.fromkeys(request.topics or ()))
    by_id = [each.topic_id for each in asked if any(each.topic_id)]
    if by_id:
        found = [_of_id(node, each) for each in dict.fromkeys(by_id)]
    else:
        names = dict.fromkeys(each.name for each in asked)
        found = [_of_name(node, each or "") for each in names]
    return sorted(found, key=lambda each: each.error_code != 0)


def _of_id(node: NodeState, topic_id: bytes) -> MetadataResponseTopic:
    topic = node.metadata.topic_of_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(
            error_codes.UNKNOWN_TOPIC_ID.code, name=None, topic_id=topic_id
        )
    return _described(node, topic.name)


def _of_name(node: NodeState, name: str) -> MetadataResponseTopic:
    if node.metadata.topic(name) is None:
        if not is_valid_name(name):
            return MetadataResponseTopic(error_codes.INVALID_TOPIC_EXCEPTION.code, name)
        unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
        return MetadataResponseTopic(unknown, name, is_internal=name in INTERNAL_TOPICS)
    return _described(node, name)


def _described(node: NodeState, name: str) -> MetadataResponseTopic:
    topic = node.metadata.topic(name)
    assert topic is not None
    own = node.metadata.node_id
    return MetadataResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            MetadataResponseTopicPartition(
                partition_index=number,
                leader_id=own,
                leader_epoch=node.logs.leader_epoch(topic, number),
                replica_nodes=(own,),
                isr_nodes=(own,),
            )
            for number in range(topic.partitions)
        ),
    )


def describe_cluster(node: NodeState, exchange: Exchange) -> None:
    """Answers with the nodes."""
    request: DescribeClusterRequest = exchange.request.message
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        error = (
            error_codes.MISMATCHED_ENDPOINT_TYPE if is_known
            else error_codes.UNSUPPORTED_ENDPOINT_TYPE
        )
        reason = f"this node is a broker; it does not list endpoints of type {request.endpoint_type}"
        exchange.reply(DescribeClusterResponse(error_code=error.code, error_message=reason))
        return
    asks_for_operations = request.include_cluster_authorized_operations
    exchange.reply(
        DescribeClusterResponse(
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if asks_for_operations else NOT_ASKED_FOR
            ),
            cluster_id=node.metadata.cluster_id,
            controller_id=node.placement.controller_id,
            brokers=tuple(
                DescribeClusterResponseBroker(each.node_id, each.host, each.port, each.rack)
                for each in node.placement.nodes()
            ),
        )
    )


# --------------------------------------------------------------------------------------- coordinators


def find_coordinator(node: NodeState, exchange: Exchange) -> None:
    """Answers with the node that coordinates a group, or a transaction."""
    request: FindCoordinatorRequest = exchange.request.message
    keys = (request.key,) if exchange.version < FIND_COORDINATORS else request.coordinator_keys
    found = tuple(_coordinator(node, request.key_type, key) for key in keys)
    if exchange.version >= FIND_COORDINATORS:
        exchange.reply(FindCoordinatorResponse(coordinators=found))
        return
    one = found[0]
    exchange.reply(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message or NO_ERROR,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _coordinator(
    node: NodeState, key_type: int, key: str
) -> FindCoordinatorResponseCoordinator:
    if key_type not in (GROUP, TRANSACTION):
        return _nobody(key, error_codes.INVALID_REQUEST, f"coordinator key type {key_type} is unknown")
    found: Node | None = node.placement.coordinator_of(key)
    if found is None:
        return _nobody(key, error_codes.COORDINATOR_NOT_AVAILABLE, "no node is the coordinator at present")
    return FindCoordinatorResponseCoordinator(
        key, found.node_id, found.host, found.port, error_message=""
    )


def _nobody(
    key: str, error: error_codes.ErrorCode, reason: str
) -> FindCoordinatorResponseCoordinator:
    return FindCoordinatorResponseCoordinator(key, -1, "", -1, error.code, reason)
