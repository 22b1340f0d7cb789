"""Tables of docs/server.md that are made from the code: they are printed, put into the page, and compared with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "server.md"


@dataclass(frozen=True)
class MadeTable:
    """One of them.

    Attributes:
        module: whose command makes it.
        end: the comment that ends it in the page.
        columns: its headings.
        rows: returns its cells.
    """

    module: str
    end: str
    columns: tuple[str, ...]
    rows: Callable[[], Iterable[tuple[object, ...]]]

    @property
    def command(self) -> str:
        return f"python -m tests.server.{self.module} --write"

    @property
    def begin(self) -> str:
        """The comment that begins it in the page."""
        return f"<!-- made by: {self.command} -->"

    def text(self) -> str:
        lines = [self.columns, ("---",) * len(self.columns), *self.rows()]
        head, rule, *rows = ("| " + " | ".join(map(str, line)) + " |" for line in lines)
        return "\n".join([head, rule.replace(" ", ""), *rows])

    def written(self, page: str) -> str:
        """The page with the table of the code in it."""
        assert page.count(self.begin) == page.count(self.end) == 1
        head, _, rest = page.partition(self.begin)
        tail = rest.partition(self.end)[2]
        return f"{head}{self.begin}\n\n{self.text()}\n\n{self.end}{tail}"

    def main(self) -> None:
        """The command."""
        if sys.argv[1:] == ["--write"]:
            PAGE.write_text(self.written(PAGE.read_text()))
        else:
            print(self.text())
