"""The part of a repartition that runs on executors: it writes records, in order, as whole partition directories.

Each task writes the partitions of its rows to a directory of its own, and replays them.  The partitions are moved to
the directory of the job only when the whole job commits.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem, format_uuid
from offsetlog._native.partition import Partition
from offsetlog._native.replay import Replay
from offsetlog._native.rewriting import RowEncoder
from offsetlog.config import StoreConfig
from offsetlog.directory.listing import PARTITION_METADATA
from offsetlog.errors import CorruptionError, InvalidArgumentError

FORMAT = "offsetlog-partitions"
TOPIC = "__consumer_offsets"
#: The report of the tasks, beside the partitions.
REPORT = "partitions.json"

#: The relation of a row's batch to transactions: the batch is outside of transactions, in a transaction that has ended,
#: in an open transaction, or a marker.
PLAIN, ENDED, OPEN, MARKER = range(4)

#: The columns of the rows, which are sorted by target and by the order within it; the rows of a batch are adjacent.
SCHEMA = pa.schema(
    [
        ("target", pa.int32()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("base_offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("own", pa.int32()),
        ("standing", pa.int32()),
        ("log_append_time", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("delete_horizon", pa.int64()),
    ]
)
#: The same columns with Spark's types.
SPARK_SCHEMA = ", ".join(
    f"{each.name} {({'int32': 'int', 'int64': 'bigint', 'binary': 'binary'})[str(each.type)]}" for each in SCHEMA
)

#: The ids of offsetlog's own transactions begin here (csrc/state/own_transactions.h).
_OWN_PRODUCER_ID_MIN = 1 << 62
#: New ids begin here: far above the ids of brokers, and below offsetlog's own.
_RENAMED_ID_MIN = 1 << 61


@dataclass(slots=True)
class Settings:
    """The settings of the tasks.

    Attributes:
        folder: the directory in which the partitions are built, on a file system that driver and executors share.
        segment_bytes: the largest size of a segment, in bytes.
        topic_id: the topic id of the new partitions, as hexadecimal text; "" if they have none.
        floors: for each old partition, the log offset below which it was cleaned; 0 if it was never cleaned.
        held_open: for each producer id, the old partitions in which the producer has an open transaction.
        cleaned: whether the rows are only the present state, without the history, as after a complete clean.
    """

    folder: str
    segment_bytes: int
    topic_id: str = ""
    floors: dict[int, int] = field(default_factory=dict)
    held_open: dict[int, list[int]] = field(default_factory=dict)
    cleaned: bool = False

    def to_json(self) -> str:
        """Returns the settings as the text of an option of the writer."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The inverse of `to_json`."""
        found = json.loads(text)
        for name in ("floors", "held_open"):
            found[name] = {int(number): value for number, value in found[name].items()}
        return cls(**found)

    @property
    def leaves_gap(self) -> bool:
        """Whether the new log must begin with a gap, which shows its readers that records were cleaned away."""
        return self.cleaned or any(self.floors.values())


class ProducerIds:
    """Chooses producer ids, so that transactions from different old partitions do not overlap in a new partition.

    A producer has only one transaction at a time in a partition.  If partitions are merged, two transactions of a
    producer could overlap in the new partition, and one marker would end both.  Therefore the second one is written
    with another producer id until it ends.  An open transaction keeps its producer id, since its marker will only be
    written later.  Transactions of the same producer from other old partitions then get another producer id.
    """

    def __init__(self, held_open: Mapping[int, list[int]]) -> None:
        self.renamed = 0
        self._held_open = held_open
        self._holder: dict[int, tuple[int, int]] = {}
        self._ids: dict[tuple[int, int], int] = {}
        self._next = 0

    def take(self, source: int, producer_id: int, standing: int) -> int:
        """Returns the producer id with which a batch of a transaction is written."""
        known = self._ids.get((source, producer_id))
        if known is not None:
            return known
        chosen = producer_id
        elsewhere = any(other != source for other in self._held_open.get(producer_id, ()))
        if standing != OPEN and (elsewhere or producer_id in self._holder):
            chosen = self._fresh(producer_id)
            self.renamed += 1
        self._ids[source, producer_id] = chosen
        self._holder.setdefault(chosen, (source, producer_id))
        return chosen

    def end(self, source: int, producer_id: int) -> int | None:
        """Returns the producer id for a marker; None if the new partition has no record of the marker's transaction."""
        chosen = self._ids.pop((source, producer_id), None)
        if chosen is not None and self._holder.get(chosen) == (source, producer_id):
            del self._holder[chosen]
        return chosen

    def _fresh(self, producer_id: int) -> int:
        base = _RENAMED_ID_MIN + (_OWN_PRODUCER_ID_MIN if producer_id >= _OWN_PRODUCER_ID_MIN else 0)
        while base + self._next in self._holder or base + self._next in self._held_open:
            self._next += 1
        self._next += 1
        return base + self._next - 1


