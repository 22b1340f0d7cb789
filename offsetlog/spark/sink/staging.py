"""The tasks of the sink.  A task checks its rows and stages them in a file of its own attempt; it writes nothing else.

If a task is tried again, or runs twice, it stages another file.  Each task sends the driver a message that names its
files.  Only the files in the messages of tasks that Spark accepted are published; files of other attempts are never
read.  A file is an Arrow IPC stream.  It is written under a name that ends in `.partial`, and renamed when it is
complete.  The message contains the checksum of the file (xxh3_128).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyarrow import fs as arrow_fs
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import WriterCommitMessage

from offsetlog.errors import ConfigError, InvalidArgumentError, OffsetLogError, StorageError
from offsetlog.spark.machine import refusal, this_machine
from offsetlog.spark.scan.hadoop_settings import HadoopSettings
from offsetlog.spark.scan.uri_files import file_system_of, storage_text

#: Groups with this prefix hold the sink's record of its queries; only the sink writes to them.
RESERVED_PREFIX = "__offsetlog_spark"
#: The form of a query's name, which becomes the name of a directory and of a topic.
QUERY_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")

#: How many rows a staged batch has; the driver holds one batch at a time.
ROWS_MAX = 65_536

#: The columns of a staged file.  A null in an optional column is staged as -1 or "".
SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", pa.int64()),
    ]
)
#: The columns of a file of refused rows.  If a key is not valid text, it is included as far as it can be shown.
REFUSED_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("has_group", pa.bool_()),
    ]
)

REQUIRED = ("group", "topic", "partition", "offset")
OPTIONAL = ("leader_epoch", "metadata", "commit_timestamp")

# Properties that Spark sets for every task of a stream: the id of the query in its checkpoint, the epoch, and the run.
_OF_SPARK = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")

_STRING_SIZE_MAX = 32_767
_INT32_MAX = 2**31 - 1
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that one task wrote: its path on the staging file system, number of rows, size, and xxh3_128."""

    path: str
    rows: int
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that was refused, and the reason."""

    group: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    reason: str

    def key(self) -> str:
        """Returns the key of the row as text for a message."""
        return f"group {self.group!r}, topic {self.topic!r}, partition {self.partition}"


@dataclass(slots=True)
class StagedMessage(WriterCommitMessage):
    """The message that a task sends to the driver.

    Attributes:
        task: the number of the DataFrame's partition.
        query: Spark's id of the stream, which its checkpoint contains; None for a batch write.
        folder: the directory of this run of the epoch; None if the task staged nothing.
        rows: the file of the valid rows; None if there are none.
        refused: the file of the refused rows; None if there are none.
        first_refused: the first refused row of the task; None if there is none.
    """

    task: int
    query: str | None
    folder: str | None
    rows: StagedFile | None
    refused: StagedFile | None
    first_refused: RefusedRow | None


@dataclass(frozen=True, slots=True)
class StagingPlace:
    """The place where the tasks of a write stage their rows.

    Attributes:
        location: the staging directory, or its URI, if pyarrow has a file system for it.
        query: the name that was given to the query, or the name of the job; None means Spark's id of the stream.
        epoch: the epoch of a batch write; None means the number of the stream's batch, which a task gets from Spark.
        run: the run of a batch write; None means Spark's id of the stream's run.  It separates the files of a run whose
            driver died from those of the next run.
        machine: the driver's machine (`this_machine`), if only tasks on this machine may stage; None if all tasks may.
        hadoop: Hadoop's settings for the file system of the location; they are not shown.
    """

    location: str
    query: str | None
    epoch: int | None
    run: str | None
    machine: str | None = None
    hadoop: HadoopSettings = field(default_factory=HadoopSettings, repr=False)


# ------------------------------------------------------------------------------------------------------------- staging


class _HashedFile:
    """A file that is being written, with the checksum of its content so far."""

    def __init__(self, file_system: arrow_fs.FileSystem, path: str, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._file_system = file_system
        self._hash = xxhash.xxh3_128()
        self._size = 0
        self._stream = file_system.open_output_stream(f"{path}.partial")
        self._closed = False
        self._writer = pa.ipc.new_stream(pa.PythonFile(self, mode="w"), schema)

    # The methods that pyarrow calls on a Python file.

    @property
    def closed(self) -> bool:
        return self._closed

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._hash.update(view)
        self._size += view.nbytes
        self._stream.write(view)
        return int(view.nbytes)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._closed = True

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> StagedFile:
        """Completes the file, and renames it to its final name."""
        self._writer.close()
        self._stream.close()
        self._file_system.move(f"{self.path}.partial", self.path)
        return StagedFile(self.path, self.rows, self._size, self._hash.hexdigest())

    def abandon(self) -> None:
        """Deletes the incomplete file."""
        try:
            self._stream.close()
            self._file_system.delete_file(f"{self.path}.partial")
        except OSError:  # a later commit of the query deletes the directory
            return


def stage(
    place: StagingPlace, rows: Iterable[pa.RecordBatch] | Iterable[Row], metadata_units_max: int
) -> StagedMessage:
    """Checks the rows of one task, and stages them.

    Args:
        place: where to stage the rows.
        rows: record batches, or rows if this version of Spark does not pass record batches.
        metadata_units_max: the largest length of the metadata, in UTF-16 units.

    Returns:
        The message for the driver.

    Raises:
        ConfigError: Spark does not report the query or the epoch to the task; or the task runs on another machine than
            the driver, and the staging directory is the default one.
        InvalidArgumentError: the values of a column cannot be read as the type that they must have.
        StorageError: the staged file cannot be written.
    """
    if place.machine is not None and place.machine != this_machine():
        raise ConfigError(refusal(place.location))
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    attempt = context.taskAttemptId() if context is not None else 0
    spark_query, of_run = _identity(place, context)
    file_system, root = file_system_of(place.location, place.hadoop)
    folder = f"{root}/{of_run}"
    name = f"{folder}/{task:05d}-{attempt}-{uuid.uuid4().hex}"
    sound: _HashedFile | None = None
    refused: _HashedFile | None = None
    first: RefusedRow | None = None
    try:
        for batch in _batches(rows):
            good, bad = check(batch, metadata_units_max)
            if good.num_rows:
                if sound is None:
                    sound = _new_file(file_system, folder, f"{name}.arrow", SCHEMA)
                sound.add(good)
            if bad.num_rows:
                if refused is None:
                    refused = _new_file(file_system, folder, f"{name}.refused.arrow", REFUSED_SCHEMA)
                    first = refused_row(bad, 0)
                refused.add(bad)
        staged = sound.finish() if sound is not None else None
        staged_refused = refused.finish() if refused is not None else None
    except BaseException as failure:
        for file in (sound, refused):
            if file is not None:
                file.abandon()
        if isinstance(failure, OSError) and not isinstance(failure, OffsetLogError):
            text = storage_text(failure, place.location, "written")
            raise StorageError(text, errno=failure.errno, path=name) from None
        raise
    used = folder if staged is not None or staged_refused is not None else None
    return StagedMessage(task, spark_query, used, staged, staged_refused, first)


def _identity(place: StagingPlace, context: TaskContext | None) -> tuple[str | None, str]:
    # Returns Spark's id of the stream, and the directory of the run.  Spark's interface for writers passes neither the
    # query nor the epoch to a task.  The query, the epoch and the run are therefore taken from properties that Spark
    # sets for its own use.
    if place.epoch is not None and place.query is not None:
        return None, f"{place.query}/{place.epoch}/{place.run or 'run'}"
    known = {name: context.getLocalProperty(name) for name in _OF_SPARK} if context is not None else {}
    spark_query, number, run = (known.get(name) for name in _OF_SPARK)
    query = place.query if place.query is not None else spark_query
    if query is None:
        raise ConfigError("Spark does not report the query of this task; give the option queryId")
    if number is None:
        raise ConfigError("Spark does not report the epoch of this task; the write of a stream needs the epoch")
    if run is None or not QUERY_ID.fullmatch(run):
        run = "run"
    return spark_query, f"{query}/{int(number)}/{run}"


def _new_file(file_system: arrow_fs.FileSystem, folder: str, path: str, schema: pa.Schema) -> _HashedFile:
    file_system.create_dir(folder, recursive=True)
    return _HashedFile(file_system, path, schema)


def _batches(rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    waiting: list[dict[str, Any]] = []
    for row in rows:
        if isinstance(row, pa.RecordBatch):
            for start in range(0, row.num_rows, ROWS_MAX):
                yield row.slice(start, ROWS_MAX)
            continue
        waiting.append(row.asDict())
        if len(waiting) == ROWS_MAX // 8:
            yield pa.RecordBatch.from_pylist(waiting)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting)


# ------------------------------------------------------------------------------------------------------------ checking


def check(batch: pa.RecordBatch, metadata_units_max: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Returns the valid rows (SCHEMA) and the refused rows (REFUSED_SCHEMA), both in the order of the batch.

    Raises InvalidArgumentError if a column cannot be read as the type that it must have.
    """
    group, group_bad = _text(batch, "group")
    topic, topic_bad = _text(batch, "topic")
    metadata, metadata_bad = _text(batch, "metadata")
    partition = _integers(batch, "partition", None)
    offset = _integers(batch, "offset", None)
    leader_epoch = _integers(batch, "leader_epoch", -1)
    commit_timestamp = _integers(batch, "commit_timestamp", -1)
    metadata = pc.fill_null(metadata, "")
    flaws = [
        (pc.is_null(group), "the group is null"),
        (group_bad, "the group is not UTF-8"),
        (pc.greater(pc.binary_length(group), _STRING_SIZE_MAX), "the group has more than 32767 bytes of UTF-8"),
        (pc.starts_with(group, RESERVED_PREFIX), f"groups that begin with {RESERVED_PREFIX} are reserved for the sink"),
    ]
    lost = _any_of(flaws)  # rows without a valid group
    flaws += [
        (pc.is_null(topic), "the topic is null"),
        (topic_bad, "the topic is not UTF-8"),
        (pc.equal(pc.binary_length(topic), 0), "the topic must not be empty"),
        (pc.greater(pc.binary_length(topic), _STRING_SIZE_MAX), "the topic has more than 32767 bytes of UTF-8"),
        (pc.is_null(partition), "the partition is null"),
        (pc.less(partition, 0), "the partition is negative"),
        (pc.greater(partition, _INT32_MAX), "the partition is above 2147483647"),
        (pc.is_null(offset), "the offset is null"),
        (pc.less(offset, 0), "the offset is negative"),
        (pc.less(leader_epoch, -1), "the leader epoch is below -1"),
        (pc.greater(leader_epoch, _INT32_MAX), "the leader epoch is above 2147483647"),
        (pc.less(commit_timestamp, -1), "the commit timestamp is below -1"),
        (metadata_bad, "the metadata is not UTF-8"),
        (pc.greater(pc.binary_length(metadata), _STRING_SIZE_MAX), "the metadata has more than 32767 bytes of UTF-8"),
        (_too_long(metadata, metadata_units_max), f"the metadata has more than {metadata_units_max} UTF-16 units"),
    ]
    columns = [group, topic, partition, offset, leader_epoch, metadata, commit_timestamp]
    reason = _first_reason(flaws, batch.num_rows)
    if reason is None:
        return _sound(columns), _no_refused()
    refused = pa.RecordBatch.from_arrays(
        [group, topic, partition, offset, reason, pc.invert(lost)], schema=REFUSED_SCHEMA
    ).filter(pc.is_valid(reason))
    is_sound = pc.is_null(reason)
    return _sound([column.filter(is_sound) for column in columns]), refused


