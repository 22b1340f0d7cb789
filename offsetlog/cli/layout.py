"""How rows stand on a terminal: in columns as far as they have room, and never with a name broken in two.

The first form that fits: every column in one line; those of rank 0 and 1; those of rank 0; those of rank 0 and 1 in
several lines for each row, where what is wider than the terminal stands on a line of its own, its name before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from offsetlog.cli.text import plain

Row = dict[str, Any]

GAP = "  "
INDENT = "    "


def cell_len(text: str) -> int:
    """Returns how many cells of a terminal a text takes."""
    # rich is imported where something is drawn on a terminal: what a program reads must not wait for it.
    from rich.cells import cell_len

    return cell_len(text)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the text form.

    Attributes:
        name: the field of the row.
        title: its heading; the name where there is none.
        show: how a value becomes text.
        right: whether numbers stand right, on a terminal.
        rank: 0 where a terminal always shows it; columns of rank 2, and then of 1, go first when there is no room.
            What is not a terminal gets every column.
        parts: how a value becomes pieces between which a line may end, where it is too long for one; they are what
            `show` returns, with spaces between.
    """

    name: str
    title: str = ""
    show: Callable[[Any], str] = plain
    right: bool = False
    rank: int = 0
    parts: Callable[[Any], list[str]] | None = None

    @property
    def heading(self) -> str:
        """What stands above it."""
        return self.title or self.name


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table in the lines that each row takes.

    Attributes:
        lines_of: the columns of each line, with their widths; a width of None for one that has a line of its own.
        hidden: fields that are not shown.
        width: of the terminal, None where lines may be of any length.
    """

    lines_of: list[list[tuple[Column, int | None]]]
    hidden: list[str]
    width: int | None

    @classmethod
    def of(cls, columns: list[Column], rows: list[Row], width: int | None) -> Layout:
        """Chooses the layout for these rows; later ones may be wider, which moves what stands behind."""
        widths = {
            column.name: max(cell_len(column.heading), *(cell_len(column.show(row.get(column.name))) for row in rows))
            for column in columns
        }

        def line_of(chosen: list[Column]) -> list[tuple[Column, int | None]]:
            return [(column, widths[column.name]) for column in chosen]

        for rank in (2, 1, 0):
            chosen = [column for column in columns if column.rank <= rank]
            if width is None or _width_of(widths[column.name] for column in chosen) <= width:
                hidden = [column.name for column in columns if column not in chosen]
                return cls([line_of(chosen)], hidden, width)
        assert width is not None
        lines: list[list[tuple[Column, int | None]]] = []
        room = 0
        chosen = [column for column in columns if column.rank < 2]
        for column in chosen:
            wanted = widths[column.name]
            if wanted > width - len(INDENT):
                lines.append([(column, None)])
                room = 0
            elif lines and len(GAP) + wanted <= room:
                lines[-1].append((column, wanted))
                room -= len(GAP) + wanted
            else:
                lines.append([(column, wanted)])
                room = width - wanted - (len(INDENT) if len(lines) > 1 else 0)
        return cls(lines, [column.name for column in columns if column not in chosen], width)

    def heading(self) -> list[str]:
        """Returns the lines above the table."""
        return self._padded(lambda column: column.heading)

    def rule(self, mark: str) -> str:
        """Returns the line between the headings and the rows."""
        widths = [[width or 0 for _, width in line] for line in self.lines_of]
        longest = max(_width_of(each) + (len(INDENT) if number else 0) for number, each in enumerate(widths))
        return mark * max(longest, 20)

    def lines(self, row: Row) -> list[str]:
        """Returns the lines of a row."""
        return self._padded(lambda column: column.show(row.get(column.name)), row)

    def _padded(self, cell: Callable[[Column], str], row: Row | None = None) -> list[str]:
        lines: list[str] = []
        for number, line in enumerate(self.lines_of):
            indent = INDENT if number else ""
            if line[0][1] is None:
                lines += self._alone(line[0][0], row, indent)
                continue
            cells = [_pad(cell(column), width or 0, right=column.right) for column, width in line]
            lines.append((indent + GAP.join(cells)).rstrip())
        return lines

    def _alone(self, column: Column, row: Row | None, indent: str) -> list[str]:
        # Wider than the terminal: the name stands before it, and what is not there takes no line.
        if row is None:
            return []
        value = row.get(column.name)
        text = column.show(value)
        if text in ("", "-") and indent:
            return []
        before = f"{indent}{column.heading}: "
        if column.parts is None or self.width is None:
            return [before + text]
        pieces = wrap(column.parts(value), self.width - len(before))
        return [before + pieces[0], *(" " * len(before) + piece for piece in pieces[1:])]


def _width_of(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + len(GAP) * (len(each) - 1)


def _pad(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def wrap(parts: list[str], width: int) -> list[str]:
    """Returns lines of the parts, joined by spaces, that end only between two of them; a longer part has its own."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= width:
            lines[-1] += " " + part
        else:
            lines.append(part)
    return lines or [""]


class Cells:
    """The texts of rows that come one after the other; what does not change from row to row is made once."""

    def __init__(self, columns: list[Column]) -> None:
        self._columns = [(number, column.name, column.show) for number, column in enumerate(columns)]
        self._values: list[Any] = [object()] * len(columns)
        self._texts = [""] * len(columns)

    def of(self, row: Row) -> list[str]:
        """Returns the texts of a row; the list is of use until the next call."""
        values, texts = self._values, self._texts
        for number, name, show in self._columns:
            value = row.get(name)
            # The rows of one batch hold the very same objects; the one that is kept cannot be another's by now.
            if value is not values[number]:
                values[number] = value
                texts[number] = show(value)
        return texts
