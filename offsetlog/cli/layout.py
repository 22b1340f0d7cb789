"""The layout of rows on a terminal: shows as many columns as fit, and breaks no name.

A row takes one line with as many columns as fit; the most important columns are chosen first.  A long value takes no
space from other columns.  If it does not fit its column, it is printed below the row, after the column's name.  If not
even the columns of rank 0 fit, each row takes several lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from offsetlog.cli.text import plain

Row = dict[str, Any]

GAP = "  "
INDENT = "    "
#: A value of more cells may be printed below its row.
LONG = 40


def cell_len(text: str) -> int:
    """Returns the width of a text on a terminal, in cells."""
    # rich is imported only to draw on a terminal: output to a program must not wait for the import.
    from rich.cells import cell_len

    return cell_len(text)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: the name of the field in a row, which is also the heading.
        show: how a value becomes text on a terminal.
        tsv_cell: how a value becomes text in TSV.
        csv_cell: how a value becomes text in CSV.
        right: whether a terminal aligns the values to the right.
        rank: 0 if a terminal always shows the column; on a narrow terminal, columns of rank 2 are omitted first, then
            rank 1.
        parts: splits a value into pieces between which a line may be broken; the pieces, joined by spaces, equal what
            `show` returns.
    """

    name: str
    show: Callable[[Any], str] = plain
    tsv_cell: Callable[[Any], str] = plain
    csv_cell: Callable[[Any], str] = plain
    right: bool = False
    rank: int = 0
    parts: Callable[[Any], list[str]] | None = None


