"""What a verification finds: problems and notes, each with its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from offsetlog.errors import OffsetLogError

Severity = Literal["problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        severity: "problem": something is not as it was written, or answers would be wrong; "note": what a crash or a
            writer at work leaves, and the next writable open puts right; or a transaction that is open.
        kind: what it concerns: "batch", "record", "segment", "unfinished tail", "offset index", "time index",
            "transaction index", "producer snapshot", "leader epochs", "checkpoint", "properties", "topic id",
            "wrong partition", "open transaction", "partitions", "partition" (the engine refuses to open it), "digest".
        reason: one sentence.
        log_partition: of the offsets topic; None for what concerns the directory.
        path: the file or directory.
        position: byte position in the file, or None.
        log_offset: or None.
    """

    severity: Severity
    kind: str
    reason: str
    log_partition: int | None
    path: str
    position: int | None = None
    log_offset: int | None = None

    def row(self) -> dict[str, Any]:
        """Returns the finding with the fields severity, kind, log_partition, file, position, log_offset and reason."""
        return {
            "severity": self.severity,
            "kind": self.kind,
            "log_partition": self.log_partition,
            "file": self.path,
            "position": self.position,
            "log_offset": self.log_offset,
            "reason": self.reason,
        }


#: What takes findings as they are made.
Report = Callable[[Finding], None]


class Place:
    """Where findings of one partition, or of the directory, belong; makes them and hands them on."""

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
    ) -> None:
        """Reports a problem."""
        self._report(Finding("problem", kind, reason, self.log_partition, os.fspath(path), position, log_offset))

    def note(
        self,
        kind: str,
        reason: str,
        path: str | os.PathLike[str],
        position: int | None = None,
        log_offset: int | None = None,
    ) -> None:
        """Reports a note."""
        self._report(Finding("note", kind, reason, self.log_partition, os.fspath(path), position, log_offset))

    def stale(self, is_rebuilt: bool, kind: str, failure: OffsetLogError, path: str | os.PathLike[str]) -> None:
        """Reports a damaged file beside the log: a note where the next recovery makes it anew in any case."""
        tell = self.note if is_rebuilt else self.problem
        ending = "; recovery makes it anew" if is_rebuilt else ""
        tell(kind, f"{failure.message}{ending}", path, failure.position, failure.log_offset)
