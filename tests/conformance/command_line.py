"""The one place that runs our command line: `offsetlog COMMAND PATH --format json` in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_SECONDS = 120


class CommandFailedError(AssertionError):
    """The command did not end as expected; the message has its exit code and what it wrote."""


def is_there() -> bool:
    """Whether this checkout has a command line at all."""
    if importlib.util.find_spec("offsetlog") is None:
        return False
    return importlib.util.find_spec("offsetlog.cli") is not None


# Where there is no command line yet there is nothing to test.  Once the package has one, whatever keeps it from
# running fails.
needs_command_line = pytest.mark.skipif(not is_there(), reason="the package has no command line yet")


@cache
def output_of(*arguments: str, exit_code: int = 0) -> str:
    """What `offsetlog ARGUMENTS` prints; the same arguments run once in a session.

    Raises CommandFailedError for another exit code or any traceback.
    """
    done = subprocess.run(
        [sys.executable, "-m", "offsetlog", *arguments],
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    errors = done.stderr.decode("utf-8", "replace")
    if done.returncode != exit_code or "Traceback" in errors:
        raise CommandFailedError(
            f"{' '.join(arguments)}: exit code {done.returncode}, expected {exit_code}\n{errors[-4000:]}"
        )
    return done.stdout.decode("utf-8")


def rows_of(command: str, path: Path, *options: str) -> list[dict[str, Any]]:
    """The objects that a command prints with `--format json`, one a line.  Callers must not change them."""
    text = output_of(command, str(path), *options, "--format", "json")
    return [json.loads(line) for line in text.split("\n") if line]
