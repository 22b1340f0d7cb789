"""The rules of a clean a second time, in Spark SQL over the view "records": what `compact-report` is compared with."""

from __future__ import annotations

import time
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

#: Columns of the view "records".
COLUMNS = [
    "log_partition", "log_offset", "kind", "key", "value", "group", "topic", "partition", "fields", "control",
    "outcome", "marker_offset", "segment", "position", "base_offset", "last_offset", "batch_size", "magic",
    "producer_id", "delete_horizon",
]  # fmt: skip

#: Bytes of the header of a batch of magic 2, which goes only with the batch.
HEADER_BYTES = 61

#: The fates of records, by name; the first three stay.
STAYS = ["live", "tombstone", "marker"]
GOES = ["superseded", "aborted", "expired_tombstone", "expired_marker", "keyless"]

_BATCH = ["log_partition", "segment", "position"]
_SLOT = ["log_partition", "_is_offset", "_key"]


class Tables(NamedTuple):
    """One row for each log partition, and for each group in it."""

    partitions: DataFrame
    groups: DataFrame


# ------------------------------------------------------------------------------------------------ how far it is cleaned


def _segment_base() -> Column:
    return fn.substring("segment", 1, 20).cast("bigint")


def ends(records: DataFrame, *, roll: bool, active: DataFrame | None = None) -> DataFrame:
    """Returns up to where each log partition is cleaned: log_partition, log_end, `end`, `undecided_from`.

    `end` is the first offset of a segment: that of the active one, which no cleaner touches, or of the one in which the
    oldest open transaction begins.  With `roll` the active segment is closed first, unless a transaction is open.
    `undecided_from` is where the first transaction below `end` begins that ended above it, null for none: its commits
    stay and supersede nothing, and from there on no deletion of a position goes, since it may have taken one back.

    Args:
        records: of whole log partitions.
        roll: as `offsetlog compact` does it; else as a broker's cleaner does.
        active: log_partition and the base offset of its active segment, `active_base`, where that may be empty; None
            takes the last segment that holds a record.
    """
    pending = (fn.col("outcome") == "open") & fn.col("value").isNotNull()
    bounds = records.groupBy("log_partition").agg(
        (fn.max("last_offset") + 1).alias("log_end"),
        fn.max(_segment_base()).alias("_last_base"),
        fn.min(fn.when(pending, fn.col("log_offset"))).alias("_open_from"),
    )
    if active is not None:
        bounds = bounds.join(fn.broadcast(active), "log_partition", "left")
        bounds = bounds.withColumn("_last_base", fn.coalesce("active_base", "_last_base")).drop("active_base")
    closed_end = fn.col("_last_base")
    if roll:
        closed_end = fn.when(fn.col("_open_from").isNull(), fn.col("log_end")).otherwise(closed_end)
    bounds = bounds.withColumn("_closed_end", closed_end)
    segments = records.select("log_partition", _segment_base().alias("_base")).distinct()
    held = fn.when(fn.col("_base") <= fn.col("_open_from"), fn.col("_base"))
    bounds = (
        bounds.join(segments, "log_partition")
        .groupBy("log_partition", "log_end", "_closed_end", "_open_from")
        .agg(fn.max(held).alias("_held"))
        .withColumn("end", fn.least("_closed_end", fn.coalesce("_held", "_closed_end")))
    )
    undecided = (
        records.join(fn.broadcast(bounds.select("log_partition", "end")), "log_partition")
        .where(_is_undecided())
        .groupBy("log_partition")
        .agg(fn.min("base_offset").alias("undecided_from"))
    )
    return bounds.join(undecided, "log_partition", "left").select("log_partition", "log_end", "end", "undecided_from")


def _is_undecided() -> Column:
    # A value of a transaction that ends above the part that is cleaned.
    return (
        fn.col("value").isNotNull()
        & (fn.col("log_offset") < fn.col("end"))
        & fn.coalesce(fn.col("marker_offset") >= fn.col("end"), fn.lit(False))
    )


# ------------------------------------------------------------------------------------------------ what becomes of what


def _varint_size(value: Column) -> Column:
    # The number is not negative, and is doubled first.
    size: Column = fn.lit(5)
    for bytes_, limit in ((4, 1 << 27), (3, 1 << 20), (2, 1 << 13), (1, 1 << 6)):
        size = fn.when(value < limit, fn.lit(bytes_)).otherwise(size)
    return size


def _weight() -> Column:
    # A record of magic 2 whose time is that of its batch, and which has no headers.
    key, value = (fn.coalesce(fn.octet_length(name), fn.lit(0)) for name in ("key", "value"))
    body = (
        1 + 1 + _varint_size(fn.col("log_offset") - fn.col("base_offset"))
        + _varint_size(key) + key + fn.when(fn.col("value").isNull(), 1).otherwise(_varint_size(value)) + value + 1
    )  # fmt: skip
    return (body + _varint_size(body)).cast("bigint")


