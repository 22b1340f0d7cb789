"""The settings of a store, each with its default, its unit and its domain."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from offsetlog.errors import ConfigError

MIB = 1024 * 1024

#: (smallest, largest) of every setting that is a number.
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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """What can be set; Kafka's name of a setting stands beside ours where Kafka has it.

    Attributes:
        segment_bytes: a segment is rolled before it grows over this (``offsets.topic.segment.bytes``).
        segment_ms: a segment is rolled when its first record is older than this (``segment.ms``).
        index_interval_bytes: bytes of log between two index entries (``index.interval.bytes``).
        segment_index_bytes: the largest size of an index file (``segment.index.bytes``).
        producer_id_expiration_ms: a producer without an open transaction is forgotten when its last batch is this old
            (``producer.id.expiration.ms``).
        batch_bytes_max: the largest record batch; a larger commit is written as a transaction.
        metadata_max_units: the longest metadata in UTF-16 units, as Kafka counts ``offset.metadata.max.bytes``.
        decompressed_bytes_max: what one compressed batch may inflate to.
        extend_bytes_min: the first step by which a segment file grows ahead of need; steps double from here.
        extend_bytes_max: the largest such step.
        write_offset_value_v4: whether topic ids are written, in value version 4, which brokers before 4.1 refuse to
            load: "auto" does so where the directory already holds such values.

    Raises:
        ConfigError: a value is out of its domain.
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
    write_offset_value_v4: Literal["auto", "always", "never"] = "auto"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _DOMAINS:
                continue
            smallest, largest = _DOMAINS[field.name]
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{field.name} must be a whole number, not {value!r}")
            if not smallest <= value <= largest:
                raise ConfigError(f"{field.name} must be from {smallest} to {largest}, not {value}")
        if self.write_offset_value_v4 not in ("auto", "always", "never"):
            given = self.write_offset_value_v4
            raise ConfigError(f'write_offset_value_v4 must be "auto", "always" or "never", not {given!r}')
        smallest, largest = self.extend_bytes_min, self.extend_bytes_max
        if smallest > largest:
            raise ConfigError(f"extend_bytes_min ({smallest}) is above extend_bytes_max ({largest})")
