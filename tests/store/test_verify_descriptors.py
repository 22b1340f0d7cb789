"""A log of more segments than a process has descriptors is verified like any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Prints how many segments there were.  Each commit fills a segment, and overwrites what an earlier one said.
#:
#: A log whose flushes are slow needs up to 128 descriptors for rolled segments (OL_UNFLUSHED_MAX of
#: csrc/log/log_impl.h,
#: of four files each), and up to 256 for segments that left it while they are read (OL_KEPT_FILES_MAX of
#: csrc/log/segment.h).
SCRIPT = """
import resource, sys, threading
from pathlib import Path

import offsetlog
from offsetlog.config import StoreConfig
from offsetlog.verify import verify

path, way = Path(sys.argv[1]), sys.argv[2]
resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))


def check_live(store):
    found = store.verify()
    assert found == [], found
    assert [each.name for each in found.ways][:2] == ["live", "replay"], found.ways
    assert len({each.digest for each in found.ways if each.digest is not None}) == 1


def check_beside_cleaner(store):
    stop = threading.Event()
    failures = []

    def clean():
        try:
            while not stop.is_set():
                for number in range(40):
                    store.commit_one("g", "t", number % 10, number, metadata="n" * 3500)
                store.compact()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=clean)
    thread.start()
    try:
        for _ in range(5):
            check_live(store)
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


config = StoreConfig(segment_bytes=1 << 12, batch_bytes_max=1 << 12)
with offsetlog.open(path, partitions=1, durability="process", config=config) as store:
    for number in range(650):
        store.commit_one("g", "t", number % 10, number, metadata="m" * 3500)
    segments = len(list(path.glob("*/*.log")))
    if way == "live":
        check_live(store)
    elif way == "cleaner":
        check_beside_cleaner(store)
if way == "offline":
    assert verify(path).sound
print(segments)
"""


def run(path: Path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), way], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 600


def test_of_an_open_store(path):
    run(path, "live")


def test_of_a_closed_one(path):
    run(path, "offline")


def test_beside_a_cleaner(path):
    run(path, "cleaner")
