"""The process that is killed: the command `migrate`, which writes a line for each group that it finished."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from offsetlog.cli import migrate
from offsetlog.cli.app import run
from offsetlog.migration import directory_place


@contextlib.contextmanager
def reporting(label: str, total: int, *, in_bytes: bool = True) -> Iterator[Callable[[int], None]]:
    yield lambda done: os.write(3, b"." * done) and None


if __name__ == "__main__":
    # More commits, so that there is something to kill between.
    directory_place.BATCH_ROWS = 1000
    migrate.progress = reporting  # type: ignore[assignment]
    sys.exit(run(["migrate", *sys.argv[1:]]))
