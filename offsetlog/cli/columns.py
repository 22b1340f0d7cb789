"""The columns of the tables in `fields`: how each type of value is written on a terminal, and in TSV and CSV.

JSON output has each value unchanged.  In TSV and CSV, a number is written as in JSON, a time is written in UTC with a
Z, a truth value is written as true or false, a list or an object is written as JSON, and a missing value is an empty
cell.  CSV quotes text.  TSV has no quotes, so it escapes backslashes and control characters; a reader can undo the
escapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from offsetlog.cli.fields import FIELDS, TABLES, Field, Kind
from offsetlog.cli.layout import Column
from offsetlog.cli.output import bytes_text
from offsetlog.cli.text import escape, json_text, plain, time_text
from offsetlog.directory.reading import age_text

NUMBERS = (Kind.INTEGER, Kind.BYTES, Kind.RATIO, Kind.DURATION)


def utc_text(timestamp_ms: int | None) -> str:
    """Converts a time in ms since 1970 to UTC with a Z.

    Returns "-" if there is no time, and the number as text if the time is outside the calendar.
    """
    text = time_text(timestamp_ms)
    return f"{text}Z" if ":" in text else text


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def _tsv_cell(value: Any) -> str:
    text = _csv_cell(value)
    # In values of other types JSON has escaped the control characters.
    return escape(text.replace("\\", "\\\\")) if isinstance(value, str) else text


def _time_cell(timestamp_ms: int | None) -> str:
    return "" if timestamp_ms is None or timestamp_ms == -1 else utc_text(timestamp_ms)


def _duration_text(ms: int) -> str:
    return f"{ms} ms" if ms < 10_000 else age_text(ms / 1000)


def _many_text(values: list[Any]) -> str:
    return str(len(values)) if values else "-"


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.0%}"


_SHOWN: dict[Kind, Callable[[Any], str]] = {
    Kind.TIME: utc_text,
    Kind.DURATION: _duration_text,
    Kind.BYTES: bytes_text,
    Kind.RATIO: _ratio_text,
    Kind.LIST: _many_text,
}


def _show_of(field: Field) -> Callable[[Any], str]:
    show = _SHOWN.get(field.kind, plain)
    unknown = field.unknown
    return lambda value: "-" if value is None or value == unknown or value == "" else show(value)


def _words(show: Callable[[Any], str]) -> Callable[[Any], list[str]]:
    return lambda value: show(value).split(" ")


def _column_of(name: str, rank: int) -> Column:
    field = FIELDS[name]
    show = _show_of(field)
    return Column(
        name,
        show,
        _time_cell if field.kind is Kind.TIME else _tsv_cell,
        _time_cell if field.kind is Kind.TIME else _csv_cell,
        right=field.kind in NUMBERS or field.kind is Kind.LIST,
        rank=rank,
        # A sentence may be wrapped between words; a name may not.
        parts=_words(show) if name in ("reason", "note") else None,
    )


@functools.cache
def columns(table: str) -> tuple[Column, ...]:
    """Returns the columns of a table in `fields.TABLES`; raises KeyError if the table does not exist."""
    return tuple(_column_of(*use) for use in TABLES[table])


def shown_as(made: tuple[Column, ...], name: str, **changes: Any) -> tuple[Column, ...]:
    """Returns the columns, with attributes of the column `name` changed; see `Column`."""
    return tuple(replace(each, **changes) if each.name == name else each for each in made)
