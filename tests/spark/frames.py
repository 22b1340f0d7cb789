"""Rows of the source's views, made by hand: what a test does not name has a value that means nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

COMMITS = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", pa.int64()),
        ("expire_timestamp", pa.int64()),
        ("topic_id", pa.string()),
        ("kind", pa.string()),
        ("timestamp", pa.int64()),
        ("outcome", pa.string()),
        ("marker_offset", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
    ]
)
RECORDS = pa.schema(
    [
        *COMMITS,
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("fields", pa.string()),
        ("control", pa.string()),
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("batch_size", pa.int32()),
        ("magic", pa.int32()),
        ("delete_horizon", pa.int64()),
    ]
)
NOTHING: dict[str, Any] = {
    "group": "g", "topic": "t", "partition": 0, "offset": None, "leader_epoch": -1, "metadata": "",
    "commit_timestamp": -1, "expire_timestamp": -1, "topic_id": None, "kind": "commit", "timestamp": 0,
    "outcome": "plain", "marker_offset": None, "producer_id": -1, "producer_epoch": -1, "log_partition": 0,
    "log_offset": 0, "key": b"", "value": b"", "fields": None, "control": None,
}  # fmt: skip


def frame(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema = COMMITS) -> DataFrame:
    """Rows as a DataFrame; log offsets count up from 0 where they are not named, and times with them, in seconds."""
    whole = []
    for number, row in enumerate(rows):
        filled = {**NOTHING, "log_offset": number, "timestamp": number * 1000, **row}
        if filled["kind"] == "delete":
            filled["value"] = filled["offset"] = filled["leader_epoch"] = filled["metadata"] = None
            filled["commit_timestamp"] = filled["expire_timestamp"] = None
        whole.append({name: filled.get(name) for name in schema.names})
    return spark.createDataFrame(pa.Table.from_pylist(whole, schema=schema))


def tuples_of(table: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """The rows of a table as tuples of these columns, in their order."""
    rows = (tuple(row) for row in table.select(*names).collect())
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])
