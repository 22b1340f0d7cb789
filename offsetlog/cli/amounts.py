"""Times and sizes as they are typed: 90s, 15m, 24h, 7d; 500K, 64MiB."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from offsetlog.errors import InvalidArgumentError

Time = TypeVar("Time")

_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIME = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(ms|[smhdw])", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:ib|b)?", re.IGNORECASE)


def parse_duration(text: str) -> int:
    """Returns a time such as 90s, 1.5h, 7d in milliseconds; 0 needs no unit.

    Raises:
        InvalidArgumentError: it is none.
    """
    stripped = text.strip()
    if stripped == "0":
        return 0
    match = _TIME.fullmatch(stripped)
    if match is None:
        raise InvalidArgumentError(f"{text!r} is no time; one is written 500ms, 90s, 15m, 24h or 7d")
    return round(float(match[1]) * _MS[match[2].lower()])


def parse_times(texts: list[str], what: str, parse: Callable[[str], Time]) -> tuple[Time | None, dict[str, Time]]:
    """Returns the time for all groups, None where none is given, and those by group, of arguments as 7d, g=7d, g-*=7d.

    Args:
        texts: as they are typed, each `[GROUP=]TIME`.
        what: they are, in the plural.
        parse: makes a value of a time.

    Raises:
        InvalidArgumentError: one is none, or two are about the same.
    """
    everybodys: list[Time] = []
    groups: dict[str, Time] = {}
    for text in texts:
        group, equals, time = text.rpartition("=")
        value = parse(time)
        if not equals:
            everybodys.append(value)
        elif group in groups:
            raise InvalidArgumentError(f"two {what} for {group!r}")
        else:
            groups[group] = value
    if len(everybodys) > 1:
        raise InvalidArgumentError(f"two {what} for all groups")
    return everybodys[0] if everybodys else None, groups


def parse_size(text: str) -> int:
    """Returns a size such as 500K, 64MiB, 1.5G or 4096 in bytes; the units are powers of 1024.

    Raises:
        InvalidArgumentError: it is none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is no size; one is written 4096, 500K, 64MiB or 1.5G")
    return round(float(match[1]) * _BYTES[match[2].lower()])


def duration_text(ms: int) -> str:
    """Returns a time as `parse_duration` takes it, in the unit that suits it."""
    for unit in ("w", "d", "h", "m", "s"):
        if ms >= _MS[unit] and ms % _MS[unit] == 0:
            return f"{ms // _MS[unit]}{unit}"
    return f"{ms}ms"
