"""The columns of each view, with their Arrow types for batches, and their Spark types for the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from offsetlog._native.scan import view_schema
from offsetlog.errors import ConfigError
from offsetlog.spark.scan.options import ReadOptions

#: The column with the problem of a row, in mode=permissive; null on rows without one.
PROBLEM = "problem"

_MEMBER = pa.struct([(name, pa.string()) for name in ("member_id", "group_instance_id", "client_id", "client_host")])
_GROUPS = pa.schema(
    [
        ("group", pa.string()),
        ("type", pa.string()),
        ("state", pa.string()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("generation", pa.int32()),
        ("members", pa.list_(pa.field("element", _MEMBER))),
        ("simple", pa.bool_()),
        ("log_partition", pa.int32()),
    ]
)
_SPARK_NAMES = {"int32": "int", "int64": "bigint", "bool": "boolean", "string": "string", "binary": "binary"}


def columns_of(view: str) -> Any:
    """Returns the pyarrow.Schema of all columns of a view, without the column `problem`."""
    if view == "groups":
        return _GROUPS
    if view == "history":
        return view_schema("commits").append(pa.field("effective_at", pa.int64()))
    return view_schema(view)


def full_schema(read: ReadOptions) -> Any:
    """Returns the pyarrow.Schema of the batches that a reader yields, unless the caller gives another schema.

    Raises:
        ConfigError: `columns` names a column that the view does not have.
    """
    schema = columns_of(read.view)
    if read.permissive:
        schema = schema.append(pa.field(PROBLEM, pa.string()))
    if read.columns is None:
        return schema
    chosen = _chosen(schema, read.columns, read.view, "columns=")
    return chosen.append(schema.field(PROBLEM)) if read.permissive and PROBLEM not in chosen.names else chosen


def _chosen(schema: Any, names: Sequence[str], view: str, what: str) -> Any:
    for name in names:
        if name not in schema.names:
            raise ConfigError(
                f"{what}{','.join(names)!r}: view={view} has no column {name!r}; it has {', '.join(schema.names)}"
            )
    return pa.schema([schema.field(name) for name in names])


def spark_type(kind: Any) -> str:
    """Returns the name that Spark has for an Arrow type."""
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{field.name}:{spark_type(field.type)}" for field in kind) + ">"
    return _SPARK_NAMES[str(kind)]


def spark_schema(schema: Any) -> str:
    """Returns a schema as Spark DDL."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def asked_schema(read: ReadOptions, asked: Any) -> Any:
    """Returns the pyarrow.Schema of the batches that a reader must yield, for a given pyspark StructType.

    Raises:
        ConfigError: the view does not have one of the columns, or has it with another type.
    """
    schema = columns_of(read.view)
    if read.permissive:
        schema = schema.append(pa.field(PROBLEM, pa.string()))
    chosen = _chosen(schema, [field.name for field in asked.fields], read.view, "the schema's columns ")
    for field, ours in zip(asked.fields, chosen, strict=True):
        if field.dataType.simpleString() != spark_type(ours.type):
            raise ConfigError(
                f"column {ours.name!r} has the type {field.dataType.simpleString()} in the schema, but the type "
                f"{spark_type(ours.type)} in view={read.view}"
            )
    return chosen


def shaped(batch: Any, schema: Any) -> Any:
    """Returns a batch with exactly the columns of a schema.  Columns that the given batch lacks are null."""
    if batch.schema.equals(schema):
        return batch
    arrays = [
        batch.column(batch.schema.get_field_index(field.name))
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def problem_batch(schema: Any, log_partition: int, text: str) -> Any:
    """Returns a batch of one row, which reports a problem."""
    row = {"log_partition": log_partition, PROBLEM: text}
    return pa.RecordBatch.from_arrays([pa.array([row.get(field.name)], field.type) for field in schema], schema=schema)
