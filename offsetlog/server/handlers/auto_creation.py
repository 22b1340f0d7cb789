"""Creates missing topics that a client asks about (``auto.create.topics.enable``)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from offsetlog.errors import StorageError
from offsetlog.protocol.messages import MetadataRequest
from offsetlog.server.handlers.topics import PARTITIONS_MAX, is_valid_name, making, new_topic
from offsetlog.server.metadata_store import INTERNAL_TOPICS, Topic, name_in_metrics
from offsetlog.server.node import NodeState
from offsetlog.topics.found_topics import CLUSTER_METADATA

_log = logging.getLogger(__name__)

#: Topics that belong to brokers; a client's request does not create them.
NOT_MADE = (CLUSTER_METADATA, *INTERNAL_TOPICS)


def names_to_make(node: NodeState, request: MetadataRequest) -> list[str]:
    """Returns the requested topics that do not exist and may be created; none if any is requested by id."""
    if not (request.allow_auto_topic_creation and node.topic_defaults.auto_create):
        return []
    asked = request.topics or ()
    if any(each.name is None or any(each.topic_id) for each in asked):
        return []
    return [each.name for each in _new_topics(node, [each.name or "" for each in asked])]


async def make_topics(node: NodeState, names: Sequence[str]) -> None:
    """Creates those of the topics that are still missing, in one change; logs a failure."""
    async with making(node, names):
        # Another client may have created these topics, or others, in the meantime.
        try:
            await node.metadata.put_topics(_new_topics(node, names))
        except StorageError as failure:
            _log.error("topics could not be created: %s", failure)


def _new_topics(node: NodeState, names: Sequence[str]) -> list[Topic]:
    # Topics above the limit of partitions are created when a client asks for them again.
    partitions = node.topic_defaults.partitions
    made: dict[str, Topic] = {}
    for name in dict.fromkeys(names):
        if (len(made) + 1) * partitions > PARTITIONS_MAX:
            break
        in_metrics = name_in_metrics(name)
        if _may_be_made(node, name) and in_metrics not in made:
            made[in_metrics] = new_topic(name, partitions)
    return list(made.values())


def _may_be_made(node: NodeState, name: str) -> bool:
    is_allowed = is_valid_name(name) and name not in NOT_MADE
    return is_allowed and node.metadata.topic(name) is None and node.metadata.named_alike(name) is None
