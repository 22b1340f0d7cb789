"""The process whose start is measured.  It opens a directory, fetches a position, and waits until all is loaded."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import offsetlog
from benchmarks.machine import touch_free_memory
from benchmarks.opening import BY_HAND, Opened


def _bytes_read() -> int:
    # This counts all reads of the process, from the page cache or from the disk.
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.removeprefix("rchar: ") for line in lines if line.startswith("rchar: ")))


def main() -> None:
    path, group, topic, partition, warmed_bytes = sys.argv[1:]
    touch_free_memory(int(warmed_bytes))
    read = _bytes_read()
    started, user = time.perf_counter(), os.times().user
    with offsetlog.open(path, durability="process", maintenance=BY_HAND, wait=False) as store:
        found = store.fetch_one(group, topic, int(partition))
        first = time.perf_counter() - started
        store.wait_loaded()
        complete, user = time.perf_counter() - started, os.times().user - user
        if found is None:
            raise AssertionError("the position is not there")
        found_out = {"first": first, "complete": complete, "user": user, "read": _bytes_read() - read}
        print(json.dumps({**found_out, "digest": str(store.digest()), "opened": Opened.of(store).as_dict()}))


if __name__ == "__main__":
    main()
