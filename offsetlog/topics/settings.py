"""The settings of topics' logs: the node's defaults and those of one topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

MIB = 1 << 20
DAY_MS = 24 * 3600 * 1000
LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLogSettings:
    """The settings of a topic's log, with Kafka's names in parentheses.

    Attributes:
        segment_bytes: a segment is rolled before it grows larger than this (``segment.bytes``).
        segment_ms: a segment is rolled when its first record is older than this time
            (``segment.ms``).
        index_interval_bytes: bytes between two index entries (``index.interval.bytes``).
        segment_index_bytes: the largest size of an index file (``segment.index.bytes``).
        producer_id_expiration_ms: an idempotent producer's state is dropped when the producer has written no batch for
            this time (``producer.id.expiration.ms``).
        cleanup_policy: with ``delete``, old segments are deleted; with ``compact``, superseded
            records are dropped.  The value can be a list of both (``cleanup.policy``).
        retention_ms: a segment is deleted when its newest record is older than this; -1: never
            (``retention.ms``).
        retention_bytes: the oldest segment is deleted while the other segments have at least this
            size; -1: never (``retention.bytes``).
        file_delete_delay_ms: time before the files of a deleted segment are removed
            (``file.delete.delay.ms``).
        min_cleanable_dirty_ratio: a log is compacted when a larger share of its bytes than this is
            dirty (``min.cleanable.dirty.ratio``).
        delete_retention_ms: how long a tombstone stays after the first compaction that found it to
            be the last record of its key (``delete.retention.ms``).
        min_compaction_lag_ms: minimum age of a record before compaction (``min.compaction.lag.ms``).
        max_compaction_lag_ms: a log with a dirty record older than this is compacted, however small
            its dirty share (``max.compaction.lag.ms``).
        append: how batches are written to the file; see StoreConfig.
        decompressed_bytes_max: limit for decompressing one batch to find a record by its time.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * MIB
    producer_id_expiration_ms: int = DAY_MS
    cleanup_policy: str = "delete"
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    append: str = "auto"
    decompressed_bytes_max: int = 256 * MIB

    def of(self, configs: Mapping[str, str]) -> TopicLogSettings:
        """Returns the settings of a topic: those in `configs`, and for all others the values of this object."""
        policy = configs.get("cleanup.policy", self.cleanup_policy)
        segment_ms = number(configs, "segment.ms", self.segment_ms)
        max_lag_ms = number(configs, "max.compaction.lag.ms", self.max_compaction_lag_ms)
        return replace(
            self,
            segment_bytes=number(configs, "segment.bytes", self.segment_bytes),
            # Only closed segments are compacted.
            segment_ms=min(segment_ms, max_lag_ms) if "compact" in policy else segment_ms,
            index_interval_bytes=number(configs, "index.interval.bytes", self.index_interval_bytes),
            segment_index_bytes=number(configs, "segment.index.bytes", self.segment_index_bytes),
            cleanup_policy=policy,
            retention_ms=number(configs, "retention.ms", self.retention_ms),
            retention_bytes=number(configs, "retention.bytes", self.retention_bytes),
            file_delete_delay_ms=number(configs, "file.delete.delay.ms", self.file_delete_delay_ms),
            min_cleanable_dirty_ratio=_ratio(configs, self.min_cleanable_dirty_ratio),
            delete_retention_ms=number(configs, "delete.retention.ms", self.delete_retention_ms),
            min_compaction_lag_ms=number(configs, "min.compaction.lag.ms", self.min_compaction_lag_ms),
            max_compaction_lag_ms=max_lag_ms,
        )

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted."""
        return "delete" in self.cleanup_policy

    @property
    def deletes_anything(self) -> bool:
        """Whether retention by time or size can delete a segment."""
        return self.deletes and (self.retention_ms >= 0 or self.retention_bytes >= 0)

    @property
    def compacts(self) -> bool:
        """Whether the log is compacted."""
        return "compact" in self.cleanup_policy


class AppendRules(NamedTuple):
    """The rules of a topic for its producers' batches.

    Attributes:
        batch_bytes_max: the size of the largest allowed batch (``max.message.bytes``).
        before_max_ms: how far a record's timestamp may be in the past
            (``message.timestamp.before.max.ms``).
        after_max_ms: how far a record's timestamp may be in the future
            (``message.timestamp.after.max.ms``).
        has_append_time: whether the time of the append replaces a record's timestamp
            (``message.timestamp.type``).
        needs_keys: whether every record needs a key, because the topic is compacted
            (``cleanup.policy``).
        flush_messages: the number of unflushed records that triggers a flush (``flush.messages``).
        flush_ms: time after which a record is flushed (``flush.ms``).
    """

    batch_bytes_max: int = MIB + 12
    before_max_ms: int = 2**63 - 1
    after_max_ms: int = 3600 * 1000
    has_append_time: bool = False
    needs_keys: bool = False
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX

    @classmethod
    def of(cls, configs: Mapping[str, str], defaults: TopicLogSettings) -> AppendRules:
        """Returns the rules that follow from a topic's own settings and the node's defaults."""
        default = cls()
        return cls(
            number(configs, "max.message.bytes", default.batch_bytes_max),
            number(configs, "message.timestamp.before.max.ms", default.before_max_ms),
            number(configs, "message.timestamp.after.max.ms", default.after_max_ms),
            configs.get("message.timestamp.type") == "LogAppendTime",
            "compact" in configs.get("cleanup.policy", defaults.cleanup_policy),
            number(configs, "flush.messages", default.flush_messages),
            number(configs, "flush.ms", default.flush_ms),
        )


def number(configs: Mapping[str, str], name: str, default: int) -> int:
    """Returns a numeric setting of a topic, or its default."""
    given = configs.get(name)
    try:
        return default if given is None else int(given)
    except ValueError:
        return default


def _ratio(configs: Mapping[str, str], default: float) -> float:
    try:
        return float(configs.get("min.cleanable.dirty.ratio", default))
    except ValueError:
        return default
