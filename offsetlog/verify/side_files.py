"""Checks of the files beside a partition's segments against the batches that were read: indexes, snapshots, epochs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offsetlog._native.files import FileSystem, parse_manifest
from offsetlog._native.replay import (
    BATCH_FIELDS,
    check_index,
    parse_producer_snapshot,
    parse_transaction_index,
)
from offsetlog.directory.history_floor import FLOOR_FILE, read_floor
from offsetlog.directory.log_directory import MANIFEST, PARTITION_METADATA, parse_partition_metadata
from offsetlog.errors import CorruptionError, MissingFileError
from offsetlog.verify.findings import Place

#: A batch that was read.
BATCHES = np.dtype(BATCH_FIELDS)
OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
SNAPSHOT = re.compile(r"(\d{20})\.snapshot")
#: A truncation that is under way, or was when the power went (csrc/log/truncate.c).
CUT = re.compile(r"offsetlog\.cut-(\d{1,19})")
EPOCHS = "leader-epoch-checkpoint"

Producer = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as it was read.

    Attributes:
        path: the .log file, or one that is to be swapped in.
        base_offset: as its name says.
        next_offset: after its last batch; the base offset when it has none.
        size: bytes of whole batches.
        batches: an array of BATCHES.
        aborted: (producer id, first offset, marker's offset, last stable offset) of each
            transaction aborted here.
        is_rebuilt: whether the next writable open makes the indexes again: after a crash, from the
            recovery point on.
        is_whole: whether all of it could be read.
    """

    path: Path
    base_offset: int
    next_offset: int
    size: int
    batches: np.ndarray[Any, np.dtype[np.void]]
    aborted: list[tuple[int, int, int, int]]
    is_rebuilt: bool
    is_whole: bool


def read_optional(fs: FileSystem, path: Path) -> bytes | None:
    """Returns a file's bytes, None where there is none."""
    try:
        return fs.read_file(path)
    except MissingFileError:
        return None


# ----------------------------------------------------------------------------------------- manifest


def check_manifest(
    place: Place,
    fs: FileSystem,
    directory: Path,
    segments: list[Segment],
    content: bytes | None,
    bound_from: Callable[[], int],
) -> None:
    """Compares segments of the size that the manifest gives with its checksums; the engine's own open judges sizes.

    Args:
        place: where findings are reported.
        fs: the file system.
        directory: of the log partition.
        segments: as they were read.
        content: the manifest, as it was before they were read.
        bound_from: gives the log offset from which on the manifest binds, which another program's cleaner moves.
    """
    try:
        listed = None if content is None else parse_manifest(content)
    except CorruptionError:
        return
    sums = {(base, size): checksum for base, _, size, checksum in listed or ()}
    for segment in segments:
        checksum = sums.get((segment.base_offset, segment.size))
        if checksum is None or not segment.is_whole:
            continue
        try:
            found = fs.segment_checksum(segment.path, segment.size)
        except (CorruptionError, MissingFileError):  # it was whole when it was read: another one has its name now
            found = None
        if found == checksum:
            continue
        if segment.base_offset < bound_from():
            continue
        if read_optional(fs, directory / MANIFEST) == content:  # else it was cleaned meanwhile
            place.problem(
                "segment", "its batches are not those that were written", segment.path, 0, segment.base_offset
            )


# ------------------------------------------------------------------------------------------ indexes


def check_indexes(
    place: Place, fs: FileSystem, segment: Segment, names: Mapping[str, str]
) -> None:
    """Checks the three indexes of a segment; one that is missing costs time, and nothing else.

    Args:
        place: where findings are reported.
        fs: the file system.
        segment: the one that they belong to.
        names: maps each name in the directory after a swap in it to the present name.
    """
    if not segment.is_whole:
        return
    for kind, suffix, check in (
        ("offset index", ".index", _check_offset_index),
        ("time index", ".timeindex", _check_time_index),
        ("transaction index", ".txnindex", _check_transaction_index),
    ):
        name = f"{segment.base_offset:020}{suffix}"
        present = names.get(name)  # None also where the swap takes the old one away
        path = segment.path.with_name(present or name)
        content = None if present is None else read_optional(fs, path)
        try:
            check(segment, content)
        except CorruptionError as failure:
            place.stale(segment.is_rebuilt, kind, failure, path)


def _check_offset_index(segment: Segment, content: bytes | None) -> None:
    if not content:
        return
    check_index(
        content,
        time=False,
        base_offset=segment.base_offset,
        log_size=segment.size,
        next_offset=segment.next_offset,
    )
    entries = _entries(content, OFFSET_ENTRY)
    batches = segment.batches
    positions = entries["position"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64) + segment.base_offset
    at = np.searchsorted(batches["position"], positions)
    found = np.isin(positions, batches["position"])
    _refuse_first(~found, entries, OFFSET_ENTRY, "points to byte {position}, where no batch begins")
    before = np.where(
        at > 0, batches["last_offset"][np.maximum(at, 1) - 1], segment.base_offset - 1
    )
    _refuse_first(
        before >= offsets,
        entries,
        OFFSET_ENTRY,
        "names an offset that lies before the batch at byte {position}",
    )


