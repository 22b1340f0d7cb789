"""The settings of the log manager, under Kafka's names where they exist."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from offsetlog._native.quotas import Quotas
from offsetlog.config import (
    KAFKA_PARTITIONS_DEFAULT,
    MIB,
    PARTITIONS_MAX,
    MaintenanceConfig,
    StoreConfig,
)
from offsetlog.errors import ConfigError
from offsetlog.manager.properties import Setting, choice, flag, number, path, real, retention, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """The limits of every group and of every client; None means that there is no limit.

    Attributes:
        group_commits: how many positions a group may commit per second (``offsets.quota.group.commits``).
        group_bytes: how many bytes a group may commit per second (``offsets.quota.group.bytes``).
        client_commits: how many positions a client id may commit per second (``offsets.quota.client.commits``).
        client_bytes: how many bytes a client id may commit per second (``offsets.quota.client.bytes``).

    Raises:
        ConfigError: a limit is not finite and above 0.
    """

    group_commits: float | None = None
    group_bytes: float | None = None
    client_commits: float | None = None
    client_bytes: float | None = None

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < math.inf:
                raise ConfigError(f"{name} must be finite and above 0, not {rate}")

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return any(getattr(self, each.name) is not None for each in fields(self))

    def buckets(self) -> Quotas | None:
        """Creates the token buckets of the quotas; returns None if nothing is limited."""
        if not self.any:
            return None
        return Quotas(
            group_commits_per_second=self.group_commits,
            group_bytes_per_second=self.group_bytes,
            client_commits_per_second=self.client_commits,
            client_bytes_per_second=self.client_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of a log manager; the name of the broker's property is in parentheses.

    Attributes:
        path: the log directory (``log.dir``).
        partitions: the number of partitions of the offsets topic (``offsets.topic.num.partitions``).
        replication_factor: the number of replicas of a partition (``offsets.topic.replication.factor``).  With 1, a
            leader has no followers, and the high watermark is the log end.
        min_insync_replicas: the number of replicas that must be in sync; while there are fewer, commits are refused
            (``min.insync.replicas``).
        commit_timeout: how many seconds a commit waits for its answer (``offsets.commit.timeout.ms``).
        durability: when a commit is answered (``offsets.commit.durability``): "replicas", "disk" or "process".  With
            one replica, "replicas" is the same as "disk".
        accept_while_loading: whether plain commits are accepted while a partition is being loaded
            (``commits.while.loading``: accept or refuse).
        keep_table: whether a replica keeps its table, the positions in memory, when it resigns
            (``offsets.table.on.resign``: keep or drop).
        warm_followers: whether followers keep a table of positions in memory, so that they can lead
            at once (``offsets.follower.table``: warm or cold).
        load_threads: the largest number of partitions that load at the same time.  It also limits, separately, how
            many partitions flush at the same time (``offsets.load.threads``).
        quotas: the limits of groups and clients.
        store: the settings of the logs (``offsets.topic.segment.bytes``, ``offset.metadata.max.bytes``).
        maintenance: the settings of cleaning, snapshots and expiry (``offsets.retention.minutes``,
            ``offsets.retention.check.interval.ms``, ``log.cleaner.enable``).

    Raises:
        ConfigError: a value is not allowed.
    """

    path: Path
    partitions: int | None = KAFKA_PARTITIONS_DEFAULT
    replication_factor: int = 1
    min_insync_replicas: int = 1
    commit_timeout: float = 5.0
    durability: Literal["process", "disk", "replicas"] = "replicas"
    accept_while_loading: bool = True
    keep_table: bool = True
    warm_followers: bool = True
    load_threads: int = 4
    quotas: QuotaLimits = field(default_factory=QuotaLimits)
    store: StoreConfig = field(default_factory=StoreConfig)
    maintenance: MaintenanceConfig = field(default_factory=MaintenanceConfig)

    def __post_init__(self) -> None:
        if self.partitions is not None and not 1 <= self.partitions <= PARTITIONS_MAX:
            raise ConfigError(f"the offsets topic must have 1 to {PARTITIONS_MAX} partitions, not {self.partitions}")
        if self.replication_factor < 1:
            raise ConfigError(f"the replication factor must be at least 1, not {self.replication_factor}")
        if not 1 <= self.min_insync_replicas <= self.replication_factor:
            raise ConfigError(
                f"min_insync_replicas must be from 1 to {self.replication_factor} (the replication "
                f"factor), not {self.min_insync_replicas}"
            )
        if not self.commit_timeout > 0:
            raise ConfigError(f"the commit timeout must be above 0 seconds, not {self.commit_timeout}")
        if self.load_threads < 1:
            raise ConfigError(f"load_threads must be at least 1, not {self.load_threads}")

    @property
    def alone(self) -> bool:
        """Whether a leader has no followers."""
        return self.replication_factor == 1


