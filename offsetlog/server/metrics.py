"""The metrics of a server for Prometheus, collected from its parts at each request.

`METRICS` defines every metric.  The table in docs/server.md is generated from `METRICS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from offsetlog import error_codes
from offsetlog._native.histogram import Histogram
from offsetlog._native.partition import Partition
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager
from offsetlog.protocol import APIS
from offsetlog.server.disk import disk_of
from offsetlog.server.status import ServerStatus, health, readiness


class Kind(NamedTuple):
    """A metric: its type (counter, gauge or histogram), labels and meaning."""

    kind: str
    labels: tuple[str, ...]
    meaning: str


_PARTITION = ("partition",)
#: Maintenance counters with this prefix count bytes.
_BYTES = "bytes_"

#: The metrics by name, without the suffixes that Prometheus adds for counters and histograms.
METRICS: dict[str, Kind] = {
    "offsetlog_build_info": Kind("gauge", ("version",), "Always 1; the label holds the version."),
    "offsetlog_start_time_seconds": Kind(
        "gauge", (), "Time at which the server was started, in seconds since 1970."
    ),
    "offsetlog_healthy": Kind("gauge", (), "1 if `/healthz` answers 200, else 0."),
    "offsetlog_ready": Kind("gauge", (), "1 if `/readyz` answers 200, else 0."),
    "offsetlog_disk_free_bytes": Kind(
        "gauge", (), "Free bytes on the disk of the log directory."
    ),
    "offsetlog_request_duration_seconds": Kind(
        "histogram",
        ("api",),
        "Time from the arrival of the whole request to its answer; for JoinGroup, SyncGroup and Fetch it includes "
        "their wait for members or records.",
    ),
    "offsetlog_request_errors": Kind(
        "counter", ("api", "error"), "Answers that contain an error, by the first error in each."
    ),
    "offsetlog_connections": Kind("gauge", (), "Open connections of clients."),
    "offsetlog_connections_accepted": Kind("counter", (), "Connections accepted."),
    "offsetlog_connections_refused": Kind(
        "counter", (), "Connections refused because a limit was reached."
    ),
    "offsetlog_received_bytes": Kind("counter", (), "Bytes received from clients."),
    "offsetlog_sent_bytes": Kind("counter", (), "Bytes sent to clients."),
    "offsetlog_request_memory_free_bytes": Kind(
        "gauge",
        (),
        "The unused part of `queued.max.request.bytes`. While this is 0 or less, requests above 64 KiB wait, except "
        "the oldest request; connections with a commit that waits for a flush may wait, too.",
    ),
    "offsetlog_commits": Kind(
        "counter", (), "OffsetCommit requests that committed at least one position."
    ),
    "offsetlog_committed_positions": Kind("counter", (), "Positions committed by clients."),
    "offsetlog_expired_positions": Kind(
        "counter", (), "Positions deleted because they had expired."
    ),
    "offsetlog_flush_duration_seconds": Kind(
        "histogram",
        ("log",),
        "Duration of the flushes that requests waited for, by kind of log: `offsets` or `topics`.",
    ),
    "offsetlog_groups": Kind("gauge", ("type", "state"), "Groups, by type and state."),
    "offsetlog_admissions": Kind(
        "gauge",
        (),
        "Members (and groups without members) whose commits are answered without asking the coordinator.",
    ),
    "offsetlog_group_timers": Kind(
        "gauge", (), "Running timers of members, rebalances and writes."
    ),
    "offsetlog_topic_logs_open": Kind(
        "gauge", (), "Open logs of ordinary topics; a log is opened at its first use."
    ),
    "offsetlog_topic_partitions_unwritable": Kind(
        "gauge", (), "Partitions of ordinary topics that accept no records."
    ),
    "offsetlog_partition_state": Kind(
        "gauge",
        ("partition", "state"),
        "Always 1; the label `state` holds the state of the partition of the offsets topic.",
    ),
    "offsetlog_partition_loaded_ratio": Kind(
        "gauge", _PARTITION, "Share of the partition's log that is loaded, from 0 to 1."
    ),
    "offsetlog_log_end_offset": Kind("gauge", _PARTITION, "Offset of the next record."),
    "offsetlog_log_flushed_offset": Kind(
        "gauge", _PARTITION, "Offset below which every record is on disk."
    ),
    "offsetlog_log_size_bytes": Kind("gauge", _PARTITION, "Size of the segments of the log."),
    "offsetlog_table_entries": Kind("gauge", _PARTITION, "Committed positions in memory."),
    "offsetlog_table_bytes": Kind(
        "gauge", _PARTITION, "Memory used by positions, groups and open transactions."
    ),
    "offsetlog_maintenance_events": Kind(
        "counter", ("event",), "Maintenance events by kind: `rounds`, `cleaned`, `snapshots`, `failed` and others."
    ),
    "offsetlog_maintenance_bytes": Kind(
        "counter", ("kind",), "Bytes that cleaning has read, written and freed."
    ),
    "offsetlog_cleaning_ratio": Kind(
        "gauge", _PARTITION, "Progress of the running clean, from 0 to 1; absent if none runs."
    ),
    "offsetlog_maintenance_failing": Kind(
        "gauge", _PARTITION, "1 for a partition whose maintenance failed and will be tried again."
    ),
    "offsetlog_stuck_transactions": Kind(
        "gauge", (), "Transactions that have been open for 30 minutes or longer."
    ),
}

_ERROR_NAMES = {
    each.code: name for name, each in vars(error_codes).items() if isinstance(each, ErrorCode)
}

#: The parts of a partition's memory that no other part contains.
_MEMORY = ("cells", "pairs", "pair_hash", "chunks", "strings", "side", "pending", "group_records", "scratch")


Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
_FAMILIES: dict[str, type[Family]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class _Families:
    """The metric families of one collection, by name, in the order of METRICS."""

    def __init__(self) -> None:
        self._made = {
            name: _FAMILIES[each.kind](name, each.meaning, labels=each.labels)
            for name, each in METRICS.items()
        }

    def add(self, name: str, value: float, *labels: str | int) -> None:
        family = self._made[name]
        assert not isinstance(family, HistogramMetricFamily)
        family.add_metric([str(each) for each in labels], value)

    def histogram(self, name: str, measured: Histogram, label: str) -> None:
        family = self._made[name]
        assert isinstance(family, HistogramMetricFamily)
        buckets = [(_bound(bound), float(count)) for bound, count in measured.cumulative()]
        family.add_metric([label], buckets, measured.seconds)

    def all(self) -> Iterator[Metric]:
        yield from self._made.values()


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)


class ServerCollector(Collector):
    """Reads the metrics of a server, on any thread except that of its event loop.

    Args:
        status: the server's status.
    """

    def __init__(self, status: ServerStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client.registry.Collector."""
        families = _Families()
        _add_server(families, self._status)
        _add_requests(families, self._status)
        manager = self._status.manager
        if manager is not None and self._status.groups is not None:
            _add_parts(families, self._status, manager)
        yield from families.all()


