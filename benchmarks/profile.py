"""Profiles a workload: with perf if it is installed and permitted, otherwise by Python's own frames."""

from __future__ import annotations

import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.race import Runner

LINES_MAX = 40


def profile(runner: Runner, seconds: float) -> str:
    """Runs jobs of a runner for `seconds` under a profiler, and returns the functions that took the most time."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "perf.data"
        return _perf(runner, seconds, data) or _frames(runner, seconds)


def _work(runner: Runner, seconds: float) -> None:
    end = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < end:
        job = runner.prepare(number)
        job.run()
        runner.settle(job)
        number += 1


def _perf(runner: Runner, seconds: float, data: Path) -> str:
    if shutil.which("perf") is None:
        return ""
    words = ["perf", "record", "-q", "-F", "997", "-p", str(os.getpid()), "-o", str(data)]
    recorder = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _work(runner, seconds)
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()
    words = ["perf", "report", "-i", str(data), "--stdio", "--fields", "overhead,dso,symbol", "--percent-limit", "0.5"]
    report = subprocess.run(words, check=False, capture_output=True, text=True)
    lines = [line.rstrip() for line in report.stdout.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(lines[:LINES_MAX])


def _frames(runner: Runner, seconds: float) -> str:
    # Only Python frames are seen.  The time of C code is counted for the line that called it.
    seen: collections.Counter[str] = collections.Counter()
    watched, stop = threading.get_ident(), threading.Event()

    def sample() -> None:
        while not stop.wait(0.002):
            frame = sys._current_frames().get(watched)
            if frame is not None:
                seen[f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"] += 1

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        _work(runner, seconds)
    finally:
        stop.set()
        sampler.join()
    total = sum(seen.values()) or 1
    return "\n".join(f"{count / total:6.1%}  {place}" for place, count in seen.most_common(LINES_MAX))
