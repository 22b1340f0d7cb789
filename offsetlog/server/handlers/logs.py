"""ListOffsets."""

from __future__ import annotations

from offsetlog import error_codes
from offsetlog.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestTopicPartition,
    ListOffsetsResponse,
    ListOffsetsResponseTopic,
    ListOffsetsResponseTopicPartition,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.node import NodeState

#: Times that are no times: the log end, the log start.
LATEST, EARLIEST = -1, -2


def list_offsets(node: NodeState, exchange: Exchange) -> None:
    """Answers with offsets by time, the ends of logs among them."""
    request: ListOffsetsRequest = exchange.request.message
    exchange.reply(
        ListOffsetsResponse(
            topics=tuple(
                ListOffsetsResponseTopic(
                    topic.name,
                    tuple(_offset(node, topic.name, each) for each in topic.partitions),
                )
                for topic in request.topics
            )
        )
    )


def _offset(
    node: NodeState, name: str, asked: ListOffsetsRequestTopicPartition
) -> ListOffsetsResponseTopicPartition:
    number = asked.partition_index
    topic = node.metadata.topic(name)
    if topic is None or not 0 <= number < topic.partitions:
        return ListOffsetsResponseTopicPartition(
            number, error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
        )
    if asked.timestamp in (LATEST, EARLIEST):
        return ListOffsetsResponseTopicPartition(number, offset=0, leader_epoch=0)
    return ListOffsetsResponseTopicPartition(number)
