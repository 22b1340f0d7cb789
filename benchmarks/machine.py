"""Describes the machine and the software with which a figure was measured."""

from __future__ import annotations

import mmap
import os
import platform
import sqlite3
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

PACKAGES = ("offsetlog", "numpy", "pyarrow", "lmdb", "rocksdict", "pytest-benchmark")


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    found = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name)
    return next(found, None)


def _compiler() -> str:
    try:
        run = subprocess.run([os.environ.get("CC", "cc"), "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no C compiler"
    return run.stdout.splitlines()[0]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def file_system(path: Path) -> str:
    """Returns the type of the file system of a path, which is that of the longest mount point above the path."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split()
        above = mount == "/" or path.is_relative_to(mount)
        if above and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def describe(directory: Path) -> dict[str, str]:
    """Returns the head of every report; `directory` has the files of the benchmarks."""
    kib = int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0])
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{kib / 1048576:.1f} GiB, huge pages {huge.read_text().strip() if huge.exists() else 'unknown'}",
        "kernel": platform.release(),
        "files": file_system(directory),
        "python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "compiler": _compiler(),
        "software": ", ".join([*(f"{name} {_version(name)}" for name in PACKAGES), f"sqlite {sqlite3.sqlite_version}"]),
    }


def touch_free_memory(size: int) -> None:
    """Touches and frees `size` bytes, or a quarter of the free memory if that is less.

    The host of a virtual machine takes back idle memory.  The first touch of a page then waits for the host, up to
    fifty times as long as the touch itself takes.  Without this call, the wait would count as time of the appends.
    """
    kib = int((_field("/proc/meminfo", "MemAvailable") or "0 kB").split()[0])
    size = min(size, kib * 1024 // 4) // mmap.PAGESIZE * mmap.PAGESIZE
    if size == 0:
        return
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        touched = np.frombuffer(memory, np.uint8)
        touched[:: mmap.PAGESIZE] = 1
        del touched
