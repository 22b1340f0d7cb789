"""Finds positions in a log that another program may be writing to: those of its end, of a log offset, and of a time.

Indexes are only used to shorten the search.  An index entry is trusted only under two conditions: the batch at the
entry's position is whole and begins at or below the entry's offset; and this batch and the batches after it reach the
entry's offset.  An entry of the time index must also name the greatest timestamp of these batches.  If no entry can be
trusted, the search reads the headers of all batches from the start of the segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from offsetlog._native.scan import SegmentScan, batch_at, next_batch, skim
from offsetlog.directory.segments import SEGMENT
from offsetlog.errors import (
    CorruptionError,
    InsideCommitError,
    OffsetOutOfRangeError,
    StorageError,
    TornTailError,
)
from offsetlog.spark.scan.files import Files, PartitionListing, Segment
from offsetlog.spark.scan.options import OFFSET_MAX

Entries = npt.NDArray[np.int64]

#: How many entries of an index are tried before the segment is walked from its start.
_ENTRY_TRIES = 4
#: A batch counts as near a position if its distance from it, in bytes, is at most this.
_NEAR_BYTES = 2**16
#: The first bytes of a batch, in any format: its base offset and its length.
_HEAD_SIZE = 12
_NO_LENGTH = bytes(4)
_NO_ENTRIES: Entries = np.empty((0, 2), np.int64)


class _Walked(NamedTuple):
    """The end of a walk over the headers of batches.

    Its fields are the position in bytes, the log offset there, and the position of the last batch before it.

    `offset` and `last` are -1 if the walk passed no batch.  `last` is also -1 if there is damage after that batch.
    """

    position: int
    offset: int
    last: int


@dataclass(frozen=True, slots=True)
class Horizon:
    """The end of a partition for a reader.  The reader ignores everything after it.

    Attributes:
        offset: the log offset of the end; it is the first one that is not read.
        base_offset: the base offset of the segment in which the end is.
        position: the position in bytes up to which that segment is read.
        is_cut: whether this is the end for a requested moment, and not the end of the log.
    """

    offset: int
    base_offset: int
    position: int
    is_cut: bool = False

    def limit_of(self, segment: Segment) -> int:
        """Returns the position up to which a segment is read; -1 if it is read to its end."""
        return self.position if segment.base_offset == self.base_offset else -1


# ------------------------------------------------------------------------------------------------------------- indexes


def _growing(entries: Entries) -> Entries:
    """Returns the entries before the first one that is not above its predecessor; zeros or damage begin there."""
    if len(entries) < 2:
        return entries
    fits = (np.diff(entries, axis=0) > 0).all(axis=1)
    return entries if fits.all() else entries[: int(np.argmin(fits)) + 1]


def index_entries(files: Files, segment: Segment) -> Entries:
    """Returns (log offset, file position) for each entry of a segment's index; none if it is missing or damaged."""
    content = files.read_aid(segment.index_path) if segment.index_path != segment.path else b""
    raw = np.frombuffer(content, ">u4", len(content) // 8 * 2).reshape(-1, 2).astype(np.int64)
    found = _growing(raw + np.array([segment.base_offset, 0]))
    found = found[(found[:, 1] > 0) & (found[:, 1] < segment.size)]
    return found if len(found) == 0 or found[0, 0] >= segment.base_offset else _NO_ENTRIES


def _time_entries(files: Files, segment: Segment) -> Entries:
    """Returns (timestamp, log offset) for each entry of a segment's time index."""
    content = files.read_aid(segment.time_index_path) if segment.time_index_path != segment.path else b""
    raw = np.frombuffer(content, np.dtype([("time", ">i8"), ("offset", ">u4")]), len(content) // 12)
    entries = np.stack([raw["time"].astype(np.int64), raw["offset"].astype(np.int64) + segment.base_offset], axis=1)
    return _growing(entries)


def find_start(files: Files, segment: Segment, offset: int) -> tuple[int, int]:
    """Returns where a search for a log offset can begin: a position, and a lower bound of the log offsets from it on.

    The batch at the position contains the log offset, or is an earlier batch.  The position comes from the index.  If
    no entry of the index can be trusted, the position is the start of the segment.

    Raises:
        StorageError: the file cannot be read.
    """
    entries = index_entries(files, segment)
    entries = entries[entries[:, 0] <= offset]
    for named, position in entries[-_ENTRY_TRIES:][::-1].tolist():
        found = entered(files, segment, named, position)
        if found is not None:
            return int(position), found[0]
    return 0, segment.base_offset


def seek(files: Files, segment: Segment, offset: int) -> int:
    """Returns the position of a batch at or before the one that contains a log offset; see `find_start`."""
    return find_start(files, segment, offset)[0]


def entered(files: Files, segment: Segment, named: int, position: int) -> tuple[int, int] | None:
    """Returns the first and last offset of the batch at an index entry's position; None if the entry is not trusted.

    The offset in an entry is the last offset of the records that were appended at the entry's position; in the index of
    an old broker, it is their first offset.  A batch whose base offset was changed does not match its entry.  Without
    this check, a walk that began with such a batch could not detect the change.

    Raises:
        StorageError: the file cannot be read.
    """
    found = batch_at(segment.path, position, file_system=files.native)
    if found is None or not segment.base_offset <= found[0] <= named:
        return None
    first, last, _ = found
    if named in (first, last):
        return first, last
    walked = skim(segment.path, position=position, until=named + 1, next_offset=first, file_system=files.native)
    return (first, last) if walked.next_offset > named else None


def batch_near(files: Files, segment: Segment, position: int) -> tuple[int, int] | None:
    """Returns (file position, base offset) of a batch near a position of a segment; None if no whole batch is found.

    The batch is at or before the position.  It is found through the index if an entry is close enough, and otherwise by
    reading headers.

    Raises:
        StorageError: the file cannot be read.
    """
    entries = index_entries(files, segment)
    entries = entries[entries[:, 1] <= position]
    start = 0
    for named, place in entries[-_ENTRY_TRIES:][::-1].tolist():
        if entered(files, segment, named, place) is not None:
            start = int(place)
            break
    if start == 0 or position - start > _NEAR_BYTES:
        start = skim(segment.path, position=start, limit=position, file_system=files.native).position
    batch = batch_at(segment.path, start, file_system=files.native)
    return None if batch is None else (start, batch[0])


# --------------------------------------------------------------------------------------------------------------- places


def end_of(files: Files, segment: Segment) -> tuple[int, int]:
    """Returns the position and the log offset after the last whole batch of the newest segment, as it is now.

    An incomplete batch at the end, and space that was allocated ahead, are not part of the log.  They look like a batch
    that is torn or has the length zero, and no whole batch follows.  Any other damage counts as part of the log, and a
    reader reports it.

    Raises:
        StorageError: the file cannot be read.
    """
    position, walked = find_start(files, segment, OFFSET_MAX)
    offset = segment.base_offset
    met: tuple[int, bytes] | None = None
    while True:
        found = skim(
            segment.path,
            position=position,
            check_crc=True,
            next_offset=walked,
            file_system=files.native,
            segment_base=segment.base_offset,
            segment_limit=segment.offset_limit,
        )
        position, walked = found.position, found.next_offset
        offset = max(walked, offset)
        if found.damage is None:
            return position, offset
        place = position, files.read_at(segment.path, position, _HEAD_SIZE)[8:]
        if place != met:
            # A running writer may have filled these bytes after they were read.
            met = place
            continue
        follows = next_batch(segment.path, position, offset, file_system=files.native)
        if follows is not None:
            position = follows
            continue
        # The length is written last: a batch without one is still being written, and may be of any size.
        if isinstance(found.damage, TornTailError) or place[1] == _NO_LENGTH:
            return position, offset
        # The damaged batch takes at least one log offset.  The end is put above that log offset, so that a reader meets
        # the batch.
        return max(files.entry(segment.path).size, position), offset + 1


def horizon_now(files: Files, listing: PartitionListing) -> Horizon:
    """Returns the present end of a partition.

    Raises:
        CorruptionError: the path is a single file that is not a segment.
        StorageError: a file cannot be read.
    """
    if not listing.segments:
        return Horizon(0, 0, 0)
    last = listing.segments[-1]
    if not SEGMENT.fullmatch(last.name):
        _refuse_other_file(files, last)
    position, offset = end_of(files, last)
    return Horizon(offset, last.base_offset, position)


def _refuse_other_file(files: Files, segment: Segment) -> None:
    """Raises CorruptionError if a file, such as an index, has neither a segment's name nor a batch at its start."""
    try:
        is_other = _timestamp_at(files, segment, 0) is None
    except StorageError:
        return  # the task reports it
    if is_other and (segment.size > 0 or not segment.name.endswith(".log")):
        raise CorruptionError(
            "not a log segment: a segment is named like 00000000000000000000.log and begins with a record batch",
            path=segment.path,
            position=0,
        )


def horizon_at_offset(files: Files, listing: PartitionListing, now: Horizon, offset: int) -> Horizon:
    """Returns the horizon for a read that ends at a log offset.

    Raises:
        OffsetOutOfRangeError: the log ends below the offset.
        InsideCommitError: the log offset is inside a commit, and a commit is never split.
    """
    if offset > now.offset:
        raise OffsetOutOfRangeError(
            f"at: log partition {listing.number} ends at {now.offset}; there is no state at {offset} yet",
            path=listing.place,
            log_offset=offset,
        )
    if offset == now.offset:
        return Horizon(offset, now.base_offset, now.position, is_cut=True)
    holding = [segment for segment in listing.segments if segment.base_offset <= offset]
    if not holding:
        return Horizon(offset, 0, 0, is_cut=True)
    segment, limit = holding[-1], now.limit_of(holding[-1])
    walked = _walk(files, segment, find_start(files, segment, offset), limit, until=offset)
    commit = _commit_around(files, segment, walked, limit, offset)
    if commit is not None:
        before, after = commit
        raise InsideCommitError(
            f"at: log offset {offset} of log partition {listing.number} lies inside a commit, which is never split; "
            f"give {before} for the state before this commit, {after} for the state after it",
            before=before,
            after=after,
            path=segment.path,
            log_offset=offset,
        )
    return Horizon(offset, segment.base_offset, walked.position, is_cut=True)


def _commit_around(
    files: Files, segment: Segment, walked: _Walked, limit: int, offset: int
) -> tuple[int, int] | None:
    """Returns the log offsets before and after the commit that contains a log offset; None if no commit contains it."""
    if walked.last >= 0 and offset < walked.offset:
        around = batch_at(segment.path, walked.last, file_system=files.native)
        return None if around is None else (around[0], around[1] + 1)  # the task reports a damaged one
    if walked.position >= (segment.size if limit < 0 else limit):
        return None
    # The header of a compressed set of magic 0 or 1 names only its last message, so the walk ended before the set.
    columns = ["log_offset", "last_offset"]
    with SegmentScan(segment.path, "records", columns, file_system=files.native, position=walked.position) as scan:
        try:
            first = scan.read(1)
        except CorruptionError:
            return None  # the task reports it
    if first is None or first.num_rows == 0 or first.column("log_offset")[0].as_py() >= offset:
        return None
    return first.column("log_offset")[0].as_py(), first.column("last_offset")[0].as_py() + 1


def horizon_at_time(files: Files, listing: PartitionListing, now: Horizon, timestamp: int) -> Horizon:
    """Returns the horizon for a read up to a time, in ms: the start of the first batch with a later timestamp."""
    offset = listing.segments[0].base_offset if listing.segments else 0
    for segment in listing.segments:
        limit = now.limit_of(segment)
        size = segment.size if limit < 0 else limit
        start = _old_enough(files, segment, timestamp)
        walked = _walk(files, segment, start, limit, until_timestamp=timestamp)
        if walked.offset < 0 < start[0]:
            walked = _walk(files, segment, (0, segment.base_offset), limit, until_timestamp=timestamp)
        if walked.offset >= 0:
            offset = walked.offset
        if walked.position < size:
            return Horizon(offset, segment.base_offset, walked.position, is_cut=True)
    return Horizon(now.offset, now.base_offset, now.position, is_cut=True)


def _old_enough(files: Files, segment: Segment, timestamp: int) -> tuple[int, int]:
    """Returns where a walk to a time may begin.  By the time index, no batch before this place has a later time."""
    entries = _time_entries(files, segment)
    entries = entries[entries[:, 0] <= timestamp]
    for newest, offset in entries[-_ENTRY_TRIES:][::-1].tolist():
        position, begins = find_start(files, segment, offset)
        found = skim(
            segment.path,
            position=position,
            until=offset + 1,
            check_crc=True,
            next_offset=begins,
            file_system=files.native,
        )
        # An entry contains the newest timestamp up to its batch, so no earlier batch may have a newer one.
        if found.damage is None and found.next_offset > offset and found.max_timestamp == newest:
            return position, begins
    return 0, segment.base_offset


def _walk(
    files: Files,
    segment: Segment,
    start: tuple[int, int],
    limit: int,
    *,
    until: int = OFFSET_MAX,
    until_timestamp: int = OFFSET_MAX,
) -> _Walked:
    """Walks over the headers of batches, and skips damaged ones."""
    (position, begins), offset, last = start, -1, -1
    fs = files.native
    while True:
        found = skim(
            segment.path,
            position=position,
            limit=limit,
            file_system=fs,
            until=until,
            until_timestamp=until_timestamp,
            next_offset=max(offset, begins),
        )
        position = found.position
        if found.batches:
            offset, last = max(found.next_offset, offset), found.last_position
        size = segment.size if limit < 0 else limit
        if position >= size:
            return _Walked(position, offset, last)
        timestamp = _timestamp_at(files, segment, position)
        # A header may only seem to be too young because it is damaged.
        if timestamp is not None and (found.damage is None or timestamp > until_timestamp):
            return _Walked(position, offset, last)
        last = -1
        follows = next_batch(segment.path, position, max(offset, 0), limit=limit, file_system=fs)
        if timestamp is not None:
            # Only the base offset of this batch is damaged, and the batch is old enough.  Its records are therefore
            # below the records that follow.
            following = None if follows is None else batch_at(segment.path, follows, file_system=fs)
            offset = max(offset, begins) + 1 if following is None else max(offset, following[0])
        if follows is None:
            return _Walked(size, offset, last)
        position = follows


def _timestamp_at(files: Files, segment: Segment, position: int) -> int | None:
    """Returns the greatest timestamp of the batch at a position; None if there is no whole batch."""
    columns = ["crc_ok", "max_timestamp"]
    with SegmentScan(segment.path, "batches", columns, file_system=files.native, position=position) as scan:
        try:
            batch = scan.read(1)
        except CorruptionError:
            return None
        if batch is None or batch.num_rows == 0 or not batch.column("crc_ok")[0].as_py():
            return None
        return int(batch.column("max_timestamp")[0].as_py())
