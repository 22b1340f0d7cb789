"""Processes with all that they have started, of Linux."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path


def family_of(pid: int) -> list[int]:
    """The process and all that it has started, those that are started by them, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for known in found:
        found.extend(children.get(known, []))
    return found


def kill(pids: Iterable[int]) -> None:
    """Kills processes, of which some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether a process is there, and has not ended without being waited for."""
    with contextlib.suppress(OSError, IndexError):
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    return False


def wait_for_end(pids: Iterable[int], seconds: float = 60) -> None:
    """Waits until none of the processes is running; raises AssertionError where one still is."""
    deadline = time.monotonic() + seconds
    waiting = list(pids)
    while waiting := [pid for pid in waiting if is_running(pid)]:
        assert time.monotonic() < deadline, f"still running: {waiting}"
        time.sleep(0.02)