def verdicts(records: DataFrame, bounds: DataFrame, now_ms: int) -> DataFrame:
    """Returns every record with what becomes of it.

    Columns: those of `records`; `fate`, one of STAYS and GOES, and whether it `stays`; `is_dead`, nothing of the
    present state comes from it, whether it goes or not; `record_bytes`, its share of its batch; `freed_bytes`, what its
    going frees.

    Args:
        records: of whole log partitions.
        bounds: as `ends` returns them.
        now_ms: the time, in milliseconds since 1970.
    """
    is_marker = fn.col("control").isNotNull()
    is_offset = fn.col("kind") == "offset_commit"
    is_tombstone = fn.col("value").isNull()
    is_aborted = (fn.col("outcome") == "aborted") & ~is_tombstone
    is_pending = (fn.col("outcome") == "open") & ~is_tombstone
    rows = records.join(fn.broadcast(bounds), "log_partition").select(
        *COLUMNS,
        "end",
        "undecided_from",
        is_offset.alias("_is_offset"),
        # Both versions of a position's key are the same key.  Its bytes, since names that are no UTF-8 look alike.
        fn.when(is_offset, fn.expr("substring(key, 3)")).when(~is_marker, fn.col("key")).alias("_key"),
        (fn.col("log_offset") < fn.col("end")).alias("_below"),
        _is_undecided().alias("_undecided"),
        fn.coalesce(fn.col("last_offset") >= fn.col("undecided_from"), fn.lit(False)).alias("_behind_undecided"),
        (fn.col("delete_horizon").between(0, now_ms)).alias("_past_horizon"),
    )
    slot = Window.partitionBy(*_SLOT)
    supersedes = ~is_marker & fn.col("key").isNotNull() & ~is_aborted & ~is_pending
    latest = fn.max(fn.when(supersedes & fn.col("_below") & ~fn.col("_undecided"), fn.col("log_offset"))).over(slot)
    latest_now = fn.max(fn.when(supersedes, fn.col("log_offset"))).over(slot)
    # A value of an open transaction is live until its producer replaces it, or a tombstone erases it.
    replaced = fn.max(fn.when(is_pending, fn.col("log_offset"))).over(Window.partitionBy(*_SLOT, "producer_id"))
    erased = fn.max(fn.when(is_tombstone, fn.col("log_offset"))).over(slot)
    fate = (
        fn.when(is_marker, "marker")
        .when(~fn.col("_below") | fn.col("_undecided"), fn.when(is_tombstone, "tombstone").otherwise("live"))
        .when(fn.col("key").isNull(), "keyless")
        .when(is_aborted, "aborted")
        .when(is_tombstone & fn.col("_is_offset") & (fn.col("log_offset") >= fn.col("undecided_from")), "tombstone")
        .when(fn.col("_latest") > fn.col("log_offset"), "superseded")
        .when(~is_tombstone, "live")
        .when(fn.coalesce("_past_horizon", fn.lit(False)) & ~fn.col("_behind_undecided"), "expired_tombstone")
        .otherwise("tombstone")
    )
    dead = ~is_marker & (
        fn.col("key").isNull()
        | is_aborted
        | is_tombstone
        | (~is_pending & (fn.col("_latest_now") > fn.col("log_offset")))
        | (is_pending & (fn.greatest("_replaced", "_erased") > fn.col("log_offset")))
    )
    judged = (
        rows.withColumn("_latest", latest)
        .withColumn("_latest_now", latest_now)
        .withColumn("_replaced", replaced)
        .withColumn("_erased", erased)
        .withColumn("fate", fate)
        .withColumn("is_dead", fn.coalesce(dead, fn.lit(False)))
    )
    return _weighed(_with_markers(judged))


def _with_markers(judged: DataFrame) -> DataFrame:
    # A marker goes, after its time, when nothing is left of its transaction.  The last batch of a producer stays, if
    # empty, and so does the marker after it.
    left = fn.count_if((fn.col("marker_offset") == fn.col("_ends")) & fn.col("fate").isin(STAYS))
    ends_at = fn.when(fn.col("control").isNotNull(), fn.col("log_offset")).otherwise(fn.col("marker_offset"))
    marked = judged.withColumn("_ends", ends_at).where(fn.col("_ends").isNotNull())
    alone = (
        marked.groupBy("log_partition", "_ends")
        .agg(left.alias("_left"))
        .where(fn.col("_left") == 0)
        .select("log_partition", fn.col("_ends").alias("log_offset"), fn.lit(True).alias("_alone"))
    )
    last = fn.max("log_offset").over(Window.partitionBy("log_partition", "producer_id"))
    goes = (
        (fn.col("fate") == "marker")
        & (fn.col("_producer_last") > fn.col("log_offset"))
        & fn.coalesce("_alone", fn.lit(False))
        & fn.coalesce("_past_horizon", fn.lit(False))
        & fn.col("_below")
    )
    fate = fn.when(goes, "expired_marker").otherwise(fn.col("fate"))
    judged = judged.withColumn("_producer_last", last)
    return judged.join(alone, ["log_partition", "log_offset"], "left").withColumn("fate", fate)


