"""The writers of the data source.  The tasks call them to stage rows, and the driver calls them to publish the rows.

Executors unpickle a writer to call `write`.  The store is imported only in the process that calls `commit`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource as spark_sources
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from offsetlog.config import StoreConfig
from offsetlog.errors import ConfigError, InternalError, PartitionCountError
from offsetlog.spark.sink.leftovers import remove_staged
from offsetlog.spark.sink.options import SinkOptions, check_schema, checked_options
from offsetlog.spark.sink.staging import StagedMessage, StagingPlace, stage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from offsetlog.spark.sink.publishing import Published

    StreamWriterBase = DataSourceStreamWriter
else:
    # Spark 4.0 passes rows to the writers of streams; later versions pass record batches.
    StreamWriterBase = getattr(spark_sources, "DataSourceStreamArrowWriter", DataSourceStreamWriter)

_METADATA_UNITS_MAX = StoreConfig().metadata_max_units


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool, one_machine: bool = True
) -> BatchWriter:
    """Returns the writer of `df.write.format("offsetlog")`.

    Args:
        options: the options of the write.
        schema: the schema of the rows.
        overwrite: whether the write would replace the store, which is refused.
        one_machine: as for `checked_options`.

    Raises:
        ConfigError: an option is invalid, the write would replace the store, or executors cannot see the staging
            directory.
        InvalidArgumentError: a column is missing, is unknown, or has a wrong type.
        PartitionCountError: the option `partitions` differs from the number of log partitions of the store.
    """
    chosen = checked_options(options, stream=False, overwrite=overwrite, one_machine=one_machine)
    check_schema(schema)
    _check_partitions(chosen)
    return BatchWriter(chosen)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool, one_machine: bool = True
) -> StreamWriter:
    """Returns the writer of `df.writeStream.format("offsetlog")`; raises the errors of `batch_writer`."""
    chosen = checked_options(options, stream=True, overwrite=overwrite, one_machine=one_machine)
    check_schema(schema)
    _check_partitions(chosen)
    return StreamWriter(chosen)


def _check_partitions(chosen: SinkOptions) -> None:
    """Checks the number of log partitions before the tasks run.  Otherwise, the commit after them would refuse it."""
    # Executors import this module; they must not import the store.
    from offsetlog._native.files import FileSystem
    from offsetlog.directory.log_directory import LogDirectory

    path = Path(chosen.path)
    known = LogDirectory(path, FileSystem()).known_properties() if path.is_dir() else None
    if known is not None and chosen.partitions not in (None, known.partitions):
        raise PartitionCountError(asked=chosen.partitions, actual=known.partitions, path=path)


def commit_batch(df: DataFrame, batch_id: int, path: str, query_id: str, **options: str) -> None:
    """Commits the DataFrame of a `foreachBatch` call, once for each batch id of a query.

    Args:
        df: the rows to commit; they have the columns of any write.
        batch_id: the batch id that Spark passes to the function of `foreachBatch`.
        path: the store's directory.
        query_id: the name under which the store records the query.  A query with another checkpoint needs another name.
        options: the other options of a write.
    """
    given = {**options, "queryId": query_id, "epoch": str(batch_id)}
    df.write.format("offsetlog").mode("append").options(**given).save(path)


class BatchWriter(DataSourceArrowWriter):
    """Stages rows in the tasks of one job, and publishes them once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = f"job-{uuid.uuid4().hex}"

    @property
    def _name(self) -> str:
        return self._options.query_id or self._job

    @property
    def _place(self) -> StagingPlace:
        return self._options.place(self._job)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stages the rows of one task; see `staging.stage`."""
        return stage(self._place, iterator, _METADATA_UNITS_MAX)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publishes the staged rows; see `publishing.publish`."""
        self.publish(messages)

    def publish(self, messages: Sequence[WriterCommitMessage | None]) -> Published:
        """Publishes as `commit` does, and returns the result."""
        from offsetlog.spark.sink.epochs import Epoch
        from offsetlog.spark.sink.publishing import publish

        number = self._options.epoch
        epoch = Epoch(self._options.query_id, number, None) if self._options.query_id and number is not None else None
        name = f"{self._name}-{number}" if epoch is not None else self._name
        done = publish(self._options, staged_messages(messages), name, epoch)
        self._remove_staged(number)
        return done

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Removes the staged files."""
        self._remove_staged(None)

    def _remove_staged(self, done: int | None) -> None:
        remove_staged(self._options, self._name, [f"{self._name}/{self._options.epoch or 0}/{self._job}"], done)


class StreamWriter(StreamWriterBase):
    """Stages rows in the tasks of each epoch of a stream, and publishes each epoch once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> StagedMessage:
        """Stages the rows of one task; see `staging.stage`."""
        return stage(self._options.place(None), iterator, _METADATA_UNITS_MAX)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Publishes an epoch, unless it has been published already; see `publishing.publish`."""
        self.publish(messages, batchId)

    def publish(self, messages: Sequence[WriterCommitMessage | None], number: int) -> Published:
        """Publishes as `commit` does, and returns the result."""
        from offsetlog.spark.sink.epochs import Epoch
        from offsetlog.spark.sink.publishing import Published, publish

        staged = staged_messages(messages)
        query = self._query(staged)
        if query is None:  # no task ran
            return Published(0)
        spark_query = next((message.query for message in staged if message.query is not None), None)
        done = publish(self._options, staged, f"{query}-{number}", Epoch(query, number, spark_query))
        remove_staged(self._options, query, runs_of(staged), number)
        return done

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Removes the staged files.  If no task has reported the query, the next commit of the query removes them."""
        staged = [message for message in messages if isinstance(message, StagedMessage)]
        query = self._query(staged)
        if query is not None:
            remove_staged(self._options, query, runs_of(staged), None)

    def _query(self, messages: Sequence[StagedMessage]) -> str | None:
        if self._options.query_id is not None:
            return self._options.query_id
        known = {message.query for message in messages}
        if not known:
            return None
        query = known.pop()
        if query is None or known:
            raise ConfigError("Spark does not report the query of this write; give the option queryId")
        return query


def staged_messages(messages: Sequence[WriterCommitMessage | None]) -> list[StagedMessage]:
    """Returns the messages of the tasks of a write.  Raises if a task sent none."""
    staged = [message for message in messages if isinstance(message, StagedMessage)]
    if len(staged) != len(messages):
        silent = len(messages) - len(staged)
        raise InternalError(f"{silent} of {len(messages)} tasks did not report the files that they staged")
    return staged


def runs_of(messages: Sequence[StagedMessage]) -> list[str]:
    """Returns the directories of the runs that staged files, relative to the staging directory (query/epoch/run)."""
    folders = {message.folder for message in messages if message.folder is not None}
    return sorted("/".join(folder.rsplit("/", 3)[1:]) for folder in folders)
