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
    """Defaults for topics that clients create.

    Attributes:
        partitions: number of partitions of a new topic (``num.partitions``).
        auto_create: whether a client's request creates a topic (``auto.create.topics.enable``).
    """

    partitions: int = 1
    auto_create: bool = True


@dataclass(frozen=True, slots=True)
class NodeState:
    """The parts of a node.

    Attributes:
        manager: keeps the positions.
        front: answers requests of running consumers that the coordinator has admitted.
        groups: runs the coordinator of the groups.
        metadata: the topics and ids of the cluster.
        placement: the leader of each partition.
        topic_defaults: the defaults for new topics.
        topic_logs: the log settings for topics that have none of their own.
        topics: the logs of ordinary topics.
        logs: finds the log of a partition.
        producer_ids: gives ids to idempotent producers.
        disk: runs work that waits for the disk.
        deleted_positions: deletes positions of deleted topics.
        metadata_max_units: the longest metadata of one position, in UTF-16 units.
        properties: the node's settings, by Kafka's names.
        metrics: the counters of the node's answers.
        faults: injects faults in tests of clients; None in production.
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
