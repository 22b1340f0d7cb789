"""A log whose records are mostly superseded.  It is built once, and copied for each clean."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import offsetlog
from benchmarks.keys import KeySpace, Numbers, Shuffled, digest_of
from benchmarks.opening import BY_HAND, segments_of
from benchmarks.workload import Run
from offsetlog import OffsetStore, StoreConfig


@dataclass(frozen=True)
class DirtyLog:
    """A log directory with one log partition, which was closed cleanly and is not written to any more.

    Attributes:
        path: the directory.
        keys: the keys of the table.
        offsets: the committed offsets, indexed by the number of the key.
        commits: the number of commits; each is a batch of one record.
        config: the settings of stores that open the log.
    """

    path: Path
    keys: KeySpace
    offsets: Numbers
    commits: int
    config: StoreConfig

    @property
    def segments(self) -> list[Path]:
        return segments_of(self.path)

    @property
    def closed_bytes(self) -> int:
        """Returns the bytes of the segments that are cleaned: all except the active one, which Kafka never cleans."""
        return sum(segment.stat().st_size for segment in self.segments[:-1])

    def __str__(self) -> str:
        dead = 1 - self.keys.count / self.commits
        size = f"{self.closed_bytes / 1e9:.2f} GB in {len(self.segments) - 1} closed segments"
        return f"{self.keys}, {self.commits:,} commits of one record each, {dead:.0%} superseded; {size}"

    def copy(self, target: Path) -> Path:
        """Makes a directory with the same log.  Closed segments are hard links; a cleaner replaces whole files."""
        *closed, _ = self.segments
        for source in sorted(self.path.rglob("*")):
            copied = target / source.relative_to(self.path)
            if source.is_dir():
                copied.mkdir(parents=True, exist_ok=True)
            elif source in closed:
                os.link(source, copied)
            else:
                shutil.copy2(source, copied)
        return target

    def files(self) -> dict[Path, tuple[int, int]]:
        """Returns the size and the time of every file, with which a run checks that it has not changed this log."""
        found = (path for path in self.path.rglob("*") if path.is_file())
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    def open(self, path: Path) -> OffsetStore:
        return offsetlog.open(path, 1, durability="process", config=self.config, maintenance=BY_HAND)

    def digest_of(self, store: OffsetStore) -> str:
        """Returns the digest of a store's positions; raises AssertionError if they differ from the committed ones."""
        found = self.keys.offsets_of(store.to_arrow())
        wrong = int((found != self.offsets).sum())
        if wrong:
            raise AssertionError(f"the cleaned log is wrong for {wrong:,} of {self.keys.count:,} keys")
        return digest_of(found)


def build(run: Run, keys: KeySpace, times: int) -> DirtyLog:
    """Commits each key several times, in a new order each time, with one record per batch."""
    path = run.new_directory()
    config = StoreConfig(segment_bytes=run.size(100 << 20, 128 << 10))
    shuffled = Shuffled(keys.count, run.seed)
    offsets = np.zeros(keys.count, np.int64)
    commits = keys.count * times
    with offsetlog.open(path, 1, durability="process", config=config, maintenance=BY_HAND) as store:
        commit = store.commit_one
        for base in range(1, commits + 1, 500_000):
            indices = shuffled.take(min(500_000, commits + 1 - base))
            for offset, (group, topic, partition) in enumerate(keys.rows(indices), base):
                commit(group, topic, partition, offset)
            # For a key that comes twice the later offset counts.
            np.maximum.at(offsets, indices, np.arange(base, base + len(indices)))
    return DirtyLog(path, keys, offsets, commits, config)


def dirty_log(run: Run) -> DirtyLog:
    """Returns the log of the workloads.  90 % of its records are superseded."""
    log = build(run, KeySpace(run.size(800, 4), run.size(10, 5), run.size(100, 20)), 10)
    run.condition(f"one log partition: {log}; in the page cache")
    return log
