"""Tasks that wait in their middle, so that a test can kill the worker of one of them there."""

from __future__ import annotations

import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark.sql import Column, functions
from pyspark.sql.types import LongType

from tests.spark_cluster.standalone import StandaloneCluster

WAIT_SECONDS = 120


def paused(directory: str, column: str, every: int, epoch: int | None = None) -> Column:
    """A column of integers that stays the same; first attempts wait where one is -1 modulo `every`.

    A task that waits says so by a file in the directory, named TASK-PID, and goes on when there is a file "go".

    Args:
        directory: of this pause alone.
        column: its name.
        every: what the values are taken modulo of.
        epoch: of a stream, the only one that waits.
    """

    # Nested, it is sent by its value: executors cannot import the tests.
    def checked(value: int) -> int:
        import os
        import time
        from pathlib import Path

        from pyspark import TaskContext

        if value % every != every - 1:
            return value
        task = TaskContext.get()
        assert task is not None
        is_of_epoch = epoch is None or task.getLocalProperty("streaming.sql.batchId") == str(epoch)
        place = Path(directory)
        if is_of_epoch and task.attemptNumber() == 0 and not (place / "go").exists():
            (place / f"{task.partitionId()}-{os.getpid()}").touch()
            deadline = time.monotonic() + 120
            while not (place / "go").exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody lets the task go on")
                time.sleep(0.01)
        return value

    return functions.udf(checked, LongType(), useArrow=False)(column)


def waiting(directory: Path) -> list[int]:
    """The processes of the tasks that wait or have waited."""
    return [int(each.name.partition("-")[2]) for each in directory.iterdir() if each.name != "go"]


def kill_one(cluster: StandaloneCluster, directory: Path, running: Future[Any], tasks: int = 1) -> None:
    """Waits until so many tasks wait, kills the worker of one of them, and lets the others go on."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(waiting(directory)) < tasks:
        if running.done():
            raise AssertionError(f"it ended before a task waited: {running.exception() or running.result()}")
        assert time.monotonic() < deadline, "no task waits"
        time.sleep(0.02)
    cluster.kill_worker_of(waiting(directory)[0])
    (directory / "go").touch()
