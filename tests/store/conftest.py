from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import offsetlog
from offsetlog import OffsetStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(path: Path) -> Iterator[OffsetStore]:
    """A new store of 50 partitions that waits for nothing."""
    opened = offsetlog.open(path, partitions=50, durability="process")
    yield opened
    opened.close()


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a directory with its bytes."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
