"""Describes moments in the help and in sentences of commands; offsetlog/moments.py parses moments."""

from __future__ import annotations

from datetime import UTC, datetime

from offsetlog.cli.text import time_text
from offsetlog.clock import wall_ms
from offsetlog.directory.reading import age_text

#: A paragraph for the help of every command that takes a moment.
MOMENTS = """A moment is a time or a log offset. A time is written as 2026-03-01T02:30 (in UTC, like all printed times),
as 2026-03-01T02:30+01:00, as an age such as -2h or '2h ago', or in milliseconds since 1970; a time in the future is
refused. A log offset is written as offset:12345, and belongs to the group's log partition; `offsetlog history` prints
the log offset of each commit."""


def moment_text(moment: datetime | int) -> str:
    """Returns a moment as text for a sentence."""
    if isinstance(moment, int):
        return f"log offset {moment}"
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def aged_moment_text(moment: datetime | int) -> str:
    """Returns a moment as text for a sentence; if the moment is a time, adds its age, to reveal a mistyped day."""
    if isinstance(moment, int):
        return moment_text(moment)
    ago = (datetime.now(UTC) - moment).total_seconds()
    return f"{moment_text(moment)}, {age_text(ago)} ago"


def aged_text(timestamp_ms: int) -> str:
    """Returns a time from a log and its age, as text for a sentence."""
    return f"{time_text(timestamp_ms)} UTC, {age_text((wall_ms() - timestamp_ms) / 1000)} ago"
