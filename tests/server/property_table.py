"""The properties of a server, as a table in docs/server.md.

    python -m tests.server.property_table             prints it
    python -m tests.server.property_table --write     puts it into the page
"""

from __future__ import annotations

import sys

from offsetlog.server.properties import PROPERTIES

from .api_table import PAGE

BEGIN, END = "<!-- made by: python -m tests.server.property_table --write -->", "<!-- end of properties -->"


def table() -> str:
    """One row for each property."""
    rows = [
        f"| `{name}` | {each.default or '(none)'} | {each.allowed} | {each.meaning} |"
        for name, each in PROPERTIES.items()
    ]
    return "\n".join(["| property | default | allowed | meaning |", "|---|---|---|---|", *rows])


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
