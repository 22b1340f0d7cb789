"""Writes a log for measurements: each commit has ten partitions of one topic, in a random order of groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import offsetlog
from benchmarks.opening import BY_HAND, log_bytes_of, partitions_of

#: The number of positions in a commit, which is the number of records in a batch.
ROWS_A_COMMIT = 10
KEYS_A_GROUP = 1000
PIECE = 200_000


@dataclass(frozen=True)
class Shape:
    """The number of records, keys and log partitions of a log."""

    records: int
    keys: int
    log_partitions: int

    def __str__(self) -> str:
        return (
            f"{self.records:,} records over {self.keys:,} keys in {self.log_partitions} log partition(s), "
            f"{ROWS_A_COMMIT} a commit"
        )


def write_log(path: Path, shape: Shape, seed: int) -> int:
    """Writes the log, with every key at least once; returns the bytes of the log."""
    generator = np.random.default_rng(seed)
    groups = -(-shape.keys // KEYS_A_GROUP)
    keys = min(KEYS_A_GROUP, shape.keys)
    names = pa.array([f"consumer-group-{number:05d}" for number in range(groups)])
    topics = pa.array([f"orders-{number:02d}" for number in range(-(-keys // 100))])
    # The store must not clean the log, which would then have fewer records than the workload states.
    with offsetlog.open(path, partitions=shape.log_partitions, durability="process", maintenance=BY_HAND) as store:
        for start in range(0, shape.records, PIECE):
            count = min(PIECE, shape.records - start)
            # The first commits cover every key in order.  Later commits are random.
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
        raise AssertionError(f"{partitions_of(path)} log partitions are used, but the log should have {shape}")
    return log_bytes_of(path)