# ------------------------------------------------------------------------------- a broker's properties

#: For each property: the part of the settings, the field, and the function that reads the value.
_READERS: dict[str, tuple[str, str, Callable[[str, Setting], Any]]] = {
    "log.dir": ("", "path", path),
    "offsets.topic.num.partitions": ("", "partitions", number),
    "offsets.topic.replication.factor": ("", "replication_factor", number),
    "min.insync.replicas": ("", "min_insync_replicas", number),
    "offsets.commit.timeout.ms": ("", "commit_timeout", seconds),
    "offsets.commit.durability": (
        "",
        "durability",
        choice(process="process", disk="disk", replicas="replicas"),
    ),
    "commits.while.loading": ("", "accept_while_loading", choice(accept=True, refuse=False)),
    "offsets.table.on.resign": ("", "keep_table", choice(keep=True, drop=False)),
    "offsets.follower.table": ("", "warm_followers", choice(warm=True, cold=False)),
    "offsets.load.threads": ("", "load_threads", number),
    "offsets.quota.group.commits": ("quotas", "group_commits", real),
    "offsets.quota.group.bytes": ("quotas", "group_bytes", real),
    "offsets.quota.client.commits": ("quotas", "client_commits", real),
    "offsets.quota.client.bytes": ("quotas", "client_bytes", real),
    "offsets.topic.segment.bytes": ("store", "segment_bytes", number),
    "offset.metadata.max.bytes": ("store", "metadata_max_units", number),
    "offsets.retention.minutes": ("maintenance", "retention_ms", retention),
    "offsets.retention.check.interval.ms": (
        "maintenance",
        "retention_check_interval_ms",
        number,
    ),
    "log.cleaner.enable": ("maintenance", "enabled", flag),
}

_QUOTA = "offsets.quota."

#: Every property that the log manager reads.
PROPERTIES = frozenset(_READERS)


def from_properties(properties: Mapping[str, Setting]) -> ManagerSettings:
    """Returns the settings that the properties of a broker give; ignores properties with other names.

    Raises:
        ConfigError: `log.dir` is missing, a quota is unknown, or a value is not allowed; the message
            names the property.
    """
    if "log.dir" not in properties:
        raise ConfigError("log.dir is missing: set it to the directory that keeps the offsets")
    # An unknown quota is refused, not ignored: a misspelled one would silently limit nothing.
    quotas = [each for each in PROPERTIES if each.startswith(_QUOTA)]
    for name in properties:
        if name.startswith(_QUOTA) and name not in PROPERTIES:
            raise ConfigError(f"{name} is not a quota; the quotas are {', '.join(sorted(quotas))}")
    settings = ManagerSettings(path=Path())
    # The order is that of the readers, in which the replication factor comes before the settings that it limits.
    for name in (each for each in _READERS if each in properties):
        settings = with_property(settings, name, properties[name])
    return settings


def with_property(settings: ManagerSettings, name: str, value: Setting) -> ManagerSettings:
    """Returns the settings with one of PROPERTIES changed.

    Raises:
        ConfigError: the value is not allowed; the message names the property.
    """
    part, attribute, read = _READERS[name]
    wanted = read(name, value)
    if not part:
        return cast(ManagerSettings, _changed(name, settings, attribute, wanted))
    changed = _changed(name, getattr(settings, part), attribute, wanted)
    return replace(settings, **{part: changed})


def _changed(name: str, part: Any, attribute: str, value: Any) -> Any:
    changes = {attribute: value}
    if attribute == "segment_bytes":
        changes["batch_bytes_max"] = min(16 * MIB, value)
    try:
        return replace(part, **changes)
    except ConfigError as failure:
        raise ConfigError(f"{name}: {failure.message}") from failure
