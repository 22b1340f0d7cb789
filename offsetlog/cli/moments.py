"""Moments as they are typed: a time, how long ago, or a log offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from offsetlog.cli.amounts import parse_duration
from offsetlog.cli.text import time_text
from offsetlog.clock import wall_ms
from offsetlog.directory.reading import age_text
from offsetlog.errors import InvalidArgumentError

#: For the help of the commands that take one.
MOMENTS = """A moment is a time as 2026-03-01T02:30 (in UTC, like all times that are printed here, or with a zone, as in
2026-03-01T02:30+01:00), how long ago as -2h or '2h ago', or a log offset as offset:12345. Log offsets are those of
the group's log partition, as `offsetlog history` prints them. A time in the future is refused."""

_AGO = re.compile(r"-\s*(?P<before>\S.*)|(?P<after>.*\S)\s+ago")
_OFFSET = re.compile(r"offset:(\d{1,19})")


def _ago(text: str) -> datetime:
    try:
        return datetime.now(UTC) - timedelta(milliseconds=parse_duration(text))
    except OverflowError:
        raise InvalidArgumentError(f"{text!r} ago is before every time that a calendar has") from None


def parse_moment(text: str) -> datetime | int | None:
    """Returns a time with its zone or a log offset; None for "now".

    Raises:
        InvalidArgumentError: it is none.
    """
    plain = text.strip()
    if plain == "now":
        return None
    if found := _OFFSET.fullmatch(plain):
        return int(found[1])
    if found := _AGO.fullmatch(plain):
        return _ago(found["before"] or found["after"])
    return parse_time(plain)


def parse_time(text: str) -> datetime:
    """Returns a time with its zone, which is UTC where none is told, or how long ago; raises InvalidArgumentError."""
    plain = text.strip()
    if found := _AGO.fullmatch(plain):
        return _ago(found["before"] or found["after"])
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        raise InvalidArgumentError(
            f"{text!r} is no moment; one is written 2026-03-01T02:30, 2026-03-01T02:30+01:00, -2h or offset:12345"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def past_moment(text: str) -> datetime | int:
    """Returns a moment that is not now; raises InvalidArgumentError."""
    moment = parse_moment(text)
    if moment is None:
        raise InvalidArgumentError("a moment of the past is wanted, not now")
    return moment


def moment_text(moment: datetime | int) -> str:
    """Returns a moment for a sentence."""
    if isinstance(moment, int):
        return f"log offset {moment}"
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def aged_moment_text(moment: datetime | int) -> str:
    """Returns a moment for a sentence, a time with how long ago it was: a mistyped day shows there."""
    if isinstance(moment, int):
        return moment_text(moment)
    ago = (datetime.now(UTC) - moment).total_seconds()
    return f"{moment_text(moment)}, {age_text(ago)} ago"


def aged_text(timestamp_ms: int) -> str:
    """Returns a time of a log with how long ago it was, for a sentence."""
    return f"{time_text(timestamp_ms)} UTC, {age_text((wall_ms() - timestamp_ms) / 1000)} ago"
