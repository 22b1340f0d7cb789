"""The process that is killed: carries out the plan from operation `start` on, and tells of each that returned."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import count

import offsetlog
from crash.kill_plan import PARTITIONS, carry_out, operation
from offsetlog import StoreConfig

CONFIG = StoreConfig(
    segment_bytes=64 * 1024,
    batch_bytes_max=2048,
    segment_index_bytes=4096,
    extend_bytes_min=4096,
    extend_bytes_max=16384,
)


def main() -> None:
    path, seed, start = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # By turns, so that each way of appending goes on where the other was killed.
    config = replace(CONFIG, append="written" if start % 2 else "mapped")
    store = offsetlog.open(path, partitions=PARTITIONS, config=config)
    if store.transactions():
        raise SystemExit("the parent left a transaction open")
    os.write(1, b"ready\n")
    for number in count(start):
        carry_out(store, *operation(seed, number))
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main()
