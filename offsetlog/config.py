"""The settings of a store, each with its default, its unit and the values it may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from offsetlog.errors import ConfigError
from offsetlog.shown_values import shown

MIB = 1024 * 1024

#: (smallest, largest) value of every setting that is a number.
_DOMAINS: dict[str, tuple[int, int]] = {
    "segment_bytes": (4096, 2**31 - 1),
    "segment_ms": (1, 2**63 - 1),
    "index_interval_bytes": (0, 2**31 - 1),
    "segment_index_bytes": (24, 2**31 - 1),
    "producer_id_expiration_ms": (1, 2**31 - 1),
    "batch_bytes_max": (1024, 2**31 - 1),
    "metadata_max_units": (0, 32767),
    "decompressed_bytes_max": (1024, 2**40),
    "extend_bytes_min": (4096, 2**31 - 1),
    "extend_bytes_max": (4096, 2**31 - 1),
    "flush_interval_ms": (0, 2**31 - 1),
}

#: The longest name of a group, in bytes of UTF-8: the limit of a record's key.
GROUP_BYTES_MAX = 32767
#: Partitions of a new directory.  The number is small because a flush takes longer with more files.
PARTITIONS_DEFAULT = 4
#: Partitions of a broker's directory if `offsets.topic.num.partitions` was not set.
KAFKA_PARTITIONS_DEFAULT = 50
#: The most partitions that the offsets topic of a directory can have.
PARTITIONS_MAX = 100_000
#: The longest time that a setting can have, in milliseconds: the limit of Kafka's own settings.
_MS_MAX = 2**63 - 1


def _check_number(name: str, value: Any, smallest: int, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number, not {value!r}")
    if not smallest <= value <= largest:
        raise ConfigError(f"{name} must be from {smallest} to {largest}, not {shown(value)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """The settings of a store, each with the name of Kafka's setting if Kafka has the same one.

    Attributes:
        segment_bytes: the largest size of a segment, in bytes; a segment is rolled before it grows beyond it
            (``offsets.topic.segment.bytes``).
        segment_ms: a segment is rolled once its first record is older than this, in milliseconds (``segment.ms``).
        index_interval_bytes: how many bytes of the log lie between two entries of an index (``index.interval.bytes``).
        segment_index_bytes: the largest size of an index file, in bytes (``segment.index.bytes``).
        producer_id_expiration_ms: a producer that has no open transaction is forgotten once its last batch is older
            than this, in milliseconds (``producer.id.expiration.ms``).
        batch_bytes_max: the largest record batch, in bytes, at most eleven twelfths of a segment.  A larger commit is
            written as several batches in a transaction.
        metadata_max_units: the longest metadata, in UTF-16 units, the unit that Kafka uses
            (``offset.metadata.max.bytes``).
        decompressed_bytes_max: the largest size of one batch after decompression, in bytes.
        extend_bytes_min: a segment file is allocated ahead in steps; this is the size of the first step, in bytes.
            Each later step is twice as large as the one before.
        extend_bytes_max: the largest size of such a step, in bytes.
        flush_interval_ms: the interval, in milliseconds, between two flushes of the commits for which no caller waits,
            such as those with durability "process"; None or 0 for no such flushes.  A power loss can lose only the
            commits of one interval and those that were made during a flush.
        write_offset_value_v4: whether topic ids are written.  Only values of version 4 contain topic ids, and brokers
            before 4.1 refuse to load these values.  "auto" writes version 4 only to log partitions that already have
            such values, "always" writes it to all log partitions, and "never" to none.
        append: how commits reach the file of the active segment.  "mapped" stores them through a mapping of the file,
            which is fastest.  "written" makes a system call for each commit.  "auto" chooses "mapped" on file systems
            that write the pages of a file in place (ext2, ext3, ext4, tmpfs, XFS without reflink), and "written" on all
            others.  If another program truncates the file while the store is open, commits fail.  With "mapped", a
            truncation in the same millisecond as a commit can kill the process.

    Raises:
        ConfigError: a value is out of range, or two values contradict each other.
    """

    segment_bytes: int = 100 * MIB
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * MIB
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    batch_bytes_max: int = 16 * MIB
    metadata_max_units: int = 4096
    decompressed_bytes_max: int = 64 * MIB
    extend_bytes_min: int = 64 * 1024
    extend_bytes_max: int = 4 * MIB
    flush_interval_ms: int | None = 1000
    write_offset_value_v4: Literal["auto", "always", "never"] = "auto"
    append: Literal["auto", "mapped", "written"] = "auto"

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name in _DOMAINS and not (value is None and setting.name == "flush_interval_ms"):
                _check_number(setting.name, value, *_DOMAINS[setting.name])
        if self.write_offset_value_v4 not in ("auto", "always", "never"):
            given = self.write_offset_value_v4
            raise ConfigError(f'write_offset_value_v4 must be "auto", "always" or "never", not {given!r}')
        if self.append not in ("auto", "mapped", "written"):
            raise ConfigError(f'append must be "auto", "mapped" or "written", not {self.append!r}')
        smallest, largest = self.extend_bytes_min, self.extend_bytes_max
        if smallest > largest:
            raise ConfigError(f"extend_bytes_min ({smallest}) is above extend_bytes_max ({largest})")


#: (smallest, largest) value of every setting of maintenance that is a number.
_MAINTENANCE_DOMAINS: dict[str, tuple[int, int]] = {
    "interval_ms": (1, _MS_MAX),
    "min_cleanable_bytes": (0, _MS_MAX),
    "min_compaction_lag_ms": (0, _MS_MAX),
    "max_compaction_lag_ms": (1, _MS_MAX),
    "delete_retention_ms": (0, _MS_MAX),
    "cleaner_map_bytes": (4096, 2**40),
    "cleaner_bytes_per_second": (0, _MS_MAX),
    "idle_roll_ms": (0, _MS_MAX),
    "roll_bytes": (4096, _MS_MAX),
    "min_history_ms": (0, _MS_MAX),
    "retention_check_interval_ms": (1, _MS_MAX),
    "snapshot_replay_ms": (1, _MS_MAX),
    "stuck_transaction_ms": (1, _MS_MAX),
}

#: Milliseconds by group, or by "prefix*" for every group whose name begins with the prefix.
GroupTimes = Mapping[str, int]


def _own_times(name: str, times: Any, *, never: bool) -> dict[str, int | None]:
    if not isinstance(times, Mapping):
        raise ConfigError(f"{name} must be a mapping from groups to milliseconds, not {times!r}")
    for group, value in times.items():
        if not isinstance(group, str):
            raise ConfigError(f"{name}: the name of a group must be a str, not {group!r}")
        if not (never and value is None):
            _check_number(f"{name}[{group!r}]", value, 0, _MS_MAX)
    return dict(times)


def _check_group(name: str) -> None:
    # C makes the same check, but only when a log is cleaned.
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"min_history: {name!r} cannot be the name of a group: UTF-8 cannot encode it") from None
    if len(encoded) > GROUP_BYTES_MAX:
        raise ConfigError(
            f"min_history: a group's name has {len(encoded)} bytes of UTF-8; the limit is {GROUP_BYTES_MAX}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceConfig:
    """Settings of the maintenance of an open store, each with the name of Kafka's setting if Kafka has the same one.

    The key of a mapping by group is the name of a group, or "prefix*" for every group whose name begins with the
    prefix.

    Attributes:
        enabled: whether the store maintains itself.  `OffsetStore.compact` and similar calls work in either case.
        interval_ms: the interval between two checks of every log, in milliseconds (``log.cleaner.backoff.ms``).
        min_cleanable_dirty_ratio: a log is cleaned if its dirty ratio exceeds this number, from 0 to 1.  The dirty
            ratio is the share of the log's bytes that was written since the last cleaning
            (``min.cleanable.dirty.ratio``).
        min_cleanable_bytes: a log is not cleaned because of its dirty ratio while fewer bytes than this can be cleaned
            in it.
        min_compaction_lag_ms: records younger than this, in milliseconds, are not cleaned (``min.compaction.lag.ms``).
        max_compaction_lag_ms: a log is cleaned, however low its dirty ratio is, if it has uncleaned records that are
            older than this, in milliseconds (``max.compaction.lag.ms``).
        delete_retention_ms: how long tombstones and transaction markers are kept after their first cleaning, in
            milliseconds (``delete.retention.ms``).
        cleaner_map_bytes: the memory for the keys of one pass, in bytes (``log.cleaner.dedupe.buffer.size``).  A log
            with more keys is cleaned in several passes.
        cleaner_bytes_per_second: how many bytes the cleaner may read and write in a second; 0 for no limit
            (``log.cleaner.io.max.bytes.per.second``).
        idle_roll_ms: if a log has received no commit for this long, in milliseconds, and has more than twice the bytes
            of its live records, its active segment is closed so that it can be cleaned.  Kafka never cleans an active
            segment.  The segment is closed only if the log is then due for a cleaning, by its dirty ratio or by
            `max_compaction_lag_ms`.
        roll_bytes: the active segment is closed, even while commits continue, once it has at least this many bytes and
            more than twice the live bytes of the whole log, under the same condition.
        min_history_ms: the time for which past states can be queried at least, in milliseconds.  Records that are
            younger than this are not cleaned.
        min_history: `min_history_ms` by group.  If several times apply to a group, including `min_history_ms` itself,
            the longest counts.
        retention_ms: how long positions of a group without members are kept after the group became empty, in
            milliseconds; None to keep them forever.  If the log does not have the time when the group became empty, a
            position is kept this long after its commit (``offsets.retention.minutes``).
        retention: `retention_ms` by group; None to keep the group's positions forever.  The name of a group takes
            precedence over a prefix, and a longer prefix over a shorter one.
        retention_check_interval_ms: the interval between two checks for expired positions, in milliseconds
            (``offsets.retention.check.interval.ms``).
        snapshots: whether snapshots are written beside the logs, so that the next open is fast.
        snapshot_replay_ms: how long the next open may need to replay the records that follow the snapshots, in
            milliseconds of one core.  If the replay of all logs together would take longer, snapshots are written.  A
            log with many entries gets a snapshot only when enough was written to it to justify the size of the
            snapshot.
        snapshot_tail_bytes: if it is set, `snapshot_replay_ms` has no effect, and a log gets a new snapshot once this
            many bytes follow its last one.  The default is None.
        stuck_transaction_ms: a transaction that is open for longer than this, in milliseconds, is reported, because no
            record after its first one can be cleaned.  The default is twice the longest timeout that a broker allows
            (``transaction.max.timeout.ms``).

    Raises:
        ConfigError: a value is out of range, or two values contradict each other.
    """

    enabled: bool = True
    interval_ms: int = 15_000
    min_cleanable_dirty_ratio: float = 0.5
    min_cleanable_bytes: int = MIB
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _MS_MAX
    delete_retention_ms: int = 24 * 3600 * 1000
    cleaner_map_bytes: int = 64 * MIB
    cleaner_bytes_per_second: int = 0
    idle_roll_ms: int = 15_000
    roll_bytes: int = 16 * MIB
    min_history_ms: int = 0
    min_history: GroupTimes = field(default_factory=dict, hash=False)
    retention_ms: int | None = None
    retention: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    retention_check_interval_ms: int = 600_000
    snapshots: bool = True
    snapshot_replay_ms: int = 100
    snapshot_tail_bytes: int | None = None
    stuck_transaction_ms: int = 2 * 900_000

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name in _MAINTENANCE_DOMAINS:
                _check_number(setting.name, value, *_MAINTENANCE_DOMAINS[setting.name])
            elif setting.type == "bool" and not isinstance(value, bool):
                raise ConfigError(f"{setting.name} must be True or False, not {value!r}")
        ratio: Any = self.min_cleanable_dirty_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
            raise ConfigError(f"min_cleanable_dirty_ratio must be from 0 to 1, not {ratio!r}")
        if self.retention_ms is not None:
            _check_number("retention_ms", self.retention_ms, 0, _MS_MAX)
        if self.snapshot_tail_bytes is not None:
            _check_number("snapshot_tail_bytes", self.snapshot_tail_bytes, 4096, _MS_MAX)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min_compaction_lag_ms ({self.min_compaction_lag_ms}) is above max_compaction_lag_ms "
                f"({self.max_compaction_lag_ms})"
            )
        # Copies the mappings, so that later changes by the caller have no effect.
        object.__setattr__(self, "min_history", _own_times("min_history", self.min_history, never=False))
        for pattern in self.min_history:
            _check_group(pattern.removesuffix("*"))
        object.__setattr__(self, "retention", _own_times("retention", self.retention, never=True))

    @property
    def expires(self) -> bool:
        """Whether positions of any group can expire."""
        return self.retention_ms is not None or any(value is not None for value in self.retention.values())
