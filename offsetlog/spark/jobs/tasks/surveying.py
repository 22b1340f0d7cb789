"""The engine's own survey of one log partition: its end, its digest, its open transactions, and its damage."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from offsetlog._native.replay import Replay
from offsetlog.directory.listing import decode_text
from offsetlog.errors import MissingFileError
from offsetlog.spark.scan.files import Files, Segment, attempts, list_segments


@dataclass(slots=True)
class Survey:
    """The result of a replay of one partition's files.

    Attributes:
        number: the number of the log partition.
        end: the log offset after the last record that was replayed.
        has_tail: whether the log ends with an incomplete batch, as after a crash or while a process writes to it.
        digest: the digest of the state without log offsets (docs/digest.md).  It consists of three sums, for positions,
            group records and pending positions, of 32 digits each.
        physical: the digest with log offsets, in the same form.
        records: the number of records, including the markers of transactions.
        open: the open transactions: for each, the producer id, the producer epoch, and the groups with positions in it.
        gaps: whether a log offset below the end has no record, because it was cleaned away or is below the log start.
        last_segment: the first log offset of the newest segment.
        damages: a line for each place that cannot be read.
    """

    number: int
    end: int = 0
    has_tail: bool = False
    digest: tuple[str, str, str] = ("", "", "")
    physical: tuple[str, str, str] = ("", "", "")
    records: int = 0
    open: list[tuple[int, int, list[str]]] = field(default_factory=list)
    gaps: bool = False
    last_segment: int = 0
    damages: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Returns the survey as text, to be sent to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """The inverse of `to_json`."""
        found: dict[str, Any] = json.loads(text)
        found["digest"], found["physical"] = tuple(found["digest"]), tuple(found["physical"])
        found["open"] = [(number, epoch, groups) for number, epoch, groups in found["open"]]
        return cls(**found)


def survey_partition(folder: str, number: int) -> Survey:
    """Replays the files of a partition.  Other processes may write to it and clean it meanwhile.

    After a crash, or while a process writes to the log, the last segment may end in the middle of a batch.  This is not
    damage: the log ends before that batch.  If a crash interrupted a swap of segments, the swap counts as finished or
    undone, as in the data source.

    Args:
        folder: the partition's directory.
        number: the number of the partition.

    Raises:
        StorageError: a file cannot be read, or files were replaced faster than they could be read.
        CapacityError: the state does not fit in memory.
    """
    files = Files()
    for left in attempts():
        try:
            return _survey(files, list_segments(files, folder), number)
        except MissingFileError:
            # A cleaner removed the file after it was listed; a new list shows the whole log again.
            if left == 0:
                raise
    raise AssertionError("the loop returns or raises")


def _survey(files: Files, segments: tuple[Segment, ...], number: int) -> Survey:
    found = Survey(number, last_segment=segments[-1].base_offset if segments else 0)
    replay = Replay(files.native)
    for segment in segments:
        _apply(replay, segment.path, found, is_last=segment == segments[-1])
    # If all records were cleaned away, only the name of the newest segment shows where the log ends.
    found.end = max(replay.next_offset, found.last_segment)
    found.digest = _texts(replay.digest())
    found.physical = _texts(replay.digest(physical=True))
    found.records = replay.records
    found.open = [
        (producer_id, epoch, [decode_text(group) for group in groups])
        for producer_id, epoch, _, _, _, groups in replay.transactions()
    ]
    found.gaps = replay.records < found.end
    return found


def _apply(replay: Replay, path: str, found: Survey, *, is_last: bool) -> None:
    position: int | None = 0
    tried = followed = -1
    while position is not None:
        step = replay.apply(path, position=position)
        damage, stopped = step["damage"], step["position"]
        if damage is None:
            return
        if stopped != tried:
            # A running writer may have filled these bytes after they were read.
            position = tried = stopped
            continue
        position = replay.skip(path, stopped)
        if position is not None and stopped != followed:
            # The batch after this position may be newer than the first read.  But a writer writes batches in order, so
            # the bytes here are filled by now, unless they are damaged.
            position = followed = stopped
        elif position is None and is_last:
            found.has_tail = True
        else:
            found.damages.append(str(damage))


def _texts(sums: tuple[int, int, int]) -> tuple[str, str, str]:
    first, second, third = (f"{each:032x}" for each in sums)
    return first, second, third


def survey_json(folder: str, number: int) -> str:
    """Returns the result of `survey_partition` as JSON.  Spark's tasks call this function."""
    return survey_partition(f"{folder}/__consumer_offsets-{number}", number).to_json()
