"""Reads in bulk whose metadata needs more than one block of columns (1 GiB each).

The table stores equal metadata once, so the store of this test takes little memory; the columns take 1.1 GB.
"""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, StoreConfig

pytestmark = pytest.mark.ci  # 1.1 GB of memory, and as much of the disk

BLOCK = 2**30
METADATA = "x" * 32_700
GROUPS, IN_GROUP, IN_COMMIT = 90, 390, 30


def group_of(number: int) -> str:
    return f"group-{number:02}"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("blocks") / "data"
    assert GROUPS * IN_GROUP * len(METADATA) > BLOCK
    config = StoreConfig(metadata_max_units=len(METADATA))
    with offsetlog.open(path, 1, durability="process", config=config) as opened:
        for number in range(GROUPS):
            for first in range(0, IN_GROUP, IN_COMMIT):
                values = {
                    ("orders", partition): OffsetAndMetadata(number * IN_GROUP + partition, METADATA)
                    for partition in range(first, first + IN_COMMIT)
                }
                opened.commit(group_of(number), values)
        yield opened
    shutil.rmtree(path)


def check(table: pa.Table) -> None:
    """Checks that a table has every position once, in two chunks, the first of which is full."""
    in_first, in_second = (len(chunk) for chunk in table["offset"].chunks)
    assert in_first + in_second == GROUPS * IN_GROUP
    assert in_first == BLOCK // len(METADATA)
    assert set(table["metadata"].unique().to_pylist()) == {METADATA}
    rows = zip(*(table[name].to_pylist() for name in ("offset", "group", "topic", "partition")), strict=True)
    for offset, (found, *rest) in enumerate(sorted(rows)):
        assert (found, rest) == (offset, [group_of(offset // IN_GROUP), "orders", offset % IN_GROUP])


def test_all_positions(store):
    check(store.to_arrow())


def test_the_positions_of_groups(store):
    # The 84th group begins in the first block and ends in the second.
    check(store.fetch_arrow([group_of(number) for number in range(GROUPS)]))