class PartitionWriter:
    """Writes the log of one new partition.  Use it from one thread only, and call `finish` to complete the log.

    Args:
        folder: the directory of the partition, which is created; it must not exist.
        settings: the settings of the job.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        # Readers recognize a cleaned log by log offsets without a record.
        self._next_offset = 1 if settings.leaves_gap else 0
        self._floor = self._next_offset
        self._epoch = -1
        self._ids = ProducerIds(settings.held_open)
        self._file: Any = None
        self._size = 0
        self._paths: list[Path] = []
        self._records = self._batches = self._markers = self._markers_left_out = 0
        folder.mkdir(parents=True)

    def append(self, encoder: RowEncoder, start: int, count: int, facts: Mapping[str, int]) -> None:
        """Writes rows as one batch.  `facts` maps the name of a column to its value in the first row of the batch."""
        source, standing, producer_id = facts["log_partition"], facts["standing"], facts["producer_id"]
        if standing == MARKER:
            chosen = self._ids.end(source, producer_id)
            if chosen is None:
                self._markers_left_out += 1
                return
            producer_id = chosen
            self._markers += 1
        elif standing != PLAIN and producer_id >= 0:
            producer_id = self._ids.take(source, producer_id, standing)
        self._epoch = max(self._epoch, facts["leader_epoch"])
        batch = encoder.batch(
            start,
            count,
            self._next_offset,
            leader_epoch=self._epoch,
            producer_id=producer_id,
            producer_epoch=facts["producer_epoch"],
            base_sequence=facts["base_sequence"],
            transactional=standing != PLAIN,
            control=standing == MARKER,
            log_append_time=bool(facts["log_append_time"]),
            delete_horizon=facts["delete_horizon"],
        )
        self._write(batch)
        self._next_offset += count
        self._batches += 1
        self._records += count
        if facts["log_offset"] < self._settings.floors.get(source, 0):
            self._floor = self._next_offset

    def _write(self, batch: bytes) -> None:
        if self._file is None or self._size + len(batch) > self._settings.segment_bytes > 0 < self._size:
            self._close_file()
            # The first segment is named 0 even if the log begins with a gap, as a cleaner leaves it.
            path = self._folder / f"{self._next_offset if self._paths else 0:020d}.log"
            self._file = open(path, "xb", buffering=1 << 20)  # noqa: SIM115  (closed by the next, or by finish)
            self._paths.append(path)
            self._size = 0
        self._file.write(batch)
        self._size += len(batch)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def abandon(self) -> None:
        """Closes the open file, and leaves the directory as it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def finish(self, number: int) -> dict[str, Any]:
        """Ends the log, replays it, lets the engine write its index files, and returns a summary of the partition.

        Raises:
            CorruptionError: the written files cannot be read.
            StorageError: a file cannot be written or read.
            CapacityError: the state does not fit in memory.
        """
        self._close_file()
        if not self._paths:
            (self._folder / f"{0:020d}.log").touch()
        if self._settings.topic_id:
            text = format_uuid(bytes.fromhex(self._settings.topic_id))
            FileSystem().replace_file(self._folder / PARTITION_METADATA, f"version: 0\ntopic_id: {text}".encode())
        replay = Replay()
        for path in self._paths:
            step = replay.apply(path)
            if step["damage"] is not None:
                raise step["damage"]
        positions, group_records, pending = replay.digest()
        if self._settings.cleaned:
            self._floor = self._next_offset
        end = close_partition(self._folder, number, self._settings.segment_bytes)
        return {
            "number": number,
            "end": end,
            "floor": self._floor,
            "positions": f"{positions:032x}",
            "group_records": f"{group_records:032x}",
            "pending": f"{pending:032x}",
            "records": self._records,
            "batches": self._batches,
            "markers": self._markers,
            "markers_left_out": self._markers_left_out,
            "renamed": self._ids.renamed,
            "epoch": self._epoch,
        }


def close_partition(folder: Path, number: int, segment_bytes: int, *, topic_id: bytes | None = None) -> int:
    """Opens a partition as after a crash, so that the engine checks every batch and writes the index files; closes it.

    Args:
        folder: the directory of the partition.  If it does not exist, it is created if `topic_id` is given.
        number: the number of the partition.
        segment_bytes: the segment size with which the log was written, in bytes.
        topic_id: the topic id of a new partition; None for an existing one.

    Returns:
        The end of the log.  All records below it are on disk.
    """
    config = StoreConfig(segment_bytes=segment_bytes)
    partition = Partition(
        folder,
        number,
        FileSystem(),
        Decompressor(config.decompressed_bytes_max),
        config,
        writable=True,
        create=topic_id is not None,
        topic_id=topic_id,
    )
    try:
        partition.load()
        partition.close()
    except BaseException:
        partition.abandon()
        raise
    return partition.closed_at


# ------------------------------------------------------------------------------------------------------------- the task


