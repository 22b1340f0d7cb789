"""Reads a log directory, a partition directory or a single segment file that another program may own.

Nothing is opened for writing, locked, mapped or repaired.  Files that disappear or shrink during the read are not a
failure, because a running broker cleans its log.  Only complete batches are read; other bytes are reported and skipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from offsetlog._native.files import FileSystem, parse_directory_name
from offsetlog._native.records import SegmentReader
from offsetlog._native.replay import Replay
from offsetlog.directory.listing import TRANSACTIONS_TOPIC, Row
from offsetlog.directory.log_directory import TOPIC, LogDirectory
from offsetlog.directory.segments import TRIES, base_offset_of, segment_base, segments_of
from offsetlog.errors import CorruptionError, InvalidArgumentError, MissingFileError, StorageError

#: Called with the bytes read since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The segments of one partition, in order.

    Attributes:
        number: the partition's number, from the name of its directory; None for files outside a partition's directory.
        directory: the partition's directory, None for a single segment file.
        segments: the .log files; during a swap a `.log.swap` file can be one of them.
        topic: the partition's topic.
    """

    number: int | None
    directory: Path | None
    segments: tuple[Path, ...]
    topic: str = TOPIC

    @property
    def size_bytes(self) -> int:
        """The present number of bytes in all segments; deleted segments count as 0."""
        return sum(_size_of(segment) for segment in self.segments)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _partition_number(directory: Path) -> int | None:
    parsed = parse_directory_name(directory.name)
    return None if parsed is None else parsed[1]


def find_partitions(path: Path, topic: str = TOPIC) -> list[PartitionFiles]:
    """Returns the partitions at a path, by number.

    Args:
        path: a log directory, a partition directory or a segment file.
        topic: the topic to look for.

    Raises:
        MissingFileError: the path does not exist or holds no partition of the topic.
        InvalidArgumentError: the path is a partition of another topic.
        StorageError: the path cannot be read.
    """
    path = path.absolute()
    if path.is_file():
        return [PartitionFiles(_partition_number(path.parent), None, (path,), topic)]
    if not path.is_dir():
        raise MissingFileError("no such file or directory", path=path)
    parsed = parse_directory_name(path.name)
    segments = segments_of(path)
    if segments or (parsed is not None and parsed[0] == topic):
        if parsed is not None and parsed[0] != topic and parsed[2] == 0:
            raise InvalidArgumentError(
                f"this is a partition of topic {parsed[0]!r}, not of {topic}", path=path
            )
        return [PartitionFiles(_partition_number(path), path, segments, topic)]
    directory = LogDirectory(path, FileSystem())
    found = []
    for number in _numbers_of(directory, topic):
        folder = directory.partition_path(number).with_name(f"{topic}-{number}")
        if folder.is_dir():
            found.append(PartitionFiles(number, folder, segments_of(folder), topic))
    if not found and (topic != TOPIC or directory.known_properties() is None):
        raise MissingFileError(f"the directory holds no partition of {topic}", path=path)
    return found


def _numbers_of(directory: LogDirectory, topic: str) -> list[int]:
    if topic == TOPIC:
        return directory.partition_numbers()
    return directory.other_partitions().get(topic, [])


def whole_size(partitions: list[PartitionFiles]) -> int:
    """Returns the number of bytes in all segments."""
    return sum(each.size_bytes for each in partitions)


# ------------------------------------------------------------------------------------------ replay


