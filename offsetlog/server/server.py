"""Starts and stops the server: opens the directory, leads its partitions, and listens."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from offsetlog._native.files import FileSystem
from offsetlog._native.front import Front
from offsetlog._native.request_metrics import RequestMetrics
from offsetlog.config import PARTITIONS_DEFAULT
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.directory.log_directory import random_topic_id
from offsetlog.errors import ClosedError, ConfigError, OffsetLogError
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.missing_library import missing_library
from offsetlog.protocol import Request
from offsetlog.server.clock import Clock, LoopClock
from offsetlog.server.connection import Connection
from offsetlog.server.connection_limits import ConnectionLimits, OpenConnections
from offsetlog.server.deleted_positions import DeletedPositions
from offsetlog.server.disk_work import DiskWork
from offsetlog.server.faults import Faults
from offsetlog.server.group_host import GroupHost
from offsetlog.server.handlers.offsets import commit_refused
from offsetlog.server.metadata_store import (
    FileMetadataStore,
    MetadataStore,
    adopt,
    new_offsets_topic,
)
from offsetlog.server.node import NodeState, TopicDefaults
from offsetlog.server.partition_logs import PartitionLogs
from offsetlog.server.placement import Node, OneNode
from offsetlog.server.producer_ids import ProducerIds
from offsetlog.server.status import ServerStatus
from offsetlog.server.topic_compaction import TopicCompaction
from offsetlog.server.topic_sweep import TopicSweep
from offsetlog.topics.compaction import CompactionSettings
from offsetlog.topics.found_topics import find_topics
from offsetlog.topics.open_files import connections_max, open_logs_max
from offsetlog.topics.settings import TopicLogSettings
from offsetlog.topics.topic_logs import TopicLogs, TopicOptions

if TYPE_CHECKING:
    from offsetlog.server.monitoring import Monitoring

_log = logging.getLogger(__name__)

#: The longest interval between two checks for idle connections.
SWEEP_SECONDS = 10.0
#: The interval at which the recovery points of topics are written; Kafka's
#: `log.flush.offset.checkpoint.interval.ms`.
CHECKPOINT_SECONDS = 60.0
#: How long a stop waits for answers that are due.
DRAIN_SECONDS = 2.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server.

    Attributes:
        manager: settings of the log directory.
        host, port: the address to listen on; with port 0, a free port.
        advertised_host, advertised_port: the address given to clients; None for the listening
            address.
        metrics_host, metrics_port: the address for metrics and health; None serves neither.
        node_id: the node's id, used if the directory is new.
        cluster_id: the cluster's id, used if the directory is new; None generates an id.
        limits: limits on connections and requests.
        coordinator: settings of the group coordinator.
        topics: defaults of new topics.
        topic_logs: the log settings for topics that have none of their own.
        disk_reserve_bytes: bytes that should stay free on the directory's disk; with fewer, the
            server reports that it is not healthy.
        compaction: settings of the compaction of topics.
        retention_check_ms: interval between checks for old segments of topics
            (``log.retention.check.interval.ms``).
        open_logs_max: number of topics' logs above which unused ones are closed; None derives it
            from the limit on open files.
        allow_any_host: whether the server may listen on addresses other than loopback, without any
            security.
        properties: the node's settings by Kafka's names, for clients that ask for them.

    Raises:
        ConfigError: an address is not loopback and `allow_any_host` is false.
    """

    manager: ManagerSettings
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    metrics_host: str | None = None
    metrics_port: int = 0
    node_id: int = 0
    cluster_id: str | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    coordinator: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    topic_logs: TopicLogSettings = field(default_factory=TopicLogSettings)
    disk_reserve_bytes: int = 128 << 20
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    retention_check_ms: int = 300_000
    open_logs_max: int | None = None
    allow_any_host: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for host in (self.host, self.metrics_host):
            if host not in (None, *LOOPBACK) and not self.allow_any_host:
                raise ConfigError(
                    f"listening on {host or 'all addresses'} needs --allow-any-host: "
                    "connections are neither authenticated nor encrypted"
                )


def _options_of(metadata: MetadataStore, defaults: TopicLogSettings, name: str) -> TopicOptions:
    topic = metadata.topic(name)
    if topic is None:
        raise ClosedError(f"topic {name} was deleted")
    return TopicOptions(topic.topic_id, defaults.of(topic.configs))


