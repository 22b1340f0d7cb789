"""Prints the output of commands: rows as a table, TSV, CSV or JSON; errors in one line; progress."""

from __future__ import annotations

import contextlib
import csv
import enum
import functools
import itertools
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

from offsetlog.cli.layout import GAP, Cells, Column, Layout, Row, cell_len, wrap
from offsetlog.cli.text import ascii_json_text, escape, json_text

if TYPE_CHECKING:
    from rich.console import Console

# rich is imported only to draw on a terminal: output to a program must not wait for the import.

#: The rows that determine the layout of a terminal's table; later rows are printed as they come.
TABLE_ROWS_MAX = 1000


class Format(enum.StrEnum):
    """How rows are printed."""

    TEXT = "text"
    TSV = "tsv"
    CSV = "csv"
    JSON = "json"


def prepare(stream: IO[str]) -> None:
    """Makes a standard stream print escapes for characters that its encoding lacks, instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _is_unicode(stream: IO[str]) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


class _Lines:
    """Replaces CR LF, with which a CSV writer ends its lines, by a line feed.

    A CSV writer quotes a value that contains a character of the writer's line end.  With CR LF, it therefore quotes
    every value that contains CR or LF.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, line: str) -> int:
        return self._stream.write(line[:-2] + "\n")


class Output:
    """The output of one run of a command."""

    def __init__(self, form: Format, stream: IO[str] | None = None) -> None:
        self.form = form
        self.stream = stream if stream is not None else sys.stdout
        self.is_terminal = self.stream.isatty()
        self._is_unicode = _is_unicode(self.stream)
        self._json_text = json_text if self._is_unicode else ascii_json_text

    @functools.cached_property
    def console(self) -> Console:
        """The rich console that draws on the terminal."""
        from rich.console import Console

        return Console(file=self.stream, highlight=False, markup=False, emoji=False, soft_wrap=False)

    def styled(self, text: str, style: str) -> None:
        """Prints a line on a terminal in a style of rich; wraps a line that is too long between words."""
        for piece in self.fitted(text):
            self._print_styled(piece, style)

    def _print_styled(self, line: str, style: str) -> None:
        from rich.text import Text

        self.console.print(Text(line, style=style), soft_wrap=True)

    @property
    def is_text(self) -> bool:
        """Whether the output is for a person, so that it has sentences besides the rows."""
        return self.form is Format.TEXT

    @property
    def is_json(self) -> bool:
        """Whether the output is one JSON object per line."""
        return self.form is Format.JSON

    def line(self, text: str = "") -> None:
        """Prints a line of text; prints nothing in a format for programs."""
        if self.is_text:
            for piece in self.fitted(text):
                print(piece, file=self.stream)

    def verbatim(self, text: str) -> None:
        """Prints a line without wrapping it, so that it is copied from the terminal as one line."""
        self._write(text)

    def fitted(self, text: str, room: int = 0) -> list[str]:
        """Wraps a line between words to the width of the terminal, since the terminal would break words.

        Args:
            text: the line.
            room: how many cells to leave free in each line.
        """
        width = self.console.width - room if self.is_terminal else 0
        if not self.is_terminal or cell_len(text) <= width:
            return [text]
        indent = text[: len(text) - len(text.lstrip())]
        pieces = wrap(text.split(), width - len(indent) - len(GAP))
        return [f"{indent}{GAP if number else ''}{piece}" for number, piece in enumerate(pieces)]

    def title(self, text: str) -> None:
        """Prints a line, in bold on a terminal; prints nothing in a format for programs."""
        if not self.is_text:
            return
        if self.is_terminal:
            self.styled(text, "bold")
        else:
            print(text, file=self.stream)

    def result(self, columns: Sequence[Column], row: Row) -> None:
        """Prints a result of one row in a format for programs; text output has sentences instead."""
        if not self.is_text:
            self.rows(columns, [row], "")

    def summary(self, columns: Sequence[Column], row: Row) -> None:
        """Prints an object whose fields differ from those of the rows; prints nothing in formats other than JSON."""
        if self.is_json:
            self.json_line({column.name: row[column.name] for column in columns})

    def json_line(self, row: Row) -> None:
        """Prints an object as a line of JSON, whatever the format."""
        self._write(self._json_text(row))

    def objects(self, shared: Row, rows: Iterable[Row]) -> None:
        """Prints objects that begin with the same fields, and converts those fields to text only once."""
        before = self._json_text(shared)[:-1] + ", "
        self.stream.writelines([before + self._json_text(row)[1:] + "\n" for row in rows])

    def _write(self, line: str) -> None:
        self.stream.write(line + "\n")

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], nothing: str, *, wide: bool = False) -> int:
        """Prints rows as they come; returns their number.

        Args:
            columns: the fields to print, in this order; rows may have more fields.
            rows: the rows, each with every field of `columns`.
            nothing: the sentence to print on a terminal if there are no rows; "" to print nothing.
            wide: whether a terminal shows all columns, in one line per row, however long the line is.
        """
        iterator = iter(rows)
        if self.is_json:
            names = [column.name for column in columns]
            return self._each(iterator, lambda row: self.json_line({name: row[name] for name in names}))
        is_table = self.is_text and self.is_terminal
        # The first row is read before the heading is printed: if reading fails, nothing is printed.
        first = list(itertools.islice(iterator, TABLE_ROWS_MAX + 1 if is_table else 1))
        rest = itertools.chain(first, iterator)
        if not is_table:
            return self._separated(columns, rest)
        if not first:
            if nothing:
                print(nothing, file=self.stream)
            return 0
        return self._table(columns, first, rest, wide=wide)

    def _separated(self, columns: Sequence[Column], rows: Iterator[Row]) -> int:
        cells = Cells(columns, csv=self.form is Format.CSV)
        names = [column.name for column in columns]
        if self.form is Format.CSV:
            write = csv.writer(_Lines(self.stream)).writerow
            write(names)
            return self._each(rows, lambda row: write(cells.of(row)))
        self._write("\t".join(names))
        return self._each(rows, lambda row: self._write("\t".join(cells.of(row))))

    def _table(self, columns: Sequence[Column], first: list[Row], rows: Iterator[Row], *, wide: bool) -> int:
        layout = Layout.of(columns, first, None if wide else self.console.width)
        for line in layout.heading():
            self._print_styled(line, "bold")
        self._write(layout.rule("\u2500" if self._is_unicode else "-"))
        unseen = 0

        def show(row: Row) -> None:
            nonlocal unseen
            unseen += layout.hides_difference(row)
            self._write("\n".join(layout.lines(row)))

        count = self._each(rows, show)
        if layout.hidden:
            note = f"not shown: {', '.join(layout.hidden)} (--wide or --format json shows all)"
            for line in wrap(note.split(" "), self.console.width):
                self._print_styled(line, "dim")
        if unseen:
            subject = "1 row differs" if unseen == 1 else f"{unseen:,} rows differ"
            for line in wrap(f"{subject} only in fields that are not shown".split(" "), self.console.width):
                self._print_styled(line, "dim")
        return count

    @staticmethod
    def _each(rows: Iterator[Row], show: Callable[[Row], object]) -> int:
        count = 0
        for row in rows:
            show(row)
            count += 1
        return count

    def facts(self, facts: list[tuple[str, str]]) -> None:
        """Prints names and values, one pair per line; prints nothing in a format for programs."""
        width = max((len(name) for name, _ in facts), default=0)
        for name, value in facts:
            first, *more = self.fitted(value, width + len(GAP))
            self.line(f"{name.ljust(width)}{GAP}{first}")
            for piece in more:
                self.line(" " * (width + len(GAP)) + piece.lstrip())


# ---------------------------------------------------------------------------------------------------- beside the output


def _fitted_to_stderr(line: str) -> list[str]:
    # A terminal would break the words of a longer line; a file or pipe gets one line.
    width = shutil.get_terminal_size().columns
    if not sys.stderr.isatty() or cell_len(line) <= width:
        return [line]
    pieces = wrap(line.split(" "), width - len(GAP))
    return [f"{GAP if number else ''}{piece}" for number, piece in enumerate(pieces)]


def complain(message: str) -> None:
    """Prints one line to the standard error: an error, or a remark that is not part of the output."""
    # Earlier output must come before this line, even if both streams go to one file.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if sys.stderr is None:  # it was closed before the start; `print` would take the standard output
        return
    with contextlib.suppress(OSError, ValueError):
        for line in _fitted_to_stderr(f"offsetlog: {escape(message)}"):
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(label: str, total: int, *, in_bytes: bool = True) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar if the standard error is a terminal; yields the function to call with each step."""
    if not sys.stderr.isatty() or total <= 0:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

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
    """Returns a number of bytes as text in a suitable unit."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("the loop returns")


def count_text(count: int, one: str, many: str = "") -> str:
    """Returns a number with its noun, such as "1 group" or "1,200 groups"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
