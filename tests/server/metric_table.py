"""The metrics of a server, as a table in docs/server.md.

    python -m tests.server.metric_table             prints it
    python -m tests.server.metric_table --write     puts it into the page
"""

from __future__ import annotations

import sys

from offsetlog.server.metrics import METRICS

from .api_table import PAGE

BEGIN, END = "<!-- made by: python -m tests.server.metric_table --write -->", "<!-- end of metrics -->"


def table() -> str:
    """One row for each metric, under the name that a query has for it."""
    rows = [
        f"| `{name}{'_total' if each.kind == 'counter' else ''}` | {each.kind} "
        f"| {', '.join(each.labels)} | {each.meaning} |"
        for name, each in METRICS.items()
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


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