class Server:
    """A single-node server; call `start` and `stop` on its event loop.

    Args:
        settings: settings of the server.
        manager: the manager of the log directory, not started; None makes a manager from the
            settings.
        clock: times sessions and rebalances; None for the clock of the event loop.
        faults: injects faults in tests of clients; None in production.

    Attributes:
        status: health and readiness; available once `start` was called.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        manager: LogManager | None = None,
        clock: Clock | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._settings = settings
        self._given_manager = manager
        self._clock = clock
        self._faults = faults
        self._connections = OpenConnections(settings.limits)
        self._requests = RequestMetrics()
        self._monitoring: Monitoring | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._checkpoints: asyncio.TimerHandle | None = None
        self._listener: asyncio.Server | None = None
        self._front: Front | None = None
        self._groups: GroupHost | None = None
        self._manager: LogManager | None = None
        self._topics: TopicLogs | None = None
        self._topic_sweep: TopicSweep | None = None
        self._topic_compaction: TopicCompaction | None = None
        self._node: NodeState | None = None
        self._disk: DiskWork | None = None

    async def start(self) -> tuple[str, int]:
        """Opens the directory and listens; returns host and port.

        Raises:
            LockedError, StorageError, CorruptionError, ConfigError, PartitionCountError: see
                OffsetManager.start.
            OSError: the port is in use, or the address is not one of this machine; the message names it.
        """
        settings = self._settings
        loop = asyncio.get_running_loop()
        self.status = ServerStatus(loop, self._connections, self._requests)
        self.status.directory = settings.manager.path
        self.status.disk_reserve_bytes = settings.disk_reserve_bytes
        if settings.metrics_host is not None:
            self._monitoring = _monitoring(self.status, settings.metrics_host, settings.metrics_port)
        try:
            # Binds the port first, so that a port in use is reported before a large directory is
            # opened.
            self._listener = await self._bound(loop)
            manager = self._given_manager or LogManager(settings.manager)
            await loop.run_in_executor(None, manager.start)
            self._manager = self.status.manager = manager
            most = connections_max(manager.partitions, settings.open_logs_max)
            self._connections.leave_files(most)
            clock = self._clock = self._clock or LoopClock(loop)
            self._front = self.status.front = Front(
                manager.open_core,
                loop,
                clock.now_ms,
                metadata_units_max=settings.manager.store.metadata_max_units,
                refused=self._refused,
            )
            self._front.metrics = self._requests
            # Only handlers apply faults, so the front must not answer requests.
            self._front.is_off = self._faults is not None
            self._groups = GroupHost(manager, settings.coordinator, loop, self._front, clock)
            self.status.groups = self._groups
            for partition in range(manager.partitions):
                self._groups.lead(partition, manager.leader_epoch(partition) + 1)
            await self._serve(loop, self._listener)
            self.status.is_listening = True
            fields = {"host": self.address[0], "port": self.address[1]}
            _log.info("listening on %s:%d", *self.address, extra=fields)
        except BaseException:
            await self.stop()
            raise
        return self.address

    async def _bound(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        # Binds the port; no client can connect yet.
        host, port = self._settings.host, self._settings.port
        with _listening(host, port):
            return await loop.create_server(
                self.connect, host, port, backlog=1024, start_serving=False
            )

    async def _serve(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> None:
        host, port = listener.sockets[0].getsockname()[:2]
        self._node = await self._made_node(loop, host, port)
        with _listening(host, port):
            await listener.start_serving()
        self._end_idle(loop)
        assert self._groups is not None
        self._groups.expiry.start()
        self._keep_checkpoints(loop)
        self.topic_sweep.start()
        if self._settings.compaction.enabled:
            self.topic_compaction.start()

    def connect(self) -> Connection:
        """Makes the protocol object for a new connection; call this on the event loop, after `start`."""
        return Connection(self.node, self._connections)

    async def _made_node(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> NodeState:
        settings = self._settings
        manager, groups, front = self._manager, self._groups, self._front
        assert manager is not None
        assert front is not None
        assert groups is not None
        metadata = self._metadata(manager)
        found = find_topics(manager.directory)
        await adopt(metadata, found)
        metadata.listen(front)
        self._topics = self.status.topics = topics = TopicLogs(
            manager.directory,
            loop,
            partial(_options_of, metadata, settings.topic_logs),
            waits_for_disk=settings.manager.durability != "process",
            compaction=settings.compaction,
            open_logs_max=settings.open_logs_max or open_logs_max(),
        )
        await topics.open(found)
        self._disk = DiskWork(loop, self._connections.memory, settings.limits.read_bytes_max)
        assert self._clock is not None
        self._topic_sweep = TopicSweep(
            topics, manager.directory.fs, self._clock, loop, settings.retention_check_ms / 1000
        )
        self._topic_compaction = TopicCompaction(
            topics, self._clock, loop, settings.compaction.backoff_ms / 1000
        )
        own = Node(
            metadata.node_id,
            settings.advertised_host or await _host_for_clients(loop, host),
            settings.advertised_port or port,
        )
        return NodeState(
            manager,
            front,
            groups,
            metadata,
            OneNode(own),
            settings.topics,
            settings.topic_logs,
            topics,
            PartitionLogs(manager, topics, loop),
            ProducerIds(metadata, topics.highest_producer_id()),
            self._disk,
            DeletedPositions(manager),
            settings.manager.store.metadata_max_units,
            {**_known_count(manager), **settings.properties},
            self._requests,
            self._faults,
        )

    def _metadata(self, manager: LogManager) -> FileMetadataStore:
        offsets_topic = new_offsets_topic(
            manager.group_log.topic_id or random_topic_id(),
            manager.partitions,
            self._settings.manager.store.segment_bytes,
        )
        return FileMetadataStore(
            self._settings.manager.path,
            FileSystem(),
            node_id=self._settings.node_id,
            cluster_id=self._settings.cluster_id,
            offsets_topic=offsets_topic,
        )

    def _end_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._connections.end_idle(time.perf_counter())
        limits = self._settings.limits
        again = min(SWEEP_SECONDS, limits.idle_seconds / 2, limits.request_seconds / 2)
        self._sweep = loop.call_later(again, self._end_idle, loop)

    def _keep_checkpoints(self, loop: asyncio.AbstractEventLoop) -> None:
        self._checkpoints = loop.call_later(CHECKPOINT_SECONDS, self._keep_checkpoints, loop)
        assert self._topics is not None
        loop.run_in_executor(None, self._topics.write_checkpoints)

    def _refused(self, request: Request, failure: OffsetLogError) -> bytes:
        assert self._groups is not None
        error = self._groups.write_failed(request.message.group_id, failure)
        self._requests.failed(request.api_key, error.code)
        return commit_refused(request, failure)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """The address that serves metrics and health, or None."""
        return None if self._monitoring is None else self._monitoring.address

    @property
    def node(self) -> NodeState:
        """The parts that handlers use; available after `start`."""
        assert self._node is not None
        return self._node

    @property
    def topic_sweep(self) -> TopicSweep:
        """The sweep that deletes old segments of topics; available after `start`."""
        assert self._topic_sweep is not None
        return self._topic_sweep

    @property
    def topic_compaction(self) -> TopicCompaction:
        """The compaction of topics; available after `start`."""
        assert self._topic_compaction is not None
        return self._topic_compaction

    @property
    def address(self) -> tuple[str, int]:
        """The address on which the server listens."""
        assert self._listener is not None
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def stop(self) -> None:
        """Stops listening, answers waiting requests, and closes the connections and the directory.

        If one step fails, the others still run.
        """
        self.status.is_stopping = True
        count = len(self._connections)
        _log.info("stopping; %d connections open", count, extra={"connections": count})
        async with AsyncExitStack() as later:
            later.push_async_callback(asyncio.get_running_loop().run_in_executor, None, self._close)
            if self._topics is not None:
                later.push_async_callback(self._topics.stop)
            if self._disk is not None:
                later.push_async_callback(self._disk.stop, DRAIN_SECONDS)
            later.push_async_callback(self._connections.close_all, DRAIN_SECONDS)
            await self._begin_nothing_more()
        _log.info("stopped")

    async def _begin_nothing_more(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._groups is not None:
            await self._groups.expiry.close()
            self._groups.close()
        for timer in (self._sweep, self._checkpoints):
            if timer is not None:
                timer.cancel()
        if self._topic_sweep is not None:
            self._topic_sweep.stop()
        if self._topic_compaction is not None:
            self._topic_compaction.stop()

    def _close(self) -> None:
        with ExitStack() as later:
            if self._monitoring is not None:
                later.callback(self._monitoring.stop)
            if self._manager is not None:
                later.push(self._stop_manager)
            for each in (self._topics, self._topic_compaction, self._topic_sweep):
                if each is not None:
                    later.callback(each.close)

    def _stop_manager(self, kind: type[BaseException] | None, *_: object) -> None:
        # A stop writes the marker of a clean stop for all logs; that would be wrong if one was not
        # closed.
        assert self._manager is not None
        if kind is None:
            self._manager.stop()
        else:
            self._manager.abandon()


async def _host_for_clients(loop: asyncio.AbstractEventLoop, host: str) -> str:
    # Clients cannot connect to "all addresses"; as in Kafka, they get the name of the machine.
    if not ip_address(host).is_unspecified:
        return host
    return await loop.run_in_executor(None, socket.getfqdn)


def _monitoring(status: ServerStatus, host: str, port: int) -> Monitoring:
    # The module is imported only if metrics are wanted, because the package that it needs may be
    # missing.
    try:
        from offsetlog.server.monitoring import Monitoring
    except ModuleNotFoundError as missing:
        if missing.name is None or not missing.name.startswith("prometheus_client"):
            raise
        raise missing_library("--metrics", "prometheus_client") from None
    with _listening(host, port):
        return Monitoring(status, host, port)


def _known_count(manager: LogManager) -> dict[str, str]:
    # The number of partitions of the directory, if it is not the default.
    if manager.partitions == PARTITIONS_DEFAULT:
        return {}
    return {"offsets.topic.num.partitions": str(manager.partitions)}


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    # Adds the address and advice to an error, because the errors of event loops contain neither.
    try:
        yield
    except OSError as failure:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = failure.strerror
        if failure.errno is not None and failure.errno in errno.errorcode:
            reason = os.strerror(failure.errno)
        advice = (
            "; stop the program that listens there, or choose another port (0 picks a free one)"
            if failure.errno == errno.EADDRINUSE
            else ""
        )
        raise OSError(failure.errno, f"cannot listen on {place}: {reason}{advice}") from failure
