"""The batch reader.  The driver plans a read; the tasks yield Arrow batches with exactly the requested columns."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from offsetlog.errors import CorruptionError, MissingFileError, OffsetLogError
from offsetlog.spark.scan.files import Files, resolve
from offsetlog.spark.scan.memory import release_unused
from offsetlog.spark.scan.options import ReadOptions
from offsetlog.spark.scan.plan import (
    KEYED_BY_TASK,
    Source,
    Split,
    Task,
    check_named,
    open_on_driver,
    open_source,
    plan,
    problem_of,
    tasks_of,
)
from offsetlog.spark.scan.runs import Found, RunReader
from offsetlog.spark.scan.states import BucketReader
from offsetlog.spark.scan.views import PROBLEM, asked_schema, problem_batch, shaped


class BatchReader(DataSourceReader):
    """Reads one view of a log.  Spark pickles it and sends it to the executors."""

    def __init__(self, read: ReadOptions, schema: Any, files: Files | None = None) -> None:
        """Takes the options, the columns as a pyarrow.Schema, and a file system to use in place of the path's own."""
        self._read = read
        self._schema = schema
        self._files = files

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks; raises the errors of `open_on_driver`, `plan` and `completeness.ask`."""
        tasks = _tasks_for(lambda read: open_on_driver(read, self._files), self._read)
        return [replace(task, read=self._read) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the batches of a task.

        Raises:
            CorruptionError: the log is damaged.
            MissingFileError, StorageError: files were removed while they were read, or cannot be read.
            HistoryError: the state at the moment `at` was cleaned away.

        With mode=permissive, each problem becomes a row and not an error: damage, a file that is missing or cannot be
        read, or a state that was cleaned away.
        """
        if isinstance(partition, Task):
            for number, text in partition.problems:
                yield problem_batch(self._schema, number, text)
            files = self._files or resolve(self._read.path, self._read.hadoop)[0]
            for split in partition.splits:
                yield from read_split(files, split, self._read, self._schema)


class PlannedReader(BatchReader):
    """Reads tasks that an executor has planned.  Spark sends the reader to the executors without its tasks."""

    def __init__(self, read: ReadOptions, schema: Any, tasks: Sequence[Task]) -> None:
        """Takes the options and the columns, as `BatchReader` does, and the tasks."""
        super().__init__(read, schema)
        self._tasks = tasks

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tasks": ()}

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks."""
        return [*self._tasks]


@dataclass(frozen=True)
class PlanOnExecutor:
    """A function that plans a read.  One task of Spark calls it on an executor, where the log can be read.

    Attributes:
        read: the options of the read.
    """

    read: ReadOptions

    def __call__(self) -> bytes:
        """Returns a pickle of a `Planned`."""
        doubts: list[OffsetLogError] = []
        planned: list[Task] | OffsetLogError
        try:
            planned = _tasks_for(open_source, self.read, doubts)
        except OffsetLogError as failure:
            planned = failure
        return pickle.dumps(Planned(planned, tuple(map(str, doubts))))


@dataclass(frozen=True)
class Planned:
    """A read that an executor has planned.

    Attributes:
        tasks: the tasks of the read, or the error that ended the planning.
        doubts: the missing and damaged witnesses of the log, as texts.
    """

    tasks: list[Task] | OffsetLogError
    doubts: tuple[str, ...] = ()


def _tasks_for(
    opened: Callable[[ReadOptions], Source], read: ReadOptions, doubts: list[OffsetLogError] | None = None
) -> list[Task]:
    """Returns the tasks of a read, with missing parts as `problems`.  Raises the errors of `plan` and `ask`."""
    # Executors import this module to read; they must not import modules that know the files of a store.
    from offsetlog.spark.scan.completeness import ask

    absent: MissingFileError | None = None
    try:
        source = there = opened(read)
    except MissingFileError as failure:
        if read.partitions is None:
            raise
        # None of the requested log partitions exists; the witnesses of the directory may show whether one did.
        absent, there = failure, opened(replace(read, partitions=None))
        source = replace(there, listings=())
    problems = tuple((_number_of(each), problem_of(each)) for each in ask(there, read, doubts))
    if absent is not None and not problems:
        raise absent
    check_named(source, read, [number for number, _ in problems])
    of_problems = [Task((), problems)] if problems else []
    # Spark replaces an empty list by one partition, which is not a Task.
    return [*of_problems, *tasks_of(plan(source, read), read)] or [Task(())]


def read_split(files: Files, split: Split, read: ReadOptions, schema: Any) -> Iterator[Any]:
    """Yields the batches of a split, with the columns of a pyarrow.Schema; raises the errors of `BatchReader.read`."""
    for each in _found_in(files, split, read, [name for name in schema.names if name != PROBLEM]):
        if isinstance(each, OffsetLogError):
            yield problem_batch(schema, split.number, problem_of(each))
        else:
            yield shaped(each, schema)


def _found_in(files: Files, split: Split, read: ReadOptions, columns: list[str]) -> Iterator[Found]:
    if read.view not in KEYED_BY_TASK:
        yield from RunReader(files, split, read, read.view, columns).found()
        return
    try:
        yield from BucketReader(files, split, read, columns).found()
    finally:
        # All records of a share of the keys were in memory.  Their pages are released before the next share is read.
        release_unused()


def _number_of(loss: CorruptionError) -> int:
    return -1 if loss.log_partition is None else loss.log_partition


def make_reader(read: ReadOptions, asked: Any) -> BatchReader:
    """Returns the reader for options and for Spark's StructType of the requested columns; raises ConfigError."""
    # If Spark's setting is off, a reader that has the method pushFilters fails.  Spark 4.0 has no filters at all.
    kind = import_module("offsetlog.spark.scan.pushdown").FilteringReader if read.pushdown else BatchReader
    made: BatchReader = kind(read, asked_schema(read, asked))
    return made
