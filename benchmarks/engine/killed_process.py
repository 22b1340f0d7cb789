"""Two processes that end by SIGKILL.

`python -m benchmarks.engine.killed_process load PATH SEED GROUPS TOPICS PARTITIONS` commits until it is killed.  It
prints a line when it begins to commit.  `... restart PATH` opens the directory, prints its measurements as JSON, and
kills itself, so that the directory is left as after a kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import offsetlog
from benchmarks.keys import KeySpace, Shuffled
from benchmarks.machine import touch_free_memory
from benchmarks.opening import Opened

#: The free memory that is touched before the open; more than the table and the pages of the active segments need.
WARMED_BYTES = 1024 << 20


def load(path: str, seed: int, keys: KeySpace) -> None:
    """Commits single positions in a shuffled order until the process is killed."""
    shuffled = Shuffled(keys.count, seed)
    with offsetlog.open(path, durability="process") as store:
        base = 1
        while True:
            rows = keys.rows(shuffled.take(10_000))
            for offset, (group, topic, partition) in enumerate(rows, base):
                store.commit_one(group, topic, partition, offset)
            if base == 1:
                print("loading", flush=True)
            base += len(rows)


def restart(path: str) -> None:
    """Opens the store with the default settings, waits until it is loaded, and ends without closing it."""
    touch_free_memory(WARMED_BYTES)
    begun, user = time.perf_counter(), os.times().user
    store = offsetlog.open(path)
    seconds, user = time.perf_counter() - begun, os.times().user - user
    found = {"seconds": seconds, "user": user}
    found |= {"digest": str(store.digest()), "opened": Opened.of(store).as_dict()}
    print(json.dumps(found), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    what, path, *numbers = sys.argv[1:]
    if what == "restart":
        restart(path)
    seed, *shape = map(int, numbers)
    load(path, seed, KeySpace(*shape))


if __name__ == "__main__":
    main()
