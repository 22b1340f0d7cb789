"""The reader in the JVM: chosen by Spark, few processes, none that stays; what it reads is in the tests of the source.

`make test-jvm` builds it and runs these, and the tests of the source with it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conformance.scenarios import REPOSITORY
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import offsetlog
from offsetlog import TopicPartition
from offsetlog._native.encoding import encode_batch
from offsetlog.spark import register

from .conftest import JAR
from .reading import table_of

pytestmark = [pytest.mark.long, pytest.mark.skipif(not JAR, reason="it needs the JVM reader: make test-jvm")]

ROWS = 20_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jvm") / "log"
    with offsetlog.open(path, 2, durability="process") as store:
        for number in range(ROWS // 10):
            positions = {TopicPartition("orders", each): 10 * number + each for each in range(10)}
            store.commit(f"group-{number % 7}", positions)
    return path


@pytest.fixture
def commits(spark: SparkSession, log: Path) -> Iterator[DataFrame]:
    """All commits; processes that have no task end at once, so that those which are left have one."""
    register(spark)
    idle = "offsetlog.worker.idle.seconds"
    system = spark._jvm.java.lang.System
    system.setProperty(idle, "0")
    yield spark.read.format("offsetlog").option("splitBytes", 10_000).load(str(log))
    eventually(lambda: not workers(spark), "a process of the reader is left")
    system.clearProperty(idle)


@pytest.fixture(scope="module")
def large(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Commits of many blocks in one task."""
    path = tmp_path_factory.mktemp("jvm") / "large"
    groups = [f"group-{99 - number // 1000:02}" for number in range(100_000)]
    rows = {"group": groups, "topic": ["t"] * 100_000, "partition": [0] * 100_000, "offset": range(100_000)}
    with offsetlog.open(path, 1, durability="process") as store:
        for _ in range(6):
            store.commit_arrow(pa.table({**rows, "partition": pa.array(rows["partition"], pa.int32())}))
    return spark.read.format("offsetlog").option("splitBytes", "1g").load(str(path)).coalesce(1)


def is_connected(worker: int) -> bool:
    """Whether a worker has made the memory of its blocks, which is what it does when it has connected."""
    try:
        return "offsetlog-blocks" in Path(f"/proc/{worker}/maps").read_text()
    except OSError:
        return False


