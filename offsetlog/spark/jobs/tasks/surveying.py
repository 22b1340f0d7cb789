"""The engine's own word on one partition of a log directory: its end, its digest, and what is open or damaged in it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from offsetlog._native.files import FileSystem
from offsetlog._native.replay import Replay

_SEGMENT = re.compile(r"(\d{20})\.log")
#: What ends every log: there are no records of it.
END = 2**63 - 1


@dataclass(slots=True)
class Survey:
    """What a replay of one partition's files says.

    Attributes:
        number: of the log partition.
        end: the log offset below which everything is in it.
        digest: of the state, without log offsets: positions, group records, pending (docs/digest.md), 32 digits each.
        physical: the same with log offsets.
        records: how many there are, the markers of transactions included.
        open: the open transactions: producer id, its epoch, and the groups that have positions in it.
        gaps: whether a log offset below the end has no record: it was cleaned, or the log was cut at its beginning.
        last_segment: the first log offset of the newest segment.
        damages: what could not be read, in one line each.
    """

    number: int
    end: int = 0
    digest: tuple[str, str, str] = ("", "", "")
    physical: tuple[str, str, str] = ("", "", "")
    records: int = 0
    open: list[tuple[int, int, list[str]]] = field(default_factory=list)
    gaps: bool = False
    last_segment: int = 0
    damages: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Returns it as text, for the way home."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """The inverse of `to_json`."""
        found: dict[str, Any] = json.loads(text)
        found["digest"], found["physical"] = tuple(found["digest"]), tuple(found["physical"])
        found["open"] = [(number, epoch, groups) for number, epoch, groups in found["open"]]
        return cls(**found)


def survey_partition(folder: str, number: int, until: int = END) -> Survey:
    """Replays the files of a partition.

    What ends the last segment in the middle of a batch, as after a crash or beside a writer at work, is no damage: the
    log ends before it.

    Args:
        folder: the partition's directory.
        number: of the partition.
        until: the log offset at and behind which nothing is applied.

    Raises:
        StorageError: a file cannot be read, or went while it was read.
        CapacityError: there is no memory for the state.
    """
    files = FileSystem()
    names = [name for name in files.list(folder) if _SEGMENT.fullmatch(name)]
    found = Survey(number)
    replay = Replay(files)
    for name in names:
        _apply(replay, Path(folder) / name, until, name == names[-1], found)
    found.end = replay.next_offset
    found.digest = _texts(replay.digest())
    found.physical = _texts(replay.digest(physical=True))
    found.records = replay.records
    found.open = [
        (producer_id, epoch, [group.decode("utf-8", "replace") for group in groups])
        for producer_id, epoch, _, _, _, groups in replay.transactions()
    ]
    found.gaps = replay.records < replay.next_offset
    found.last_segment = int(names[-1][:20]) if names else 0
    return found


def _apply(replay: Replay, path: Path, until: int, is_last: bool, found: Survey) -> None:
    position: int | None = 0
    while position is not None:
        step = replay.apply(path, position=position, until=until)
        if step["damage"] is None or replay.next_offset >= until:
            return
        position = replay.skip(path, step["position"])
        if position is not None or not is_last:
            found.damages.append(str(step["damage"]))


def _texts(sums: tuple[int, int, int]) -> tuple[str, str, str]:
    first, second, third = (f"{each:032x}" for each in sums)
    return first, second, third


def survey_json(folder: str, number: int, until: int | None) -> str:
    """As `survey_partition`, for a function of Spark's."""
    return survey_partition(f"{folder}/__consumer_offsets-{number}", number, END if until is None else until).to_json()
