"""Facts about requests that faults need: their APIs, their groups, and answers that refuse them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog import error_codes
from offsetlog.coordinator.answers import join_refusal
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import InvalidArgumentError
from offsetlog.protocol import APIS
from offsetlog.protocol.messages import (
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    FetchResponse,
    FetchResponseResponse,
    FetchResponseResponsePartition,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    HeartbeatResponse,
    InitProducerIdResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    ListOffsetsResponse,
    ListOffsetsResponseTopic,
    ListOffsetsResponseTopicPartition,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetCommitResponseTopicPartition,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopicPartition,
    ProduceResponse,
    ProduceResponseResponse,
    ProduceResponseResponsePartitionResponse,
    SyncGroupResponse,
)
from offsetlog.server.exchange import Exchange

NAMES = {api.name: api.key for api in APIS.values()}

#: From this version on OffsetFetch asks for any number of groups, FindCoordinator for keys.
FETCH_OF_GROUPS = 8
FIND_COORDINATORS = 4
#: Before this version an error of OffsetFetch is that of every partition.
FETCH_WITH_ERROR = 2
GROUP_KEY = 0

CODE_MIN, CODE_MAX = -1, 32767


def checked_api(name: str | None) -> int | None:
    """The key of an API that is named, None for any.

    Raises:
        InvalidArgumentError: there is no such API.
    """
    if name is None:
        return None
    if name not in NAMES:
        known = ", ".join(sorted(NAMES))
        raise InvalidArgumentError(f"api={name!r} is not served; name one of {known}")
    return NAMES[name]


def checked_code(code: int | str | ErrorCode) -> int:
    """The number of an error, which is given so or by its name in Kafka's protocol.

    Raises:
        InvalidArgumentError: there is no such error, or it is none.
    """
    if isinstance(code, str):
        named = getattr(error_codes, code, None)
        if not isinstance(named, ErrorCode):
            raise InvalidArgumentError(
                f"code={code!r} is not the name of an error; give its number in Kafka's protocol"
            )
        code = named
    number = code.code if isinstance(code, ErrorCode) else code
    if not CODE_MIN <= number <= CODE_MAX or number == 0:
        raise InvalidArgumentError(f"code={code!r} is not the number of an error")
    return number


def groups_of(exchange: Exchange) -> frozenset[str]:
    """The groups that a request is about; none for one of topics, say."""
    message = exchange.request.message
    name = APIS[exchange.request.api_key].name
    if name == "OffsetFetch" and exchange.version >= FETCH_OF_GROUPS:
        return frozenset(each.group_id for each in message.groups)
    if name == "DescribeGroups":
        return frozenset(message.groups)
    if name == "DeleteGroups":
        return frozenset(message.groups_names)
    if name == "FindCoordinator":
        keys = message.coordinator_keys if exchange.version >= FIND_COORDINATORS else [message.key]
        return frozenset(keys if message.key_type == GROUP_KEY else ())
    group = getattr(message, "group_id", None)
    return frozenset() if group is None else frozenset([group])


# -------------------------------------------------------------------------------------------- refusals


def _offset_commit(exchange: Exchange, code: int) -> Any:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                tuple(
                    OffsetCommitResponseTopicPartition(each.partition_index, code)
                    for each in topic.partitions
                ),
            )
            for topic in exchange.request.message.topics
        )
    )


def _offset_fetch(exchange: Exchange, code: int) -> Any:
    message = exchange.request.message
    if exchange.version >= FETCH_OF_GROUPS:
        return OffsetFetchResponse(
            groups=tuple(
                OffsetFetchResponseGroup(each.group_id, error_code=code) for each in message.groups
            )
        )
    if exchange.version >= FETCH_WITH_ERROR:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                topic.name,
                tuple(
                    OffsetFetchResponseTopicPartition(each, -1, -1, "", code)
                    for each in topic.partition_indexes
                ),
            )
            for topic in message.topics or ()
        )
    )


def _find_coordinator(exchange: Exchange, code: int) -> Any:
    message = exchange.request.message
    if exchange.version < FIND_COORDINATORS:
        return FindCoordinatorResponse(error_code=code, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=tuple(
            FindCoordinatorResponseCoordinator(each, -1, "", -1, code, "")
            for each in message.coordinator_keys
        )
    )


def _join_group(exchange: Exchange, code: int) -> Any:
    return join_refusal(exchange.call, ErrorCode(code), exchange.request.message.member_id)


def _describe_groups(exchange: Exchange, code: int) -> Any:
    groups = exchange.request.message.groups
    return DescribeGroupsResponse(
        groups=tuple(DescribeGroupsResponseGroup(code, group_id=each) for each in groups)
    )


def _delete_groups(exchange: Exchange, code: int) -> Any:
    groups = exchange.request.message.groups_names
    return DeleteGroupsResponse(
        results=tuple(DeleteGroupsResponseResult(each, code) for each in groups)
    )


def _produce(exchange: Exchange, code: int) -> Any:
    return ProduceResponse(
        responses=tuple(
            ProduceResponseResponse(
                topic.name,
                topic.topic_id,
                tuple(
                    ProduceResponseResponsePartitionResponse(each.index_, code, -1)
                    for each in topic.partition_data
                ),
            )
            for topic in exchange.request.message.topic_data
        )
    )


def _fetch(exchange: Exchange, code: int) -> Any:
    return FetchResponse(
        responses=tuple(
            FetchResponseResponse(
                topic.topic,
                topic.topic_id,
                tuple(
                    FetchResponseResponsePartition(each.partition, code, -1, -1, -1, records=b"")
                    for each in topic.partitions
                ),
            )
            for topic in exchange.request.message.topics
        )
    )


def _list_offsets(exchange: Exchange, code: int) -> Any:
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsResponseTopic(
                topic.name,
                tuple(
                    ListOffsetsResponseTopicPartition(each.partition_index, code, -1, -1, -1)
                    for each in topic.partitions
                ),
            )
            for topic in exchange.request.message.topics
        )
    )


def _as_a_whole(response: type[Any]) -> Callable[[Exchange, int], Any]:
    return lambda exchange, code: response(error_code=code)


#: By the name of the API: the answer that gives a request an error.
REFUSALS: dict[str, Callable[[Exchange, int], Any]] = {
    "DeleteGroups": _delete_groups,
    "DescribeGroups": _describe_groups,
    "Fetch": _fetch,
    "FindCoordinator": _find_coordinator,
    "Heartbeat": _as_a_whole(HeartbeatResponse),
    "InitProducerId": _as_a_whole(InitProducerIdResponse),
    "JoinGroup": _join_group,
    "LeaveGroup": _as_a_whole(LeaveGroupResponse),
    "ListGroups": _as_a_whole(ListGroupsResponse),
    "ListOffsets": _list_offsets,
    "OffsetCommit": _offset_commit,
    "OffsetDelete": _as_a_whole(OffsetDeleteResponse),
    "OffsetFetch": _offset_fetch,
    "Produce": _produce,
    "SyncGroup": _as_a_whole(SyncGroupResponse),
}


def refuse(exchange: Exchange, code: int) -> None:
    """Answers a request with an error; its API has to be among REFUSALS."""
    name = APIS[exchange.request.api_key].name
    if name == "Produce" and exchange.request.message.acks == 0:
        # Nobody reads an answer: a broker ends the connection so that the producer learns of it.
        exchange.end(f"a fault: error {code} of a Produce that asks for no answer")
        return
    exchange.reply(REFUSALS[name](exchange, code))
