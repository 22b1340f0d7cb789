"""Where the contract of managers keeps its directories."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def manager_root(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory: these tests flush thousands of times, and none looks at a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="offsetlog-contract-", dir="/dev/shm") as folder:
        yield Path(folder)
