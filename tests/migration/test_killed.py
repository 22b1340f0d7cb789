"""Migrations that are killed twice: each group is there whole or not at all, and the last run ends equal."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from depth import by_depth, first_seed
from zookeeper.ensemble import Ensemble

import offsetlog

from .zookeeper_offsets import client_of, fill, offsets_in

pytest.importorskip("typer")

pytestmark = pytest.mark.ci

#: 20,000 offsets, and 100,000 at full depth.
GROUPS, TOPICS, PARTITIONS = by_depth(gate=200, long=1000), 5, 20
COUNT = GROUPS * TOPICS * PARTITIONS
CHILD = Path(__file__).with_name("killed_migration.py")


def offsets(seed: int) -> dict[tuple[str, str, str], bytes]:
    drawn = random.Random(seed)
    return {
        (f"group-{group:03d}", f"topic-{topic}", str(partition)): b"%d" % drawn.randrange(1 << 40)
        for group in range(GROUPS)
        for topic in range(TOPICS)
        for partition in range(PARTITIONS)
    }


def start(source: str, target: str) -> tuple[subprocess.Popen[str], int]:
    """Starts the command; returns it, and where it says of each group that it finished it."""
    read, write = os.pipe()
    call = [sys.executable, str(CHILD), "--from", source, "--to", target, "--yes", "--format", "json"]
    child = subprocess.Popen(
        call,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.dup2(write, 3),  # noqa: PLW1509  (no threads hold locks that it needs)
        pass_fds=(3,),
    )
    os.close(write)
    return child, read


def kill_after(source: str, target: str, groups: int) -> None:
    """Runs the command, and kills it once it finished so many groups."""
    child, read = start(source, target)
    try:
        finished = 0
        while finished < groups:
            piece = os.read(read, 65536)
            assert piece, "it ended before it was killed"
            finished += len(piece)
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.communicate()
        os.close(read)
    assert child.returncode == -signal.SIGKILL


def finish(source: str, target: str) -> dict:
    child, read = start(source, target)
    out, _ = child.communicate(timeout=600)
    os.close(read)
    assert child.returncode == 0
    return json.loads(out.splitlines()[-1])


def stored(path: Path) -> dict[tuple[str, str, str], bytes]:
    with offsetlog.open(path, read_only=True) as store:
        table = store.to_arrow()
    columns = [table[name].to_pylist() for name in ("group", "topic", "partition", "offset")]
    return {
        (group, topic, str(partition)): b"%d" % offset for group, topic, partition, offset in zip(*columns, strict=True)
    }


def check_groups(found: dict, wanted: dict) -> int:
    """Checks that each group is there whole or not at all, with its offsets; returns how many are there."""
    assert found.items() <= wanted.items()
    groups: dict[str, int] = {}
    for group, _, _ in found:
        groups[group] = groups.get(group, 0) + 1
    assert set(groups.values()) <= {TOPICS * PARTITIONS}
    return len(groups)


@pytest.mark.parametrize("direction", ["to a directory", "to zookeeper"])
def test_killed_twice_in_the_middle(tmp_path, direction):
    # With longer sessions than the other ensemble's, since everything here works as fast as it can.
    with Ensemble(tmp_path / "ensemble", tick_ms=2000) as ensemble:
        kill_twice(ensemble.hosts, tmp_path / "data", direction)


def kill_twice(hosts: str, directory: Path, direction: str) -> None:
    seed = first_seed()
    print(f"OL_SEED={seed}")
    wanted = offsets(seed)
    assert len(wanted) == COUNT
    if direction == "to a directory":
        fill(hosts, wanted)
        source, target = f"zookeeper://{hosts}", str(directory)

        def there() -> dict:
            return stored(directory)
    else:
        with offsetlog.open(directory) as store:
            rows = [(*key[:2], int(key[2]), int(offset)) for key, offset in wanted.items()]
            names = ("group", "topic", "partition", "offset")
            store.commit_arrow(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))
        client = client_of(hosts)
        client.create("/consumers")
        client.stop()
        client.close()
        source, target = str(directory), f"zookeeper://{hosts}"

        def there() -> dict:
            return offsets_in(hosts)

    drawn = random.Random(seed)
    done = 0
    for _ in range(2):
        kill_after(source, target, done + drawn.randrange(GROUPS // 6, GROUPS // 3))
        before, done = done, check_groups(there(), wanted)
        assert before < done < GROUPS
    summary = finish(source, target)
    assert summary["committed"]["new"] + summary["kept"]["same"] == COUNT
    assert summary["kept"]["same"] == done * TOPICS * PARTITIONS
    assert there() == wanted
