"""Derives how many logs and connections may be open from the process's limit on open files."""

from __future__ import annotations

import resource

#: The most files of an open log: its active segment with two indexes, and the segment being
#: prepared.
FILES_OF_A_LOG = 4
#: An open log has as many memory mappings as files, and most systems allow a process 65,530 of them.
OPEN_LOGS_MAX = 10_000
OPEN_LOGS_MIN = 16
#: Files for everything else: 15 after the start, and those that threads open briefly to read,
#: flush, delete, compact or collect metrics.
RESERVED_FILES = 64


def open_logs_max() -> int:
    """Returns how many logs may be open: their files may take a quarter of the limit on open files.

    The result is at least 16 and at most 10,000.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return OPEN_LOGS_MAX
    return max(min(files // 4 // FILES_OF_A_LOG, OPEN_LOGS_MAX), OPEN_LOGS_MIN)


def connections_max(partitions: int, open_logs: int | None = None) -> int | None:
    """Returns how many connections the limit on open files leaves; None if there is no limit.

    Connections get at most five eighths of the files; the others are for logs, and for files that
    are open briefly.

    Args:
        partitions: the number of partitions of the offsets topic; their logs stay open.
        open_logs: the number of ordinary topics' logs that may be open; None for `open_logs_max()`.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return None
    logs = partitions + (open_logs_max() if open_logs is None else open_logs)
    return max(min(files * 5 // 8, files - logs * FILES_OF_A_LOG - RESERVED_FILES), 1)


def raise_limit_of_open_files() -> None:
    """Raises the soft limit on open files to the hard limit; on most systems it starts lower."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
