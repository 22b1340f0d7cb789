"""PySpark's daemon of Python workers, changed so that a worker that is no longer needed ends without a message.

Spark starts this daemon (`spark.python.daemon.module`) for the local sessions of offsetlog's commands.  When a task
fails, Spark cancels the other tasks and closes the connections of their workers.  Some of these workers are still
starting.  PySpark's own daemon would print a traceback for each of them, before the line that reports the failure.  The
error of the task itself is not lost, because it is sent over the connection.

The daemon forks its workers.  Therefore nothing that starts threads may be imported here.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def _connected_worker(sock: socket.socket, authenticated: bool) -> int:
    """Serves one connection.  Returns 1, which ends the process, if Spark has closed the connection."""
    try:
        return _worker(sock, authenticated)
    except (EOFError, ConnectionError):
        return 1


if __name__ == "__main__":
    # With this variable PySpark raises the error of its last flush, and prints nothing.
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"
    daemon.worker = _connected_worker
    daemon.manager()
