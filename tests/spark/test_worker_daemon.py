"""The daemon of Python workers that the commands' local sessions run."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys

import pytest

from offsetlog.spark.jobs.session import WORKER_DAEMON


def cancelled_start(module: str) -> str:
    """What a daemon prints when Spark closes the connection of a worker that it had asked for."""
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret", "SPARK_REUSE_WORKER": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", module, "pyspark.worker"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as daemon:
        (port,) = struct.unpack("!i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            (worker,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
            connection.shutdown(socket.SHUT_WR)
            # The worker has ended, and said what it had to say, when it closes its own side.
            assert connection.recv(1) == b""
        assert worker != daemon.pid
        # As Spark ends it.
        _, printed = daemon.communicate(timeout=60)
    return printed.decode()


@pytest.mark.parametrize(("module", "says"), [("pyspark.daemon", True), (WORKER_DAEMON, False)])
def test_a_worker_whose_task_was_cancelled(module, says):
    # PySpark's own says so in a traceback: a version that no longer does needs no daemon of ours.
    assert ("Traceback" in cancelled_start(module)) == says


SESSION = """
from pathlib import Path
from offsetlog.spark.jobs.session import session_for

def parent(_):
    import os
    return Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(bytes(1))[2].decode()

print(session_for("test", master="local[1]").sparkContext.parallelize([1], 1).map(parent).collect())
"""


def test_the_local_sessions_run_it():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.stdout.splitlines() == [repr([WORKER_DAEMON])], done.stderr
