"""Reads from Spark's checkpoint directories how far streaming queries have read, and commits the offsets as positions.

Before a query runs a batch, it writes the file `offsets/<batch>` with the end offset of each source.  After the batch,
it writes `commits/<batch>`.  The newest file in `commits` therefore shows which batch is the last one that is done.  If
`offsets` has a newer file, that batch was planned, and a restart of the query runs it again.

    offsets/7   v1                              offsets/7   v2
                {"batchWatermarkMs":0,...}                  {"batchWatermarkMs":0,...}
                {"orders":{"0":123}}                        incoming:{"orders":{"0":123}}
                -

Version 1 identifies the sources by their order in the query.  Spark 4.2 writes version 2 if
`spark.sql.streaming.offsetLog.formatVersion` is 2.  Version 2 identifies a source by its name, or by its number if it
has no name.  If a source has no offset yet, its line is `-` in version 1, and it has no line in version 2.

A directory may come from anywhere.  Therefore at most 64 MiB of a file are read, and every error names the file.
Nothing is written.
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

#: The largest file of a checkpoint that is read, in bytes.
FILE_BYTES_MAX = 64 << 20
#: The most sources of one query.
SOURCES_MAX = 10_000
#: The most files in `offsets` or `commits`; Spark keeps about 100.
FILES_MAX = 1_000_000
_BATCH = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[^:{}\s\"]{1,200}")


class CheckpointSource(NamedTuple):
    """The offset of one source of a query at the end of a batch.

    Attributes:
        name: the source's own name if it has one (version 2); otherwise its number in the query, "0", "1" and so on.
        offset: the text that Spark wrote; None if the source had no offset yet.
        read: the parsed text; if the source has no topics, its topic is `source-<name>`.
    """

    name: str
    offset: str | None
    read: SourceOffset


class CheckpointBatch(NamedTuple):
    """One file of `offsets`.

    Attributes:
        batch: the number of the batch.
        version: the version of the file, 1 or 2.
        timestamp: when the batch was planned, in milliseconds since 1970; -1 if the file does not say.
        watermark: the watermark of the query, in milliseconds since 1970; -1 if the file does not say.
        sources: the sources, in the order of the file.
        path: the path of the file.
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
        path: the path of the directory.
        query_id: the id that the query keeps over restarts; None if the file `metadata` is missing.
        committed: the newest batch that is done, or None.
        planned: a newer batch that was begun; a restart of the query runs it again.  None if there is none.
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
        planned: the number of a later batch that was begun and whose offsets were not committed, or None.
        committed: the positions that were committed.
        left_out: the sources of which no position was committed, each with the reason.
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
    """Reads from a checkpoint directory how far its query has read.

    The directory may be read while its query runs.  The files of `offsets` and those of `commits` may then be read at
    different moments.

    Args:
        path: the `checkpointLocation`: a local path, or a URI that pyarrow knows (`s3://`, `hdfs://`, `file:`).
        filesystem: the file system of the path, if it needs settings; if None, it is derived from the path.
        topics: for sources without topics, the topic of each source; `source_topic(description)` returns the topic that
            a listener uses.

    Raises:
        MissingFileError: there is no such directory, it is not a checkpoint, or the offsets of the committed batch are
            missing.
        TornTailError: a file is empty or ends too early.
        UnsupportedVersionError: the version of a file in `offsets` is above 2.
        LimitError: a file has more than 64 MiB, a directory more than a million files, or a batch more than 10,000
            sources.
        CorruptionError: the content of a file is invalid.
        StorageError: a file or directory cannot be read.

    Can be called from any thread.
    """
    directory = _Directory.of(path, filesystem)
    names = {str(source): topic for source, topic in (topics or {}).items()}
    offsets = directory.batches("offsets")
    if offsets is None:
        raise MissingFileError("this is not a Spark checkpoint: it has no directory `offsets`", path=directory.path)
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
    """Commits the offsets at the end of the newest committed batch of a checkpoint directory, under a group.

    If a later batch is only planned, its offsets are not committed, because a restart of the query reads that batch
    again.  If several sources read one partition, the smallest of their offsets is committed.  If the target is a Kafka
    cluster, only the positions of sources with topics are committed.

    Args:
        target: an OffsetStore, a path, "host:port,..." or a dict of settings: see `offsetlog.spark.targets`.
        group: the consumer group.
        path: the `checkpointLocation`.
        filesystem: the file system of the path, as for `read_checkpoint`.
        topics: for sources without topics, the topic under which to commit each source.

    Raises:
        StateError: the query has committed no batch yet, or no source has a position that the target accepts.  Nothing
            was committed.
        InvalidArgumentError: `topics` names a source that does not exist.
        ActiveGroupError, ClusterUnavailableError, ClusterError: Kafka refused the commit, or did not answer.  The
            partitions that Kafka accepted are committed.
        Everything that `read_checkpoint`, `offsetlog.open` and `OffsetStore.commit` raise.
    """
    checkpoint = read_checkpoint(path, filesystem=filesystem, topics=topics)
    batch = checkpoint.committed
    if batch is None:
        raise StateError("the query has committed no batch yet", path=checkpoint.path)
    unknown = {str(source) for source in topics or {}} - {source.name for source in batch.sources}
    if unknown:
        raise InvalidArgumentError(
            f"`topics` names sources that the checkpoint does not have: {', '.join(sorted(unknown))}", path=batch.path
        )
    with opened_target(target) as opened:
        taken, left_out = _chosen(batch, opened.kafka_only)
        if not taken:
            reasons = "; ".join(f"source {source}: {why}" for source, why in left_out.items())
            raise StateError(f"no source has a position that can be committed to {opened}: {reasons}", path=batch.path)
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
            left_out[source.name] = f"its offset is not a position in a log: {shortened(source.offset or '')}"
        elif not read.positions:
            left_out[source.name] = "it has read nothing yet"
        elif kafka_only and read.shape != "topics":
            left_out[source.name] = "it has no Kafka topics"
        else:
            taken.append(read.positions)
    return taken, left_out


