"""The findings of a verification: problems and notes, each with the file and position concerned."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from offsetlog.errors import CorruptionError, DataLossError, OffsetLogError, StorageError

Severity = Literal["problem", "note"]

#: The kinds of findings about log offsets that are or may be missing.
MISSING_KINDS = ("missing", "in doubt")


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key whose value differs between two ways of computing a state.

    Attributes:
        kind: "position", "pending" (a position in an open transaction) or "group record".
        producer_id: the producer of a pending position, otherwise None.
        group: the group as text.
        topic: the topic; None for a group record.
        partition: the partition; None for a group record.
        key: the bytes of a group record's key, otherwise None.
        ways: the names of the two ways.
        sides: the values of the key in both states, field by field; None if a state lacks the key.
    """

    kind: str
    producer_id: int | None
    group: str
    topic: str | None
    partition: int | None
    key: bytes | None
    ways: tuple[str, str]
    sides: tuple[dict[str, Any] | None, dict[str, Any] | None]

    @property
    def place(self) -> str:
        """The key as text."""
        if self.key is not None:
            return f"record {self.key.hex()} of group {self.group!r}"
        pending = "" if self.producer_id is None else f"pending of producer {self.producer_id}: "
        return f"{pending}group {self.group!r}, topic {self.topic!r}, partition {self.partition}"

    def __str__(self) -> str:
        sides = [f"{way} {self._side(index)}" for index, way in enumerate(self.ways)]
        return f"{self.place}: {', '.join(sides)}"

    def _side(self, index: int) -> str:
        side, other = self.sides[index], self.sides[1 - index]
        if side is None:
            return "has none"
        first = next(iter(side))
        named = [
            name for name in side if name == first or other is None or other[name] != side[name]
        ]
        if other is None:
            named = [first, "log_offset"]
        return " ".join(f"{name.replace('_', ' ')} {side[name]!r}" for name in named)

    def row(self) -> dict[str, Any]:
        """Returns the key as a row, with its values under the names of the two ways."""
        return {
            "kind": self.kind,
            "producer_id": self.producer_id,
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "key": None if self.key is None else self.key.hex(),
            **dict(zip(self.ways, self.sides, strict=True)),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        severity: "problem" means that data differ from what was written, or that answers would be wrong.  "note" means
            an open transaction, or a trace of a crash or of a running writer, which the next open for writing repairs.
        kind: the subject:

            * a part of the log: "batch", "record", "segment", "unfinished tail", "open transaction";
            * a file or value beside the log: "offset index", "time index", "transaction index", "producer snapshot",
              "leader epochs", "checkpoint", "properties", "topic id";
            * "history": the file that says how far back the history goes;
            * "partitions": the number of partitions;
            * "wrong partition": a group is in a partition in which a broker would not look for it;
            * "partition": the engine refuses to open the partition;
            * "snapshot": an open would discard the snapshot;
            * "digest": two ways give different states;
            * "missing": acknowledged commits are missing;
            * "in doubt": records may be missing;
            * "unreadable": the disk cannot read the bytes.
        reason: one sentence.
        log_partition: the partition of the offsets topic; None if the finding is about the directory.
        path: the file or directory.
        position: the byte position in the file, or None.
        log_offset: the log offset, or None.
        keys: for "digest", the keys that differ, up to a limit.
        lost_from: for "missing" and "in doubt", the first log offset whose record is or may be missing.  For "batch",
            the first log offset of the damaged bytes, None if unknown.
        lost_below: the log offset after the last of these records, None if unknown.
        lost: the positions that a snapshot has at these log offsets, as (group, topic, partition).
    """

    severity: Severity
    kind: str
    reason: str
    log_partition: int | None
    path: str
    position: int | None = None
    log_offset: int | None = None
    keys: tuple[KeyDifference, ...] = ()
    lost_from: int | None = None
    lost_below: int | None = None
    lost: tuple[tuple[str, str, int], ...] = ()

    def row(self) -> dict[str, Any]:
        """Returns the finding as a row with every field; None or an empty list if a field does not apply."""
        return {
            "severity": self.severity,
            "kind": self.kind,
            "log_partition": self.log_partition,
            "lost_from": self.lost_from,
            "lost_below": self.lost_below,
            "lost": [dict(zip(("group", "topic", "partition"), key, strict=True)) for key in self.lost],
            "keys": [key.row() for key in self.keys],
            "file": self.path,
            "position": self.position,
            "log_offset": self.log_offset,
            "reason": self.reason,
        }


#: Receives findings as they are made.
Report = Callable[[Finding], None]


class Place:
    """The partition or directory that findings are about; creates the findings and reports them."""

    def __init__(self, report: Report, log_partition: int | None) -> None:
        self._report = report
        self.log_partition = log_partition

    def problem(
        self,
        kind: str,
        reason: str,
        path: str | os.PathLike[str],
        position: int | None = None,
        log_offset: int | None = None,
        keys: tuple[KeyDifference, ...] = (),
        lost: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Reports a problem; `lost` has the fields lost_from and lost_below of the Finding."""
        self._report(
            Finding(
                "problem",
                kind,
                reason,
                self.log_partition,
                os.fspath(path),
                position,
                log_offset,
                keys,
                *lost,
            )
        )

    def failure(self, kind: str, failure: OffsetLogError, path: str | os.PathLike[str]) -> None:
        """Reports an error as a problem of this kind, or of kind "unreadable" if a read failed.

        If the error names no path, the problem has the path `path`.
        """
        if isinstance(failure, StorageError):
            kind = "unreadable"
        lost = getattr(failure, "lost_from", None), getattr(failure, "lost_below", None)
        self.problem(
            kind, failure.message, failure.path or path, failure.position, failure.log_offset, lost=lost
        )

    def note(
        self,
        kind: str,
        reason: str,
        path: str | os.PathLike[str],
        position: int | None = None,
        log_offset: int | None = None,
    ) -> None:
        """Reports a note."""
        self._report(
            Finding("note", kind, reason, self.log_partition, os.fspath(path), position, log_offset)
        )

    def missing(self, loss: CorruptionError) -> None:
        """Reports commits that are or may be missing."""
        self._report(
            Finding(
                "problem",
                "missing" if isinstance(loss, DataLossError) else "in doubt",
                loss.message,
                self.log_partition,
                loss.path or "",
                lost_from=loss.lost_from,
                lost_below=loss.lost_below,
                lost=loss.keys,
            )
        )

    def stale(
        self, is_rebuilt: bool, kind: str, failure: OffsetLogError, path: str | os.PathLike[str]
    ) -> None:
        """Reports a damaged file beside the log, as a note if recovery will rebuild the file anyway."""
        report = self.note if is_rebuilt else self.problem
        ending = "; recovery will rebuild it" if is_rebuilt else ""
        report(kind, f"{failure.message}{ending}", path, failure.position, failure.log_offset)
