"""Times of groups and sizes as they are typed: 7d, g=7d; 500K, 64MiB."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from offsetlog.errors import InvalidArgumentError

Time = TypeVar("Time")

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:ib|b)?", re.IGNORECASE)


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
