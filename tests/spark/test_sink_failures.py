"""A stream into a store whose tasks fail, whose publisher is killed, and whose driver is."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from depth import by_depth, first_seed

from tests.spark.process_trees import family_of, kill
from tests.spark.sink_epochs import check
from tests.spark.sink_stream import write_source

# Each test starts several Sparks of its own.
pytestmark = pytest.mark.long

KILLS = by_depth(gate=2, long=20)


def start(directory: Path, **settings: object) -> subprocess.Popen[bytes]:
    command = "from tests.spark.sink_stream import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (directory / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", command, str(directory), json.dumps(settings)],
            env=environment,
            stdout=output,
            stderr=output,
        )


def run_to_the_end(directory: Path, **settings: object) -> int:
    running = start(directory, to_the_end=True, **settings)
    try:
        return running.wait(200)
    finally:
        kill(family_of(running.pid))
        running.wait()


def is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "python" in (Path("/proc") / str(pid) / "comm").read_text()
    return False


def test_tasks_that_fail_commit_nothing_twice(tmp_path):
    write_source(tmp_path / "source", 0, 3)
    # An epoch that cannot succeed is given up as a whole, and done when it can.
    assert run_to_the_end(tmp_path, fail="always") != 0
    assert "a task fails, as it shall" in (tmp_path / "output").read_text()
    check(tmp_path, 1)
    assert run_to_the_end(tmp_path, fail="once") == 0, (tmp_path / "output").read_text()
    check(tmp_path, 3)
    assert not (tmp_path / "store" / ".offsetlog-staging").exists()


def test_a_stream_that_is_killed_anywhere_commits_every_epoch_once(tmp_path):
    seed = first_seed(random.randrange(2**31))
    print(f"OL_SEED={seed}")
    chance = random.Random(seed)
    written = 0
    for attempt in range(KILLS):
        # Always a few epochs ahead of it, however fast the machine is.
        more = max(0, 3 - (written - entries(tmp_path, "commits")))
        write_source(tmp_path / "source", written, more)
        written += more
        # Every other time the publisher dies, at a step of its own; else the clock decides.
        settings = {"die_at": chance.randrange(30)} if attempt % 2 else {}
        before = progress(tmp_path)
        running = start(tmp_path, fail="once", **settings)
        try:
            wait_until(lambda before=before: progress(tmp_path) > before, running)
            wait_until(lambda: False, running, seconds=30 if settings else chance.uniform(0, 6))
            family = family_of(running.pid)
            if chance.random() < 0.3:
                # The driver goes, and a publisher that is at work comes to its end.
                family = [pid for pid in family if pid == running.pid or not is_python(pid)]
            kill(family)
        finally:
            kill([running.pid])
            running.wait()
    assert run_to_the_end(tmp_path, fail="once") == 0, (tmp_path / "output").read_text()
    check(tmp_path, written)
    staging = tmp_path / "store" / ".offsetlog-staging"
    assert not staging.exists(), [str(path.relative_to(staging)) for path in staging.rglob("*")]


def entries(directory: Path, kind: str) -> int:
    """How many epochs the stream's checkpoint has of a kind: "offsets" are begun, "commits" are done."""
    return sum(1 for _ in (directory / "checkpoint" / kind).glob("[0-9]*"))


def progress(directory: Path) -> int:
    """A number that grows with every epoch that is begun or done."""
    return entries(directory, "offsets") + entries(directory, "commits")


def wait_until(happened: Callable[[], bool], running: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Waits for it, for the process to end, or for so long."""
    end = time.monotonic() + seconds
    while not happened() and running.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