def refused_row(batch: pa.RecordBatch, row: int) -> RefusedRow:
    """Returns one refused row from a batch of REFUSED_SCHEMA."""
    group, topic, partition, offset, reason = (batch.column(number)[row].as_py() for number in range(5))
    return RefusedRow(group, topic, partition, offset, reason)


def _sound(columns: list[pa.Array]) -> pa.RecordBatch:
    cast = [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=SCHEMA)


def _no_refused() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in REFUSED_SCHEMA], schema=REFUSED_SCHEMA)


def _any_of(flaws: list[tuple[pa.Array, str]]) -> pa.Array:
    found = pc.fill_null(flaws[0][0], False)
    for mask, _ in flaws[1:]:
        found = pc.or_(found, pc.fill_null(mask, False))
    return found


def _first_reason(flaws: list[tuple[pa.Array, str]], rows: int) -> pa.Array | None:
    # Returns None if every row is valid, which is usual.
    reason: pa.Array | None = None
    for mask, text in flaws:
        if not pc.any(mask, min_count=0).as_py():
            continue
        if reason is None:
            reason = pa.nulls(rows, pa.string())
        is_first = pc.and_(pc.fill_null(mask, False), pc.is_null(reason))
        reason = pc.if_else(is_first, text, reason)
    return reason