def workers(spark: SparkSession) -> list[int]:
    """The reader's processes of this Spark."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) if entry.name.isdigit() else 0
            if parent == jvm and b"block_worker" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def eventually(is_so: Callable[[], Any], failure: str) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError(failure)


def times(rows: DataFrame, count: int) -> DataFrame:
    """A query that looks at every row so many times, and gives none."""
    return rows.selectExpr("*", f"explode(sequence(1, {count})) as time").where("offset + time < 0").drop("time")


class Running(threading.Thread):
    """A query on a thread, and what it raised."""

    def __init__(self, query: Callable[[], Any]) -> None:
        super().__init__()
        self.query, self.failure = query, None
        self.start()

    def run(self) -> None:
        try:
            self.query()
        except Exception as failure:
            self.failure = failure


def plan_of(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


def test_spark_reads_columns_that_a_query_uses(commits: DataFrame) -> None:
    total = commits.groupBy().agg(fn.sum("offset"))
    plan = plan_of(total)
    (scan,) = [line for line in plan.splitlines() if "BatchScan" in line]
    assert re.search(r"BatchScan offsetlog\[offset#\d+L\]", scan), plan
    assert total.first()[0] == ROWS * (ROWS - 1) // 2
    assert commits.count() == ROWS
    assert "ColumnarToRow" in plan_of(commits)
    some = commits.where("group = 'group-3' and partition > 7").select("offset")
    assert some.distinct().count() == 2 * len(range(3, ROWS // 10, 7))


def scanned(frame: DataFrame) -> int:
    """Runs a query, and returns how many rows the reader gave."""
    execution = frame._jdf.queryExecution()
    frame._jdf.collectToPython()
    count: int = execution.executedPlan().collectLeaves().head().metrics().apply("numOutputRows").value()
    return count


def test_filters_of_a_query_make_less_to_be_read(commits: DataFrame) -> None:
    every = ROWS // 10 // 7
    assert abs(scanned(commits.where("group = 'group-3'")) - every * 10) <= 10
    assert abs(scanned(commits.where("group = 'group-3' and partition = 8 and offset > 5")) - every) <= 1
    assert scanned(commits.where("topic = 'other'")) == 0
    numbers = [row[0] for row in commits.select("log_partition").distinct().collect()]
    assert sorted(numbers) == [0, 1]
    first = commits.where("log_partition = 0").count()
    assert scanned(commits.where("log_partition in (0, 7)")) == first
    assert scanned(commits.where("log_partition = 0 and log_partition = 1")) == 0
    # A filter that Spark does not hand over still holds for the rows.
    some = commits.where("group in ('group-3', 'group-4') or partition = 9").select("group", "partition").collect()
    rows = commits.select("group", "partition").collect()
    assert len(some) == sum(row["group"] in ("group-3", "group-4") or row["partition"] == 9 for row in rows)


def test_strings_are_kept_longer_than_their_block(large: DataFrame) -> None:
    """Its memory is that of a later one, and of a later task."""
    kept = large.agg(fn.max("group"), fn.max("offset"), fn.first("group"), fn.last("group"))
    for _ in range(2):
        assert tuple(kept.first()) == ("group-99", 99_999, "group-99", "group-00")
    greatest = large.groupBy("topic").agg(fn.max_by("group", fn.struct(-fn.col("offset"), "log_offset"))).collect()
    assert [tuple(row) for row in greatest] == [("t", "group-99")]


def test_rows_that_are_larger_than_a_slot(spark: SparkSession, tmp_path: Path) -> None:
    """They come through the connection, a row each, and the memory for them is not kept."""
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    unknown = b"\0\x63"
    values = [bytes([number]) * (9 * 2**20) for number in range(5)]
    batches = [encode_batch(number, 1000, [(unknown, value)]) for number, value in enumerate(values)]
    (directory / "00000000000000000000.log").write_bytes(b"".join(batches))
    register(spark)
    records = spark.read.format("offsetlog").option("view", "records").load(str(tmp_path))
    found = [bytes(row["value"]) for row in records.select("log_offset", "value").orderBy("log_offset").collect()]
    assert found == values


def test_some_fields_of_a_nested_column(spark: SparkSession) -> None:
    log = REPOSITORY / "tests" / "data" / "kafka-4.3.0" / "groups"
    path = next(each.parent for each in log.rglob("__consumer_offsets-*") if each.is_dir())
    groups = spark.read.format("offsetlog").option("view", "groups").load(str(path))
    found = sorted(row[0] for row in groups.selectExpr("explode(members.client_id)").collect())
    members = [member for row in table_of(path, view="groups").to_pylist() for member in row["members"]]
    assert found == sorted(member["client_id"] for member in members)
    assert found


def test_many_tasks_share_as_many_processes_as_there_are_cores(spark: SparkSession, commits: DataFrame) -> None:
    spark._jvm.java.lang.System.setProperty("offsetlog.worker.idle.seconds", "60")
    assert commits.rdd.getNumPartitions() > 20
    seen: set[int] = set()
    for _ in range(3):
        query = Running(lambda: commits.agg(fn.sum("offset"), fn.max("metadata")).collect())
        while query.is_alive():
            seen.update(workers(spark))
            query.join(0.05)
        assert query.failure is None
    peaks = [line for each in workers(spark) for line in Path(f"/proc/{each}/status").read_text().splitlines()]
    spark._jvm.java.lang.System.setProperty("offsetlog.worker.idle.seconds", "0")
    assert 1 <= len(seen) <= 2
    assert max(int(line.split()[1]) for line in peaks if line.startswith("VmHWM")) < 512 * 1024


def test_a_query_that_wants_no_more_ends_its_process(commits: DataFrame) -> None:
    for _ in range(3):
        assert len(commits.limit(3).collect()) == 3
    # The fixture waits until none is left.


def test_a_cancelled_query_ends_its_processes(spark: SparkSession, commits: DataFrame) -> None:
    def query() -> None:
        spark.sparkContext.setJobGroup("endless", "of a test", interruptOnCancel=True)
        times(times(commits, 100_000), 100_000).collect()

    running = Running(query)
    eventually(lambda: workers(spark), "no process was started")
    spark.sparkContext.cancelJobGroup("endless")
    running.join(60)
    assert not running.is_alive()
    assert running.failure is not None


def test_a_process_that_dies_fails_its_task(spark: SparkSession, commits: DataFrame, large: DataFrame) -> None:
    # Some seconds for a block, of which there are more than slots: it cannot have sent everything.
    running = Running(lambda: times(large, 2000).collect())
    eventually(lambda: any(is_connected(each) for each in workers(spark)), "no process has connected")
    for each in workers(spark):
        os.kill(each, signal.SIGKILL)
    running.join(120)
    assert not running.is_alive()
    assert re.search(r"the Python process of (a|this) task was ended by signal 9", str(running.failure))
    assert commits.count() == ROWS


WRAPPER = """#!{python}
import os, socket, struct, sys, time
if "offsetlog.spark.scan.block_worker" not in sys.argv:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
from offsetlog.spark.scan import block_worker
{change}
block_worker.main(sys.argv[-1])
"""


@pytest.fixture
def altered(spark: SparkSession, log: Path, tmp_path: Path) -> Iterator[Callable[[str], DataFrame]]:
    """All commits, by processes in which a statement has run before: as if the package were of another release."""
    context = spark.sparkContext
    python = context.pythonExec
    idle = "offsetlog.worker.idle.seconds"
    spark._jvm.java.lang.System.setProperty(idle, "0")

    def reading(change: str) -> DataFrame:
        wrapper = tmp_path / "python"
        wrapper.write_text(WRAPPER.format(python=sys.executable, change=change))
        wrapper.chmod(0o700)
        context.pythonExec = str(wrapper)
        register(spark)
        return spark.read.format("offsetlog").load(str(log)).coalesce(1)

    yield reading
    context.pythonExec = python
    register(spark)
    eventually(lambda: not workers(spark), "a process of the reader is left")
    spark._jvm.java.lang.System.clearProperty(idle)


def test_a_package_of_another_release_is_refused(altered: Callable[[str], DataFrame]) -> None:
    advice = "install the same release of offsetlog as jar .* and as package of PYSPARK_PYTHON on every executor"
    with pytest.raises(Exception, match=rf"has version 99 of the protocol, but the jar has version 1: .*{advice}"):
        altered("block_worker.PROTOCOL = 99").count()
    # The hello of releases that named no version: a process id and a descriptor.
    older = (
        "connection = socket.socket(socket.AF_UNIX)\n"
        "connection.connect(sys.argv[-1])\n"
        "connection.sendall(struct.pack('=ii', os.getpid(), os.memfd_create('x')))\n"
        "connection.recv(1)\n"
        "sys.exit()"
    )
    with pytest.raises(Exception, match=rf"has version 0 of the protocol, .*{advice}"):
        altered(older).count()
    with pytest.raises(Exception, match=rf"its Python process says 3 slots of 8388608: .*{advice}"):
        altered(
            "class Hello:\n"
            "    pack = staticmethod(lambda *words: struct.pack('=6i', *words[:4], 3, words[5]))\n"
            "block_worker._HELLO = Hello"
        ).count()


@pytest.mark.parametrize("other", ["[*found, b'12345678']", "[*found, b'']", "[2 * bytes(each) for each in found]"])
def test_a_block_that_has_more_than_its_columns_is_refused(other: str, altered: Callable[[str], DataFrame]) -> None:
    change = (
        "buffers_of = block_worker.buffers_of\n"
        "def more(piece):\n"
        "    found = buffers_of(piece)\n"
        f"    return {other}\n"
        "block_worker.buffers_of = more"
    )
    with pytest.raises(Exception, match=r"a block does not have the expected columns: .*install the same release"):
        altered(change).select("offset").collect()


def test_slots_are_as_large_as_the_process_says(altered: Callable[[str], DataFrame]) -> None:
    # Blocks of a few rows, so that the second slot is used.
    change = "from offsetlog.spark.scan import runs\nblock_worker.SLOT_BYTES, runs.ROWS = 3 * 2**20, 1000"
    assert altered(change).agg(fn.count("*"), fn.sum("offset")).first() == (ROWS, ROWS * (ROWS - 1) // 2)


def selectors(spark: SparkSession) -> int:
    """How many selectors the JVM has open, one for each connection to a process."""
    count = 0
    for each in Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/fd").iterdir():
        try:
            count += os.readlink(each).startswith("anon_inode:[eventpoll]")
        except OSError:
            continue
    return count


def test_a_start_that_fails_leaves_nothing_open(spark: SparkSession, altered: Callable[[str], DataFrame]) -> None:
    rows = altered("block_worker.PROTOCOL = 99")

    def fails() -> None:
        with pytest.raises(Exception, match="version 99"):
            rows.count()

    fails()
    before = selectors(spark)
    for _ in range(8):
        fails()
    assert selectors(spark) < before + 8
    # The fixture waits until no process is left.


def test_spark_finds_it_without_a_hint(log: Path) -> None:
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = (SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        f".config('spark.jars', {JAR!r}).config('spark.driver.memory', '512m').getOrCreate())\n"
        f"frame = spark.read.format('offsetlog').option('view', 'offsets').load({str(log)!r})\n"
        "print('ColumnarToRow' in frame._jdf.queryExecution().executedPlan().toString(), frame.count())"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "offsetlog" / "spark" / "discovery"), str(REPOSITORY)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].split() == ["True", "70"]
