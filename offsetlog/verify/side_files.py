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

#: The fields of a batch that was read.
BATCHES = np.dtype(BATCH_FIELDS)
OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
SNAPSHOT = re.compile(r"(\d{20})\.snapshot")
#: The name of a file that marks a truncation which is in progress, or which a loss of power interrupted
#: (csrc/log/truncate.c).
CUT = re.compile(r"offsetlog\.cut-(\d{1,19})")
EPOCHS = "leader-epoch-checkpoint"

Producer = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that was read.

    Attributes:
        path: the .log file, or the file that a swap will rename to it.
        base_offset: the base offset, from its name.
        next_offset: the log offset after its last batch; the base offset if it has no batch.
        size: the bytes of its complete batches.
        batches: an array of BATCHES.
        aborted: (producer id, first offset, marker's offset, last stable offset) of each transaction that was aborted
            in this segment.
        is_rebuilt: whether the next open for writing will rebuild the indexes.  After a crash, it does so for segments
            from the recovery point on.
        is_whole: whether the whole segment could be read.
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
    """Returns a file's bytes, None if it does not exist."""
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
    """Compares the segments with the checksums in the manifest.

    A segment whose size differs from the manifest is not compared, because the engine's open checks the sizes.

    Args:
        place: where findings are reported.
        fs: the file system.
        directory: the log partition's directory.
        segments: the segments that were read.
        content: the manifest, which was read before the segments.
        bound_from: returns the log offset from which on the log must match the manifest.  Below that log offset,
            another program may have cleaned the log.
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
        except (CorruptionError, MissingFileError):  # it was readable before: another file has its name now
            found = None
        if found == checksum:
            continue
        if segment.base_offset < bound_from():
            continue
        if read_optional(fs, directory / MANIFEST) == content:  # otherwise the log was cleaned meanwhile
            place.problem(
                "segment",
                "its batches have changed since they were written: their checksum is not the one in the manifest",
                segment.path,
                0,
                segment.base_offset,
            )


# ------------------------------------------------------------------------------------------ indexes


def check_indexes(
    place: Place, fs: FileSystem, segment: Segment, names: Mapping[str, str]
) -> None:
    """Checks the three indexes of a segment.

    A missing offset index or time index is not reported, because it only makes reads slower.

    Args:
        place: where findings are reported.
        fs: the file system.
        segment: the segment of the indexes.
        names: maps each name in the directory after a swap to the present name.
    """
    if not segment.is_whole:
        return
    for kind, suffix, check in (
        ("offset index", ".index", _check_offset_index),
        ("time index", ".timeindex", _check_time_index),
        ("transaction index", ".txnindex", _check_transaction_index),
    ):
        name = f"{segment.base_offset:020}{suffix}"
        present = names.get(name)  # None also if the swap removes the old one
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
    _refuse_first(~found, entries, OFFSET_ENTRY, "points to byte {position}, which is not the start of a batch")
    before = np.where(
        at > 0, batches["last_offset"][np.maximum(at, 1) - 1], segment.base_offset - 1
    )
    _refuse_first(
        before >= offsets,
        entries,
        OFFSET_ENTRY,
        "points to the batch at byte {position}, but its offset is below that batch",
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
    # A search for a later time starts at the entry, so no batch up to it may have a later time.
    at = np.searchsorted(segment.batches["last_offset"], offsets, side="right")
    known = np.where(at > 0, highest[np.maximum(at, 1) - 1], -1)
    _refuse_first(
        known > entries["timestamp"].astype(np.int64),
        entries,
        TIME_ENTRY,
        "has an earlier time than a batch that ends at or before the entry's offset",
    )


def _entries(content: bytes, kind: np.dtype[np.void]) -> np.ndarray[Any, np.dtype[np.void]]:
    entries = np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], kind)
    # Preallocated space is zeros.  A first entry of zeros can be valid only if it is the only entry.
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
                f"entry {number} has a marker at log offset {last}, but the segment ends before log offset "
                f"{segment.next_offset}",
                position=34 * number,
            )
    known = {(producer, last): first for producer, first, last, _ in entries}
    for producer, first, last, _ in segment.aborted:
        begun = known.get((producer, last))
        if begun is None:
            raise CorruptionError(
                f"the index lacks the transaction of producer {producer} that was aborted at log offset {last}",
                log_offset=last,
            )
        if begun > first:
            raise CorruptionError(
                f"the transaction of producer {producer} that was aborted at log offset {last} begins at log offset "
                f"{first}, but at log offset {begun} according to the index",
                log_offset=last,
            )


# ------------------------------------------------------------------------------- producer snapshots


def snapshot_offsets(fs: FileSystem, directory: Path) -> dict[int, Path]:
    """Returns the producer snapshots of a partition directory, by their offset."""
    return {
        int(found[1]): directory / name
        for name in fs.list(directory)
        if (found := SNAPSHOT.fullmatch(name))
    }


def cut_offsets(fs: FileSystem, directory: Path) -> list[int]:
    """Returns the log end of each truncation that was begun and not finished."""
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
    """Checks a producer snapshot against the log up to its offset.

    The snapshot may contain more than the log, because the cleaner may have dropped all records of a transaction.  The
    snapshot may lack producers that expired.  If both have a producer, its epoch and its last offset must not be higher
    in the log than in the snapshot.  A transaction that is open in the log must be open in the snapshot.

    If `may_be_torn` is True, a loss of power may have destroyed the snapshot before it was flushed, so a damaged
    snapshot is reported as a note.  A clean close flushes the newest snapshot.  If an open cannot read a snapshot, it
    uses the one before it.
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
                        f"producer {producer} is missing, although this producer has {_open_text(first_open)}"
                    )
                continue
            if kept[1] < epoch or kept[2] < last:
                raise CorruptionError(
                    f"for producer {producer}, the snapshot has epoch {kept[1]} and last offset {kept[2]}, "
                    f"but the log has epoch {epoch} and last offset {last}"
                )
            if first_open >= 0 and not 0 <= kept[3] <= first_open:
                raise CorruptionError(
                    f"for producer {producer}, the snapshot has {_open_text(kept[3])}, "
                    f"but the log has {_open_text(first_open)}"
                )
    except CorruptionError as failure:
        place.stale(is_rebuilt, "producer snapshot", failure, path)


