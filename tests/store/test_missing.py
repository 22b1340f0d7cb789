"""Faults to the files of a store whose commits were all acknowledged: what is lost is reported.

The directories are made by a process that is killed, or that closes its store.  A fault removes, empties, cuts or
changes one file, two files, or a whole directory.  A report counts only if it names the log partition and a range that
holds the lost commit; a fault that takes nothing leaves the partition writable.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from depth import by_depth, first_seed

import offsetlog
from offsetlog import MaintenanceConfig
from offsetlog.directory.log_directory import PROPERTIES
from offsetlog.errors import CorruptionError, OffsetLogError

HOWS = ("flip", "flip", "zero", "cut", "cut at a batch", "garbage", "remove", "empty")

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

Content = dict[tuple[str, str, int], tuple[int, int, int]]


@pytest.fixture(scope="module", params=["nosnap", "snap", "clean"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "store"
    subprocess.run([sys.executable, "-c", BUILD, str(path), request.param], check=False)
    return path


def _open(path: Path) -> offsetlog.OffsetStore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return offsetlog.open(path, maintenance=MaintenanceConfig(enabled=False))


def _content(store: offsetlog.OffsetStore) -> Content:
    rows = store.to_arrow().to_pylist()
    return {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["log_partition"], row["log_offset"])
        for row in rows
    }


def _cut_at_a_batch(data: bytearray, draw: random.Random) -> None:
    places = [0]
    while places[-1] + 12 <= len(data) and (size := int.from_bytes(data[places[-1] + 8 : places[-1] + 12], "big")):
        places.append(places[-1] + 12 + size)
    del data[draw.choice(places) :]


def _harm(path: Path, how: str, draw: random.Random) -> bool:
    """Does it, and returns whether it could."""
    if how == "remove":
        path.unlink()
        return True
    data = bytearray(path.read_bytes())
    if not data or (how == "cut at a batch" and path.suffix != ".log"):
        return False
    place = draw.randrange(len(data))
    if how == "empty":
        data.clear()
    elif how == "flip":
        data[place] ^= 1 << draw.randrange(8)
    elif how == "zero":
        end = min(place + draw.choice((1, 16, 512, 4096)), len(data))
        data[place:end] = bytes(end - place)
    elif how == "cut":
        del data[place:]
    elif how == "garbage":
        end = min(place + draw.choice((4, 64, 512)), len(data))
        data[place:end] = draw.randbytes(end - place)
    else:
        _cut_at_a_batch(data, draw)
    path.write_bytes(data)
    return True


def _draw_file(path: Path, draw: random.Random) -> Path | None:
    files = sorted(each for each in path.rglob("*") if each.is_file() and each.name != ".lock")
    logs = [each for each in files if each.suffix == ".log"]
    return draw.choice(logs if logs and draw.random() < 0.6 else files) if files else None


@dataclass(frozen=True)
class Fault:
    how: str
    name: str

    @property
    def is_to_log(self) -> bool:
        return self.name.endswith(".log") or self.how == "remove directory"


def _harm_some(path: Path, count: int, draw: random.Random) -> list[Fault]:
    done: list[Fault] = []
    while len(done) < count:
        directories = sorted(path.glob("__consumer_offsets-*"))
        if directories and draw.random() < 0.02:
            directory = draw.choice(directories)
            shutil.rmtree(directory)
            done.append(Fault("remove directory", directory.name))
            continue
        file, how = _draw_file(path, draw), draw.choice(HOWS)
        if file is not None and _harm(file, how, draw):
            done.append(Fault(how, str(file.relative_to(path))))
    return done


def _covers(problem: OffsetLogError, partition: int, log_offset: int) -> bool:
    if not isinstance(problem, CorruptionError) or problem.log_partition != partition or problem.lost_from is None:
        return False
    return problem.lost_from <= log_offset and (problem.lost_below is None or log_offset < problem.lost_below)


def _is_writable(store: offsetlog.OffsetStore) -> bool:
    try:
        for group in ("g0", "g1", "g2", "g3", "g4"):
            store.commit_one(group, "t", 1, 1)
    except OffsetLogError:
        return False
    return True


def _judge(path: Path, truth: Content, done: list[Fault]) -> str:
    """Returns what became of the store; a word in capitals is a failure."""
    try:
        store = _open(path)
    except OffsetLogError as failure:
        is_expected = any(fault.name == PROPERTIES for fault in done)
        return f"refused: {type(failure).__name__}" if is_expected else f"REFUSED to open: {failure}"
    try:
        found, problems = _content(store), store.problems()
        lost = [key for key, value in truth.items() if found.get(key, (None,))[0] != value[0]]
        places = [truth[key][1:] for key in lost]
        unseen = [place for place in places if not any(_covers(each, *place) for each in problems)]
        if unseen:
            return f"SILENT: {unseen[:3]}, {[str(each) for each in problems]}"
        if lost:
            return "lost, reported"
        if not any(fault.is_to_log for fault in done) and not _is_writable(store):
            return f"READ-ONLY: {[str(each) for each in problems]}"
        return "same, reported" if problems else "same"
    finally:
        with contextlib.suppress(OffsetLogError):
            store.close()


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_lost_is_reported(built: Path, count: int, tmp_path: Path) -> None:
    rounds, seed = by_depth(gate=60, long=2500), first_seed()
    harmed = tmp_path / "store"
    shutil.copytree(built, harmed)
    with _open(harmed) as store:
        truth = _content(store)
        assert store.problems() == []
    tally: Counter[str] = Counter()
    failures = []
    for number in range(rounds):
        shutil.rmtree(harmed)
        shutil.copytree(built, harmed)
        done = _harm_some(harmed, count, random.Random(f"{seed} {count} {number}"))
        became = _judge(harmed, truth, done)
        tally[became.partition(":")[0]] += 1
        if became[:2].isupper():
            failures.append(f"seed {seed}, number {number}, {done}: {became}")
    print(f"seed {seed}: {dict(tally)}")
    assert not failures, "\n".join(failures[:20])
    assert tally["lost, reported"] > rounds // 10
