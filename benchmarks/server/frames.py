"""Requests and the answers that they must get, in the form that `wire_load` reads."""

from __future__ import annotations

from typing import Any

from offsetlog.protocol import encode_request, encode_response
from offsetlog.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetCommitResponseTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
)

TOPIC = "measured"
#: That of librdkafka, of both APIs.
VERSION = 9
LEADER_EPOCH = 3


def _pair(request: Any, answer: Any) -> bytes:
    return encode_request(request, VERSION, 0, "load") + encode_response(answer, VERSION, 0)


def _offset(group: int, partition: int) -> int:
    return 1_000_000 + 1_000 * group + partition


def commits(groups: int, partitions: int) -> bytes:
    """Returns one commit for each group, of this number of partitions; each answer accepts the whole commit."""
    answer = OffsetCommitResponse(
        topics=(
            OffsetCommitResponseTopic(
                TOPIC,
                partitions=tuple(OffsetCommitResponseTopicPartition(number, 0) for number in range(partitions)),
            ),
        )
    )
    return b"".join(_pair(_commit(group, partitions), answer) for group in range(groups))


def _commit(group: int, partitions: int) -> OffsetCommitRequest:
    asked = tuple(
        OffsetCommitRequestTopicPartition(number, _offset(group, number), LEADER_EPOCH, committed_metadata="")
        for number in range(partitions)
    )
    return OffsetCommitRequest(f"group-{group}", topics=(OffsetCommitRequestTopic(TOPIC, partitions=asked),))


def fetches(groups: int, partitions: int) -> bytes:
    """Returns one fetch for each group, of the positions that `commits` has committed."""
    return b"".join(_pair(_fetch(group, partitions), _fetched(group, partitions)) for group in range(groups))


def _fetch(group: int, partitions: int) -> OffsetFetchRequest:
    topic = OffsetFetchRequestGroupTopic(TOPIC, partition_indexes=tuple(range(partitions)))
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(f"group-{group}", topics=(topic,)),))


def _fetched(group: int, partitions: int) -> OffsetFetchResponse:
    found = tuple(
        OffsetFetchResponseGroupTopicPartition(number, _offset(group, number), LEADER_EPOCH, "", 0)
        for number in range(partitions)
    )
    topic = OffsetFetchResponseGroupTopic(TOPIC, partitions=found)
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(f"group-{group}", topics=(topic,)),))