def registry_of(status: ServerStatus) -> CollectorRegistry:
    """Makes a registry with the metrics of a server and of its process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(ServerCollector(status))
    ProcessCollector(registry=made)
    return made


def _add_server(families: _Families, status: ServerStatus) -> None:
    families.add("offsetlog_build_info", 1, version("offsetlog"))
    families.add("offsetlog_start_time_seconds", status.started_at)
    families.add("offsetlog_healthy", health(status).good)
    families.add("offsetlog_ready", readiness(status).good)
    if status.directory is not None:
        with suppress(OSError):
            families.add("offsetlog_disk_free_bytes", disk_of(status.directory).free_bytes)
    connections = status.connections
    families.add("offsetlog_connections", len(connections))
    families.add("offsetlog_connections_accepted", connections.accepted)
    families.add("offsetlog_connections_refused", connections.refused)
    families.add("offsetlog_request_memory_free_bytes", connections.memory.left)


def _add_requests(families: _Families, status: ServerStatus) -> None:
    requests = status.requests
    for key, latency in enumerate(requests.latencies):
        if latency is not None:
            families.histogram("offsetlog_request_duration_seconds", latency, APIS[key].name)
    for (key, code), count in requests.errors.copy().items():
        error = _ERROR_NAMES.get(code, str(code))
        families.add("offsetlog_request_errors", count, APIS[key].name, error)
    if status.front is not None:
        families.add("offsetlog_received_bytes", status.front.received_bytes)
        families.add("offsetlog_sent_bytes", status.front.sent_bytes)
        families.add("offsetlog_admissions", status.front.admissions)
    families.add("offsetlog_commits", requests.commits)
    families.add("offsetlog_committed_positions", requests.positions)


def _add_parts(families: _Families, status: ServerStatus, manager: LogManager) -> None:
    assert status.groups is not None
    families.add("offsetlog_group_timers", status.groups.coordinator.count_timers())
    families.add("offsetlog_expired_positions", status.groups.expiry.expired_positions)
    for (kind, state), count in sorted(status.groups.coordinator.count_by_state().items()):
        families.add("offsetlog_groups", count, kind, state)
    families.histogram("offsetlog_flush_duration_seconds", manager.flush_times, "offsets")
    if status.topics is not None:
        families.histogram("offsetlog_flush_duration_seconds", status.topics.flush_times, "topics")
        families.add("offsetlog_topic_logs_open", status.topics.open_count)
        unwritable = len(status.topics.unwritable())
        families.add("offsetlog_topic_partitions_unwritable", unwritable)
    _add_maintenance(families, manager)
    with suppress(OffsetLogError):    # the manager is being stopped
        for number in range(manager.partitions):
            with suppress(OffsetLogError):    # this partition failed, and its state shows that
                _add_partition(families, status, manager, number)


def _add_maintenance(families: _Families, manager: LogManager) -> None:
    status = manager.maintenance_status()
    for event, count in sorted(status.counters.items()):
        if event.startswith(_BYTES):
            families.add("offsetlog_maintenance_bytes", count, event.removeprefix(_BYTES))
        else:
            families.add("offsetlog_maintenance_events", count, event)
    if status.cleaning is not None:
        total = status.progress["bytes_total"]
        ratio = min(1.0, status.progress["bytes_read"] / total) if total else 0.0
        families.add("offsetlog_cleaning_ratio", ratio, status.cleaning)
    for number in sorted(status.failures):
        families.add("offsetlog_maintenance_failing", 1, number)
    families.add("offsetlog_stuck_transactions", len(status.stuck))


def _add_partition(
    families: _Families, status: ServerStatus, manager: LogManager, number: int
) -> None:
    state = manager.state(number)
    families.add("offsetlog_partition_state", 1, number, state.value)
    families.add("offsetlog_partition_loaded_ratio", status.loaded_part(number), number)
    replica = manager.replica(number)
    if replica is None:
        return
    partition = replica.partition
    facts = partition.log_facts()
    families.add("offsetlog_log_end_offset", facts["end"], number)
    families.add("offsetlog_log_flushed_offset", facts["flushed"], number)
    families.add("offsetlog_log_size_bytes", facts["size_bytes"], number)
    if state is PartitionState.ACTIVE:
        _add_table(families, partition, number)


def _add_table(families: _Families, partition: Partition, number: int) -> None:
    memory = partition.memory()
    families.add("offsetlog_table_entries", partition.count(), number)
    families.add("offsetlog_table_bytes", sum(memory[each] for each in _MEMORY), number)