# ------------------------------------------------------------------------------------------------------ the files


def _read_batch(directory: _Directory, batch: int, topics: Mapping[str, str]) -> CheckpointBatch:
    path = directory.join(f"offsets/{batch}")
    lines = _lines(directory.read(f"offsets/{batch}"), path)
    version = _version(lines[0], path)
    if version > 2:
        raise UnsupportedVersionError(
            f"version {version} of the offset log is unknown; versions 1 and 2 can be read", path=path
        )
    if len(lines) < (3 if version == 1 else 2):
        raise TornTailError("the file ends before the line of the first source", path=path)
    if len(lines) - 2 > SOURCES_MAX:
        raise LimitError(f"the file lists {len(lines) - 2} sources; the limit is {SOURCES_MAX}", path=path)
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
        raise CorruptionError("two sources have the same name", path=path)
    times = (_time(metadata, "batchTimestampMs"), _time(metadata, "batchWatermarkMs"))
    return CheckpointBatch(batch, version, *times, tuple(sources), path)


def _named(line: str, path: str) -> tuple[str, str]:
    name, colon, text = line.partition(":")
    if not colon or not _NAME.fullmatch(name):
        raise CorruptionError(f"a line is not the name and offset of a source: {shortened(line)!r}", path=path)
    return name, text


def _check_commit(content: bytes, path: str) -> None:
    """Raises if Spark would refuse a file of `commits`: the file must contain a version, and a line after it."""
    lines = _lines(content, path)
    _version(lines[0], path)
    if len(lines) < 2:
        raise TornTailError("the file ends after its version; the rest of the commit is missing", path=path)


def _lines(content: bytes, path: str) -> list[str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptionError(f"the file is not UTF-8: {error.reason}", path=path, position=error.start) from error
    lines = re.split(r"\r\n|\r|\n", text)
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise TornTailError("the file is empty", path=path)
    return lines


def _version(line: str, path: str) -> int:
    match = re.fullmatch(r"v([0-9]{1,9})", line.strip(), re.ASCII)
    if match is None or int(match[1]) < 1:
        raise CorruptionError(f"the first line is not a version: {shortened(line)!r}", path=path, position=0)
    return int(match[1])


def _object(text: str, path: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except CorruptionError as error:
        error.path = path
        raise
    if not isinstance(value, dict):
        raise CorruptionError(f"the text must be a JSON object, not {shortened(text)!r}", path=path)
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
        raise CorruptionError("`id`, the id of the query, must be a text of 1 to 200 characters", path=path)
    return query_id


class _Directory(NamedTuple):
    """A directory on a file system of pyarrow."""

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
        """Returns the numbers of the batches that have a file in a subdirectory; None if it does not exist."""
        path = self.join(name)
        try:
            if self.filesystem.get_file_info(path).type != arrow_fs.FileType.Directory:
                return None
            found = self.filesystem.get_file_info(arrow_fs.FileSelector(path))
        except (OSError, pyarrow.ArrowException) as error:
            raise StorageError(f"the directory cannot be listed: {error}", path=path) from error
        if len(found) > FILES_MAX:
            raise LimitError(f"the directory holds {len(found)} files; the limit is {FILES_MAX}", path=path)
        # The files that Spark and Hadoop put beside them, such as checksums and incomplete files, have other names.
        files = [info for info in found if info.type == arrow_fs.FileType.File]
        return [int(info.base_name) for info in files if _BATCH.fullmatch(info.base_name)]

    def read(self, name: str) -> bytes:
        """Returns the content of a file; raises LimitError if it is too large."""
        path = self.join(name)
        try:
            with self.filesystem.open_input_stream(path, compression=None) as stream:
                # The size is found by reading, since the metadata of a file may be outdated, or may lack the size.
                content: bytes = stream.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError as error:
            raise MissingFileError("there is no such file", path=path) from error
        except (OSError, pyarrow.ArrowException) as error:
            raise StorageError(f"the file cannot be read: {error}", path=path) from error
        if len(content) > FILE_BYTES_MAX:
            raise LimitError(f"the file is larger than the limit of {FILE_BYTES_MAX} bytes", path=path)
        return content
