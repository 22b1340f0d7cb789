"""The batch reader: plans on the driver, and yields Arrow batches of exactly the asked columns in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from offsetlog.errors import CorruptionError, OffsetLogError
from offsetlog.spark.scan.files import Files, resolve
from offsetlog.spark.scan.options import ReadOptions
from offsetlog.spark.scan.plan import KEYED_BY_TASK, Split, Task, open_source, plan, problem_of, tasks_of
from offsetlog.spark.scan.runs import Found, RunReader
from offsetlog.spark.scan.states import BucketReader
from offsetlog.spark.scan.views import PROBLEM, asked_schema, problem_batch, shaped


class BatchReader(DataSourceReader):
    """Reads one view of a log.  Goes to executors as it is."""

    def __init__(self, read: ReadOptions, schema: Any, files: Files | None = None) -> None:
        """Takes the options, the columns as a pyarrow.Schema, and a file system in place of that of the path."""
        self._read = read
        self._schema = schema
        self._files = files

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks; raises as `open_source`, `plan` and `completeness.ask`."""
        source = open_source(self._read, self._files)
        # Executors import this module, and nothing that knows the files of a store.
        from offsetlog.spark.scan.completeness import ask

        losses = ask(source, self._read)
        problems = tuple((_number_of(each), problem_of(each)) for each in losses)
        told = [Task((), problems)] if problems else []
        # An empty list would be one partition of no kind to Spark.
        return [*told, *tasks_of(plan(source, self._read), self._read)] or [Task(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the batches of a task.

        Raises:
            CorruptionError: bytes are not what was written; with mode=permissive a row tells it.
            MissingFileError, StorageError: files went while they were read, or cannot be read; likewise.
            HistoryError: the log cannot tell the state that `at` names any more; likewise.
        """
        if isinstance(partition, Task):
            for number, text in partition.problems:
                yield problem_batch(self._schema, number, text)
            files = self._files or resolve(self._read.path)[0]
            for split in partition.splits:
                yield from read_split(files, split, self._read, self._schema)


def read_split(files: Files, split: Split, read: ReadOptions, schema: Any) -> Iterator[Any]:
    """Yields the batches of a split, with exactly the columns of a pyarrow.Schema; raises as `BatchReader.read`."""
    columns = [name for name in schema.names if name != PROBLEM]
    found: Iterator[Found]
    if read.view in KEYED_BY_TASK:
        found = BucketReader(files, split, read, columns).found()
    else:
        found = RunReader(files, split, read, read.view, columns).found()
    for each in found:
        if isinstance(each, OffsetLogError):
            yield problem_batch(schema, split.number, problem_of(each))
        else:
            yield shaped(each, schema)


def _number_of(loss: CorruptionError) -> int:
    return -1 if loss.log_partition is None else loss.log_partition


def make_reader(read: ReadOptions, asked: Any) -> BatchReader:
    """Returns the reader for options and the pyspark StructType that Spark wants; raises ConfigError."""
    # A reader that only has pushFilters fails where Spark's setting is off, and Spark 4.0 has no filters at all.
    kind = import_module("offsetlog.spark.scan.pushdown").FilteringReader if read.pushdown else BatchReader
    made: BatchReader = kind(read, asked_schema(read, asked))
    return made
