"""How many logs and connections may be open, by the limit of open files that the process has."""

from __future__ import annotations

import resource

#: Files that an open log has at most: its active segment with two indexes, and the one being prepared.
FILES_OF_A_LOG = 4
#: An open log has as many mappings, of which a process has 65,530 on most systems.
OPEN_LOGS_MAX = 10_000
OPEN_LOGS_MIN = 16


def open_logs_max() -> int:
    """Returns for how many open logs a quarter of the files suffices that this process may have open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return OPEN_LOGS_MAX
    return max(min(files // 4 // FILES_OF_A_LOG, OPEN_LOGS_MAX), OPEN_LOGS_MIN)


def connections_max() -> int | None:
    """Returns for how many connections five eighths of those files suffice; None: any number.

    With what the logs of topics take, an eighth is left for the logs of positions and the rest.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if files == resource.RLIM_INFINITY else max(files * 5 // 8, 1)


def raise_limit_of_open_files() -> None:
    """Takes as many open files as the process may have; the shell's default is less on most systems."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
