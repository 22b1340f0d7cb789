"""Reads a log as a batch of Spark does, in this process: plans, sends each split through pickle, and reads it.

Where the JVM reader is tested (`make test-jvm`), whole tables come through Spark and the reader instead.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import offsetlog.errors
from offsetlog.spark import register
from offsetlog.spark.scan.batch import BatchReader, read_split
from offsetlog.spark.scan.files import Files
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.plan import Split, open_source, plan
from offsetlog.spark.scan.views import full_schema

from .conftest import JAR, session

Row = dict[str, Any]

#: Marks tests that change our code while it plans or reads, or watch its log: with the jar, other processes do both.
in_this_process = pytest.mark.skipif(bool(JAR), reason="it changes or watches code that the JVM reader runs elsewhere")


def splits_of(path: Path | str, files: Files | None = None, **options: Any) -> list[Split]:
    """The splits, as executors get them."""
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    return [pickle.loads(pickle.dumps(split)) for split in plan(open_source(read, files), read)]


def read_splits(splits: list[Split], path: Path | str, files: Files | None = None, **options: Any) -> Iterator[Any]:
    """Yields the contents of these splits, batch by batch."""
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    schema = full_schema(read)
    for split in splits:
        for batch in read_split(files or Files(), split, read, schema):
            assert batch.schema.equals(schema)
            yield batch


def table_of(path: Path | str, files: Files | None = None, **options: Any) -> pa.Table:
    """All rows of a view."""
    if JAR and files is None:
        return table_through_jvm(path, **options)
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    schema = full_schema(read)
    reader = pickle.loads(pickle.dumps(BatchReader(read, schema, files)))
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    return pa.Table.from_batches(batches, schema=schema)


def table_through_jvm(path: Path | str, **options: Any) -> pa.Table:
    """The same by Spark and the JVM reader; what our code raised in one of its processes is raised once more."""
    spark = session()
    register(spark)
    try:
        given = {name: str(value) for name, value in options.items()}
        return spark.read.format("offsetlog").options(**given).load(str(path)).toArrow()
    except PySparkException as failure:
        # In the words of a traceback, in which causes come first.
        found = re.findall(r"offsetlog\.errors\.(\w+): (.*)", str(failure))
        if not found:
            raise
        kind, text = found[-1]
        raise _again(getattr(offsetlog.errors, kind), text) from failure


def _again(kind: type[offsetlog.errors.OffsetLogError], text: str) -> offsetlog.errors.OffsetLogError:
    """An error from what a traceback says of it."""
    found = re.fullmatch(r"(.*) \((/[^,]*?)(?:, byte (\d+))?(?:, log partition (\d+))?(?:, log offset.*)?\)", text)
    if found is None:
        return kind(text)
    place: dict[str, Any] = {"path": found[2], "position": None if found[3] is None else int(found[3])}
    if found[4] is not None:
        place["log_partition"] = int(found[4])
    return kind(found[1], **place)


def rows_of(path: Path | str, files: Files | None = None, **options: Any) -> list[Row]:
    """All rows of a view, as dictionaries."""
    rows: list[Row] = table_of(path, files, **options).to_pylist()
    return rows
