"""Opens stores for benchmarks and records what each open read, without which a figure means little."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offsetlog import MaintenanceConfig, OffsetStore

#: Nothing is cleaned and no snapshot is taken automatically: the measured code decides when.
BY_HAND = MaintenanceConfig(enabled=False)


@dataclass(frozen=True)
class Opened:
    """The sources that a store was loaded from.

    Attributes:
        log_bytes_read: bytes of the log that were replayed.
        snapshots: log partitions whose load went on from a snapshot.
        discarded: why snapshots that were there were not used.
    """

    log_bytes_read: int
    snapshots: int
    discarded: list[str]

    @classmethod
    def of(cls, store: OffsetStore) -> Opened:
        """Everything must be loaded."""
        recoveries = store.recoveries().values()
        discarded = [found["snapshot_discarded"] for found in recoveries if found["snapshot_discarded"] is not None]
        used = sum(found["snapshot"] is not None for found in recoveries)
        return cls(store.progress().bytes, used, discarded)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def check_whole_log(self, name: str, log_bytes: int) -> None:
        """Raises AssertionError unless all of the log was read, and nothing else."""
        if self.snapshots or self.discarded or self.log_bytes_read != log_bytes:
            raise AssertionError(f"{name}: not the log alone, {log_bytes:,} bytes, was loaded: {self}")

    def check_tail(self, name: str, snapshots: int, tail_bytes: int) -> None:
        """Raises AssertionError unless so many snapshots were used, and of the log only what follows them was read."""
        if self.discarded or self.snapshots != snapshots or self.log_bytes_read != tail_bytes:
            raise AssertionError(f"{name}: not {snapshots} snapshots and {tail_bytes:,} bytes were loaded: {self}")


def segments_of(path: Path) -> list[Path]:
    """The segment files of a log directory, in order."""
    return sorted(path.glob("*/*.log"))


def log_bytes_of(path: Path) -> int:
    """Bytes of a log whose store is closed: an open one has room ahead in its files."""
    return sum(segment.stat().st_size for segment in segments_of(path))


def partitions_of(path: Path) -> int:
    """How many log partitions hold anything: each has a directory from its first commit on."""
    return sum(folder.is_dir() for folder in path.glob("__consumer_offsets-*"))
