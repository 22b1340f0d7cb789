"""The digest of each log partition (docs/digest.md), computed twice: on Spark from the views, and by the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.spark.jobs import effects
from offsetlog.spark.jobs.columns import group_record_hash, position_hash
from offsetlog.spark.jobs.places import log_directory
from offsetlog.spark.jobs.repartition import survey
from offsetlog.spark.jobs.session import read_view
from offsetlog.spark.jobs.tasks.hashing import LIMBS, from_limbs
from offsetlog.types import Digest
from offsetlog.verify.findings import MISSING_KINDS, Finding

#: The parts of a digest, in its order.
PARTS = ("positions", "group_records", "pending")

#: The views from which the digests are computed.
VIEWS = ("offsets", "commits", "records")
RECORD_COLUMNS = ("log_partition", "log_offset", "timestamp", "kind", "key", "value", "group")


@dataclass(frozen=True, slots=True)
class Compared:
    """The two digests of one log partition, computed from the records below the log offset `end`.

    Attributes:
        log_partition: the number of the log partition.
        end: the log offset after the last record.
        spark: the digest computed from the views.
        engine: the digest that the engine computed when it replayed the files.
        damages: the places in the files that the engine could not read.
        findings: contradictions between the log and the files in the directory that show what the log should hold.
    """

    log_partition: int
    end: int
    spark: Digest
    engine: Digest
    damages: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both digests are equal, the engine could read all files, and no finding is a problem."""
        problems = any(each.severity == "problem" for each in self.findings)
        return self.spark == self.engine and not self.damages and not problems


def _summed(hashed: DataFrame, part: str) -> DataFrame:
    sums = [fn.sum(f"hash.{name}").alias(name) for name in LIMBS]
    return hashed.groupBy("log_partition").agg(*sums).withColumn("part", fn.lit(part))


def sums(offsets: DataFrame, commits: DataFrame, records: DataFrame, *, physical: bool = True) -> DataFrame:
    """Returns the sums of the hashes from which a digest is made.

    Columns: log_partition, part (one of PARTS), and the four 32-bit parts of the sum (LIMBS).  If a log partition has
    nothing in a part of the digest, there is no row for that part.

    Args:
        offsets: the view "offsets".
        commits: the view "commits".
        records: the view "records", with the columns RECORD_COLUMNS.
        physical: whether the digest includes log offsets.
    """
    positions = offsets.withColumn("hash", position_hash(pending=False, physical=physical))
    groups = effects.group_records(records.select(*RECORD_COLUMNS))
    held = effects.pending(commits).withColumn("hash", position_hash(pending=True, physical=physical))
    return (
        _summed(positions, "positions")
        .unionByName(_summed(groups.withColumn("hash", group_record_hash(physical=physical)), "group_records"))
        .unionByName(_summed(held, "pending"))
    )


def digests(found: DataFrame) -> dict[int, Digest]:
    """Returns the digest of each log partition from the result of `sums`."""
    parts: dict[int, dict[str, int]] = {}
    for row in found.collect():
        limbs = (row["a"], row["b"], row["c"], row["d"])
        parts.setdefault(row["log_partition"], {})[row["part"]] = from_limbs(limbs)
    return {number: Digest(*(each.get(part, 0) for part in PARTS)) for number, each in parts.items()}


def summed(parts: Iterable[Digest]) -> Digest:
    """Returns the sum of the digests of log partitions.

    If the digests do not include log offsets, the sums of two clusters can be compared.  This function can be called
    from any thread, and does not need Spark.
    """
    whole = [0] * len(PARTS)
    for each in parts:
        whole = [(total + part) % (1 << 128) for total, part in zip(whole, each, strict=True)]
    return Digest(*whole)


def run(
    spark: SparkSession, path: str | os.PathLike[str], *, physical: bool = True, partitions: Iterable[int] | None = None
) -> list[Compared]:
    """Returns both digests of each log partition of a directory.

    Other processes may write to the directory meanwhile: both digests cover the same prefix of each log.  Damaged
    batches are skipped and reported.

    Args:
        spark: the session.
        path: a log directory, on a file system that driver and executors share.
        physical: whether the digests include log offsets.
        partitions: the numbers of the log partitions to verify; None for all.

    Raises:
        MissingFileError, StorageError, InvalidArgumentError: raised by `places.log_directory`.
    """
    directory = log_directory(path, "directory")
    numbers = directory.partition_numbers()
    wanted = None if partitions is None else set(partitions)
    if wanted is not None:
        numbers = [number for number in numbers if number in wanted]
    found, findings = survey(spark, directory, numbers)
    ends = {str(each.number): each.end for each in found if each.end > 0}
    computed: dict[int, Digest] = {}
    if ends:
        cut = json.dumps(ends)
        given = {"partitions": ",".join(ends), "at": cut}
        # Damage and missing parts are in `damages` and `findings`.
        views = (read_view(spark, directory.path, view, permissive=True, **given) for view in VIEWS)
        computed = digests(sums(*views, physical=physical))
    there = {each.number for each in found}
    gone = [each for each in _gone(findings, there) if wanted is None or each.log_partition in wanted]
    compared = [
        Compared(
            each.number,
            each.end,
            computed.get(each.number, Digest(0, 0, 0)),
            Digest(*(int(part, 16) for part in (each.physical if physical else each.digest))),
            tuple(each.damages),
            tuple(finding for finding in findings if finding.log_partition == each.number),
        )
        for each in found
    ]
    return sorted([*compared, *gone], key=lambda each: each.log_partition)


def _gone(findings: Iterable[Finding], there: Collection[int]) -> list[Compared]:
    """Returns results for log partitions whose directories are missing; both digests are those of an empty state."""
    nothing = Digest(0, 0, 0)
    return [
        Compared(each.log_partition, 0, nothing, nothing, findings=(each,))
        for each in findings
        if each.kind in MISSING_KINDS and each.log_partition is not None and each.log_partition not in there
    ]
