"""A full disk: each call succeeds, or raises DiskFullError and has changed nothing; with space everything goes on.

First on the faulting file system, full from one operation on, then on small real ones.
"""

from __future__ import annotations

import gc
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
from depth import by_depth, first_seed
from faults import FaultFileSystem

from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, TopicPartition, errors, opening
from offsetlog.transaction import Transaction

SEED = first_seed()
STEPS = 60
#: Steps for which the disk stays full.
FULL_STEPS = 15
CONFIG = StoreConfig(segment_bytes=16 * 1024, batch_bytes_max=4096, extend_bytes_min=4096, extend_bytes_max=8192)
GROUPS = ("g", "h", "x")


def open_store(path, fs=None) -> OffsetStore:
    maintenance = MaintenanceConfig(delete_retention_ms=0)
    return opening.open_with(path, partitions=2, config=CONFIG, maintenance=maintenance, fs=fs, background=False)


class Story:
    """A store, beside what it must hold."""

    def __init__(self, store: OffsetStore, draw: random.Random) -> None:
        self.store = store
        self.draw = draw
        self.held: dict[tuple[str, int], int] = {}
        self.transaction: Transaction | None = None
        self.pending: dict[tuple[str, int], int] = {}
        self.next = 0

    def offsets(self, group: str, count: int) -> dict[tuple[str, int], int]:
        numbers = range(count) if count > 30 else self.draw.sample(range(100), count)
        self.next += 1
        return {(group, number): self.next for number in numbers}

    def step(self) -> str:
        """Makes one call; what it changed is in `held` once it has returned."""
        kind = self.draw.choice(("one", "few", "few", "large", "delete", "begin", "begin", "end", "end", "rest"))
        call: Callable[[], None] = getattr(self, f"_{kind}")
        call()
        return kind

    def _one(self) -> None:
        new = self.offsets("g", 1)
        ((group, number), offset) = next(iter(new.items()))
        self.store.commit_one(group, "t", number, offset, durability=self.draw.choice(("disk", "process")))
        self.held |= new

    def _commit(self, group: str, count: int) -> None:
        new = self.offsets(group, count)
        self.store.commit(group, {TopicPartition("t", number): offset for (_, number), offset in new.items()})
        self.held |= new

    def _few(self) -> None:
        self._commit(self.draw.choice(GROUPS), self.draw.randrange(1, 20))

    def _large(self) -> None:
        self._commit("h", 100)

    def _delete(self) -> None:
        group = self.draw.choice(GROUPS)
        gone = [key for key in self.held if key[0] == group][:5]
        self.store.delete(group, [TopicPartition("t", number) for _, number in gone])
        for key in gone:
            del self.held[key]

    def _begin(self) -> None:
        # A tombstone takes effect at once, in a transaction's values as well: those of "p" are never deleted.
        new = self.offsets("p", self.draw.randrange(1, 5))
        transaction = self.transaction or self.store.transaction("p", 77, durability="disk")
        transaction.commit({TopicPartition("t", number): offset for (_, number), offset in new.items()})
        self.transaction = transaction
        self.pending |= new

    def _end(self) -> None:
        if self.transaction is None:
            return
        commits = self.draw.random() < 0.5
        if commits:
            self.transaction.__exit__(None, None, None)
            self.held |= self.pending
        else:
            self.transaction.abort()
        self.transaction, self.pending = None, {}

    def _rest(self) -> None:
        rest = self.draw.choice((self.store.flush, self.store.compact, self.store.snapshot, self.store.verify))
        rest()

    def check(self) -> None:
        found = {
            (group, key.partition): value.offset
            for group in self.store.groups()
            for key, value in self.store.fetch(group).items()
        }
        assert found == self.held


def run(root, seed: int, full_from: int) -> tuple[int, int, int]:
    """Returns how many operations there were, calls that were refused, and transactions that ended meanwhile."""
    draw = random.Random(seed)
    root.mkdir()
    fs = FaultFileSystem(root)
    refused = ended = full = 0
    story = Story(open_store(root / "data", fs), draw)
    fs.fill(full_from)
    for _ in range(STEPS):
        if fs.full:
            full += 1
        if full > FULL_STEPS:
            fs.fill(0)
        was_open, was_full = story.transaction is not None, fs.full
        kind = ""
        try:
            kind = story.step()
        except errors.DiskFullError:
            assert full_from
            assert full <= FULL_STEPS
            refused += 1
        ended += was_open and was_full and kind == "end"
        story.check()
    fs.fill(0)
    if story.transaction is not None:
        story.transaction.abort()
    assert story.store.problems() == []
    assert story.store.verify() == []
    operations = fs.operations
    story.store.close()
    with open_store(root / "data") as story.store:
        assert story.store.problems() == []
        assert story.store.verify() == []
        story.check()
    del fs
    shutil.rmtree(root)
    return operations, refused, ended


def test_full_from_sampled_operations_on(tmp_path, caplog):
    # A record of the log keeps the error that it names, and that the file system with its open files.
    caplog.set_level("CRITICAL", logger="offsetlog")
    refused = ended = points = 0
    for seed in range(SEED * 100, SEED * 100 + by_depth(gate=2, long=10)):
        print(f"seed {seed}")
        operations, *_ = run(tmp_path / "whole", seed, 0)
        draw = random.Random(seed)
        for full_from in sorted(draw.sample(range(1, operations), min(operations - 1, by_depth(gate=25, long=10_000)))):
            print(f"full from {full_from}")
            if full_from % 10 == 0:
                gc.collect()    # the file systems of former runs, which keep their files open
            _, more, ends = run(tmp_path / "run", seed, full_from)
            refused, ended, points = refused + more, ended + ends, points + 1
    assert refused > points
    assert ended > points / 4


