"""Spark's checkpoint directories: up to where a streaming query has read, taken over as positions of a group.

A query writes `offsets/<batch>` before it runs a batch, with the end offset of each source, and `commits/<batch>` after
it.  So the newest file in `commits` tells which batch is done, and a newer one in `offsets` a batch that was planned
and will be run again by a restart.

    offsets/7   v1                              offsets/7   v2
                {"batchWatermarkMs":0,...}                  {"batchWatermarkMs":0,...}
                {"orders":{"0":123}}                        incoming:{"orders":{"0":123}}
                -

Version 1 tells the sources by their order, in which they stand in the query; version 2, which Spark 4.2 writes where
`spark.sql.streaming.offsetLog.formatVersion` says so, by the names that they may have there, else by number.  A source
without an offset yet is a `-` in version 1, and left out in version 2.

Directories may come from anywhere: files are bounded before they are read, and what is wrong is an error that names
the file.  Nothing is changed in them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow
from pyarrow import fs as arrow_fs

from offsetlog.errors import (
    CorruptionError,
    InvalidArgumentError,
    LimitError,
    MissingFileError,
    StateError,
    StorageError,
    TornTailError,
    UnsupportedVersionError,
)
from offsetlog.spark.location import Location
from offsetlog.spark.positions import (
    SourceOffset,
    merged,
    parse_json,
    position_metadata,
    read_source_offset,
    shortened,
    source_topic,
)
from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.targets import Committed, TargetLike, opened_target
from offsetlog.types import OffsetAndMetadata, TopicPartition

LOGGER = logging.getLogger("offsetlog.spark")

#: The largest file of a checkpoint that is read.
FILE_BYTES_MAX = 64 << 20
#: The most sources of one query.
SOURCES_MAX = 10_000
#: The most files in `offsets` or `commits`; Spark keeps about 100.
FILES_MAX = 1_000_000
_BATCH = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[^:{}\s\"]{1,200}")


class CheckpointSource(NamedTuple):
    """Where one source of a query was at the end of a batch.

    Attributes:
        name: "0", "1" and so on in the order of the query, or the source's own name where it has one (version 2).
        offset: the text that Spark wrote, None where the source had no offset yet.
        read: its contents, with the topic `source-<name>` for a source without topics.
    """

    name: str
    offset: str | None
    read: SourceOffset


class CheckpointBatch(NamedTuple):
    """One file of `offsets`.

    Attributes:
        batch: the number of the batch.
        version: of the file: 1 or 2.
        timestamp: when the batch was planned, in milliseconds since 1970; -1 if the file does not say.
        watermark: of the query, in milliseconds since 1970; -1 if the file does not say.
        sources: in the order of the file.
        path: of the file.
    """

    batch: int
    version: int
    timestamp: int
    watermark: int
    sources: tuple[CheckpointSource, ...]
    path: str


class Checkpoint(NamedTuple):
    """The state of a query, as its checkpoint directory records it.

    Attributes:
        path: of the directory.
        query_id: the id that the query keeps over restarts, None where the file `metadata` is missing.
        committed: the newest batch that is done, None for none.
        planned: a newer batch, that was begun and is run again by a restart; None for none.
    """

    path: str
    query_id: str | None
    committed: CheckpointBatch | None
    planned: CheckpointBatch | None


class CheckpointImport(NamedTuple):
    """The result of `import_checkpoint`.

    Attributes:
        group: the consumer group.
        batch: the batch whose end offsets were committed.
        planned: the number of a batch that was begun and is not in it, None for none.
        committed: the positions.
        left_out: source -> why none of its positions were committed.
    """

    group: str
    batch: int
    planned: int | None
    committed: Committed
    left_out: dict[str, str]


def read_checkpoint(
    path: str | os.PathLike[str],
    *,
    filesystem: arrow_fs.FileSystem | None = None,
    topics: Mapping[str | int, str] | None = None,
) -> Checkpoint:
    """Reads how far the query of a checkpoint directory has come.

    A directory may be read while its query runs: the two files may belong to different moments.

    Args:
        path: the `checkpointLocation`: a local path, or a URI that pyarrow knows (`s3://`, `hdfs://`, `file:`).
        filesystem: where the path lies, for file systems that need settings; None finds it by the path.
        topics: source -> the topic under which a source without topics is reported, as `source_topic(description)`
            makes them for a listener.

    Raises:
        MissingFileError: there is no such directory, it is no checkpoint, or the offsets of the committed batch are
            missing.
        TornTailError: a file ends before it says everything.
        UnsupportedVersionError: a file is of a version other than 1 and 2.
        LimitError: a file, or what it names, is larger than it may be.
        CorruptionError: a file says something else than it should.
        StorageError: it cannot be read.

    It can be called from any thread.
    """
    directory = _Directory.of(path, filesystem)
    names = {str(source): topic for source, topic in (topics or {}).items()}
    offsets = directory.batches("offsets")
    if offsets is None:
        raise MissingFileError("no checkpoint of Spark: it has no directory offsets", path=directory.path)
    commits = directory.batches("commits") or []
    committed = planned = None
    if commits:
        last = max(commits)
        _check_commit(directory.read(f"commits/{last}"), directory.join(f"commits/{last}"))
        committed = _read_batch(directory, last, names)
    newest = max(offsets, default=-1)
    if newest > (committed.batch if committed else -1):
        planned = _read_batch(directory, newest, names)
    return Checkpoint(directory.path, _query_id(directory), committed, planned)


def import_checkpoint(
    target: TargetLike,
    group: str,
    path: str | os.PathLike[str],
    *,
    filesystem: arrow_fs.FileSystem | None = None,
    topics: Mapping[str | int, str] | None = None,
) -> CheckpointImport:
    """Commits where the query of a checkpoint directory is, at the end of its newest committed batch, under a group.

    Batches planned after that one are not committed: a restart of the query reads it again.  Where several sources
    read one partition, the smallest offset counts.  A Kafka cluster gets the sources with topics only.

    Args:
        target: an OffsetStore, a path, "host:port,..." or a dict of settings: see `offsetlog.spark.targets`.
        group: the consumer group.
        path: the `checkpointLocation`.
        filesystem: where the path lies, as for `read_checkpoint`.
        topics: source -> the topic under which a source without topics is committed.

    Raises:
        StateError: no batch was committed yet, or no source has a position that the target takes; nothing was
            committed.
        InvalidArgumentError: `topics` names a source that is not there, or one of its kinds.
        ActiveGroupError, ClusterUnavailableError, ClusterError: as Kafka answered; of several partitions, those that it
            took are committed.
        All that `read_checkpoint`, `offsetlog.open` and `OffsetStore.commit` raise.
    """
    checkpoint = read_checkpoint(path, filesystem=filesystem, topics=topics)
    batch = checkpoint.committed
    if batch is None:
        raise StateError("the query has committed no batch yet", path=checkpoint.path)
    unknown = {str(source) for source in topics or {}} - {source.name for source in batch.sources}
    if unknown:
        raise InvalidArgumentError(f"the checkpoint has no sources {sorted(unknown)}", path=batch.path)
    with opened_target(target) as opened:
        taken, left_out = _chosen(batch, opened.kafka_only)
        if not taken:
            raise StateError(f"no position for {opened}: {left_out}", path=batch.path)
        metadata = position_metadata(None, checkpoint.query_id, batch.batch)
        committed = {key: OffsetAndMetadata(offset, metadata) for key, offset in merged(taken).items()}
        for refused in opened.commit(group, committed).values():
            raise refused
    for source, why in left_out.items():
        LOGGER.warning("%s: source %s is not committed: %s", checkpoint.path, source, why)
    planned = None if checkpoint.planned is None else checkpoint.planned.batch
    return CheckpointImport(group, batch.batch, planned, committed, left_out)


def _chosen(batch: CheckpointBatch, kafka_only: bool) -> tuple[list[dict[TopicPartition, int]], dict[str, str]]:
    taken, left_out = [], {}
    for source in batch.sources:
        read = source.read
        if read.shape == "unknown":
            left_out[source.name] = f"its offset is no position in a log: {shortened(source.offset or '')}"
        elif not read.positions:
            left_out[source.name] = "it has read nothing yet"
        elif kafka_only and read.shape != "topics":
            left_out[source.name] = "it has no topics of Kafka's"
        else:
            taken.append(read.positions)
    return taken, left_out


# ------------------------------------------------------------------------------------------------------ the files


def _read_batch(directory: _Directory, batch: int, topics: Mapping[str, str]) -> CheckpointBatch:
    path = directory.join(f"offsets/{batch}")
    lines = _lines(directory.read(f"offsets/{batch}"), path)
    version = _version(lines[0], path)
    if version > 2:
        raise UnsupportedVersionError(f"offsets of version {version}, 1 and 2 are known", path=path)
    if len(lines) < (3 if version == 1 else 2):
        raise TornTailError("the offsets end before the first source", path=path)
    if len(lines) - 2 > SOURCES_MAX:
        raise LimitError(f"{len(lines) - 2} sources, at most {SOURCES_MAX} are read", path=path)
    metadata = _object(lines[1], path) if lines[1].strip() else {}
    sources = []
    for number, line in enumerate(lines[2:]):
        name, text = (str(number), line) if version == 1 else _named(line, path)
        try:
            read = read_source_offset(text, topics.get(name) or source_topic(f"source-{name}"))
        except CorruptionError as error:
            error.path, error.item = path, name
            raise
        sources.append(CheckpointSource(name, None if read.shape == "nothing" else text, read))
    if len({source.name for source in sources}) < len(sources):
        raise CorruptionError("two sources have one name", path=path)
    times = (_time(metadata, "batchTimestampMs"), _time(metadata, "batchWatermarkMs"))
    return CheckpointBatch(batch, version, *times, tuple(sources), path)


def _named(line: str, path: str) -> tuple[str, str]:
    name, colon, text = line.partition(":")
    if not colon or not _NAME.fullmatch(name):
        raise CorruptionError(f"no name and offset of a source: {shortened(line)!r}", path=path)
    return name, text


def _check_commit(content: bytes, path: str) -> None:
    """A commit counts where Spark would take it: it has a version and something after it."""
    lines = _lines(content, path)
    _version(lines[0], path)
    if len(lines) < 2:
        raise TornTailError("the commit ends after its version", path=path)


def _lines(content: bytes, path: str) -> list[str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptionError(f"not UTF-8: {error.reason}", path=path, position=error.start) from error
    lines = re.split(r"\r\n|\r|\n", text)
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise TornTailError("the file is empty", path=path)
    return lines


def _version(line: str, path: str) -> int:
    match = re.fullmatch(r"v([0-9]{1,9})", line.strip(), re.ASCII)
    if match is None or int(match[1]) < 1:
        raise CorruptionError(f"no version in the first line: {shortened(line)!r}", path=path, position=0)
    return int(match[1])


def _object(text: str, path: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except CorruptionError as error:
        error.path = path
        raise
    if not isinstance(value, dict):
        raise CorruptionError(f"a JSON object is wanted: {shortened(text)!r}", path=path)
    return value


def _time(metadata: dict[str, Any], name: str) -> int:
    value = metadata.get(name, -1)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _query_id(directory: _Directory) -> str | None:
    try:
        content = directory.read("metadata")
    except MissingFileError:
        return None
    path = directory.join("metadata")
    query_id = _object("\n".join(_lines(content, path)), path).get("id")
    if not isinstance(query_id, str) or not 0 < len(query_id) <= 200:
        raise CorruptionError("it has no id of a query", path=path)
    return query_id


class _Directory(NamedTuple):
    """A directory on a file system of pyarrow's."""

    filesystem: arrow_fs.FileSystem
    path: str

    @classmethod
    def of(cls, path: str | os.PathLike[str], filesystem: arrow_fs.FileSystem | None) -> _Directory:
        location = Location.of(path)
        if filesystem is not None:
            return cls(filesystem, location.text.rstrip("/") or "/")
        found, inside = file_system_of(location.text)
        return cls(found, inside or "/")

    def join(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}"

    def batches(self, name: str) -> list[int] | None:
        """Returns the numbers that name files in a directory of this one; None where it is not there."""
        path = self.join(name)
        try:
            if self.filesystem.get_file_info(path).type != arrow_fs.FileType.Directory:
                return None
            found = self.filesystem.get_file_info(arrow_fs.FileSelector(path))
        except (OSError, pyarrow.ArrowException) as error:
            raise StorageError(f"it cannot be listed: {error}", path=path) from error
        if len(found) > FILES_MAX:
            raise LimitError(f"{len(found)} files, at most {FILES_MAX} are read", path=path)
        # Other files of Spark and Hadoop here, as checksums and files being written, have other names.
        files = [info for info in found if info.type == arrow_fs.FileType.File]
        return [int(info.base_name) for info in files if _BATCH.fullmatch(info.base_name)]

    def read(self, name: str) -> bytes:
        """Returns what a file holds, if it is not too large."""
        path = self.join(name)
        try:
            with self.filesystem.open_input_stream(path, compression=None) as stream:
                # Read, and not asked for: the size is that of another moment, and not known everywhere.
                content: bytes = stream.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError as error:
            raise MissingFileError("there is no such file", path=path) from error
        except (OSError, pyarrow.ArrowException) as error:
            raise StorageError(f"it cannot be read: {error}", path=path) from error
        if len(content) > FILE_BYTES_MAX:
            raise LimitError(f"more than {FILE_BYTES_MAX} bytes", path=path)
        return content
