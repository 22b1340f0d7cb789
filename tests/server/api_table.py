"""The APIs that the server serves, as a table in docs/server.md.

    python -m tests.server.api_table             prints it
    python -m tests.server.api_table --write     puts it into the page
"""

from __future__ import annotations

import sys
from pathlib import Path

from offsetlog.protocol import APIS
from offsetlog.server.handlers import HANDLERS

PAGE = Path(__file__).parent.parent.parent / "docs" / "server.md"
BEGIN, END = "<!-- made by: python -m tests.server.api_table --write -->", "<!-- end -->"


def table() -> str:
    """One row for each API that has a handler."""
    rows = [
        f"| {api.key} | {api.name} | {api.advertised_from}-{api.last_version} |"
        for api in APIS.values()
        if api.key in HANDLERS
    ]
    return "\n".join(["| key | API | versions |", "|---|---|---|", *rows])


def written(text: str) -> str:
    """The page with the table of the code in it."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        print(table())