def test_what_was_open_before_the_disk_was_full_is_aborted_when_there_is_space(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    fs = FaultFileSystem(root)
    with open_store(root / "data", fs) as store:
        store.commit_one("p", "t", 0, 1)
        store.transaction("p", 5).commit({TopicPartition("t", 0): 2})
    fs.fill(1)
    with open_store(root / "data", fs) as store:
        for _ in range(2):
            with pytest.raises(errors.DiskFullError):
                store.abort_transaction(5)
            assert store.fetch_one("p", "t", 0).offset == 1
            assert len(store.transactions()) == 1
        fs.fill(0)
        assert store.abort_transaction(5) == 1
        assert store.transactions() == []
        assert store.verify() == []


def test_an_end_beyond_those_that_are_kept_can_be_tried_again(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    fs = FaultFileSystem(root)
    config = StoreConfig(segment_bytes=4096, batch_bytes_max=1024, extend_bytes_min=4096, extend_bytes_max=4096)
    with opening.open_with(root / "data", partitions=1, config=config, fs=fs, background=False) as store:
        transactions = [store.transaction("p", number) for number in range(60)]
        for number, transaction in enumerate(transactions):
            transaction.commit({TopicPartition("t", number): number})
        fs.fill(1)
        refused = []
        for transaction in transactions:
            try:
                transaction.abort()
            except errors.DiskFullError:
                refused.append(transaction)
        # Four markers are a twelfth of a segment.
        assert 0 < len(refused) <= 60 - 4
        fs.fill(0)
        for transaction in refused:
            transaction.abort()
        assert store.transactions() == []
        assert store.fetch("p") == {}
        assert store.verify() == []


#: Runs in a mount namespace of its own, on the small file system in argv[1].
PROGRAM = """
import os, sys
import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition, errors

folder = sys.argv[1]
config = StoreConfig(segment_bytes=64 * 1024, batch_bytes_max=16 * 1024, extend_bytes_min=4096, extend_bytes_max=8192)
keys = [TopicPartition("t", number) for number in range(3)]


def open_store():
    return offsetlog.open(folder + "/data", partitions=1, config=config, maintenance=MaintenanceConfig(enabled=False))


def fill(name):
    with open(f"{folder}/{name}", "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    os.sync()


def refused(call):
    try:
        call()
    except errors.DiskFullError:
        return True
    return False


store = open_store()
store.commit("g", dict.fromkeys(keys, 1))
transactions = [store.transaction("p", 100 + number) for number in range(60)]
for number, transaction in enumerate(transactions):
    transaction.commit({keys[0]: number})
fill("first")
committed = 1
while not refused(lambda: store.commit("g", dict.fromkeys(keys, committed + 1))):
    committed += 1
assert refused(lambda: store.transaction("p", 500).commit({keys[0]: 7}))
for number, transaction in enumerate(transactions):
    if number % 2:
        transaction.abort()
    else:
        transaction.__exit__(None, None, None)
    assert store.fetch_one("g", "t", 0).offset == committed
assert store.transactions() == []
assert store.fetch_one("p", "t", 0).offset == 58
assert store.verify() == []
assert store.problems() == []
store.flush()
refused(store.compact), refused(store.snapshot)
os.remove(folder + "/first")
os.sync()
for _ in range(100):
    committed += 1
    store.commit("g", dict.fromkeys(keys, committed))
    store.commit("h", dict.fromkeys([TopicPartition("t", number) for number in range(400)], committed))
store.compact()
store.snapshot()
assert store.verify() == []
store.close()
with open_store() as store:
    assert store.fetch_one("g", "t", 2).offset == committed
    assert store.fetch_one("p", "t", 0).offset == 58
    assert store.verify() == []
    assert store.problems() == []
print("sound")
"""

SMALL_FILE_SYSTEMS = {
    "ext4": ("truncate -s 16M {image} && mkfs.ext4 -q -F {image}", "mount -o loop {image} {folder}"),
    "xfs": ("truncate -s 320M {image} && mkfs.xfs -q -f {image}", "mount -o loop {image} {folder}"),
    "tmpfs": ("true", "mount -t tmpfs -o size=8M tmpfs {folder}"),
}


@pytest.mark.parametrize("kind", SMALL_FILE_SYSTEMS)
def test_on_a_small_file_system_that_fills_up(tmp_path, kind):
    folder = tmp_path / "mounted"
    folder.mkdir()
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    make, mount = (each.format(image=tmp_path / "image", folder=folder) for each in SMALL_FILE_SYSTEMS[kind])
    made = subprocess.run(["sh", "-c", make], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"a file system of kind {kind} cannot be made here: {made.stderr.strip()}")
    unshare = ["unshare", "--mount", "--map-root-user"]
    tried = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        unshare = ["unshare", "--mount"]
        tried = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"a file system of kind {kind} cannot be mounted here: {tried.stderr.strip()}")
    script = f"{mount} && {sys.executable} {program} {folder}"
    ran = subprocess.run([*unshare, "sh", "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == "sound\n"