def _open_text(first_offset: int) -> str:
    return "no open transaction" if first_offset < 0 else f"an open transaction from log offset {first_offset}"


# ------------------------------------------------------------------- leader epochs, floor, topic id


def parse_epochs(content: bytes) -> list[tuple[int, int]]:
    """Returns (epoch, start offset) of a leader-epoch-checkpoint; raises CorruptionError.

    Source: docs/format/directory.md §1.5.
    """
    try:
        lines = content.decode("ascii").split("\n")
        if lines == [""] or lines == ["0", ""]:
            return []
        if lines[0].strip() != "0":
            raise CorruptionError(f"unknown version {lines[0]!r}")
        entries = [line.split() for line in lines[2:] if line.strip()]
        if int(lines[1]) != len(entries) or any(len(entry) != 2 for entry in entries):
            raise CorruptionError(
                f"the file announces {lines[1]} entries and has {len(entries)}; "
                "each entry must be a line with an epoch and an offset"
            )
        epochs = [(int(epoch), int(start)) for epoch, start in entries]
    except (ValueError, IndexError) as failure:
        raise CorruptionError(f"an epoch or start offset is not a number, or a line is missing: {failure}") from None
    for (epoch, start), (later_epoch, later_start) in itertools.pairwise(epochs):
        if later_epoch <= epoch or later_start < start:
            raise CorruptionError(
                f"epoch {later_epoch} (start offset {later_start}) must not follow epoch {epoch} (start offset {start})"
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
                raise CorruptionError(f"epoch {epoch} starts at log offset {start}, but the log ends at {end}")
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
    # A broker that leads in an older epoch than the log has drops the newer epochs and lists its own.
    is_dropped = (found > stated) & ~np.isin(found, numbers) & (batches["base_offset"] < starts[-1])
    for index in np.flatnonzero(is_wrong & ~is_dropped)[:1]:
        batch = batches[index]
        raise CorruptionError(
            f"the batch at offset {batch['base_offset']} has epoch {batch['leader_epoch']}, "
            f"but epoch {stated[index]} according to the checkpoint",
            log_offset=int(batch["base_offset"]),
        )
    for batch in batches[is_wrong][:1]:
        place.note(
            "leader epochs",
            f"epoch {batch['leader_epoch']} of the batch at offset {batch['base_offset']} is not in "
            "the checkpoint; a broker drops an epoch from the checkpoint if the broker leads with an older epoch",
            path,
            log_offset=int(batch["base_offset"]),
        )


def check_floor(place: Place, fs: FileSystem, directory: Path) -> None:
    """Checks that the file with the floor of history can be understood."""
    if read_floor(fs, directory).is_unknown:
        place.problem(
            "history",
            "the file cannot be read, so queries of the past are refused until the log is cleaned again. From then on, "
            "the history begins at the new cleaning",
            directory / FLOOR_FILE,
        )


def read_topic_id(place: Place, fs: FileSystem, directory: Path) -> bytes | None:
    """Returns the topic id in partition.metadata; None if the file does not exist, or has no id."""
    path = directory / PARTITION_METADATA
    content = read_optional(fs, path)
    if content is None:
        return None
    try:
        return parse_partition_metadata(content)
    except CorruptionError as failure:
        place.problem("topic id", failure.message, path)
        return None
