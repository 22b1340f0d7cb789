"""A stand-alone cluster of Spark on 127.0.0.1: a master and workers out of PySpark's own package.

docs/spark-clusters.md describes the same by hand.  A worker and all that it starts see one directory more than the
driver does, where the machine has mount namespaces: a log in it is hidden from the driver.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.spark.process_trees import family_of, kill, wait_for_end

WORKERS = 2
CORES = 1
#: Memory of an executor's JVM; its Python workers come on top.
EXECUTOR_MEMORY = "512m"
START_SECONDS = 120
#: For a process that runs few things once: no optimising compiler, one collector thread, no files of its own.
JVM_FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
#: Settings of an application on this cluster.
SETTINGS = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": str(CORES),
    # A session begins when all cores are there; the source divides a log by them.
    "spark.cores.max": str(WORKERS * CORES),
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    # 200 tasks for each shuffle take minutes on two cores, however small the log is.
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.extraJavaOptions": JVM_FLAGS,
}

_SPARK_CLASS = Path(pyspark.__file__).with_name("bin") / "spark-class"
_MASTER_URL = re.compile(r"Starting Spark master at (spark://[\w.]+:[0-9]+)")
_REGISTERED = re.compile(r"Successfully registered with master")
# A process of its own for the mount: what it mounts goes with the last process that sees it.
_MOUNTED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def mount_prefix(source: Path, target: Path) -> list[str] | None:
    """Returns what starts a command so that it sees `source` at `target`, None where the machine has no such way."""
    for rights in ([], ["--map-root-user"]):
        prefix = ["unshare", "--mount", *rights, "sh", "-c", _MOUNTED, "sh", str(source), str(target)]
        with contextlib.suppress(OSError):
            if subprocess.run([*prefix, "true"], capture_output=True, timeout=30, check=False).returncode == 0:
                return prefix
    return None


class _Daemon:
    """The master or a worker; its output is in a file."""

    def __init__(self, output: Path, prefix: list[str], name: str, *arguments: str) -> None:
        self.output = output
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM_FLAGS,
            "PYSPARK_PYTHON": sys.executable,
            # Files that a killed executor leaves go with the rest of the test's files.
            "SPARK_LOCAL_DIRS": str(output.with_name("scratch")),
        }
        # It is of no use without this process, however that ends.
        command = [*prefix, "setpriv", "--pdeathsig", "KILL", str(_SPARK_CLASS), name, "--host", "127.0.0.1"]
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [*command, "--port", "0", "--webui-port", "0", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Returns where its output matches, as soon as it does."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            has_ended = self._process.poll() is not None
            found = pattern.search(self.output.read_text(errors="replace"))
            if found is not None:
                return found
            if has_ended or time.monotonic() > deadline:
                raise AssertionError(f"it does not start:\n{self.output.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)

    def family(self) -> list[int]:
        """It and its executors, and their Python workers."""
        return family_of(self._process.pid)

    def kill(self) -> None:
        """Kills it and all that it started, at once."""
        family = self.family()
        # The first one first: a worker that lives a moment longer would start another executor.
        kill(family)
        self._process.wait()
        # A process that was being started as they were listed has lost its parent, and ends by itself.
        wait_for_end(family)


class StandaloneCluster:
    """A master and workers, each worker with a directory of its own; close it, whatever happens.

    Attributes:
        directory: holds the output and the work directories of all.
        url: of the master.
        hidden: where the workers see `shown`, and this process an empty directory; None where that cannot be made.
        shown: the same directory as this process sees it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shown, hidden = directory / "shown", directory / "hidden"
        for each in (self.shown, hidden):
            each.mkdir()
        prefix = mount_prefix(self.shown, hidden)
        self.hidden = None if prefix is None else hidden
        self._prefix = prefix or []
        self._workers: dict[int, _Daemon] = {}
        self._starts = 0
        self._master = _Daemon(directory / "master.log", [], "org.apache.spark.deploy.master.Master")
        try:
            self.url = self._master.wait_for(_MASTER_URL)[1]
            self.start_missing_workers()
        except BaseException:
            self.close()
            raise

    def start_missing_workers(self) -> None:
        """Starts workers until there are as many as there should be, and waits until the master knows them."""
        missing = [number for number in range(WORKERS) if number not in self._workers]
        for number in missing:
            self._workers[number] = self._start_worker(number)
        for number in missing:
            self._workers[number].wait_for(_REGISTERED)

    def _start_worker(self, number: int) -> _Daemon:
        self._starts += 1
        work = self.directory / f"work-{number}"
        work.mkdir(exist_ok=True)
        return _Daemon(
            self.directory / f"worker-{number}-{self._starts}.log",
            self._prefix,
            "org.apache.spark.deploy.worker.Worker",
            *("--cores", str(CORES), "--memory", EXECUTOR_MEMORY, "--work-dir", str(work), self.url),
        )

    def kill_worker_of(self, pid: int) -> None:
        """Kills the worker whose executor started a process, with all that it started."""
        for number, worker in self._workers.items():
            if pid in worker.family():
                worker.kill()
                del self._workers[number]
                return
        raise AssertionError(f"no worker has started {pid}")

    def worker_count(self) -> int:
        """How many workers are running."""
        return len(self._workers)

    def executor_pids(self) -> Iterator[int]:
        """The processes that the workers have started."""
        for worker in self._workers.values():
            yield from worker.family()[1:]

    def executors(self) -> set[int]:
        """The JVMs among those."""
        return {pid for pid in self.executor_pids() if (Path("/proc") / str(pid) / "comm").read_text() == "java\n"}

    def close(self) -> None:
        """Kills all of it."""
        for each in (*self._workers.values(), self._master):
            each.kill()
        self._workers.clear()
