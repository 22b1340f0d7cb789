"""PySpark's daemon of Python workers; a worker that nobody waits for any more ends without a word.

Spark starts it (`spark.python.daemon.module`) for the local sessions of our commands.  Where a task fails, Spark
cancels those beside it and closes the connections of their workers, of which some are only being started.  PySpark's
own daemon prints a traceback for each of these, before the one line that says what failed.  An error of a task itself
is sent over the connection, and does not come here.

The daemon forks its workers: nothing that starts threads may be imported here.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def _connected_worker(sock: socket.socket, authenticated: bool) -> int:
    """Serves one connection; returns 1, which ends the process, where Spark has closed it."""
    try:
        return _worker(sock, authenticated)
    except (EOFError, ConnectionError):
        return 1


if __name__ == "__main__":
    # Then PySpark raises what its last flush met, and prints nothing.
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"
    daemon.worker = _connected_worker
    daemon.manager()