def _integers(batch: pa.RecordBatch, name: str, default: int | None) -> pa.Array:
    # Returns int64; a default replaces nulls, and timestamps become milliseconds.
    if name not in batch.schema.names:
        return pa.repeat(pa.scalar(default, pa.int64()), batch.num_rows)
    column = batch.column(name)
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False)
        column = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as failure:
        raise InvalidArgumentError(f"column {name!r} cannot be read as integers: {failure}") from failure
    return column if default is None else pc.fill_null(column, default)


def _text(batch: pa.RecordBatch, name: str) -> tuple[pa.Array, pa.Array]:
    # Returns the column as strings, and which of them are not UTF-8.  Spark does not check this, and Arrow checks it
    # only on request.
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string()), pa.repeat(False, batch.num_rows)
    column = batch.column(name)
    if column.type not in (pa.string(), pa.large_string()):
        raise InvalidArgumentError(f"column {name!r} must be a string, not {column.type}")
    try:
        column.validate(full=True)
        return column.cast(pa.string()), pa.repeat(False, batch.num_rows)
    except pa.ArrowInvalid:
        raw = [value.as_py() for value in column.view(pa.binary() if column.type == pa.string() else pa.large_binary())]
    texts = [None if value is None else value.decode("utf-8", "replace") for value in raw]
    bad = [text is not None and text.encode() != value for value, text in zip(raw, texts, strict=True)]
    return pa.array(texts, pa.string()), pa.array(bad, pa.bool_())


def _too_long(metadata: pa.Array, units_max: int) -> pa.Array:
    # There are never more UTF-16 units than bytes, so only few texts need to be counted.
    suspects = pc.greater(pc.binary_length(metadata), units_max)
    if not pc.any(suspects, min_count=0).as_py():
        return suspects
    units = [len(text.encode("utf-16-le")) // 2 for text in metadata.to_pylist()]
    return pa.array([count > units_max for count in units], pa.bool_())


# ------------------------------------------------------------------------------------------------------ reading it back


def checksum_of(file_system: arrow_fs.FileSystem, path: str) -> tuple[int, str]:
    """Returns the size and xxh3_128 of a staged file."""
    hashed = xxhash.xxh3_128()
    size = 0
    with file_system.open_input_stream(path) as stream:
        while (data := stream.read_buffer(_COPY_BYTES)).size:
            hashed.update(data)
            size += data.size
    return size, hashed.hexdigest()


def read_staged(file_system: arrow_fs.FileSystem, staged: StagedFile) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a staged file, one at a time."""
    with file_system.open_input_stream(staged.path) as stream, pa.ipc.open_stream(stream) as reader:
        yield from reader
