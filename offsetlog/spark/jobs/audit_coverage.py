"""The coverage of an audit: which share of the log it could see, which time the log spans, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.errors import MissingFileError, StorageError
from offsetlog.spark.jobs.audit_text import count_text, duration_text
from offsetlog.spark.jobs.completeness import read_options
from offsetlog.spark.scan.bounds import horizon_now
from offsetlog.spark.scan.files import Files, PartitionListing, attempts, list_again
from offsetlog.spark.scan.plan import open_on_driver

#: Tables that can only have rows if the log spans longer than a stall.
OF_TIME = ("stalls", "silences")


def log_ends(
    spark: SparkSession, path: str | os.PathLike[str], *, partitions: str | None = None
) -> list[tuple[int, int]]:
    """Returns the number and the end of each log partition whose end is above 0, even if no record of it is left.

    Args:
        spark: the session, whose settings reach the file system of the log.
        path: a log directory.
        partitions: log partitions, such as "0,3-5"; None for all.

    Raises:
        ConfigError, MissingFileError, StorageError: the log does not exist, or cannot be listed.
    """
    source = open_on_driver(read_options(spark, path, "records", {"partitions": partitions}))
    return [(listing.number, end) for listing in source.listings if (end := _end_of(source.files, listing)) > 0]


def _end_of(files: Files, listing: PartitionListing) -> int:
    for left in attempts():
        try:
            return horizon_now(files, listing).offset
        except MissingFileError:
            if left == 0:
                raise
            listing = list_again(files, listing)  # the log is being cleaned
        except StorageError:
            break  # damaged; reading the records reports it
    return listing.segments[-1].base_offset


def coverage(records: DataFrame, ends: Sequence[tuple[int, int]] = ()) -> DataFrame:
    """Returns for each log partition the number of its `records`, its `log_end`, and the number of log offsets `gone`.

    Args:
        records: the columns log_partition and log_offset of the view "records".
        ends: the result of `log_ends`.  If it lacks a log partition, the partition ends after its last record.
    """
    known = records.sparkSession.createDataFrame(list(ends), "log_partition int, _end bigint")
    found = records.groupBy("log_partition").agg(
        fn.count("*").alias("records"), (fn.max("log_offset") + 1).alias("_last")
    )
    joined = found.join(known, "log_partition", "full").select(
        "log_partition",
        fn.coalesce("records", fn.lit(0)).alias("records"),
        fn.greatest("_last", "_end").alias("log_end"),
    )
    return joined.withColumn("gone", fn.greatest(fn.col("log_end") - fn.col("records"), fn.lit(0)))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which part of a log an audit could see.

    Attributes:
        log_offsets: how many log offsets were assigned, in all log partitions together.
        gone: how many of these log offsets no longer have a record, because a cleaner removed the record, or because
            the log now begins above it.
        span_ms: the time from the first commit to the last commit, in ms.  If the audit measures stalls up to a later
            time, the span ends at that time.  None if no commit has a time.
        stall_ms: the shortest stall that the audit returns, in ms.
        incomplete: the missing and damaged parts of the log.
    """

    log_offsets: int
    gone: int
    span_ms: int | None
    stall_ms: int
    incomplete: tuple[str, ...] = ()

    @property
    def cleaned_share(self) -> float:
        """The share of the log offsets whose record is gone, from 0 to 1."""
        return self.gone / self.log_offsets if self.log_offsets else 0.0

    @property
    def is_whole(self) -> bool:
        """Whether every log offset still has its record, and no part of the log is missing or damaged."""
        return self.gone == 0 and not self.incomplete

    @property
    def is_long_enough(self) -> bool:
        """Whether the log spans at least the length of the shortest stall."""
        return self.span_ms is not None and self.span_ms >= self.stall_ms

    def lines(self) -> list[str]:
        """Returns sentences to print before the findings: which part of the log and which time they cover."""
        found = [f"Incomplete: {problem}." for problem in self.incomplete[:5]]
        if len(self.incomplete) > 5:
            found.append(f"Incomplete: {count_text(len(self.incomplete) - 5)} more problems.")
        found.append(self._cleaned())
        span = "No commit carries a time" if self.span_ms is None else f"The log spans {duration_text(self.span_ms)}"
        stall = f"--stall is {duration_text(self.stall_ms)}"
        found.append(f"{span}; {stall}" + ("." if self.is_long_enough else ", so no stall or silence can be found."))
        return found

    def _cleaned(self) -> str:
        if self.log_offsets == 0:
            return "The log holds no records."
        if self.gone == 0:
            return f"The log has all of its {count_text(self.log_offsets)} records."
        share = f"{self.cleaned_share:.1%}" if self.cleaned_share >= 0.001 else "Less than 0.1%"
        return (
            f"{share} of the log was cleaned away ({count_text(self.gone)} of {count_text(self.log_offsets)} records): "
            "findings among those records are unknown."
        )

    def nothing(self, table: str, said: str) -> str:
        """Returns the sentence to print in place of a table that has no rows.

        Args:
            table: the name of the table.
            said: the sentence to return if the log is complete and spans a time that is long enough for the table.
        """
        if table in OF_TIME and not self.is_long_enough:
            return "Unknown: the log spans less than --stall."
        if self.is_whole:
            return said
        return "Nothing found in the records that are left; nothing is known about cleaned or missing records."
