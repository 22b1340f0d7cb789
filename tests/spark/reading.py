"""Reads a log as a batch of Spark does, in this process: plans, sends each split through pickle, and reads it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from offsetlog.spark.scan.batch import BatchReader, read_split
from offsetlog.spark.scan.files import Files
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.plan import Split, open_source, plan
from offsetlog.spark.scan.views import full_schema

Row = dict[str, Any]


def splits_of(path: Path | str, files: Files | None = None, **options: Any) -> list[Split]:
    """The splits, as executors get them."""
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    return [pickle.loads(pickle.dumps(split)) for split in plan(open_source(read, files), read)]


def read_splits(splits: list[Split], path: Path | str, files: Files | None = None, **options: Any) -> Iterator[Any]:
    """What these splits hold, batch by batch."""
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    schema = full_schema(read)
    for split in splits:
        for batch in read_split(files or Files(), split, read, schema):
            assert batch.schema.equals(schema)
            yield batch


def table_of(path: Path | str, files: Files | None = None, **options: Any) -> pa.Table:
    """All rows of a view."""
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    schema = full_schema(read)
    reader = pickle.loads(pickle.dumps(BatchReader(read, schema, files)))
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    return pa.Table.from_batches(batches, schema=schema)


def rows_of(path: Path | str, files: Files | None = None, **options: Any) -> list[Row]:
    """All rows of a view, as dictionaries."""
    rows: list[Row] = table_of(path, files, **options).to_pylist()
    return rows
