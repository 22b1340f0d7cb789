"""Files that executors can read, local or at a URI, and the segments of a log among them.

The engine itself reads local files.  Files at `s3://`, `hdfs://` and other URIs are read through pyarrow's file
systems.  Nothing is ever written.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NoReturn

import pyarrow.fs

from offsetlog._native.arrow_files import ArrowFileSystem
from offsetlog._native.files import FileSystem, parse_directory_name
from offsetlog._native.scan import skim
from offsetlog.directory.listing import PROPERTIES, TOPIC
from offsetlog.directory.segments import SEGMENT, TRIES, settled, swapped_too_fast
from offsetlog.errors import InvalidArgumentError, MissingFileError, StorageError
from offsetlog.spark.location import Location, shown
from offsetlog.spark.scan.options import OFFSET_MAX
from offsetlog.spark.scan.uri_files import NO_SETTINGS, open_uri, storage_text

#: The ending of a segment file that is replacing others and does not have its final name yet.
_SWAP = ".swap"
_NUMBERED = re.compile(r"\d{20}\.")
#: The number of attempts to read files that disappear while they are read; about a second in all.
ATTEMPTS = 12
#: How many ranges of log partition numbers an error names.
NUMBERS_TOLD = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory, as it was when it was listed.

    Attributes:
        path: the path on its file system.
        is_file: whether it is a file.
        size: the size in bytes.
        identity: a pair that changes if another file replaces this one: the inode (0 if there is none), and the time of
            the last modification, in ns.
    """

    path: str
    is_file: bool
    size: int
    identity: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """One .log file, as it was when it was listed.

    Attributes:
        base_offset: the base offset in the file's name; 0 if the name has another form.
        path: the path on its file system.
        size: the size in bytes.
        identity: as in `Entry`.
    """

    base_offset: int
    path: str
    size: int
    identity: tuple[int, int]

    @property
    def name(self) -> str:
        """The final name of the file.  A file that is being swapped in gets this name at the end of the swap."""
        return _name(self.path).removesuffix(_SWAP)

    @property
    def index_path(self) -> str:
        """The path of the segment's offset index; the file may not exist."""
        return self._beside(".index")

    @property
    def time_index_path(self) -> str:
        """The path of the segment's time index; the file may not exist."""
        return self._beside(".timeindex")

    @property
    def offset_limit(self) -> int:
        """The log offset below which all batches of the segment end; offsets relative to its base have 31 bits."""
        return min(self.base_offset + 2**31, OFFSET_MAX) if SEGMENT.fullmatch(self.name) else OFFSET_MAX

    def _beside(self, suffix: str) -> str:
        stem = self.path.removesuffix(_SWAP)
        return stem.removesuffix(".log") + suffix + self.path[len(stem) :]


@dataclass(frozen=True, slots=True)
class PartitionListing:
    """The segments of one partition, in the order of their base offsets.

    Attributes:
        number: the number of the partition; -1 for a file that is not in the directory of a partition.
        directory: the directory of the partition; None if a single segment file is read.
        segments: the .log files, and the `.log.swap` files that a crash left.
    """

    number: int
    directory: str | None
    segments: tuple[Segment, ...]

    @property
    def place(self) -> str:
        """The directory of the partition, or the single file."""
        return self.directory or self.segments[0].path

    @property
    def size(self) -> int:
        """The size of all segments, in bytes."""
        return sum(segment.size for segment in self.segments)


