"""A log as groups write it: commits of ten partitions of one topic each, in random order of groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import offsetlog
from benchmarks.opening import BY_HAND, log_bytes_of, partitions_of

#: Positions of one commit, and so records of one batch.
ROWS_A_COMMIT = 10
KEYS_A_GROUP = 1000
PIECE = 200_000


@dataclass(frozen=True)
class Shape:
    """The number of records, keys and log partitions."""

    records: int
    keys: int
    log_partitions: int

    def __str__(self) -> str:
        return (
            f"{self.records:,} records over {self.keys:,} keys in {self.log_partitions} log partition(s), "
            f"{ROWS_A_COMMIT} a commit"
        )


def write_log(path: Path, shape: Shape, seed: int) -> int:
    """Writes the log, every key at least once, and returns its bytes."""
    generator = np.random.default_rng(seed)
    groups = -(-shape.keys // KEYS_A_GROUP)
    keys = min(KEYS_A_GROUP, shape.keys)
    names = pa.array([f"consumer-group-{number:05d}" for number in range(groups)])
    topics = pa.array([f"orders-{number:02d}" for number in range(-(-keys // 100))])
    # Cleaned unasked, the log would have fewer records than the workload says.
    with offsetlog.open(path, partitions=shape.log_partitions, durability="process", maintenance=BY_HAND) as store:
        for start in range(0, shape.records, PIECE):
            count = min(PIECE, shape.records - start)
            # Commits in order cover every key; from then on any may come.
            number = np.arange(start, start + count) // ROWS_A_COMMIT
            first = number * ROWS_A_COMMIT % shape.keys
            if start >= shape.keys:
                drawn = generator.integers(0, shape.keys // ROWS_A_COMMIT, -(-count // ROWS_A_COMMIT)) * ROWS_A_COMMIT
                first = np.repeat(drawn, ROWS_A_COMMIT)[:count]
            key = first + np.arange(start, start + count) % ROWS_A_COMMIT
            group, local = key // KEYS_A_GROUP, key % KEYS_A_GROUP
            store.commit_arrow(
                pa.table(
                    {
                        "group": pa.DictionaryArray.from_arrays(pa.array(group.astype(np.int32)), names),
                        "topic": pa.DictionaryArray.from_arrays(pa.array((local // 100).astype(np.int32)), topics),
                        "partition": (local % 100).astype(np.int32),
                        "offset": np.arange(start, start + count, dtype=np.int64),
                    }
                )
            )
        store.flush()
    if partitions_of(path) != shape.log_partitions:
        raise AssertionError(f"{partitions_of(path)} log partitions are used: not {shape}")
    return log_bytes_of(path)
