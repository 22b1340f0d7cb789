"""PySpark's daemon of Python workers, changed so that a worker that is no longer needed ends silently.

Spark starts this daemon (`spark.python.daemon.module`) for the local sessions of offsetlog's commands.  When a task
fails, Spark cancels the other tasks and closes the connections of their workers, some of which are still starting.
PySpark's own daemon would print a traceback for each of these, before the one line that says what failed.  The error of
a task itself is sent over the connection and does not come here.

The daemon forks its workers: nothing that starts threads may be imported here.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def _connected_worker(sock: socket.socket, authenticated: bool) -> int:
    """Serves one connection; returns 1, which ends the process, if Spark has closed it."""
    try:
        return _worker(sock, authenticated)
    except (EOFError, ConnectionError):
        return 1


if __name__ == "__main__":
    # With this variable PySpark raises the error of its last flush, and prints nothing.
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"
    daemon.worker = _connected_worker
    daemon.manager()