@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes after the last complete batch of a partition, which a crash left or a writer is writing.

    Attributes:
        path: the last segment.
        position: the byte position at which the complete batches end.
        size: the number of bytes after that position.
        zeros: whether all of these bytes are zero, as in the space that offsetlog allocates ahead of use.
        damage: the fault of the first of these bytes.
        log_offset: the lowest log offset that the next batch could have.
    """

    path: Path
    position: int
    size: int
    zeros: bool
    damage: CorruptionError
    log_offset: int


@dataclass(slots=True)
class PartitionState:
    """The state that one partition's files hold.

    Attributes:
        files: the files.
        replay: the state after the records of the files were replayed.
        damages: the errors for unreadable bytes that complete batches or a later segment follow.
        refused: records that a broker would not load.
        tail: bytes after the last complete batch, None if there are none.
    """

    files: PartitionFiles
    replay: Replay
    damages: list[CorruptionError] = field(default_factory=list)
    refused: list[CorruptionError] = field(default_factory=list)
    tail: Tail | None = None

    @property
    def number(self) -> int | None:
        """The number of the partition, from the name of its directory."""
        return self.files.number

    @property
    def place(self) -> str:
        """The directory, or the single segment file."""
        return str(self.files.directory or self.files.segments[0])


def read_state(files: PartitionFiles, progress: Progress | None = None) -> PartitionState:
    """Replays a partition's files.

    Raises:
        StorageError: a file cannot be read, or files disappeared faster than they could be read.
        CorruptionError: the path is a single file, and it is not a log segment.
        CapacityError: memory ran out.
    """
    for left in reversed(range(TRIES)):
        try:
            return _read_state(files, progress)
        except MissingFileError:
            # A broker that cleans its log may remove segments at any time, but a new listing shows
            # the whole log again.
            if left == 0 or files.directory is None:
                raise
            files = PartitionFiles(files.number, files.directory, segments_of(files.directory))
    raise AssertionError("the loop returns or raises")


def _read_state(files: PartitionFiles, progress: Progress | None) -> PartitionState:
    state = PartitionState(files, Replay())
    for segment, following in itertools.zip_longest(files.segments, files.segments[1:]):
        _read_segment(state, segment, following)
        if progress is not None:
            progress(_size_of(segment))
    return state


def is_rolled_space(next_offset: int, following: Path | None) -> bool:
    """Returns whether zeros after the last batch of a segment are unused allocated space.

    A writer that begins the next segment releases this space a little later.

    Args:
        next_offset: the log offset after the last batch.
        following: the next segment, which must begin at that offset; None for none.
    """
    return following is not None and next_offset == base_offset_of(following)


def _read_segment(state: PartitionState, segment: Path, following: Path | None) -> None:
    replay = state.replay
    position: int | None = 0
    tried = followed = -1
    while position is not None:
        found = replay.apply(segment, position=position)
        state.refused += found["refused"]
        damage, stopped = found["damage"], found["position"]
        if damage is None:
            return
        if stopped == 0 and base_offset_of(segment) is None:
            raise CorruptionError(
                f"not a log segment: {damage.message}", path=segment, position=0
            )
        if stopped != tried:
            # A running writer may have written here since these bytes were read.
            position = tried = stopped
            continue
        position = replay.skip(segment, stopped)
        zeros = position is None and replay.used(segment, stopped) == stopped
        if not zeros and stopped != followed:
            # These bytes or later ones may have been written meanwhile; a writer writes positions
            # in ascending order.
            position = followed = stopped
        elif zeros and is_rolled_space(replay.next_offset, following):
            return
        elif position is None and following is None:
            state.tail = Tail(
                segment, stopped, found["size"] - stopped, zeros, damage, replay.next_offset
            )
        else:
            state.damages.append(damage)


def age_text(seconds: float) -> str:
    """Returns a duration in its two largest units."""
    whole = max(0, int(seconds))
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller_size} {smaller}"
    return f"{whole} s"


# --------------------------------------------------------------------------------------------- dump

_EMPTY: Row = {
    "log_offset": None,
    "timestamp": None,
    "headers": [],
    "kind": "empty",
    "key": None,
    "value": None,
}


def dump_rows(
    files: PartitionFiles, report: Callable[[CorruptionError | Tail], None]
) -> Iterator[Row]:
    """Yields the records that `dump_batches` yields, each with the fields of its batch."""
    for batch, records in dump_batches(files, report):
        for record in records:
            yield {**batch, **record}


def dump_batches(
    files: PartitionFiles, report: Callable[[CorruptionError | Tail], None]
) -> Iterator[tuple[Row, list[Row]]]:
    """Yields each batch as it is in its file, with its records; a batch without records has one row of kind "empty".

    Args:
        files: the partition.
        report: called with each range that cannot be read, in the order of the log.  The argument is a Tail if the
            range is the end of the last segment.

    Raises:
        MissingFileError: segments disappear faster than they can be read.
        CorruptionError: the path is a single file, and it is not a log segment.
    """
    segments, tries = list(files.segments), TRIES
    next_offset = yielded = 0
    while segments:
        segment = segments[0]
        try:
            reader = SegmentReader(segment, transactions=files.topic == TRANSACTIONS_TOPIC)
        except MissingFileError:
            # A cleaner removed the segment after the listing; its remaining records are in another file.
            tries -= 1
            if files.directory is None or tries == 0:
                raise
            # Everything below this segment was yielded, but a segment of a later listing may begin lower.
            yielded = max(yielded, segment_base(segment))
            segments = _segments_from(files.directory, yielded)
            continue
        del segments[0]
        tries = TRIES
        place = {"log_partition": files.number, "segment": segment.name}
        tried = followed = -1
        with reader:
            while True:
                try:
                    found = reader.read()
                except StorageError:
                    raise
                except CorruptionError as damage:
                    position = reader.position
                    if position == 0 and base_offset_of(segment) is None:
                        raise CorruptionError(
                            f"not a log segment: {damage.message}", path=segment
                        ) from None
                    if position != tried:
                        # See `_read_segment`.
                        tried = position
                        reader.read_again(position)
                        continue
                    if reader.skip():
                        if position == followed:
                            report(damage)
                        else:
                            followed = position
                            reader.read_again(position)
                        continue
                    zeros = Replay().used(segment, position) == position
                    if segments:
                        if not zeros or not is_rolled_space(next_offset, segments[0]):
                            report(damage)
                    else:
                        report(
                            Tail(
                                segment,
                                position,
                                reader.size - position,
                                zeros,
                                damage,
                                next_offset,
                            )
                        )
                    break
                if found is None:
                    break
                batch, records = found
                if batch["last_offset"] < yielded:
                    continue
                next_offset = batch["last_offset"] + 1
                yield {**place, **batch}, records or [_EMPTY]


def _segments_from(directory: Path, offset: int) -> list[Path]:
    segments = list(segments_of(directory))
    while len(segments) > 1 and segment_base(segments[1]) <= offset:
        del segments[0]
    return segments
