"""PySpark's daemon of Python workers; a worker that nobody waits for any more ends without a word.

Spark starts it (`spark.python.daemon.module`) for the local sessions of our commands.  Where a task fails, Spark
cancels those beside it, and closes the connection of a worker that was only being started.  PySpark's own daemon prints
a traceback for each of these, before the one line that says what failed.

The daemon forks its workers: nothing that starts threads may be imported here.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def _connected_worker(sock: socket.socket, authenticated: bool) -> int:
    """Serves one connection; returns 1, which ends the process, where Spark closed it before a task had begun."""
    try:
        return _worker(sock, authenticated)
    except (EOFError, ConnectionError):
        return 1


if __name__ == "__main__":
    daemon.worker = _connected_worker
    daemon.manager()
