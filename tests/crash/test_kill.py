"""kill -9 of a process that commits, again and again on the same directory: every reported commit is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from model.reference import End, History, Key, Reference, Value

import offsetlog
from crash.kill_child import CONFIG
from crash.kill_plan import PARTITIONS, PRODUCER, atoms, operation
from offsetlog import OffsetStore

KILLS = by_depth(gate=8, long=50)
SEED = first_seed()
LONGEST_RUN_SECONDS = 0.12
TESTS = Path(__file__).resolve().parent.parent


def run_and_kill(path: Path, start: int, seconds: float) -> int:
    """Returns how many operations were reported as returned, beginning with `start`."""
    command = [sys.executable, "-m", "crash.kill_child", str(path), str(SEED), str(start)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        child.kill()
        reported = [int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
    assert child.returncode == -9, child.returncode
    assert reported == list(range(start, start + len(reported)))
    return len(reported)


def contents(store: OffsetStore) -> dict[Key, Value]:
    return {
        Key(row["group"], row["topic"], row["partition"]): Value(row["offset"], row["metadata"], row["leader_epoch"])
        for row in store.to_arrow().to_pylist()
    }


def note(reference: Reference, number: int) -> History:
    kind, group, offsets, _ = operation(SEED, number)
    return reference.add(group, *atoms(kind, group, offsets, reference.keys_of(group)))


def settle(reference: Reference, store: OffsetStore, number: int) -> None:
    """The operation under way when the process died may be there or not; half of a transaction stays open."""
    history = note(reference, number)
    log_partition = reference.histories.index(history)
    left_open = [known.producer_id for known in store.transactions() if known.log_partition == log_partition]
    found = contents(store)
    mine = {key: value for key, value in found.items() if reference.of(key.group) is history}
    others = {key: value for key, value in found.items() if reference.of(key.group) is not history}
    assert others == {
        key: value for key, value in reference.contents().items() if reference.of(key.group) is not history
    }
    assert history.settle(mine, left_open, history.done), f"operation {number}: {operation(SEED, number)}"
    if left_open:
        assert left_open == [PRODUCER]
        assert store.abort_transaction(PRODUCER) == 1
        history.atoms.append(End(PRODUCER, False))
        reference.done()


def test_a_committing_process_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = Reference(PARTITIONS)
    draw = random.Random(SEED)
    start = 0
    for _ in range(KILLS):
        count = run_and_kill(tmp_path / "data", start, draw.random() * LONGEST_RUN_SECONDS)
        for number in range(start, start + count):
            note(reference, number)
            reference.done()
        with offsetlog.open(tmp_path / "data", config=CONFIG, durability="process") as store:
            assert store.problems() == []
            settle(reference, store, start + count)
            assert store.verify() == []
        start += count + 1
    with capsys.disabled():
        print(f"\n{KILLS} kills, {start - KILLS} commits acknowledged (seed {SEED})")
    assert start > 3 * KILLS
