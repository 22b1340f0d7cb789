"""Rows for the sink, what tasks stage of them, and what a store holds afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

import offsetlog
from offsetlog.spark.sink import writer
from offsetlog.spark.sink.options import checked_options
from offsetlog.spark.sink.staging import RESERVED_PREFIX, SCHEMA, StagedMessage, StagingPlace, stage

Row = tuple[str, str, int, int]

COLUMNS = "group string, topic string, partition int, offset long"


def batch_of(rows: list[Row], **columns: list[object]) -> pa.RecordBatch:
    """A record batch of rows (group, topic, partition, offset), with further columns."""
    arrays = [
        pa.array(list(column), SCHEMA.field(number).type) for number, column in enumerate(zip(*rows, strict=True))
    ]
    names = SCHEMA.names[:4]
    for name, values in columns.items():
        arrays.append(pa.array(values))
        names = [*names, name]
    return pa.RecordBatch.from_arrays(arrays, names)


def stage_tasks(path: Path, query: str, epoch: int, tasks: list[list[Row]], run: str = "run") -> list[StagedMessage]:
    """Runs the tasks of one epoch without a Spark, and returns their messages."""
    place = StagingPlace(f"{path}/.offsetlog-staging", query, epoch, run)
    messages = []
    for number, rows in enumerate(tasks):
        message = stage(place, [batch_of(rows)] if rows else [], 4096)
        message.task = number
        messages.append(message)
    return messages


def epoch_writer(path: Path, query: str, epoch: int, **options: str) -> writer.BatchWriter:
    """The writer of one epoch of a batch query."""
    given = {"path": str(path), "queryId": query, "epoch": str(epoch), "partitions": "4", **options}
    made = writer.BatchWriter(checked_options(given, stream=False, overwrite=False))
    made._job = "run"
    return made


def positions(path: Path) -> dict[tuple[str, str, int], int]:
    """Returns the committed positions, without the sink's own."""
    with offsetlog.open(path, read_only=True) as store:
        return {
            (row["group"], row["topic"], row["partition"]): row["offset"]
            for row in store.to_arrow().to_pylist()
            if not row["group"].startswith(RESERVED_PREFIX)
        }


def commits_of(path: Path, keys: Iterable[tuple[str, str, int]]) -> Counter[Row]:
    """How often each offset of some positions took effect, as the log tells."""
    found: Counter[Row] = Counter()
    with offsetlog.open(path, read_only=True) as store:
        for key in keys:
            for entry in store.history(*key):
                if entry.effective_at is not None and entry.value is not None:
                    found[*key, entry.value.offset] += 1
    return found