class RowsWriter:
    """Divides rows into batches, and passes each batch to the writer of its partition.  Keeps an unfinished batch."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.finished: list[dict[str, Any]] = []
        self._settings = settings
        self._writer: PartitionWriter | None = None
        self._target = -1
        self._carried: pa.RecordBatch | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows to the kept ones, and writes all batches except the last, whose rows are kept."""
        if rows.num_rows == 0:
            return
        rows = pa.RecordBatch.from_arrays([rows.column(each.name) for each in SCHEMA], schema=SCHEMA)
        if self._carried is not None:
            rows = _joined(self._carried, rows)
        starts = _batch_starts(rows)
        self._write_runs(rows, starts)
        self._carried = rows.slice(int(starts[-1]))

    def _write_runs(self, rows: pa.RecordBatch, starts: np.ndarray[Any, Any]) -> None:
        # Writes all runs except the last one, which the next rows may continue.
        if len(starts) < 2:
            return
        encoder = RowEncoder(
            rows.column("key"),
            rows.column("value"),
            np.ascontiguousarray(rows.column("timestamp").to_numpy(zero_copy_only=False)),
            np.ascontiguousarray(rows.column("own").to_numpy(zero_copy_only=False).astype(np.uint8)),
        )
        names = [each.name for each in SCHEMA if each.name not in {"key", "value", "timestamp", "own", "base_offset"}]
        firsts = {name: rows.column(name).to_numpy(zero_copy_only=False)[starts[:-1]].tolist() for name in names}
        bounds = starts.tolist()
        for index, values in enumerate(zip(*firsts.values(), strict=True)):
            facts = dict(zip(names, values, strict=True))
            start = bounds[index]
            self._writer_of(facts["target"]).append(encoder, start, bounds[index + 1] - start, facts)

    def _writer_of(self, target: int) -> PartitionWriter:
        if self._writer is None or target != self._target:
            self._finish_partition()
            self._writer = PartitionWriter(self.folder / f"{TOPIC}-{target}", self._settings)
            self._target = target
        return self._writer

    def _finish_partition(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                self.finished.append(writer.finish(self._target))
            finally:
                writer.abandon()

    def finish(self) -> list[dict[str, Any]]:
        """Writes the kept rows, and returns the summary of each partition."""
        if self._carried is not None:
            rows, self._carried = self._carried, None
            self._write_runs(rows, np.array([0, rows.num_rows]))
        self._finish_partition()
        return self.finished

    def abandon(self) -> None:
        """Closes the open files after a failure."""
        if self._writer is not None:
            self._writer.abandon()


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    table = pa.Table.from_batches([first, second]).combine_chunks()
    batches = table.to_batches()
    if len(batches) != 1:
        raise InvalidArgumentError(f"a batch of {table.nbytes} bytes is too large for one column")
    return batches[0]


def _batch_starts(rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
    changed = np.zeros(rows.num_rows, dtype=bool)
    changed[0] = True
    for name in ("target", "log_partition", "base_offset"):
        column = rows.column(name).to_numpy(zero_copy_only=False)
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


# --------------------------------------------------------------------------------------------------------- for PySpark


@dataclass
class _Written(WriterCommitMessage):
    folder: str
    partitions: list[dict[str, Any]]


class _Writer(DataSourceArrowWriter):
    def __init__(self, settings: str) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        settings = Settings.from_json(self._settings)
        # Each attempt of a task has its own directory, even if two run at once.
        folder = Path(settings.folder) / f"attempt-{uuid.uuid4().hex}"
        # The directory is created without its parents, since an attempt that outlives its job must not create the
        # directory of the job again.
        folder.mkdir()
        writer = RowsWriter(folder, settings)
        try:
            for rows in iterator:
                writer.write(rows)
            return _Written(str(folder), writer.finish())
        except BaseException:
            writer.abandon()
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        settings = Settings.from_json(self._settings)
        folder = Path(settings.folder)
        report: list[dict[str, Any]] = []
        for message in messages:
            if not isinstance(message, _Written):
                continue
            for each in message.partitions:
                name = f"{TOPIC}-{each['number']}"
                if (folder / name).exists():
                    raise CorruptionError("two tasks wrote the same partition", path=folder / name)
                (Path(message.folder) / name).rename(folder / name)
                report.append(each)
        for left in folder.glob("attempt-*"):
            shutil.rmtree(left, ignore_errors=True)
        (folder / REPORT).write_text(json.dumps(report))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        for left in Path(Settings.from_json(self._settings).folder).glob("attempt-*"):
            shutil.rmtree(left, ignore_errors=True)


class PartitionFiles(DataSource):
    """Writes rows of `SCHEMA` as partition directories.  The option `settings` contains the `Settings` of the job."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns of the rows."""
        return SPARK_SCHEMA

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Returns the writer that runs in the tasks."""
        return _Writer(self.options["settings"])