@dataclass(frozen=True, slots=True)
class _Widths:
    """The widths of a column's values.

    Attributes:
        usual: the width that the name and the short values need.  Short values are never moved below the row.  0 if all
            values are long.
        longest: the width of the longest value.
    """

    usual: int
    longest: int

    @classmethod
    def of(cls, name: str, values: list[int]) -> _Widths:
        own, short = cell_len(name), [value for value in values if value <= LONG]
        return cls(max(own, *short, 0) if short or not values else 0, max(own, *values, 0))


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table, distributed over the lines of a row.

    Attributes:
        lines_of: the columns of each line, with their widths; a column with the width None has its own line.
        hidden: fields that are not shown.
        width: the width of the terminal; None for lines of any length.
    """

    lines_of: list[list[tuple[Column, int | None]]]
    hidden: list[str]
    width: int | None

    @classmethod
    def of(cls, columns: Sequence[Column], rows: list[Row], width: int | None) -> Layout:
        """Chooses the layout that fits `rows`; a wider value in a later row shifts the columns after it."""
        widths = {
            column.name: _Widths.of(column.name, [cell_len(column.show(row.get(column.name))) for row in rows])
            for column in columns
        }
        if width is None:
            return cls([[(column, widths[column.name].longest) for column in columns]], [], None)
        # The most important columns that fit, so that a wider terminal never shows less.
        units = _units(columns)
        least = sum(max(column.rank for column in unit) == 0 for unit in units)
        for count in range(len(units), least - 1, -1):
            chosen, hidden = _chosen(columns, units[:count])
            room = width - _width_of(widths[column.name].usual for column in chosen)
            if room >= 0:
                important = [column for unit in units[:count] for column in unit]
                return cls(_in_one_line(chosen, important, widths, room), hidden, width)
        chosen, hidden = _chosen(columns, units[:least])
        return cls(_split(chosen, {name: each.usual for name, each in widths.items()}, width), hidden, width)

    def heading(self) -> list[str]:
        """Returns the lines above the table."""
        return self._padded(lambda column: column.name)

    def rule(self, mark: str) -> str:
        """Returns the line between the headings and the rows."""
        widths = [[width or 0 for _, width in line] for line in self.lines_of]
        longest = max(_width_of(each) + (len(INDENT) if number else 0) for number, each in enumerate(widths))
        return mark * max(longest, 20)

    def lines(self, row: Row) -> list[str]:
        """Returns the lines of a row."""
        return self._padded(lambda column: column.show(row.get(column.name)), row)

    def hides_difference(self, row: Row) -> bool:
        """Whether a row of a change differs before and after it, but only in fields that are not shown."""
        if not self.hidden or "offset_before" not in row:    # the row of another table is not a change of a position
            return False
        after = {name: f"{name.removesuffix('_before')}_after" for name in row if name.endswith("_before")}
        differing = {name for name in after if row[name] != row.get(after[name])}
        return bool(differing) and all(name in self.hidden for name in differing)

    def _padded(self, cell: Callable[[Column], str], row: Row | None = None) -> list[str]:
        lines: list[str] = []
        below: list[Column] = []
        for number, line in enumerate(self.lines_of):
            if line[0][1] is None:
                below.append(line[0][0])
                continue
            cells = []
            for column, width in line:
                text = cell(column)
                if self.width is not None and cell_len(text) > max(width or 0, LONG):
                    below.append(column)
                    text = ""
                cells.append(_pad(text, width or 0, right=column.right))
            lines.append(((INDENT if number else "") + GAP.join(cells)).rstrip())
        for column in below:
            lines += self._alone(column, row, INDENT if lines else "")
        return lines

    def _alone(self, column: Column, row: Row | None, indent: str) -> list[str]:
        # The value is wider than the terminal.  Its name is printed before it, and a missing value is not printed.
        if row is None:
            return []
        value = row.get(column.name)
        text = column.show(value)
        if text in ("", "-") and indent:
            return []
        before = f"{indent}{column.name}: "
        if column.parts is None or self.width is None:
            return [before + text]
        pieces = wrap(column.parts(value), self.width - len(before))
        return [before + pieces[0], *(" " * len(before) + piece for piece in pieces[1:])]


def _units(columns: Sequence[Column]) -> list[list[Column]]:
    """Returns the columns in groups, sorted by rank; the columns of a group are shown or hidden together.

    The columns of a field before and after a change form one group.  Every other column is a group of its own.
    """
    names = {column.name for column in columns}
    units: dict[str, list[Column]] = {}
    for column in columns:
        before = f"{column.name.removesuffix('_after')}_before"
        units.setdefault(before if before in names else column.name, []).append(column)
    return sorted(units.values(), key=lambda unit: max(column.rank for column in unit))


def _chosen(columns: Sequence[Column], units: list[list[Column]]) -> tuple[list[Column], list[str]]:
    """Returns the columns of the groups in `units`, in the order of the table, and the names of all other columns."""
    shown = {column.name for unit in units for column in unit}
    return (
        [column for column in columns if column.name in shown],
        [column.name for column in columns if column.name not in shown],
    )


def _in_one_line(
    columns: list[Column], important: list[Column], widths: dict[str, _Widths], room: int
) -> list[list[tuple[Column, int | None]]]:
    """Returns the columns as one line; free space goes to columns with long values, the most important first."""
    given: dict[str, int] = {}
    for column in important:
        usual, longest = widths[column.name].usual, widths[column.name].longest
        more = longest - usual + (0 if usual else len(GAP))
        if more <= room:
            room -= more
            usual = longest
        given[column.name] = usual
    alone: list[list[tuple[Column, int | None]]] = [[(column, None)] for column in columns if not given[column.name]]
    line: list[tuple[Column, int | None]] = [
        (column, given[column.name]) for column in columns if given[column.name]
    ]
    return [line, *alone] if line else alone


def _split(columns: list[Column], widths: dict[str, int], width: int) -> list[list[tuple[Column, int | None]]]:
    """Returns the columns in lines of at most `width`; a column that is wider has its own line."""
    lines: list[list[tuple[Column, int | None]]] = []
    alone: list[list[tuple[Column, int | None]]] = []
    room = 0
    for column in columns:
        wanted = widths[column.name]
        if wanted == 0 or wanted > width - len(INDENT):
            alone.append([(column, None)])
        elif lines and len(GAP) + wanted <= room:
            lines[-1].append((column, wanted))
            room -= len(GAP) + wanted
        else:
            lines.append([(column, wanted)])
            room = width - wanted - (len(INDENT) if len(lines) > 1 else 0)
    return [*lines, *alone]


def _width_of(widths: Iterable[int]) -> int:
    each = [width for width in widths if width]
    return sum(each) + len(GAP) * max(0, len(each) - 1)


def _pad(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def wrap(parts: list[str], width: int) -> list[str]:
    """Joins the parts with spaces, and breaks lines only between parts; a part that is too long has its own line."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= width:
            lines[-1] += " " + part
        else:
            lines.append(part)
    return lines or [""]


class Cells:
    """Makes the cells of TSV or CSV, row by row; a value that successive rows share is converted only once."""

    def __init__(self, columns: Sequence[Column], *, csv: bool) -> None:
        cells = [(column.name, column.csv_cell if csv else column.tsv_cell) for column in columns]
        self._columns = [(number, *each) for number, each in enumerate(cells)]
        self._values: list[Any] = [object()] * len(columns)
        self._texts = [""] * len(columns)

    def of(self, row: Row) -> list[str]:
        """Returns the texts of a row; the list is valid until the next call."""
        values, texts = self._values, self._texts
        for number, name, cell in self._columns:
            value = row[name]
            # The rows of one batch share objects.  The kept reference keeps the object alive, so identity is certain.
            if value is not values[number]:
                values[number] = value
                texts[number] = cell(value)
        return texts
