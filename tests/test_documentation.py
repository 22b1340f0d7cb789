"""The Python examples of the documents run as they are written: each page is one session, in a directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import offsetlog
from offsetlog import TopicPartition, errors
from tests.pages import blocks, run

pytestmark = pytest.mark.source_tree


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("README.md", 1),
        ("docs/library.md", 10),
        ("docs/history.md", 1),
        ("docs/maintenance.md", 1),
        ("docs/plugin.md", 8),
        ("docs/retention.md", 1),
        ("docs/verify.md", 1),
    ],
)
def test_the_examples_of_a_page_run(page, least):
    assert len(blocks(page)) >= least
    session = run(page)
    assert all(value.closed for value in session.values() if isinstance(value, offsetlog.OffsetStore))


GROUPS = [f"g{number}" for number in range(5)]


def damage(path: Path) -> Path:
    """Makes a store whose largest segment has a flipped bit in the middle of a batch, and returns the segment."""
    with offsetlog.open(path, partitions=4) as store:
        for number in range(20):
            store.commit(GROUPS[number % 5], {TopicPartition("orders", number % 3): number})
    segment = max(path.glob("*/*.log"), key=lambda file: file.stat().st_size)
    content = bytearray(segment.read_bytes())
    # In the records of the third batch, which the CRC covers: after two batches, each with its size at byte 8.
    third = 0
    for _ in range(2):
        third += 12 + int.from_bytes(content[third + 8 : third + 12])
    content[third + 70] ^= 1
    segment.write_bytes(content)
    return segment


def test_the_repair_of_a_damaged_directory(directory):
    segment = damage(directory / "data")
    damaged = segment.read_bytes()
    with pytest.warns(errors.CorruptionWarning):
        session = run("docs/repair.md")
    assert [problem.path for problem in session["found"]] == [str(segment.relative_to(directory))]
    assert segment.read_bytes() == damaged
    with pytest.warns(errors.CorruptionWarning):
        again = offsetlog.open("data", read_only=True)
    with (
        again as old,
        offsetlog.open("repaired", read_only=True) as by_columns,
        offsetlog.open("repaired-by-group", read_only=True) as by_group,
    ):
        kept = {group: old.fetch(group) for group in old.groups()}
        assert kept.keys() == set(GROUPS)
        assert {group: by_columns.fetch(group) for group in by_columns.groups()} == kept
        assert by_group.digest() == by_columns.digest() == old.digest()
        assert by_columns.problems() == by_columns.verify() == []
        assert by_columns.partitions == old.partitions