class Files:
    """A file system for reading only.  It can be sent to executors, and used from any thread.

    Attributes:
        arrow: pyarrow's file system; None for local files.
        uri: the URI of the file system, for messages; empty for local files.
        left_behind: files of a cleaner's swaps of segments that have made no progress for some time.  Later listings do
            not wait for these swaps to end.
    """

    def __init__(self, arrow: Any | None = None, uri: str = "") -> None:
        self.arrow = arrow
        self.uri = shown(uri)
        self._native: FileSystem | None = None
        self.left_behind: set[Entry] = set()

    def __getstate__(self) -> Any:
        return self.arrow, self.uri

    def __setstate__(self, state: Any) -> None:
        self.arrow, self.uri = state
        self._native = None
        self.left_behind = set()

    @property
    def native(self) -> FileSystem:
        """The engine's own file system."""
        if self._native is None:
            self._native = FileSystem() if self.arrow is None else ArrowFileSystem(self.arrow)
        return self._native

    def _failed(self, failure: OSError, path: str) -> NoReturn:
        # Errors of Azure contain signed URLs, which a traceback would show.
        cause = failure if self.arrow is None else None
        if isinstance(failure, FileNotFoundError):
            raise MissingFileError("the file or directory does not exist", errno=errno.ENOENT, path=path) from cause
        raise StorageError(storage_text(failure, self.uri), errno=failure.errno, path=path) from cause

    def entry(self, path: str) -> Entry:
        """Returns the file or directory at a path.

        Raises:
            MissingFileError: there is no file or directory at the path.
            StorageError: the file system cannot return the entry.
        """
        try:
            if self.arrow is None:
                return _local_entry(path, os.stat(path))
            info = self.arrow.get_file_info(path)
        except OSError as failure:
            self._failed(failure, path)
        if info.type == pyarrow.fs.FileType.NotFound:
            raise MissingFileError("the file or directory does not exist", errno=errno.ENOENT, path=path)
        return _arrow_entry(info)

    def list(self, path: str) -> list[Entry]:
        """Returns the entries of a directory, by name; raises the errors of `entry`."""
        try:
            if self.arrow is not None:
                infos = self.arrow.get_file_info(pyarrow.fs.FileSelector(path))
                return sorted((_arrow_entry(info) for info in infos), key=lambda entry: entry.path)
            found = []
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        found.append(_local_entry(os.path.join(path, entry.name), entry.stat()))
                    except FileNotFoundError:
                        continue  # it was removed meanwhile, as happens in a log in use
            return sorted(found, key=lambda entry: entry.path)
        except OSError as failure:
            self._failed(failure, path)

    def read_at(self, path: str, position: int, size: int) -> bytes:
        """Returns `size` bytes of a file, or fewer if the file ends first; raises the errors of `entry`."""
        try:
            if self.arrow is None:
                with open(path, "rb", buffering=0) as file:
                    file.seek(position)
                    return file.read(size)
            with self.arrow.open_input_file(path) as file:
                file.seek(position)
                content: bytes = file.read(size)
                return content
        except OSError as failure:
            self._failed(failure, path)

    def read_aid(self, path: str) -> bytes:
        """Returns the content of a file that only makes reading faster, such as an index; b"" if it cannot be read."""
        try:
            if self.arrow is None:
                with open(path, "rb") as file:
                    return file.read()
            with self.arrow.open_input_file(path) as file:
                content: bytes = file.read()
                return content
        except OSError:
            return b""


def _local_entry(path: str, found: os.stat_result) -> Entry:
    return Entry(path, stat.S_ISREG(found.st_mode), found.st_size, (found.st_ino, found.st_mtime_ns))


def _arrow_entry(info: Any) -> Entry:
    return Entry(info.path, info.type == pyarrow.fs.FileType.File, max(info.size or 0, 0), (0, info.mtime_ns or 0))


def resolve(path: str, settings: Mapping[str, str] = NO_SETTINGS) -> tuple[Files, str]:
    """Returns the file system of a path or URI, opened with Hadoop's settings, and the path on that file system.

    Raises:
        ConfigError, StorageError: raised by `Location.of` and `open_uri`.
    """
    location = Location.of(path)
    if location.path is not None:
        return Files(), location.path
    arrow, found = open_uri(location.text, settings)
    return Files(arrow, path), found


def attempts() -> Iterator[int]:
    """Counts down attempts to read files that are cleaned, rolled or removed meanwhile; pauses longer after each."""
    for left in reversed(range(ATTEMPTS)):
        yield left
        # Even a cleaner that works without a pause is soon done with these files.
        time.sleep(0.01 * (ATTEMPTS - left))


# ------------------------------------------------------------------------------------------------------- a log's files


def list_segments(files: Files, directory: str) -> tuple[Segment, ...]:
    """Returns the .log files of a partition directory by base offset, without files such as `.log.deleted`.

    When a cleaner swaps segments, it removes the old segments before it gives the new one its name.  The listing
    therefore waits for a swap to end.  If a swap makes no progress for a short time, a crash may have interrupted it.
    The result is then the list of segments that a recovery of the directory would leave (docs/format/recovery.md §9.1).

    Raises:
        StorageError: the directory cannot be read, or segments are replaced faster than they can be listed.
    """
    for _ in range(TRIES):
        entries = settled(directory, lambda: files.list(directory), lambda entry: entry.path, files.left_behind)
        try:
            return _recovered(files, entries)
        except MissingFileError:
            continue  # the swap is over
    raise swapped_too_fast(directory)


