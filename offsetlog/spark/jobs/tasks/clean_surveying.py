"""A dry run of the engine's own cleaner on one log partition: the bytes that a clean would free, by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offsetlog._native.decompress import Decompressor
from offsetlog._native.partition import Partition
from offsetlog._native.scan import next_batch
from offsetlog.config import StoreConfig
from offsetlog.directory.completeness import is_witness_missing
from offsetlog.directory.surveying import FileState, are_replaced, map_bytes_for, whole_survey
from offsetlog.errors import ChangedFileError, CorruptionError, MissingFileError
from offsetlog.spark.scan.files import Files, attempts, list_segments
from offsetlog.types import CleanShare

#: The columns, with Spark's types: one row per group of a log partition; each row repeats the partition's own values.
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
    """Surveys a log partition, given its number and its directory.  Spark's tasks call the object like a function.

    Attributes:
        arrow: the pyarrow file system on which the directories are; None for local directories.
        roll: whether to assume that the active segments are closed first, as `offsetlog compact` does.
        now_ms: the time of the assumed clean, in milliseconds since 1970.
        permissive: whether damaged parts are left out.  If not, the survey raises.
    """

    arrow: Any | None
    roll: bool
    now_ms: int
    permissive: bool = False

    def __call__(self, number: int, directory: str) -> list[tuple[Any, ...]]:
        """Returns a row of COLUMNS for each group in the log partition.

        Args:
            number: the number of the log partition; -1 if the name of its directory does not contain one.
            directory: the directory of the partition, on the file system `arrow`.

        Raises:
            CorruptionError: the log is damaged.
            StorageError: a file cannot be read, or files were replaced faster than they could be read.
            CapacityError: the state or the keys do not fit in memory.
        """
        report, shares = self._survey(number, directory)
        facts = (number, report["log_end"], report["target"], report["survey_segments"], report["survey_batches"])
        return [(*facts, *share) for share in shares]

    def _survey(self, number: int, directory: str) -> tuple[dict[str, Any], list[CleanShare]]:
        files = Files(self.arrow)
        for left in attempts():
            before = _states_of(files, directory)
            try:
                report, shares, damage = self._survey_once(files, number, directory)
            except (MissingFileError, ChangedFileError):
                # A cleaner removed the file after it was listed; a new list shows the whole log again.
                if left == 0:
                    raise
                continue
            if damage is None:
                return report, shares
            if not are_replaced(before, _states_of(files, directory)):
                if not self.permissive:
                    raise damage
                return report, shares
        raise ChangedFileError(
            "a cleaner replaced the segments during each attempt to read them; run the job again later", path=directory
        ) from damage

    def _survey_once(
        self, files: Files, number: int, directory: str
    ) -> tuple[dict[str, Any], list[CleanShare], Exception | None]:
        """Surveys the log as it is now.  Also returns the first damage."""
        partition = Partition(directory, max(number, 0), files.native, Decompressor(), StoreConfig(), writable=False)
        try:
            partition.load()
            damage = _damage(partition)
            report, shares = whole_survey(
                partition, map_bytes_for(partition), now_ms=self.now_ms, closes_active=self.roll
            )
            if damage is None and report["quarantined"]:
                damage = report["quarantine"][0][1]
            damage = damage or _damage_in_tail(partition, files, report["log_end"])
            return report, shares, damage
        finally:
            partition.abandon()


def _states_of(files: Files, directory: str) -> list[FileState]:
    return [FileState(each.base_offset, each.size, each.identity) for each in list_segments(files, directory)]


def _damage_in_tail(partition: Partition, files: Files, log_end: int) -> CorruptionError | None:
    """Returns the damage if the load stopped at a bad batch and whole batches follow; the views report it, too."""
    path, position = partition.recovery["torn_path"], partition.recovery["torn_position"]
    if path is None or next_batch(path, position, log_end, file_system=files.native) is None:
        return None
    return CorruptionError("a batch is damaged, and intact batches follow it", path=path, position=position)


def _damage(partition: Partition) -> Exception | None:
    """Returns the first damage or loss.  Ignores missing witnesses, of which the driver has already warned."""
    corruptions = (each for each in partition.problems() if isinstance(each, CorruptionError))
    damages = (each for each in corruptions if not is_witness_missing(each))
    found: Exception | None = next(damages, partition.recovery["corruption"])
    return found
