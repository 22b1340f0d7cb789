"""File systems on real loop devices: full ones, and ones whose disk fails.

Without root, loop devices or the program that makes a file system these tests are skipped, and with
``OFFSETLOG_REQUIRE_DEVICES=1`` they fail. A store is used in a process of its own, whose end is seen.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

MIB = 1 << 20
TESTS = Path(__file__).resolve().parents[1]

#: The beginning of every program of these tests.
PRELUDE = """
import os, sys, time
from pathlib import Path
import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, errors

PATH, APPEND = Path(sys.argv[1]), sys.argv[2]

def open_store(durability="process", segment_bytes=1 << 20, **options):
    return offsetlog.open(
        PATH, partitions=2, durability=durability, maintenance=MaintenanceConfig(enabled=False),
        config=StoreConfig(segment_bytes=segment_bytes, append=APPEND), **options)

def group_in(store, number):
    return next(name for name in map(str, range(100)) if store._core.number_of(name) == number)

def tell(*words):
    print(*words, flush=True)

def is_log_mapped():
    return any(line.rstrip().endswith(".log") for line in open("/proc/self/maps"))
"""


def unavailable(reason: str) -> NoReturn:
    """Skips the test, or fails it where devices are required."""
    if os.environ.get("OFFSETLOG_REQUIRE_DEVICES") == "1":
        pytest.fail(f"real devices are required here (OFFSETLOG_REQUIRE_DEVICES=1): {reason}")
    pytest.skip(f"no real device was tested: {reason}")


def run(*command: str | Path) -> str:
    """Runs a program that must succeed; returns what it printed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Disk:
    """A file system in an image, which can be mounted, and cut while it is."""

    def __init__(self, image: Path, mount: Path) -> None:
        self.image = image
        self.mount = mount

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """Mounts it."""
        run("mount", "-o", "loop", self.image, self.mount)
        try:
            yield self.mount
        finally:
            run("umount", self.mount)


class Ended:
    """A program that came to its end.

    Attributes:
        lines: what it printed.
    """

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.lines = done.stdout.splitlines()
        name = signal.Signals(-done.returncode).name if done.returncode < 0 else str(done.returncode)
        assert done.returncode == 0, f"ended with {name}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def word(self, name: str) -> str:
        """Returns what follows a word that it printed at the start of a line."""
        return next(line.removeprefix(f"{name} ") for line in self.lines if line.startswith(f"{name} "))

    def number(self, name: str) -> int:
        """The same for a number."""
        return int(self.word(name))


def run_store(path: Path, append: str, body: str) -> Ended:
    """Runs a program that uses a store in `path`; it must end by itself."""
    code = f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n{PRELUDE}{textwrap.dedent(body)}"
    call = [sys.executable, "-W", "ignore", "-c", code, str(path), append]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=300)
    return Ended(done)


def fill(folder: Path) -> Path:
    """Writes a file until the file system is full; returns it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (MIB, 65536, 4096):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
            with suppress(OSError):
                os.fsync(file.fileno())
    return filler
