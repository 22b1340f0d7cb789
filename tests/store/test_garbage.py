"""A garbage collection lets go of open objects while their file system is still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import offsetlog

TESTS = Path(__file__).resolve().parents[1]

#: A file system of a test's own is gone with the last reference, and a cycle is cleared in any order.
PROGRAM = """
import gc, sys
sys.path[:0] = [sys.argv[1]]
from faults import FaultFileSystem
from offsetlog._native.decompress import Decompressor
from offsetlog._native.partition import Partition
from offsetlog._native.records import SegmentReader
from offsetlog._native.scan import SegmentScan
from offsetlog._native.snapshot import OutputFile
from offsetlog.config import StoreConfig

class Knot:
    pass

root = sys.argv[2]
log = root + "/__consumer_offsets-0"

def partition(fs):
    return Partition(log, 0, fs, Decompressor(), StoreConfig(), writable=True)

def reader(fs):
    return SegmentReader(log + "/00000000000000000000.log", file_system=fs)

def lock(fs):
    return fs.lock(root + "/lock")

def output(fs):
    return OutputFile(fs, root + "/output")

for number in range(50):
    # The collection clears the oldest first.
    opened = globals()[sys.argv[3]](FaultFileSystem(root))
    knot = Knot()
    knot.itself, knot.opened = knot, opened
    del knot, opened
    assert gc.collect() > 0
print("all let go")
"""


@pytest.mark.parametrize("kind", ["partition", "reader", "lock", "output"])
def test_what_is_open_in_a_cycle_goes_before_its_file_system(tmp_path, kind):
    with offsetlog.open(tmp_path, partitions=1) as store:
        store.commit("g", {offsetlog.TopicPartition("t", 0): 1})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, TESTS, tmp_path, kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all let go\n"), done.stderr
