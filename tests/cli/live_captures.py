"""Pictures of the commands whose output no fixed clock decides: `serve`, `top` and `demo`.

Whatever another run or machine would print otherwise (durations, rates, addresses, digests) is an ellipsis.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator

ANYWHERE = "127.0.0.1:0"
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_DIGEST = re.compile(r"\b[0-9a-f]{32}(-[0-9a-f]{32}){2}\b")
#: A figure that is measured, in front of its unit.
_MEASURED = re.compile(r"\b[\d.,]+(?= ?(?:s|ms|/s|B/s|KiB/s)\b| (?:B|KiB|MiB) (?:of|in|on|for)\b| each\b)")
#: The same in the columns of the demo.
_COLUMN = re.compile(r" +[\d.,]+(?= /?s\b)")


#: A version or a size, and the platform of an archive.
_VERSION = re.compile(r"\b\d+(\.\d+)+\b|(?<=\()[a-z]+-[\w-]+(?=\))")


@contextlib.contextmanager
def server(data: str) -> Iterator[tuple[str, str, str]]:
    """Runs `offsetlog serve` on free ports; yields what it prints when it is ready, its address, and its metrics'."""
    command = [sys.executable, "-m", "offsetlog", "serve", data, "--listen", ANYWHERE, "--metrics", ANYWHERE]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert served.stdout is not None
        printed = served.stdout.readline() + served.stdout.readline()
        yield printed, *_ADDRESS.findall(printed)
    finally:
        served.terminate()
        served.communicate(timeout=60)


def steady(text: str) -> str:
    """Returns a text without what depends on the run; a column keeps its width."""
    text = _COLUMN.sub(lambda found: "…".rjust(len(found[0])), text)
    return _DIGEST.sub("…", _MEASURED.sub("…", text))


def without_versions(text: str) -> str:
    """Returns a text without the versions and sizes of packages."""
    return _VERSION.sub("…", text)
