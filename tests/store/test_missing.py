"""Faults to the files of a store whose commits were all acknowledged: what is lost is reported.

The directories are made by a process that is killed, or that closes its store.  A fault removes, empties, cuts or
changes one file, two files, or a whole directory.  A report counts only if it names the log partition and a range that
holds the lost commit; a fault that takes nothing leaves the partition writable.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from faults.file_faults import harm_some
from faults.verdict import content_of, judge, open_harmed

#: Makes a store of two log partitions in small segments.
BUILD = """
import os, sys
import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition
path, kind = sys.argv[1:]
config = StoreConfig(segment_bytes=8192, batch_bytes_max=2048, segment_index_bytes=4096, extend_bytes_min=4096,
                     extend_bytes_max=4096)
store = offsetlog.open(path, partitions=2, config=config, maintenance=MaintenanceConfig(enabled=False))
for i in range(220):
    store.commit_one(f"g{i % 5}", "t", i % 50, 1000 + i)
if kind != "nosnap":
    store.compact()
    store.snapshot()
for i in range(220, 400):
    store.commit_one(f"g{i % 5}", "t", i % 70, 1000 + i)
    if i % 20 == 0:
        with store.transaction("g1", 900) as transaction:
            transaction.commit({TopicPartition("t", i): i})
if kind == "clean":
    store.close()
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module", params=["nosnap", "snap", "clean"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "store"
    subprocess.run([sys.executable, "-c", BUILD, str(path), request.param], check=False)
    return path


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_lost_is_reported(built: Path, count: int, tmp_path: Path) -> None:
    rounds, seed = by_depth(gate=60, long=2500), first_seed()
    harmed = tmp_path / "store"
    shutil.copytree(built, harmed)
    with open_harmed(harmed) as store:
        truth = content_of(store)
        assert store.problems() == []
    tally: Counter[str] = Counter()
    failures = []
    for number in range(rounds):
        shutil.rmtree(harmed)
        shutil.copytree(built, harmed)
        done = harm_some(harmed, count, random.Random(f"{seed} {count} {number}"))
        became = judge(harmed, truth, done)
        tally[became.partition(":")[0]] += 1
        if became[:2].isupper():
            failures.append(f"seed {seed}, number {number}, {done}: {became}")
    print(f"seed {seed}: {dict(tally)}")
    assert not failures, "\n".join(failures[:20])
    assert tally["lost, reported"] > rounds // 10
