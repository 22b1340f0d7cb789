"""What commands print: rows as JSON, as a table on a terminal, or as plain text; errors in one line; progress.

Whatever comes from a log can hold any character.  Control characters are escaped everywhere, so that a name can neither
move a cursor nor end a line; letters of any language are printed as they are, as far as the stream's encoding has them.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

Row = dict[str, Any]

#: Rows up to which a terminal gets a table; more are printed line by line as they come.
TABLE_ROWS_MAX = 1000

# C0, DEL, C1, line and paragraph separators, and what turns the direction of the text around.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class Format(enum.StrEnum):
    """How rows are printed."""

    TEXT = "text"
    JSON = "json"


def escape(text: str) -> str:
    r"""Returns the text with control characters as \t, \n, \r, \xNN or \uNNNN."""
    # Nearly all names are printable, and that is told fast.
    return text if text.isprintable() else _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def name_text(name: str) -> str:
    """Returns a name for a sentence; the empty one, which is legal for a group, as two quotes."""
    return escape(name) or '""'


def time_text(timestamp_ms: int | None) -> str:
    """Returns a time in UTC, "-" for none, the number itself where no calendar has it."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(" ", "milliseconds")


def json_text(value: Any) -> str:
    """Returns JSON in one line; control characters are escaped also where JSON would not ask for it."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(value: Any) -> str:
    """Returns any value as text in one line; objects as JSON."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return escape(value)
    return json_text(value) if isinstance(value, (dict, list)) else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the text form.

    Attributes:
        name: the field of the row.
        title: its heading; the name where there is none.
        show: how a value becomes text.
        right: whether numbers stand right, on a terminal.
        wide: whether it may take the room that is left, on a terminal; others are never cut.
        narrow: whether a terminal shows it; what is not a terminal gets every column.
    """

    name: str
    title: str = ""
    show: Callable[[Any], str] = plain
    right: bool = False
    wide: bool = False
    narrow: bool = True

    @property
    def heading(self) -> str:
        """What stands above it."""
        return self.title or self.name


def prepare(stream: IO[str]) -> None:
    """Makes a standard stream print what its encoding lacks as escapes, instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _is_unicode(stream: IO[str]) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


class Output:
    """What a command prints to; one for each run of a command."""

    def __init__(self, form: Format, stream: IO[str] | None = None) -> None:
        self.form = form
        self.stream = stream if stream is not None else sys.stdout
        self.is_terminal = self.stream.isatty()
        self._is_unicode = _is_unicode(self.stream)
        self.console = Console(file=self.stream, highlight=False, markup=False, emoji=False, soft_wrap=False)

    @property
    def is_json(self) -> bool:
        """Whether one object a line is wanted."""
        return self.form is Format.JSON

    def line(self, text: str = "") -> None:
        """Prints a line of text; nothing where JSON is wanted."""
        if not self.is_json:
            print(text, file=self.stream)

    def title(self, text: str) -> None:
        """Prints a line in bold on a terminal."""
        if self.is_json:
            return
        if self.is_terminal:
            self.console.print(Text(text, style="bold"), soft_wrap=True)
        else:
            print(text, file=self.stream)

    def object(self, row: Row) -> None:
        """Prints one object as a line of JSON, whatever the form."""
        text = json_text(row)
        if not self._is_unicode:
            text = json.dumps(row, ensure_ascii=True)
        self._write(text)

    def _write(self, line: str) -> None:
        self.stream.write(line + "\n")

    def rows(self, columns: list[Column], rows: Iterable[Row], nothing: str) -> int:
        """Prints rows as they come, returns how many; `nothing` is said on a terminal where there are none."""
        iterator = iter(rows)
        if self.is_json:
            return self._each(iterator, self.object)
        if not self.is_terminal:
            print("\t".join(column.heading for column in columns), file=self.stream)
            return self._each(iterator, lambda row: self._write("\t".join(_cells(columns, row))))
        first = list(itertools.islice(iterator, TABLE_ROWS_MAX + 1))
        columns = [column for column in columns if column.narrow]
        if not first:
            print(nothing, file=self.stream)
            return 0
        if len(first) <= TABLE_ROWS_MAX:
            self._table(columns, first)
            return len(first)
        return self._aligned(columns, first, iterator)

    @staticmethod
    def _each(rows: Iterator[Row], show: Callable[[Row], None]) -> int:
        count = 0
        for row in rows:
            show(row)
            count += 1
        return count

    def _table(self, columns: list[Column], rows: list[Row]) -> None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for column in columns:
            table.add_column(
                Text(column.heading),
                justify="right" if column.right else "left",
                no_wrap=not column.wide,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(Text(cell) for cell in _cells(columns, row)))
        self.console.print(table)

    def _aligned(self, columns: list[Column], first: list[Row], rest: Iterator[Row]) -> int:
        # Too many for a table that has to see them all: widths by the first, then as they come.
        cells = [_cells(columns, row) for row in first]
        widths = [max(len(each[index]) for each in [_headings(columns), *cells]) for index in range(len(columns))]
        count = 0
        for each in itertools.chain([_headings(columns)], cells, (_cells(columns, row) for row in rest)):
            padded = [
                cell.rjust(width) if column.right else cell.ljust(width)
                for column, cell, width in zip(columns, each, widths, strict=True)
            ]
            print("  ".join(padded).rstrip(), file=self.stream)
            count += 1
        return count - 1

    def facts(self, facts: list[tuple[str, str]]) -> None:
        """Prints names and values below each other; nothing where JSON is wanted."""
        width = max((len(name) for name, _ in facts), default=0)
        for name, value in facts:
            self.line(f"{name.ljust(width)}  {value}")


def _cells(columns: list[Column], row: Row) -> list[str]:
    return [column.show(row.get(column.name)) for column in columns]


def _headings(columns: list[Column]) -> list[str]:
    return [column.heading for column in columns]


# ---------------------------------------------------------------------------------------------------- beside the output


def complain(message: str) -> None:
    """Prints one line to the standard error: what went wrong, or what is to be known beside the output."""
    # What was printed before must stand before it, also where both go to one file.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        print(f"offsetlog: {escape(message)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(label: str, total: int, *, in_bytes: bool = True) -> Iterator[Callable[[int], None]]:
    """Shows a bar on the standard error, when that is a terminal; gives what to call with each step."""
    if not sys.stderr.isatty() or total <= 0:
        yield lambda done: None
        return
    amount = DownloadColumn() if in_bytes else TextColumn("{task.completed:,.0f} of {task.total:,.0f}")
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        amount,
        console=Console(file=sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)


def bytes_text(size: float) -> str:
    """Returns a number of bytes in the unit that suits it."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("the loop returns")


def count_text(count: int, one: str, many: str = "") -> str:
    """Returns "1 group", "1,200 groups"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
