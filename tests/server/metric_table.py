"""The metrics of a server, as a table in docs/server.md.

    python -m tests.server.metric_table             prints it
    python -m tests.server.metric_table --write     puts it into the page
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetlog.server.metrics import METRICS

from .made_table import MadeTable


def _rows() -> Iterator[tuple[object, ...]]:
    # Under the name that a query has for it.
    for name, each in METRICS.items():
        suffix = "_total" if each.kind == "counter" else ""
        yield f"`{name}{suffix}`", each.kind, ", ".join(each.labels), each.meaning


TABLE = MadeTable("metric_table", "<!-- end of metrics -->", ("metric", "kind", "labels", "meaning"), _rows)

if __name__ == "__main__":
    TABLE.main()