def _recovered(files: Files, entries: list[Entry]) -> tuple[Segment, ...]:
    """Returns the segments that a recovery would leave in a directory: it finishes or undoes each swap.

    The rules for swaps are those of the engine: csrc/log/swap_plan.h.
    """
    found = [(_name(entry.path), entry) for entry in entries if entry.is_file and _NUMBERED.match(_name(entry.path))]
    # A .cleaned file is incomplete.  Swaps whose base offset is at or above that of the file are incomplete, too.
    undone = min((int(name[:20]) for name, _ in found if name.endswith(".cleaned")), default=OFFSET_MAX)
    segments = [_segment(entry) for name, entry in found if SEGMENT.fullmatch(name.removesuffix(_SWAP))]
    swaps = [each for each in segments if each.path.endswith(_SWAP) and each.base_offset < undone]
    segments = [each for each in segments if not each.path.endswith(_SWAP)]
    if swaps:
        low, high = min(swap.base_offset for swap in swaps), max(_end_of_swap(files, swap) for swap in swaps)
        named = {swap.base_offset for swap in swaps}
        segments = [each for each in segments if not (low <= each.base_offset < high or each.base_offset in named)]
    return tuple(sorted([*segments, *swaps], key=lambda each: each.base_offset))


def _end_of_swap(files: Files, swap: Segment) -> int:
    walked = skim(swap.path, file_system=files.native)
    return walked.next_offset if walked.batches else swap.base_offset


def list_again(files: Files, listing: PartitionListing) -> PartitionListing:
    """Returns a partition with its present segments; raises the errors of `Files.entry`."""
    if listing.directory is None:
        return PartitionListing(listing.number, None, (_segment(files.entry(listing.place)),))
    return PartitionListing(listing.number, listing.directory, list_segments(files, listing.directory))


def is_replaced(files: Files, segment: Segment) -> bool:
    """Returns whether another file has replaced a listed segment.  Bytes read before may then be of either file.

    Raises:
        MissingFileError, StorageError: raised by `Files.entry`.
    """
    now = files.entry(segment.path)
    inode = segment.identity[0]
    # The newest segment grows, and loses space that was allocated ahead; any other segment changes only by being
    # replaced.
    return now.identity[0] != inode if inode else (now.identity, now.size) != (segment.identity, segment.size)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _segment(entry: Entry) -> Segment:
    found = SEGMENT.fullmatch(_name(entry.path).removesuffix(_SWAP))
    return Segment(int(found[1]) if found else 0, entry.path, entry.size, entry.identity)


def _number(directory: str) -> int:
    parsed = parse_directory_name(_name(directory))
    return -1 if parsed is None else parsed[1]


def list_partitions(files: Files, path: str) -> list[PartitionListing]:
    """Returns the partitions at a path, in the order of their numbers.

    Args:
        files: the file system of the path.
        path: a log directory, a partition directory or a segment file.

    Raises:
        MissingFileError: the path does not exist; or it holds no partition of the offsets topic and is not the
            directory of a store.
        InvalidArgumentError: the path is a partition of another topic.
        StorageError: the path cannot be read.
    """
    top = files.entry(path)
    if top.is_file:
        return [PartitionListing(_number(str(PurePosixPath(path).parent)), None, (_segment(top),))]
    entries = files.list(path)
    parsed = parse_directory_name(_name(path))
    has_segments = any(each.is_file and SEGMENT.match(_name(each.path)) for each in entries)
    if has_segments or (parsed is not None and parsed[0] == TOPIC):
        if parsed is not None and parsed[0] != TOPIC and parsed[2] == 0:
            raise InvalidArgumentError(
                f"the directory is a partition of the topic {parsed[0]!r}, not of {TOPIC}", path=path
            )
        return [PartitionListing(_number(path), path, list_segments(files, path))]
    found = []
    for entry in entries:
        parsed = parse_directory_name(_name(entry.path))
        if entry.is_file or parsed is None or parsed[0] != TOPIC or parsed[2] != 0:
            continue
        try:
            found.append(PartitionListing(parsed[1], entry.path, list_segments(files, entry.path)))
        except MissingFileError:
            continue  # it was removed after it was listed
    if not found and not any(_name(entry.path) == PROPERTIES for entry in entries):
        raise MissingFileError(f"the directory holds no partition of {TOPIC}", path=path)
    return sorted(found, key=lambda listing: listing.number)


def choose(listings: list[PartitionListing], partitions: frozenset[int] | None, path: str) -> list[PartitionListing]:
    """Returns those of the listed partitions that were requested.

    Raises:
        MissingFileError: none of the requested partitions exists.
    """
    if partitions is None:
        return listings
    chosen = [listing for listing in listings if listing.number in partitions]
    if listings and not chosen:
        named = ", ".join(str(number) for number in sorted(partitions)[:10])
        raise MissingFileError(
            f"the directory does not hold log partition {named}; it holds "
            f"{numbers_text(each.number for each in listings)}",
            path=path,
        )
    return chosen


def numbers_text(numbers: Iterable[int]) -> str:
    """Returns log partition numbers in the form of the option `partitions`, e.g. 0-3,7; "none" if there are none."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ",".join(texts[:NUMBERS_TOLD]) + (",..." if len(texts) > NUMBERS_TOLD else "") or "none"