def _check_time_index(segment: Segment, content: bytes | None) -> None:
    if not content:
        return
    check_index(
        content,
        time=True,
        base_offset=segment.base_offset,
        log_size=segment.size,
        next_offset=segment.next_offset,
    )
    entries = _entries(content, TIME_ENTRY)
    offsets = entries["offset"].astype(np.int64) + segment.base_offset
    if not len(segment.batches):
        return
    highest = np.maximum.accumulate(segment.batches["max_timestamp"])
    # A search for a later time starts at the entry: nothing up to it may be later than it says.
    at = np.searchsorted(segment.batches["last_offset"], offsets, side="right")
    known = np.where(at > 0, highest[np.maximum(at, 1) - 1], -1)
    _refuse_first(
        known > entries["timestamp"].astype(np.int64),
        entries,
        TIME_ENTRY,
        "lies below the times of the log up to it",
    )


def _entries(content: bytes, kind: np.dtype[np.void]) -> np.ndarray[Any, np.dtype[np.void]]:
    entries = np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], kind)
    # Space that was sized ahead is zeros; a first entry of zeros can be true only if there is no
    # other.
    used = np.flatnonzero(
        np.frombuffer(entries.tobytes(), np.uint8).reshape(len(entries), -1).any(axis=1)
    )
    return entries[: used[-1] + 1] if len(used) else entries[:0]


def _refuse_first(
    wrong: np.ndarray[Any, np.dtype[np.bool_]],
    entries: np.ndarray[Any, np.dtype[np.void]],
    kind: np.dtype[np.void],
    reason: str,
) -> None:
    indexes = np.flatnonzero(wrong)
    if len(indexes):
        index = int(indexes[0])
        values = {name: int(entries[index][name]) for name in kind.names or ()}
        more = f" (and {len(indexes) - 1} more entries)" if len(indexes) > 1 else ""
        raise CorruptionError(
            f"entry {index} {reason.format(**values)}{more}", position=index * kind.itemsize
        )


def _check_transaction_index(segment: Segment, content: bytes | None) -> None:
    entries = parse_transaction_index(content or b"", segment.base_offset)
    for number, (_, _, last, _) in enumerate(entries):
        if last >= segment.next_offset:
            raise CorruptionError(
                f"entry {number} names the marker {last}, the segment ends below {segment.next_offset}",
                position=34 * number,
            )
    known = {(producer, last): first for producer, first, last, _ in entries}
    for producer, first, last, _ in segment.aborted:
        begun = known.get((producer, last))
        if begun is None:
            raise CorruptionError(
                f"the transaction of producer {producer} that was aborted at {last} is missing",
                log_offset=last,
            )
        if begun > first:
            raise CorruptionError(
                f"the transaction of producer {producer} that was aborted at {last} begins at {first}, not {begun}",
                log_offset=last,
            )


# ------------------------------------------------------------------------------- producer snapshots


def snapshot_offsets(fs: FileSystem, directory: Path) -> dict[int, Path]:
    """Returns the producer snapshots of a partition directory, by the offset up to which they hold."""
    return {
        int(found[1]): directory / name
        for name in fs.list(directory)
        if (found := SNAPSHOT.fullmatch(name))
    }


def cut_offsets(fs: FileSystem, directory: Path) -> list[int]:
    """Returns where the truncations of a partition directory were to cut that are not finished."""
    return [int(found[1]) for name in fs.list(directory) if (found := CUT.fullmatch(name))]


def check_snapshot(
    place: Place,
    path: Path,
    content: bytes,
    known: list[Producer],
    *,
    is_rebuilt: bool,
    may_be_torn: bool,
) -> None:
    """Checks a producer snapshot against what the log says up to its offset.

    The log may know less: not the compacted records, which may be all that a transaction wrote; the
    snapshot leaves out producers that expired.  The log cannot know more of a producer that the
    snapshot has, and a transaction that is open in it is open in both.

    With `may_be_torn` its bytes may not have been flushed when the power went: those of the newest
    one are by a close, and an open that cannot read one takes the one before it.
    """
    try:
        found = {producer[0]: producer for producer in parse_producer_snapshot(content)}
    except CorruptionError as failure:
        place.stale(is_rebuilt or may_be_torn, "producer snapshot", failure, path)
        return
    try:
        for producer, epoch, last, first_open, _ in known:
            kept = found.get(producer)
            if kept is None:
                if first_open >= 0:
                    raise CorruptionError(
                        f"producer {producer} has a transaction open since {first_open}, and is missing"
                    )
                continue
            if kept[1] < epoch or kept[2] < last:
                raise CorruptionError(
                    f"producer {producer} is at epoch {kept[1]}, offset {kept[2]}; "
                    f"the log has epoch {epoch}, offset {last}"
                )
            if first_open >= 0 and not 0 <= kept[3] <= first_open:
                raise CorruptionError(
                    f"producer {producer}: {_open_text(kept[3])}; by the log it has {_open_text(first_open)}"
                )
    except CorruptionError as failure:
        place.stale(is_rebuilt, "producer snapshot", failure, path)


