"""The parts of a node that handlers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetlog._native.front import Front
from offsetlog._native.request_metrics import RequestMetrics
from offsetlog.manager.log_manager import LogManager
from offsetlog.server.deleted_positions import DeletedPositions
from offsetlog.server.disk_work import DiskWork
from offsetlog.server.faults import Faults
from offsetlog.server.group_host import GroupHost
from offsetlog.server.metadata_store import MetadataStore
from offsetlog.server.partition_logs import PartitionLogs
from offsetlog.server.placement import Placement
from offsetlog.server.producer_ids import ProducerIds
from offsetlog.topics.settings import TopicLogSettings
from offsetlog.topics.topic_logs import TopicLogs


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """Settings of topics that clients do not give.

    Attributes:
        partitions: of a new topic (``num.partitions``).
        auto_create: whether asking for a topic makes it (``auto.create.topics.enable``).
    """

    partitions: int = 1
    auto_create: bool = True


@dataclass(frozen=True, slots=True)
class NodeState:
    """The parts of a node.

    Attributes:
        manager: keeps the positions.
        front: answers what running consumers ask, as far as the coordinator has admitted it.
        groups: the coordinator of the groups.
        metadata: topics and ids.
        placement: the leader of each partition.
        topic_defaults: of new topics.
        topic_logs: of topics that have no settings of their own.
        topics: the logs of ordinary topics.
        logs: finds the log of a partition.
        producer_ids: of idempotent producers.
        disk: does what waits for the disk.
        deleted_positions: has positions of deleted topics deleted.
        metadata_max_units: of one position, in UTF-16 units.
        properties: the node's settings, by Kafka's names.
        metrics: the counters of its answers.
        faults: answers requests otherwise, in tests of clients; None: nothing does.
    """

    manager: LogManager
    front: Front
    groups: GroupHost
    metadata: MetadataStore
    placement: Placement
    topic_defaults: TopicDefaults
    topic_logs: TopicLogSettings
    topics: TopicLogs
    logs: PartitionLogs
    producer_ids: ProducerIds
    disk: DiskWork
    deleted_positions: DeletedPositions
    metadata_max_units: int = 4096
    properties: Mapping[str, str] = field(default_factory=dict)
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    faults: Faults | None = None
