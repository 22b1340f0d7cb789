"""The properties of a server, as a table in docs/server.md.

    python -m tests.server.property_table             prints it
    python -m tests.server.property_table --write     puts it into the page
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetlog.server.properties import PROPERTIES

from .made_table import MadeTable


def _rows() -> Iterator[tuple[object, ...]]:
    for name, each in PROPERTIES.items():
        yield f"`{name}`", each.default or "(none)", each.allowed, each.meaning


TABLE = MadeTable("property_table", "<!-- end of properties -->", ("property", "default", "allowed", "meaning"), _rows)

if __name__ == "__main__":
    TABLE.main()