def _open_text(first_offset: int) -> str:
    return "no transaction open" if first_offset < 0 else f"a transaction open since {first_offset}"


# ----------------------------------------------------------------------- epochs, the partition's id


def parse_epochs(content: bytes) -> list[tuple[int, int]]:
    """Returns (epoch, start offset) of a leader-epoch-checkpoint; raises CorruptionError.

    Source: docs/format/directory.md §1.5.
    """
    try:
        lines = content.decode("ascii").split("\n")
        if lines == [""] or lines == ["0", ""]:
            return []
        if lines[0].strip() != "0":
            raise CorruptionError(f"version {lines[0]!r} is not known")
        entries = [line.split() for line in lines[2:] if line.strip()]
        if int(lines[1]) != len(entries) or any(len(entry) != 2 for entry in entries):
            raise CorruptionError(
                f"{lines[1]} entries are announced, {len(entries)} lines are there"
            )
        epochs = [(int(epoch), int(start)) for epoch, start in entries]
    except (ValueError, IndexError) as failure:
        raise CorruptionError(f"the file cannot be understood: {failure}") from None
    for (epoch, start), (later_epoch, later_start) in itertools.pairwise(epochs):
        if later_epoch <= epoch or later_start < start:
            raise CorruptionError(
                f"epoch {later_epoch} from {later_start} stands after epoch {epoch} from {start}"
            )
    return epochs


def check_epochs(
    place: Place, path: Path, content: bytes, segments: list[Segment], *, is_rebuilt: bool
) -> None:
    """Checks the leader epochs of a partition against its batches."""
    try:
        epochs = parse_epochs(content)
        end = max((segment.next_offset for segment in segments), default=0)
        for epoch, start in epochs:
            if start > end:
                raise CorruptionError(f"epoch {epoch} starts at {start}, the log ends at {end}")
        batches = (
            np.concatenate([segment.batches for segment in segments])
            if segments
            else np.empty(0, BATCHES)
        )
        batches = batches[batches["leader_epoch"] >= 0]
        if len(batches) and epochs:
            _check_epochs_of(place, path, batches, epochs)
    except CorruptionError as failure:
        place.stale(is_rebuilt, "leader epochs", failure, path)


def _check_epochs_of(
    place: Place,
    path: Path,
    batches: np.ndarray[Any, np.dtype[np.void]],
    epochs: list[tuple[int, int]],
) -> None:
    starts = np.array([start for _, start in epochs])
    numbers = np.array([epoch for epoch, _ in epochs])
    found = batches["leader_epoch"]
    at = np.searchsorted(starts, batches["base_offset"], side="right") - 1
    stated = np.where(at >= 0, numbers[np.maximum(at, 0)], found)
    is_wrong = stated != found
    # A broker that leads with an older epoch than the log has drops the newer ones, and lists its own.
    is_dropped = (found > stated) & ~np.isin(found, numbers) & (batches["base_offset"] < starts[-1])
    for index in np.flatnonzero(is_wrong & ~is_dropped)[:1]:
        batch = batches[index]
        raise CorruptionError(
            f"the batch at offset {batch['base_offset']} is of epoch {batch['leader_epoch']}, "
            f"by the checkpoint it would be of {stated[index]}",
            log_offset=int(batch["base_offset"]),
        )
    for batch in batches[is_wrong][:1]:
        place.note(
            "leader epochs",
            f"epoch {batch['leader_epoch']} of the batch at offset {batch['base_offset']} is not in "
            "the checkpoint; a broker drops such entries when it leads with an older epoch",
            path,
            log_offset=int(batch["base_offset"]),
        )


def check_floor(place: Place, fs: FileSystem, directory: Path) -> None:
    """Checks that the file with the floor of history can be understood."""
    if read_floor(fs, directory).is_unknown:
        place.problem(
            "history",
            "the file cannot be understood: history is refused until the log is cleaned again, and then covers only "
            "later commits",
            directory / FLOOR_FILE,
        )


def read_topic_id(place: Place, fs: FileSystem, directory: Path) -> bytes | None:
    """Returns the topic id of partition.metadata, None where there is no such file or no such id in it."""
    path = directory / PARTITION_METADATA
    content = read_optional(fs, path)
    if content is None:
        return None
    try:
        return parse_partition_metadata(content)
    except CorruptionError as failure:
        place.problem("topic id", failure.message, path)
        return None
