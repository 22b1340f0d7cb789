"""Parses moments and durations as people write them.  Every command, option and call that takes one uses this module.

A moment is a time, an age, or a log offset:

    2026-03-01T02:30  2026-03-01  2026-03-01T02:30+01:00  2026-03-01T02:30Z    UTC if no zone is named
    2026-03-01 02:30:05.250 UTC
    1772332200000                                                              ms since 1970, 13 digits or more
    2h ago  -2h  1.5d ago                                                      before now, by this machine's clock
    offset:12345                                                               a log offset
    now
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from offsetlog.errors import InvalidArgumentError

#: A moment as an argument: a time with its zone, a log offset, or text as the module's docstring shows.
Moment = datetime | int | str

_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(ms|[smhdw])", re.ASCII | re.IGNORECASE)
#: The unit of a month in other programs.  It is refused, so that it is not mistaken for a minute.
_MONTHS = re.compile(r"[\d.]+\s*(M|[Mm]on\w*)", re.ASCII)
#: Units in full, as people write them before "ago"; the first letter is the unit.
_IN_FULL = re.compile(r"(?<=[\d ])(?:sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?)$", re.ASCII | re.IGNORECASE)
_AGO = re.compile(r"-\s*(?P<before>\S.*)|(?P<after>.*\S)\s+ago")
_OFFSET = re.compile(r"offset:(\d{1,19})", re.ASCII)
#: Milliseconds since 1970, for times from September 2001 on.  A number with fewer digits is refused, because it may be
#: a log offset, or a date without its dashes.
_EPOCH_MS = re.compile(r"\d{13,19}", re.ASCII)
#: The lowest number that counts as milliseconds since 1970; it has 13 digits.
EPOCH_MS_MIN = 10**12
#: The written form of a day, whether or not the calendar has that day.
_CALENDAR = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?$", re.ASCII)
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """Returns the milliseconds of a duration such as 90s, 1.5h or 7d; 0 needs no unit.

    The unit `M` is refused, because elsewhere it means a month.

    Raises:
        InvalidArgumentError: the text is not a duration.
    """
    stripped = text.strip()
    if stripped == "0":
        return 0
    match = _DURATION.fullmatch(stripped)
    if match is None or match[2] == "M":
        hint = "; 1m is a minute, and a month is 30d" if _MONTHS.fullmatch(stripped) else ""
        raise InvalidArgumentError(f"{text!r} is not a duration; write it as 500ms, 90s, 15m, 24h or 7d{hint}")
    return round(float(match[1]) * _MS[match[2].lower()])


def duration_text(ms: int) -> str:
    """Returns a duration as text that `parse_duration` accepts, in the largest unit of which it is a multiple."""
    for unit in ("w", "d", "h", "m", "s"):
        if ms >= _MS[unit] and ms % _MS[unit] == 0:
            return f"{ms // _MS[unit]}{unit}"
    return f"{ms}ms"


def parse_moment(text: str, name: str | None = None) -> datetime | int | None:
    """Returns the moment that a text names: a time with its time zone, or a log offset; None for "now".

    Args:
        text: the moment as a person wrote it.
        name: the name of the argument, which the error shows.

    Raises:
        InvalidArgumentError: the text does not name a moment.
    """
    plain = text.strip()
    if plain == "now":
        return None
    if found := _OFFSET.fullmatch(plain):
        return int(found[1])
    return _time(text, name, "a moment", ", now or offset:12345")


def parse_past_moment(text: str, name: str | None = None) -> datetime | int:
    """Returns the moment that a text names, as `parse_moment` does.  Raises InvalidArgumentError for "now"."""
    moment = parse_moment(text, name)
    if moment is None:
        raise InvalidArgumentError(f"{_shown(text, name)} is not in the past; name a time or a log offset")
    return moment


def is_relative(text: str) -> bool:
    """Returns whether a text names a moment relative to now, such as "2h ago"."""
    return _AGO.fullmatch(text.strip()) is not None


def parse_time(text: str, name: str | None = None) -> datetime:
    """Returns the time, with its zone, that a text names.  "now" gives the present time; a log offset is refused."""
    if text.strip() == "now":
        return datetime.now(UTC)
    return _time(text, name, "a time", " or now")


def _shown(text: str, name: str | None) -> str:
    return repr(text) if name is None else f"{name}={text!r}"


def _time(text: str, name: str | None, kind: str, others: str) -> datetime:
    plain = text.strip()
    if found := _AGO.fullmatch(plain):
        return _ago(found["before"] or found["after"], text, name)
    # Commands print times with the zone "UTC" after them, so this form is accepted as well.
    named = plain.removesuffix(" UTC")
    try:
        if _EPOCH_MS.fullmatch(plain):
            return _EPOCH + timedelta(milliseconds=int(plain))
        if not _DIGITS.fullmatch(named):
            moment = datetime.fromisoformat(named)
            if moment.tzinfo is None:
                return moment.replace(tzinfo=UTC)
            if named == plain:
                return moment
    except (ValueError, OverflowError):
        if _CALENDAR.match(named):
            raise InvalidArgumentError(
                f"{_shown(text, name)} is not in the calendar: there is no such day or time"
            ) from None
    if _DURATION.fullmatch(plain):
        raise InvalidArgumentError(
            f"{_shown(text, name)} is not {kind}; for a time in the past, write -{plain} or '{plain} ago'"
        )
    raise InvalidArgumentError(
        f"{_shown(text, name)} is not {kind}; write 2026-03-01T02:30, 2026-03-01T02:30+01:00, 2h ago, -2h, "
        f"1772332200000 (ms since 1970){others}"
    )


def _ago(duration: str, text: str, name: str | None) -> datetime:
    try:
        short = _IN_FULL.sub(lambda unit: unit[0][0], duration.strip())
        return datetime.now(UTC) - timedelta(milliseconds=parse_duration(short))
    except OverflowError:
        raise InvalidArgumentError(f"{_shown(text, name)} is before the year 1") from None
    except InvalidArgumentError as failure:
        raise InvalidArgumentError(f"{_shown(text, name)}: {failure}") from None
