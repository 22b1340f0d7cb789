"""The Python examples of the documents run as they are written: each page is one session, in a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import offsetlog
from offsetlog import TopicPartition, errors
from tests.pages import ROOT, blocks, run

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


#: The pages whose examples type checkers take as they are; those of a broker and of pytest are fragments without types.
TYPED = [
    "README.md",
    "docs/history.md",
    "docs/library.md",
    "docs/maintenance.md",
    "docs/repair.md",
    "docs/retention.md",
    "docs/server.md",
    "docs/verify.md",
]
UNTYPED = ["docs/plugin.md", "docs/pytest.md"]


def test_every_page_with_examples_is_known():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    with_examples = {str(page.relative_to(ROOT)) for page in pages if blocks(str(page.relative_to(ROOT)))}
    assert with_examples == {*TYPED, *UNTYPED}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Each page as a program, whose lines have the numbers that they have in the page."""
    folder = tmp_path_factory.mktemp("pages")
    written = []
    for page in TYPED:
        lines: list[str] = []
        for line, code in blocks(page):
            lines += [""] * (line - len(lines)) + code.splitlines()
        written.append(folder / page.replace("/", "_").replace(".md", ".py"))
        written[-1].write_text("\n".join(lines) + "\n")
    return written


def test_mypy_takes_the_examples(sources):
    call = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--python-version", "3.11"]
    call += ["--ignore-missing-imports", "--cache-dir", str(sources[0].parent / "cache"), *map(str, sources)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(call, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_takes_the_examples(sources):
    pytest.importorskip("basedpyright", reason="basedpyright, of the dev extras, is not installed")
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}
    (sources[0].parent / "pyrightconfig.json").write_text(json.dumps(settings))
    call = [sys.executable, "-m", "basedpyright", "--project", str(sources[0].parent), "--pythonpath", sys.executable]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


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
