"""The follower of docs/how-to/tail-files.md runs on while its files grow, rotate and are truncated."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pages import fences

PAGE = "docs/how-to/tail-files.md"
WAIT_SECONDS = 120


@pytest.fixture
def follower(tmp_path):
    (code,) = (block.code for block in fences(PAGE) if block.file == "follow.py")
    (tmp_path / "follow.py").write_text(code)
    with (tmp_path / "shipped").open("w") as shipped, subprocess.Popen(
        [sys.executable, "follow.py", "app.log*", "--forever"], cwd=tmp_path, stdout=shipped
    ) as process:
        yield tmp_path
        process.kill()


def shipped(path: Path, count: int) -> list[str]:
    """Returns the lines that were shipped, once there are `count` of them."""
    end = time.monotonic() + WAIT_SECONDS
    while len(lines := (path / "shipped").read_text().splitlines()) < count:
        assert time.monotonic() < end, lines
        time.sleep(0.05)
    return lines


def test_the_follower_runs_on(follower):
    log = follower / "app.log"
    log.write_text("one\ntwo\nthr")
    assert shipped(follower, 2) == ["app.log: one", "app.log: two"]
    log.rename(follower / "app.log.1")
    with (follower / "app.log.1").open("a") as rotated:
        rotated.write("ee\n")
    log.write_text("four\n")
    assert shipped(follower, 4)[2:] in (
        ["app.log.1: three", "app.log: four"],
        ["app.log: four", "app.log.1: three"],
    )
    log.write_text("5\n")                                # truncated in place, and shorter than its position
    assert shipped(follower, 5)[4:] == ["app.log: 5"]
    (follower / "app.log.2").symlink_to(follower / "nowhere")    # a file that is gone when it is opened
    time.sleep(1.5)
    with log.open("a") as file:
        file.write("six\n")
    assert shipped(follower, 6)[5:] == ["app.log: six"]