def _weighed(judged: DataFrame) -> DataFrame:
    batch = Window.partitionBy(*_BATCH)
    of_producer = Window.partitionBy("log_partition", "producer_id")
    header = fn.when(fn.col("magic") == 2, HEADER_BYTES).otherwise(0)
    is_data = fn.col("control").isNull()
    # The batch that says how far a producer came stays as an empty one, and so does the one before `end`.
    is_last = (fn.col("producer_id") >= 0) & is_data & (fn.col("last_offset") == fn.col("_producer_end"))
    retained = (fn.col("magic") == 2) & (is_last | (fn.col("last_offset") + 1 == fn.col("end")))
    record_bytes = (fn.col("batch_size") - fn.col("_header")) * fn.col("_weight") / fn.col("_weights")
    header_share = fn.col("_header") / fn.col("_records")
    frees_header = (fn.col("_stay") == 0) & ~fn.coalesce("_retained", fn.lit(False))
    return (
        judged.withColumn("stays", fn.col("fate").isin(STAYS))
        .withColumn("_weight", _weight())
        .withColumn("_header", header)
        .withColumn("_weights", fn.sum("_weight").over(batch))
        .withColumn("_records", fn.count("*").over(batch))
        .withColumn("_stay", fn.count_if("stays").over(batch))
        .withColumn("_producer_end", fn.max(fn.when(is_data, fn.col("last_offset"))).over(of_producer))
        .withColumn("_retained", retained)
        .withColumn("record_bytes", record_bytes + header_share)
        .withColumn(
            "freed_bytes",
            fn.when(fn.col("stays"), fn.lit(0.0)).otherwise(
                record_bytes + fn.when(frees_header, header_share).otherwise(fn.lit(0.0))
            ),
        )
    )


# ------------------------------------------------------------------------------------------------ the tables


def _sums() -> list[Column]:
    def whole(column: Column, name: str) -> Column:
        return fn.round(fn.coalesce(fn.sum(column), fn.lit(0.0))).cast("bigint").alias(name)

    def counted(fate: str) -> Column:
        return fn.count_if(fn.col("fate") == fate).alias(fate)

    size = fn.col("record_bytes")
    return [
        fn.count("*").alias("records"),
        whole(size, "bytes"),
        fn.count_if(~fn.col("is_dead")).alias("live_records"),
        whole(fn.when(~fn.col("is_dead"), size), "live_bytes"),
        fn.count_if("is_dead").alias("dead_records"),
        whole(fn.when(fn.col("is_dead"), size), "dead_bytes"),
        *(counted(fate) for fate in [*GOES, "tombstone", "marker"]),
        fn.count_if("stays").alias("records_after"),
        fn.count_if(~fn.col("stays")).alias("freed_records"),
        whole(fn.col("freed_bytes"), "freed_bytes"),
    ]


def partitions(judged: DataFrame, bounds: DataFrame) -> DataFrame:
    """Returns one row for each log partition.

    Columns: log_partition, log_end, end (below it is cleaned); segments, batches, records, bytes; live_records,
    live_bytes, dead_records, dead_bytes (as of now, markers are alive); superseded, aborted, expired_tombstone,
    expired_marker, keyless (records that go); tombstone, marker (that stay until their time); records_after,
    freed_records, freed_bytes, bytes_after.
    """
    files = [
        fn.count_distinct("segment").alias("segments"),
        fn.count_distinct(fn.struct("segment", "position")).alias("batches"),
    ]
    found = judged.groupBy("log_partition").agg(*files, *_sums())
    return (
        bounds.drop("undecided_from")
        .join(found, "log_partition")
        .withColumn("bytes_after", fn.col("bytes") - fn.col("freed_bytes"))
    )


def groups(judged: DataFrame) -> DataFrame:
    """Returns one row for each group of a log partition: of its offsets and of its own records.

    Columns: log_partition, group (null for markers and what cannot be decoded), and those of `partitions` from records
    on.
    """
    own = fn.coalesce(fn.get_json_object("fields", "$.key.group"), fn.get_json_object("fields", "$.key.groupId"))
    name = fn.when(fn.col("kind") == "offset_commit", fn.col("group")).otherwise(own)
    return (
        judged.withColumn("group", name)
        .groupBy("log_partition", "group")
        .agg(*_sums())
        .withColumn("bytes_after", fn.col("bytes") - fn.col("freed_bytes"))
    )


def compact_report(
    records: DataFrame, *, roll: bool = False, active: DataFrame | None = None, now_ms: int | None = None
) -> Tables:
    """Returns what a clean would free.

    Args:
        records: rows of the view "records" of whole log partitions.
        roll: as if the active segments were closed first, as `offsetlog compact` does it.
        active: see `ends`.
        now_ms: the time, None for now.
    """
    bounds = ends(records, roll=roll, active=active)
    judged = verdicts(records, bounds, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
    return Tables(partitions(judged, bounds), groups(judged))
