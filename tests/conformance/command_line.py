"""The one place that runs our command line: `offsetlog COMMAND PATH --format json`, in this process or in its own."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import warnings
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
    """Returns the output of `offsetlog ARGUMENTS`; the same arguments run once in a session, and in this process.

    Raises CommandFailedError for another exit code or any traceback.
    """
    from offsetlog.cli.app import run
    from offsetlog.errors import CorruptionWarning

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore", CorruptionWarning)
        code = run(list(arguments))
    return checked(arguments, (exit_code, code), *(written(stream) for stream in (out, err)))


def written(stream: io.TextIOWrapper) -> bytes:
    """Returns the bytes written to a stream over memory."""
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


def output_of_process(*arguments: str, exit_code: int = 0) -> str:
    """Returns the output of `offsetlog ARGUMENTS` in a process of its own; raises as `output_of`."""
    command = [sys.executable, "-m", "offsetlog", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    return checked(arguments, (exit_code, done.returncode), done.stdout, done.stderr)


def checked(arguments: tuple[str, ...], codes: tuple[int, int], out: bytes, err: bytes) -> str:
    """The output of a command that ended as expected; `codes` are the exit code that was expected and the real one."""
    expected, code = codes
    errors = err.decode("utf-8", "replace")
    if code != expected or "Traceback" in errors:
        raise CommandFailedError(f"{' '.join(arguments)}: exit code {code}, expected {expected}\n{errors[-4000:]}")
    return out.decode("utf-8")


def rows_of(command: str, path: Path, *options: str) -> list[dict[str, Any]]:
    """The objects that a command prints with `--format json`, one a line.  Callers must not change them."""
    text = output_of(command, str(path), *options, "--format", "json")
    return [json.loads(line) for line in text.split("\n") if line]
