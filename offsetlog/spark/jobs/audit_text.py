"""Values of an audit as text: times, durations, sizes, and names that may hold any character."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# C0, DEL, C1, line and paragraph separators, surrogates, and characters that change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: The last moment that a plot shows, in ms since 1970; it leaves space for margins before the calendar ends.
LAST_MS = round((datetime(9000, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds() * 1000)


def plain(text: str) -> str:
    """Returns a name in one line.  Control characters are escaped; a name without visible characters is quoted."""
    seen = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return seen if seen.strip() else f'"{seen}"'


def short(text: str, length: int = 28) -> str:
    """Returns a name for a plot; the middle of a long name is left out."""
    whole = plain(text)
    if len(whole) <= length:
        return whole
    head = (length - 1) * 2 // 3
    return f"{whole[:head]}…{whole[head + 1 - length :]}"


def time_text(ms: int | None) -> str:
    """Returns a time in UTC.  Returns a dash for None, and the number itself if it is not a valid date."""
    if ms is None:
        return "–"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError):
        return str(ms)


def moment(ms: int) -> datetime:
    """Returns a time for a plot.  A time outside the range from 1970 to LAST_MS is replaced by the nearest limit."""
    return _EPOCH + timedelta(milliseconds=min(max(ms, 0), LAST_MS))


def duration_text(ms: int | None) -> str:
    """Returns a duration in its two largest units."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms // 1000
    for size, unit, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size} {unit} {rest} {smaller}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"


def bytes_text(size: float | None) -> str:
    """Returns a number of bytes in a suitable unit."""
    if size is None:
        return "–"
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def count_text(count: float | None) -> str:
    """Returns a number with separators between the thousands.  A fraction gets at most two digits."""
    if count is None:
        return "–"
    return f"{count:,}" if isinstance(count, int) else f"{count:,.2f}".rstrip("0").rstrip(".")
