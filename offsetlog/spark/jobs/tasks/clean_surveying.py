"""The engine's own cleaner on one partition of a log, as a dry run: what it would free, by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offsetlog._native.clean_survey import survey
from offsetlog._native.decompress import Decompressor
from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.errors import CapacityError, CorruptionError, MissingFileError
from offsetlog.spark.scan.files import Files, attempts
from offsetlog.types import CleanShare

#: Memory for the keys of a cleaner: more than enough for what is there, and some for what was deleted.
MAP_BYTES = 64 << 20
BYTES_PER_KEY = 48
#: How often the log is read with twice the memory.
DOUBLINGS = 4

#: One row for each group of a log partition, as Spark declares it; the facts of the partition stand in each of them.
COLUMNS = {
    "log_partition": "int",
    "log_end": "bigint",
    "end": "bigint",
    "segments": "bigint",
    "batches": "bigint",
    "group": "string",
    "records": "bigint",
    "live_records": "bigint",
    "superseded": "bigint",
    "aborted": "bigint",
    "expired_tombstone": "bigint",
    "expired_marker": "bigint",
    "keyless": "bigint",
    "tombstone": "bigint",
    "marker": "bigint",
    "bytes": "double",
    "live_bytes": "double",
    "freed_bytes": "double",
}
SPARK_SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


@dataclass(frozen=True)
class CleanSurveying:
    """A function of the number and the directory of a log partition.

    Attributes:
        arrow: pyarrow's file system, on which the directories are; None for local ones.
        roll: whether the active segments are closed first, as `offsetlog compact` does it.
        now_ms: the time, in milliseconds since 1970.
        permissive: leaves out what is damaged, and does not raise.
    """

    arrow: Any | None
    roll: bool
    now_ms: int
    permissive: bool = False

    def __call__(self, number: int, directory: str) -> list[tuple[Any, ...]]:
        """Returns a row of COLUMNS for each group.

        Args:
            number: of the log partition, -1 where its directory is not named after one.
            directory: on that file system.

        Raises:
            CorruptionError: the log is damaged.
            StorageError: a file cannot be read, or files went faster than they could be read.
            CapacityError: there is no memory for the state or the keys.
        """
        report, shares = self._survey(number, directory)
        facts = (number, report["log_end"], report["target"], report["survey_segments"], report["survey_batches"])
        return [(*facts, *share) for share in shares]

    def _survey(self, number: int, directory: str) -> tuple[dict[str, Any], list[CleanShare]]:
        for left in attempts():
            try:
                return self._survey_once(number, directory)
            except MissingFileError:
                # Taken by a cleaner since it was listed; the log is whole again with the new list.
                if left == 0:
                    raise
        raise AssertionError("the loop returns or raises")

    def _survey_once(self, number: int, directory: str) -> tuple[dict[str, Any], list[CleanShare]]:
        partition = Partition(
            directory, max(number, 0), Files(self.arrow).native, Decompressor(), StoreConfig(), writable=False
        )
        try:
            partition.load()
            damage = _damage(partition)
            if damage is None or self.permissive:
                report, shares = _whole_survey(partition, self.roll, self.now_ms)
                damage = report["quarantine"][0][1] if report["quarantined"] else damage
            if damage is not None and not self.permissive:
                raise damage
            return report, shares
        finally:
            partition.abandon()


def _damage(partition: Partition) -> Exception | None:
    damages = (each for each in partition.problems() if isinstance(each, CorruptionError))
    found: Exception | None = next(damages, partition.recovery["corruption"])
    return found


def _whole_survey(partition: Partition, roll: bool, now_ms: int) -> tuple[dict[str, Any], list[CleanShare]]:
    map_bytes = MAP_BYTES + BYTES_PER_KEY * partition.count()
    for doublings in range(DOUBLINGS + 1):
        report, shares = survey(partition, now_ms=now_ms, closes_active=roll, map_bytes=map_bytes << doublings)
        if report["complete"]:
            return report, shares
    raise CapacityError(f"the keys of the log do not fit {map_bytes << DOUBLINGS} bytes", path=partition.path)
