"""Records the sources that the open of a store has read, so that a benchmark can check them."""

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
        log_bytes_read: the number of bytes of the log that were replayed.
        snapshots: the number of log partitions whose load began with a snapshot.
        discarded: for each snapshot that existed and was not used, the reason.
    """

    log_bytes_read: int
    snapshots: int
    discarded: list[str]

    @classmethod
    def of(cls, store: OffsetStore) -> Opened:
        """Returns the sources of a store.  All log partitions of the store must be loaded."""
        recoveries = store.recoveries().values()
        discarded = [found["snapshot_discarded"] for found in recoveries if found["snapshot_discarded"] is not None]
        used = sum(found["snapshot"] is not None for found in recoveries)
        return cls(store.progress().bytes, used, discarded)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def check_whole_log(self, name: str, log_bytes: int) -> None:
        """Raises AssertionError unless the whole log was read, and no snapshot."""
        if self.snapshots or self.discarded or self.log_bytes_read != log_bytes:
            raise AssertionError(f"{name}: expected a load of the whole log ({log_bytes:,} bytes) alone, not {self}")

    def check_tail(self, name: str, snapshots: int, tail_bytes: int) -> None:
        """Raises AssertionError unless exactly `snapshots` snapshots, and `tail_bytes` of log after them, were read."""
        if self.discarded or self.snapshots != snapshots or self.log_bytes_read != tail_bytes:
            expected = f"{snapshots} snapshots and {tail_bytes:,} bytes of log"
            raise AssertionError(f"{name}: expected a load of {expected}, not {self}")


def segments_of(path: Path) -> list[Path]:
    """Returns the segment files of a log directory, in order."""
    return sorted(path.glob("*/*.log"))


def log_bytes_of(path: Path) -> int:
    """Returns the size of a log in bytes.  Its store must be closed, since files of an open store have unused space."""
    return sum(segment.stat().st_size for segment in segments_of(path))


def partitions_of(path: Path) -> int:
    """Returns the number of log partitions that contain a commit; the first commit creates the directory."""
    return sum(folder.is_dir() for folder in path.glob("__consumer_offsets-*"))
