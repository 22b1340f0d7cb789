"""The daemon of Python workers that the commands' local sessions run."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetlog.spark.jobs.session import WORKER_DAEMON

SECRET = b"secret"


def leave_before_authentication(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    # The worker has ended, and said what it had to say, when it closes its own side.
    assert connection.recv(1) == b""


def reset_after_authentication(connection: socket.socket) -> None:
    # Closed with the worker's answer unread, which it learns by a reset.
    connection.sendall(struct.pack("!i", len(SECRET)) + SECRET)
    assert connection.recv(1, socket.MSG_PEEK)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def printed_by(module: str, leave: Callable[[socket.socket], None]) -> str:
    """Returns the output of a daemon when Spark leaves a worker that it had asked for."""
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(), "SPARK_REUSE_WORKER": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", module, "pyspark.worker"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as daemon:
        (port,) = struct.unpack("!i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            (worker,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
            leave(connection)
        assert worker != daemon.pid
        for _ in range(600):
            if not Path(f"/proc/{worker}").exists():
                break
            time.sleep(0.1)
        # As Spark ends it.
        _, printed = daemon.communicate(timeout=60)
    return printed.decode()


@pytest.mark.parametrize("leave", [leave_before_authentication, reset_after_authentication])
@pytest.mark.parametrize(("module", "says"), [("pyspark.daemon", True), (WORKER_DAEMON, False)])
def test_a_worker_whose_task_was_cancelled(module, says, leave):
    # PySpark's own says so in a traceback: a version that no longer does needs no daemon of ours.
    assert ("Traceback" in printed_by(module, leave)) == says


SESSION = """
from pathlib import Path
from offsetlog.spark.jobs.session import session_for

def parent(_):
    import os
    return Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(bytes(1))[2].decode()

print(session_for("test", master="local[1]").sparkContext.parallelize([1], 1).map(parent).collect())
"""


@pytest.mark.ci
def test_the_local_sessions_run_it():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.stdout.splitlines() == [repr([WORKER_DAEMON])], done.stderr
