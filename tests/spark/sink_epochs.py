"""The epochs of a stream of `sink_stream`, as its checkpoint and the store know them."""

from __future__ import annotations

import json
from pathlib import Path

import offsetlog
from tests.spark.sink_stream import GROUPS, POSITIONS
from tests.spark.sinks import commits_of, positions


def files_of_epochs(directory: Path) -> list[list[int]]:
    """The files that each finished epoch took, one as a rule.

    A driver that is killed after it noted a file and before it noted the epoch makes Spark take that file together with
    the next one.
    """
    notes = directory / "checkpoint" / "sources" / "0"
    files = {}
    for note in notes.glob("[0-9]*"):
        _, *entries_of_note = note.read_text().splitlines()
        files[int(note.name)] = [int(Path(json.loads(entry)["path"]).stem) for entry in entries_of_note]
    found, before = [], -1
    for epoch in sorted(int(done.name) for done in (directory / "checkpoint" / "commits").glob("[0-9]*")):
        noted = (directory / "checkpoint" / "offsets" / str(epoch)).read_text().splitlines()[-1]
        last = json.loads(noted)["logOffset"]
        found.append([file for number in range(before + 1, last + 1) for file in files[number]])
        before = last
    return found


def check(directory: Path, written: int) -> None:
    """Every epoch stands in the store once, with one position of each key."""
    epochs = files_of_epochs(directory)
    assert [file for epoch in epochs for file in epoch] == list(range(written))
    keys = [(f"g{group}", "t", part) for group in range(GROUPS) for part in range(POSITIONS)]
    commits = commits_of(directory / "store", keys)
    assert set(commits.values()) == {1}
    for key in keys:
        committed = sorted(offset for *of, offset in commits if tuple(of) == key)
        # One of several rows of a key is committed.
        assert len(committed) == len(epochs), key
        for offset, files in zip(committed, epochs, strict=True):
            assert offset in [file * POSITIONS + key[2] for file in files], (key, offset, files)
        assert positions(directory / "store")[key] == committed[-1]
    assert positions(directory / "store").keys() == set(keys)
    with offsetlog.open(directory / "store") as store:
        assert store.transactions() == []
        assert store.verify() == []
