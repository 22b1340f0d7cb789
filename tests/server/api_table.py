"""The APIs that the server serves, as a table in docs/server.md.

    python -m tests.server.api_table             prints it
    python -m tests.server.api_table --write     puts it into the page
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetlog.protocol import APIS
from offsetlog.server.handlers import HANDLERS

from .made_table import MadeTable


def _rows() -> Iterator[tuple[object, ...]]:
    for api in APIS.values():
        if api.key in HANDLERS:
            yield api.key, api.name, f"{api.advertised_from}-{api.last_version}"


TABLE = MadeTable("api_table", "<!-- end -->", ("key", "API", "versions"), _rows)

if __name__ == "__main__":
    TABLE.main()
