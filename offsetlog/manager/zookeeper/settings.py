"""The settings of the ZooKeeper manager, under the names of Kafka and ZooKeeper where they exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from offsetlog.config import KAFKA_PARTITIONS_DEFAULT, PARTITIONS_MAX
from offsetlog.errors import ConfigError
from offsetlog.manager.properties import Setting, number, retention, seconds
from offsetlog.manager.zookeeper.security import security
from offsetlog.zookeeper.connection import ConnectionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """The settings of a ZooKeeper manager; the name of the broker's property is in parentheses.

    Attributes:
        connection: the settings of the connection (``zookeeper.connect``, ``zookeeper.session.timeout.ms``,
            ``zookeeper.connection.timeout.ms``, ``jute.maxbuffer``, and the properties of its `security`).
        partitions: the number of partitions of the offsets topic, for which leaders are elected
            (``offsets.topic.num.partitions``).
        commit_timeout: how many seconds a commit, a delete or a fetch waits for its answer
            (``offsets.commit.timeout.ms``).
        retention_ms: how long a position of a group without consumers is kept after its last change; None means for
            ever (``offsets.retention.minutes``).
        retention_check_interval_ms: the time between two checks for expired positions
            (``offsets.retention.check.interval.ms``).

    Raises:
        ConfigError: a value is not allowed.
    """

    connection: ConnectionSettings
    partitions: int = KAFKA_PARTITIONS_DEFAULT
    commit_timeout: float = 5.0
    retention_ms: int | None = None
    retention_check_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= PARTITIONS_MAX:
            raise ConfigError(f"the offsets topic must have 1 to {PARTITIONS_MAX} partitions, not {self.partitions}")
        if not self.commit_timeout > 0:
            raise ConfigError(f"the commit timeout must be above 0 seconds, not {self.commit_timeout}")
        if not self.retention_check_interval_ms > 0:
            raise ConfigError(f"the check interval must be above 0 ms, not {self.retention_check_interval_ms}")


#: For each property: the part of the settings, the field, and the function that reads the value.
_READERS: dict[str, tuple[str, str, Callable[[str, Setting], Any]]] = {
    "zookeeper.session.timeout.ms": ("connection", "session_timeout", seconds),
    "zookeeper.connection.timeout.ms": ("connection", "connection_timeout", seconds),
    "jute.maxbuffer": ("connection", "request_bytes_max", number),
    "offsets.topic.num.partitions": ("manager", "partitions", number),
    "offsets.commit.timeout.ms": ("manager", "commit_timeout", seconds),
    "offsets.retention.minutes": ("manager", "retention_ms", retention),
    "offsets.retention.check.interval.ms": ("manager", "retention_check_interval_ms", number),
}

#: Every property that the ZooKeeper manager reads, except those of `security`.
PROPERTIES = frozenset({"zookeeper.connect", *_READERS})


def from_properties(properties: Mapping[str, Setting]) -> ZooKeeperSettings:
    """Returns the settings that the properties of a broker give; ignores properties with other names.

    Raises:
        ConfigError: `zookeeper.connect` is missing, or a value is not allowed; the message names the property.
    """
    hosts = properties.get("zookeeper.connect")
    if not isinstance(hosts, str):
        raise ConfigError("zookeeper.connect is missing: name ZooKeeper's servers, such as zk1:2181,zk2:2181/kafka")
    try:
        reached = ConnectionSettings(hosts=hosts)
    except ConfigError as failure:
        raise ConfigError(f"zookeeper.connect: {failure.message}") from failure
    settings = ZooKeeperSettings(connection=replace(reached, **security(properties)))
    for name, (part, attribute, read) in _READERS.items():
        if name not in properties:
            continue
        changes = {attribute: read(name, properties[name])}
        try:
            if part == "connection":
                changes = {"connection": replace(settings.connection, **changes)}
            settings = replace(settings, **changes)
        except ConfigError as failure:
            raise ConfigError(f"{name}: {failure.message}") from failure
    return settings
