"""A worker that reads one share of the keys after another does not grow."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spark.log import Shape, write_log
from offsetlog.spark.scan.memory import release_unused

ROOT = Path(__file__).parents[2]
RECORDS, SHARES = 2_400_000, 3
#: The resident memory after each share, in MiB; a worker has imported PySpark before.
READING = """
import sys
import pyspark.worker
from pathlib import Path
from tests.spark.reading import read_splits, splits_of

path = sys.argv[1]
for split in splits_of(path, view="history", buckets=int(sys.argv[2])):
    rows = sum(batch.num_rows for batch in read_splits([split], path, view="history"))
    lines = Path("/proc/self/status").read_text().splitlines()
    print(rows, next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")))
"""


def test_a_worker_does_not_grow_with_each_share_of_the_keys(tmp_path: Path) -> None:
    write_log(tmp_path, Shape(RECORDS, RECORDS // 10, 1), 1)
    done = subprocess.run(
        [sys.executable, "-c", READING, str(tmp_path), str(SHARES)],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    shares = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sum(rows for rows, _ in shares) == RECORDS
    assert len(shares) == SHARES
    first, *later = (resident for _, resident in shares)
    # Without that, 30 to 60 MiB more with each share of 800,000 records.
    assert max(later) <= first + 16, shares


def test_the_pad_of_a_trim_has_the_width_that_the_c_library_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ctypes.CDLL(None)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    release_unused()
    assert not hasattr(library, "malloc_trim") or library.malloc_trim.argtypes == [ctypes.c_size_t]
