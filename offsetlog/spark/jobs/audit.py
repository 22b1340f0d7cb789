"""The audit of a log: counts and rates of commits, by group and producer, and suspicious commits.

Each table is made by a function from the rows of `prepared`, with Spark's own functions.  The tables cover only the
records that the log still holds.  If a log was cleaned, they therefore show fewer commits and fewer findings than there
were.

Times are in milliseconds since 1970; they are null if a record has no time.  If a position is in two log partitions, it
counts as two positions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as fn

from offsetlog.clock import future_error, is_ahead
from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs.audit_coverage import Coverage, coverage, log_ends
from offsetlog.spark.jobs.audit_text import LAST_MS
from offsetlog.spark.jobs.completeness import problems_of
from offsetlog.spark.jobs.effects import POSITION, commit_records, payload_bytes, when, with_effects
from offsetlog.spark.jobs.session import read_view

#: The columns that the tables are made from; `bytes` and `effective_at` are added if they are missing.
COLUMNS = [
    *POSITION, "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id", "kind",
    "timestamp", "outcome", "marker_offset", "producer_id", "producer_epoch", "log_offset",
]  # fmt: skip
#: The columns of the view "records" for the same tables, for the exact bytes, and for the generations of groups.
RECORD_COLUMNS = [*COLUMNS, "key", "value", "fields", "control"]

#: By default, a position or a group that rests for this time is a finding, in ms.
STALL_MS = 15 * 60 * 1000

_SECOND_MS = 1000
_MOST = 2**63 - 1
_BEFORE = (Window.unboundedPreceding, -1)


@dataclass(frozen=True)
class Audit:
    """The tables of an audit.  The function with the name of a table describes it.

    `commits` contains the rows from which the tables are made, as `prepared` returns them.  `bucket_ms` is the width of
    the buckets of `over_time`.  `until` is the time up to which stalls are measured; None means the time of the
    youngest record.  `incomplete` lists the missing and damaged parts of the log.
    """

    commits: DataFrame
    bucket_ms: int
    totals: DataFrame
    groups: DataFrame
    positions: DataFrame
    rewinds: DataFrame
    stalls: DataFrame
    silences: DataFrame
    zombies: DataFrame
    generations: DataFrame | None
    rates: DataFrame
    over_time: DataFrame
    transactions: DataFrame
    coverage: DataFrame | None = None
    stall_ms: int = STALL_MS
    until: int | None = None
    incomplete: tuple[str, ...] = ()

    def tables(self) -> dict[str, DataFrame]:
        """Returns the tables by name, without those that are None."""
        names = [each.name for each in fields(self)[2:] if each.name not in ("stall_ms", "until", "incomplete")]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


# --------------------------------------------------------------------------------------------------------- what is read


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    partitions: str | None = None,
    permissive: bool = False,
    reported: Sequence[str] | None = None,
) -> DataFrame:
    """Returns the rows of a directory's view "records", with the columns that an audit needs.

    Args:
        spark: the session.
        path: a log directory.
        partitions: log partitions, such as "0,3-5"; None for all.
        permissive: as for `read_view`.
        reported: as for `read_view`.
    """
    given = {"partitions": partitions, "columns": ",".join(RECORD_COLUMNS)}
    found = read_view(spark, path, "records", permissive=permissive, reported=reported, **given)
    return found.select(*RECORD_COLUMNS)


def covered(audit: Audit, totals: Mapping[str, Any]) -> Coverage:
    """Returns which part of the log an audit could see.  `totals` is the row of the table `totals` of the audit."""
    offsets = gone = 0
    for row in [] if audit.coverage is None else audit.coverage.collect():
        offsets, gone = offsets + row["log_end"], gone + row["gone"]
    first, last = totals["first_at"], totals["last_at"]
    span = None if first is None else max(last, audit.until or last) - first
    return Coverage(offsets, gone, span, audit.stall_ms, audit.incomplete)


def commits_of(records: DataFrame) -> DataFrame:
    """Returns the offset commits in the view "records", with the columns of the view "commits" and exact `bytes`."""
    size = (fn.octet_length("key") + fn.coalesce(fn.octet_length("value"), fn.lit(0))).cast("bigint")
    return commit_records(records).withColumn("bytes", size).select(*COLUMNS, "bytes")


def prepared(commits: DataFrame) -> DataFrame:
    """Adds the columns that the tables need: `at` (the record's time), `bytes` (of key and value) and `effective_at`.

    Args:
        commits: rows of the view "commits".  If they have no column `bytes`, the sizes are estimated.
    """
    if "bytes" not in commits.columns:
        commits = commits.withColumn("bytes", payload_bytes())
    return (
        with_effects(commits)
        .withColumn("at", when())
        .drop("timestamp", "commit_timestamp", "expire_timestamp", "topic_id")
    )


# --------------------------------------------------------------------------------------------------------------- counts


def _counts() -> list[Column]:
    is_commit = fn.col("kind") == "commit"
    return [
        fn.count_if(is_commit).alias("commits"),
        fn.count_if(~is_commit).alias("deletes"),
        fn.count_if(is_commit & fn.col("effective_at").isNull()).alias("without_effect"),
        fn.count_if(fn.col("outcome") == "aborted").alias("aborted"),
        fn.count_if(fn.col("outcome") == "open").alias("open"),
        fn.min("at").alias("first_at"),
        fn.max("at").alias("last_at"),
        fn.coalesce(fn.sum("bytes"), fn.lit(0)).cast("bigint").alias("bytes"),
    ]


def totals(commits: DataFrame) -> DataFrame:
    """Returns one row of counts for the whole log.

    Columns: commits, deletes, without_effect, aborted, open, first_at, last_at, bytes, groups, log_partitions,
    positions.  `positions` is the number of positions that exist at the end of the log.  A position that was deleted
    does not count, and neither does a position that was only committed in a transaction that is open or was aborted.
    """
    found = commits.agg(
        *_counts(),
        fn.count_distinct("group").alias("groups"),
        fn.count_distinct("log_partition").alias("log_partitions"),
    )
    return found.crossJoin(fn.broadcast(_last_offsets(commits).agg(fn.count("offset").alias("positions"))))


def groups(commits: DataFrame) -> DataFrame:
    """Returns one row for each group: its counts and `positions` as in `totals`, and its share of all bytes."""
    counted = commits.groupBy("group").agg(*_counts(), fn.min("log_partition").alias("log_partition"))
    found = counted.join(_last_offsets(commits).groupBy("group").agg(fn.count("offset").alias("positions")), "group")
    everything = commits.agg(fn.coalesce(fn.sum("bytes"), fn.lit(0)).cast("double").alias("_all"))
    share = fn.when(fn.col("_all") > 0, fn.col("bytes") / fn.col("_all")).otherwise(fn.lit(0.0))
    return found.crossJoin(fn.broadcast(everything)).withColumn("bytes_share", share).drop("_all")


def positions(commits: DataFrame) -> DataFrame:
    """Returns one row for each group, topic and partition, with counts as in `totals`, and the last offset in effect.

    `offset` is null if the last record in effect is a deletion, or if no record ever took effect.
    """
    return _last_offsets(commits, *_counts())


def _last_offsets(commits: DataFrame, *more: Column) -> DataFrame:
    # Returns for each position the columns `more`, and the offset that is committed at the end of the log, if there is
    # one.
    last = fn.max(
        fn.when(
            fn.col("effective_at").isNotNull(),
            fn.struct("effective_at", "log_offset", "kind", "offset"),
        )
    )
    found = commits.groupBy(*POSITION).agg(*more, last.alias("_last"))
    offset = fn.when(fn.col("_last.kind") == "commit", fn.col("_last.offset"))
    return found.withColumn("offset", offset).drop("_last")


def top_talkers(table: DataFrame, by: str = "commits", count: int = 20) -> DataFrame:
    """Returns the rows of `groups` or `positions` with the most commits or bytes, in descending order."""
    names = [name for name in POSITION if name in table.columns]
    return table.orderBy(fn.desc(by), *names).limit(count)


# ------------------------------------------------------------------------------------------------------------- findings


def _by_effect(*more: str) -> WindowSpec:
    return Window.partitionBy(*POSITION, *more).orderBy("effective_at", "log_offset")


def _in_effect(commits: DataFrame) -> DataFrame:
    deleted = fn.count_if(fn.col("kind") == "delete").over(_by_effect().rowsBetween(*_BEFORE))
    ordered = commits.where(fn.col("effective_at").isNotNull()).withColumn("deletes_before", deleted)
    return ordered.where(fn.col("kind") == "commit")


def rewinds(commits: DataFrame) -> DataFrame:
    """Returns each commit in effect whose offset is below that of the commit in effect before it, for each position.

    Columns: the position, from_offset, to_offset, distance, from_at, at, from_log_offset, log_offset, effective_at,
    after_delete, metadata, producer_id.  `after_delete` is true if the position was deleted between the two commits, so
    that a consumer began again.  If a distance does not fit a bigint, it is shown as the largest bigint.
    """

    def before(name: str) -> Column:
        return fn.lag(name).over(_by_effect())

    found = _in_effect(commits).select(
        *POSITION,
        before("offset").alias("from_offset"),
        fn.col("offset").alias("to_offset"),
        fn.coalesce(fn.try_subtract(before("offset"), fn.col("offset")), fn.lit(_MOST)).alias("distance"),
        before("at").alias("from_at"),
        "at",
        before("log_offset").alias("from_log_offset"),
        "log_offset",
        "effective_at",
        (before("deletes_before") != fn.col("deletes_before")).alias("after_delete"),
        "metadata",
        "producer_id",
    )
    return found.where(fn.col("from_offset") > fn.col("to_offset"))


def _timed_commits(commits: DataFrame) -> DataFrame:
    return commits.where((fn.col("kind") == "commit") & fn.col("at").isNotNull())


def _end_of(commits: DataFrame, until: int | None) -> DataFrame:
    end = fn.lit(until).cast("bigint") if until is not None else fn.max("at")
    return commits.agg(end.alias("_end"))


def stalls(commits: DataFrame, stall_ms: int = STALL_MS, until: int | None = None) -> DataFrame:
    """Returns each period in which the committed offset of a position did not change for a long time.

    A stall is a run of consecutive commits of a position with the same offset, or a single commit.  It ends with the
    first commit of another offset, or with a deletion.  If there is neither, it ends at the time `until`, and is
    `ongoing`.

    Args:
        commits: the result of `prepared`.
        stall_ms: the shortest stall to return.
        until: the time up to which stalls are measured, in ms; None for the time of the youngest record.

    Columns: the position, offset, since, until, stalled_ms, commits (the number of commits in the stall), ongoing,
    kind.  `kind` is "repeated" if the stall has several commits of the offset, and "silent" if it has only one.
    """
    in_effect = commits.where(fn.col("effective_at").isNotNull())
    is_other = (
        fn.lag("offset").over(_by_effect()).isNull()
        | (fn.lag("offset").over(_by_effect()) != fn.col("offset"))
        | (fn.lag("kind").over(_by_effect()) != fn.col("kind"))
    )
    numbered = in_effect.withColumn("_begins", is_other.cast("int")).withColumn(
        "_run", fn.sum("_begins").over(_by_effect())
    )
    runs = numbered.groupBy(*POSITION, "_run").agg(
        fn.min("kind").alias("_kind"),
        fn.min("offset").alias("offset"),
        fn.min("at").alias("since"),
        fn.max("at").alias("_last"),
        fn.count("*").alias("commits"),
    )
    by_run = Window.partitionBy(*POSITION).orderBy("_run")
    # The record that ended a run may have no time, for example the deletion by an old broker.  The run then lasts until
    # the last time in the run.
    next_at = fn.when(fn.lead("_run").over(by_run).isNotNull(), fn.coalesce(fn.lead("since").over(by_run), "_last"))
    timed = (
        runs.withColumn("_next", next_at)
        .where(fn.col("_kind") == "commit")
        .crossJoin(fn.broadcast(_end_of(commits, until)))
        .withColumn("until", fn.coalesce("_next", "_end"))
    )
    kind = fn.when(fn.col("commits") > 1, "repeated").otherwise("silent")
    return timed.select(
        *POSITION,
        "offset",
        "since",
        "until",
        (fn.col("until") - fn.col("since")).alias("stalled_ms"),
        "commits",
        fn.col("_next").isNull().alias("ongoing"),
        kind.alias("kind"),
    ).where(fn.col("stalled_ms") >= stall_ms)


def silences(commits: DataFrame, stall_ms: int = STALL_MS, until: int | None = None) -> DataFrame:
    """Returns each period in which a group committed nothing for a long time while other groups did.

    If a group has no position at the end of the log, its silence ends with its last deletion, because after that the
    group has no position that could move.

    Args:
        commits: the result of `prepared`.
        stall_ms: the shortest silence to return.
        until: the time up to which silences are measured, in ms; None for the time of the youngest record.

    Columns: group, since, until, silent_ms, ongoing, others.  `others` is the number of commits of other groups in the
    whole seconds between `since` and `until`; it is at least 1.  Deletions do not count as commits, since the broker
    itself deletes expired positions.
    """
    second = fn.floor(fn.col("at") / _SECOND_MS)
    timed = _timed_commits(commits).select("group", "at")
    # The seconds in which a silence can end: with a commit, or with a deletion.
    rows = commits.where(fn.col("at").isNotNull()).groupBy(second.alias("second"))
    seconds = rows.agg(fn.count_if(fn.col("kind") == "commit").alias("_count"))
    # The table has one row for each second in which something was committed or deleted.  One task can sort these rows.
    until_second = fn.sum("_count").over(Window.orderBy("second").rowsBetween(Window.unboundedPreceding, 0))
    before_second = fn.coalesce(fn.sum("_count").over(Window.orderBy("second").rowsBetween(*_BEFORE)), fn.lit(0))
    sums = seconds.select("second", until_second.alias("_through"), before_second.alias("_before"))
    whole = timed.agg(fn.count("*").alias("_whole"))
    gaps = (
        timed.withColumn("_following", fn.lead("at").over(Window.partitionBy("group").orderBy("at")))
        .join(_group_ends(commits), "group")
        .withColumn("_next", fn.coalesce("_following", "_gone_at"))
        .crossJoin(fn.broadcast(_end_of(commits, until)))
        .withColumn("until", fn.coalesce("_next", fn.when(fn.col("_holds"), fn.col("_end"))))
        .where(fn.col("until") - fn.col("at") >= stall_ms)
        .withColumn("_first", second)
        .withColumn("_last", fn.floor(fn.col("_next") / _SECOND_MS))
    )
    first = sums.select(fn.col("second").alias("_first"), "_through")
    last = sums.select(fn.col("second").alias("_last"), "_before")
    others = fn.coalesce("_before", "_whole") - fn.col("_through")
    return (
        gaps.join(first, "_first", "left")
        .join(last, "_last", "left")
        .crossJoin(fn.broadcast(whole))
        .select(
            "group",
            fn.col("at").alias("since"),
            "until",
            (fn.col("until") - fn.col("at")).alias("silent_ms"),
            fn.col("_next").isNull().alias("ongoing"),
            others.cast("bigint").alias("others"),
        )
        .where(fn.col("others") > 0)
    )


def _group_ends(commits: DataFrame) -> DataFrame:
    # Returns for each group whether it has a position at the end of the log, and if not, when its last position was
    # deleted.
    gone_at = fn.max(fn.when(fn.col("kind") == "delete", fn.col("at"))).alias("_deleted_at")
    found = _last_offsets(commits, gone_at).groupBy("group")
    ends = found.agg((fn.count("offset") > 0).alias("_holds"), fn.max("_deleted_at").alias("_deleted_at"))
    return ends.select("group", "_holds", fn.when(~fn.col("_holds"), fn.col("_deleted_at")).alias("_gone_at"))


def zombies(commits: DataFrame, records: DataFrame | None = None) -> DataFrame:
    """Returns commits that look as if a client had written them after another client had replaced it.

    The column `reason` is one of these:

    * "leader epoch": the commit is in effect, and its leader epoch is below that of an earlier commit of the same
      position since the position was last deleted.  The column `offset_below` distinguishes two causes.  If the offset
      is lower, too, the position was moved back on purpose.  Otherwise, the consumer read from a leader that had been
      replaced.
    * "producer epoch": the commit is in a transaction, and its producer epoch is below one that the same producer used
      before in this log partition, for a commit or for the end of a transaction.  A broker refuses such commits.  Such
      a commit is therefore a sign of a log that was merged from several logs, or of a bug.

    The record of a commit contains neither a member nor a generation.  If a commit has a stale generation, a broker
    refuses it before anything is written, so the log does not show it.

    Args:
        commits: the result of `prepared`.
        records: rows of the view "records", for the ends of transactions.  With None, only the epochs of commits are
            used.

    Columns: the position, reason, epoch, newer_epoch, offset, offset_below, at, log_offset, producer_id.  `newer_epoch`
    is the highest epoch before the commit.
    """
    # If a topic was deleted and created again, its leader epochs begin with 0 again.
    earlier = _by_effect("deletes_before").rowsBetween(*_BEFORE)
    known = fn.when(fn.col("leader_epoch") >= 0, fn.struct("leader_epoch", "offset"))
    by_leader = (
        _in_effect(commits)
        .withColumn("_newest", fn.max(known).over(earlier))
        .where((fn.col("leader_epoch") >= 0) & (fn.col("leader_epoch") < fn.col("_newest.leader_epoch")))
        .withColumn("reason", fn.lit("leader epoch"))
        .withColumn("epoch", fn.col("leader_epoch"))
        .withColumn("newer_epoch", fn.col("_newest.leader_epoch"))
        .withColumn("offset_below", fn.col("offset") < fn.col("_newest.offset"))
    )
    of_producer = Window.partitionBy("log_partition", "producer_id").orderBy("log_offset").rowsBetween(*_BEFORE)
    by_producer = (
        _of_producers(commits, records)
        .withColumn("newer_epoch", fn.max("producer_epoch").over(of_producer))
        .where(fn.col("kind").isNotNull() & (fn.col("producer_epoch") < fn.col("newer_epoch")))
        .withColumn("reason", fn.lit("producer epoch"))
        .withColumn("epoch", fn.col("producer_epoch"))
        .withColumn("offset_below", fn.lit(None).cast("boolean"))
    )
    names = [
        *POSITION, "reason", "epoch", "newer_epoch", "offset", "offset_below", "at", "log_offset", "producer_id",
    ]  # fmt: skip
    return by_leader.select(*names).unionByName(by_producer.select(*names))


def _of_producers(commits: DataFrame, records: DataFrame | None) -> DataFrame:
    # Returns the commits in transactions, and the ends of transactions as rows whose kind and position are null.
    written = commits.where(fn.col("producer_id") >= 0)
    if records is None:
        return written
    ends = records.where(fn.col("control").isNotNull() & (fn.col("producer_id") >= 0))
    names = ["log_partition", "producer_id", "producer_epoch", "log_offset"]
    return written.unionByName(ends.select(*names), allowMissingColumns=True)


def _told(field: str) -> Column:
    return fn.get_json_object("fields", f"$.{field}")


def generations(records: DataFrame) -> DataFrame:
    """Returns signs of disorder in the records of groups.

    The column `reason` is one of these:

    * "generation": the record of a group has a lower generation, or epoch, than an earlier record of the group since
      the group was last deleted.
    * "no member": commits outside of transactions, after a record of a classic group that says that the group has no
      member.  Such commits come from a tool that resets offsets, or from a consumer that assigns its partitions itself.

    Args:
        records: rows of the view "records", with all records of each group.

    Columns: log_partition, group, reason, generation, newer_generation, log_offset, at, last_log_offset, commits.  For
    "no member", `newer_generation` is null, and `commits` is the number of commits from log_offset to last_log_offset.
    For "generation", `last_log_offset` and `commits` are null.
    """
    kinds = ["group_metadata", "consumer_group_metadata", "share_group_metadata", "streams_group_metadata"]
    generation = fn.coalesce(_told("value.generation"), _told("value.epoch")).cast("int")
    is_own = fn.col("kind").isin(kinds)
    name = fn.when(is_own, fn.coalesce(_told("key.group"), _told("key.groupId"))).otherwise(fn.col("group"))
    is_commit = (fn.col("kind") == "offset_commit") & fn.col("value").isNotNull() & (fn.col("outcome") == "plain")
    said = fn.struct(
        generation.alias("generation"),
        (fn.col("kind") == "group_metadata").alias("classic"),
        fn.coalesce(fn.json_array_length(_told("value.members")), fn.lit(-1)).alias("members"),
        fn.col("value").isNull().alias("gone"),
        fn.col("log_offset").alias("since"),
    )
    rows = records.where(is_own | is_commit).select(
        "log_partition",
        name.alias("group"),
        "log_offset",
        when().alias("at"),
        fn.when(is_own, said).alias("said"),
        fn.when(is_own & fn.col("value").isNull(), 1).otherwise(0).alias("_gone"),
    )
    by_group = Window.partitionBy("log_partition", "group").orderBy("log_offset")
    lives = rows.withColumn("_life", fn.sum("_gone").over(by_group))
    of_life = Window.partitionBy("log_partition", "group", "_life").orderBy("log_offset").rowsBetween(*_BEFORE)
    back = (
        lives.withColumn("newer_generation", fn.max("said.generation").over(of_life))
        .where(fn.col("said.generation") < fn.col("newer_generation"))
        .select(
            "log_partition",
            "group",
            fn.lit("generation").alias("reason"),
            fn.col("said.generation").alias("generation"),
            "newer_generation",
            "log_offset",
            "at",
            fn.lit(None).cast("bigint").alias("last_log_offset"),
            fn.lit(None).cast("bigint").alias("commits"),
        )
    )
    last = fn.last("said", ignorenulls=True).over(by_group.rowsBetween(Window.unboundedPreceding, 0))
    alone = (
        rows.withColumn("_last", last)
        .where(
            fn.col("said").isNull() & fn.col("_last.classic") & (fn.col("_last.members") == 0) & ~fn.col("_last.gone")
        )
        .groupBy("log_partition", "group", "_last.generation", "_last.since")
        .agg(
            fn.min("log_offset").alias("log_offset"),
            fn.min("at").alias("at"),
            fn.max("log_offset").alias("last_log_offset"),
            fn.count("*").alias("commits"),
        )
        .select(
            "log_partition",
            "group",
            fn.lit("no member").alias("reason"),
            "generation",
            fn.lit(None).cast("int").alias("newer_generation"),
            "log_offset",
            "at",
            "last_log_offset",
            "commits",
        )
    )
    return back.unionByName(alone)


def transactions(commits: DataFrame) -> DataFrame:
    """Returns the transactions that contain offset commits and that were aborted or are open.

    Columns: log_partition, producer_id, producer_epoch, outcome, first_offset, last_offset, marker_offset, commits,
    groups, first_at, last_at.
    """
    return (
        commits.where(fn.col("outcome").isin("aborted", "open"))
        .groupBy("log_partition", "producer_id", "outcome", "marker_offset")
        .agg(
            fn.max("producer_epoch").alias("producer_epoch"),
            fn.min("log_offset").alias("first_offset"),
            fn.max("log_offset").alias("last_offset"),
            fn.count("*").alias("commits"),
            fn.sort_array(fn.collect_set("group")).alias("groups"),
            fn.min("at").alias("first_at"),
            fn.max("at").alias("last_at"),
        )
    )


# ---------------------------------------------------------------------------------------------------------------- rates


def rates(commits: DataFrame) -> DataFrame:
    """Returns the commits per second of each group.  In the row for all groups together, the group is null.

    Columns: group, p50, p95, p99, most, active_seconds, span_seconds, mean.  `p50`, `p95` and `p99` are percentiles
    over the seconds with at least one commit, `most` is the maximum, and `active_seconds` is the number of these
    seconds.  `span_seconds` is the time from the first such second to the last, and `mean` is the mean rate over that
    time.
    """
    second = fn.floor(fn.col("at") / _SECOND_MS).alias("second")
    by_group = _timed_commits(commits).groupBy("group", second).agg(fn.count("*").alias("count"))
    overall = by_group.groupBy("second").agg(fn.sum("count").alias("count"))
    overall = overall.select(fn.lit(None).cast("string").alias("group"), "second", "count")
    span = fn.max("second") - fn.min("second") + 1

    def percentile(share: float, name: str) -> Column:
        return fn.percentile("count", share).alias(name)

    return (
        by_group.unionByName(overall)
        .groupBy("group")
        .agg(
            percentile(0.5, "p50"),
            percentile(0.95, "p95"),
            percentile(0.99, "p99"),
            fn.max("count").cast("bigint").alias("most"),
            fn.count("*").alias("active_seconds"),
            span.alias("span_seconds"),
            (fn.sum("count") / span).alias("mean"),
        )
    )


def over_time(commits: DataFrame, bucket_ms: int) -> DataFrame:
    """Returns group, bucket (its start in ms), commits, deletes and bytes for each bucket with records of a group."""
    if bucket_ms <= 0:
        raise InvalidArgumentError(f"the width of a bucket must be positive, not {bucket_ms} ms")
    bucket = fn.col("at") - fn.col("at") % fn.lit(bucket_ms).cast("bigint")
    commits_and_deletes = _counts()[:2]
    return (
        commits.where(fn.col("at").isNotNull())
        .groupBy("group", bucket.alias("bucket"))
        .agg(*commits_and_deletes, fn.sum("bytes").alias("bytes"))
    )


def check_stall(stall_ms: int) -> None:
    """Raises InvalidArgumentError if `stall_ms` is not above 0.  Can be called from any thread."""
    if stall_ms <= 0:
        raise InvalidArgumentError(
            f"with a shortest stall of {stall_ms} ms, every commit would be a stall; give a time above 0 ms, such as "
            f"{STALL_MS} ms (15m)"
        )


def audit(
    commits: DataFrame,
    records: DataFrame | None = None,
    *,
    stall_ms: int = STALL_MS,
    until: int | None = None,
    bucket_ms: int = 60_000,
) -> Audit:
    """Returns all tables.

    Args:
        commits: the result of `prepared`.  Persist them before the call, since every table reads them.
        records: rows of the view "records", for `zombies` and `generations`.  With None, there is no table
            `generations`.
        stall_ms: the shortest stall or silence to return.
        until: the time up to which stalls and silences are measured, in ms; None for the time of the youngest record.
        bucket_ms: the width of the buckets of `over_time`, in ms.

    Raises:
        InvalidArgumentError: `stall_ms` is not above 0.
    """
    check_stall(stall_ms)
    return Audit(
        commits=commits,
        bucket_ms=bucket_ms,
        totals=totals(commits),
        groups=groups(commits),
        positions=positions(commits),
        rewinds=rewinds(commits),
        stalls=stalls(commits, stall_ms, until),
        silences=silences(commits, stall_ms, until),
        zombies=zombies(commits, records),
        generations=None if records is None else generations(records),
        rates=rates(commits),
        over_time=over_time(commits, bucket_ms),
        transactions=transactions(commits),
        stall_ms=stall_ms,
        until=until,
    )


def bucket_for(span_ms: int, most: int = 120) -> int:
    """Returns a round width for buckets, in ms, so that a span has at most about `most` buckets."""
    rounds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800]
    for seconds in rounds:
        if span_ms <= seconds * 1000 * most:
            return seconds * 1000
    return -(-span_ms // most // 1000) * 1000


def run(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    partitions: str | None = None,
    stall_ms: int = STALL_MS,
    until: int | None = None,
    permissive: bool = False,
) -> Audit:
    """Returns the audit of a directory; its commits are persisted until `audit.commits.unpersist()`.

    Args:
        spark: the session.
        path: a log directory.
        partitions: log partitions, such as "0,3-5"; None for all.
        stall_ms: the shortest stall or silence to return.
        until: the time up to which stalls and silences are measured, in ms; None for the time of the youngest record.
        permissive: whether to continue if a part of the log is missing or damaged; `incomplete` then lists these parts.

    Raises:
        CorruptionError: the log is damaged, or a part is missing (DataLossError, PossibleLossError), and `permissive`
            is False.
        InvalidArgumentError: `until` is in the future, so that every group would have stalled until then; or `stall_ms`
            is not above 0.
    """
    check_stall(stall_ms)
    given = {"partitions": partitions, "columns": ",".join(RECORD_COLUMNS)}
    incomplete = problems_of(spark, path, "records", permissive=permissive, **given)
    records = read(spark, path, partitions=partitions, permissive=permissive, reported=incomplete)
    commits = prepared(commits_of(records)).persist(StorageLevel.MEMORY_AND_DISK)
    # A single outlier, such as a time in microseconds, would put all other times into one bucket.
    shown = fn.least("at", fn.lit(LAST_MS))
    (row,) = commits.agg(fn.min(shown).alias("first"), fn.max(shown).alias("last")).collect()
    if until is not None and is_ahead(until) and (row["last"] is None or row["last"] < until):
        commits.unpersist()
        raise future_error("until", until)
    span = 0 if row["first"] is None else row["last"] - row["first"]
    made = audit(commits, records, stall_ms=stall_ms, until=until, bucket_ms=bucket_for(span))
    given = {"partitions": partitions, "columns": "log_partition,log_offset"}
    ends = log_ends(spark, path, partitions=partitions)
    there = coverage(read_view(spark, path, "records", permissive=permissive, **given), ends)
    return replace(made, coverage=there, incomplete=incomplete)
