"""`offsetlog spark`: that its commands are there, cost nothing before they run, and tell failures in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("typer")

import offsetlog
from offsetlog import errors
from offsetlog.cli.app import run
from offsetlog.cli.spark import audit, compact_report, lag, snapshot, verify
from offsetlog.cli.spark.session import failure_of, own_failures
from offsetlog.spark.jobs.places import check_target, check_vacant
from offsetlog.spark.scan.reach import DRIVER_PLANS


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", ["offsetlog", "offsetlog.spark"])
def test_help_loads_no_pyspark(program):
    arguments = ["spark", "audit", "--help"] if program == "offsetlog" else ["audit", "--help"]
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{program!r}, *{arguments!r}]\n"
        "try:\n"
        f"    runpy.run_module({program!r}, run_name='__main__', alter_sys=True)\n"
        "finally:\n"
        "    print('loaded', *{name.partition('.')[0] for name in sys.modules} & {'pyspark', 'matplotlib', 'numpy'})\n"
    )
    found = started("-c", code)
    assert found.returncode == 0, found.stderr
    assert "Usage: offsetlog spark audit" in found.stdout
    assert found.stdout.splitlines()[-1] == "loaded"


def test_what_an_executor_raised_is_raised_again():
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed when reading\nTraceback (most recent call last):\n  File ...\n"
        "offsetlog.errors.CorruptionError: the checksum is wrong (data/__consumer_offsets-0/0.log, byte 120)\n\tat org"
    )
    failure = failure_of(text)
    assert type(failure) is errors.CorruptionError
    assert str(failure) == "the checksum is wrong (data/__consumer_offsets-0/0.log, byte 120)"


def test_what_spark_says_is_one_line():
    assert str(failure_of("[UNRESOLVED_COLUMN] a column\n;\n'Project")) == "Spark: [UNRESOLVED_COLUMN] a column"
    assert str(failure_of("")) == "Spark: no reason given"
    call = "An error occurred while calling o96.create.\n: java.lang.IncompatibleClassChangeError: a class\n\tat java"
    assert str(failure_of(call)) == "Spark: java.lang.IncompatibleClassChangeError: a class"
    # A name that is none of our errors is none.
    assert type(failure_of("offsetlog.errors.Status: 1")) is errors.OffsetLogError


def test_damage_names_the_ways_to_go_on():
    with pytest.raises(errors.CorruptionError) as caught, own_failures():
        raise errors.TornTailError("a batch needs 12 bytes", path="data/0.log", position=120)
    assert type(caught.value) is errors.TornTailError
    assert (caught.value.path, caught.value.position) == ("data/0.log", 120)
    assert str(caught.value) == (
        "a batch needs 12 bytes; to skip the damaged part, give --permissive; `offsetlog verify` lists all damage "
        "(data/0.log, byte 120)"
    )
    missing = errors.DataLossError("an end is missing; --permissive of a job reads the rest")
    with pytest.raises(errors.CorruptionError) as caught, own_failures():
        raise missing
    assert caught.value is missing


def test_the_group_of_commands_alone_prints_its_help(capsys):
    assert run(["spark"]) == 2
    found = capsys.readouterr()
    assert "Usage: offsetlog spark" in found.out
    assert len(found.out.splitlines()) > 10
    assert "\\n" not in found.out
    assert found.err == ""


def test_what_is_there_is_replaced_with_overwrite_alone(tmp_path):
    offsetlog.open(tmp_path / "log", partitions=1).close()
    with pytest.raises(errors.ConfigError, match="--overwrite replaces"):
        check_target(str(tmp_path), overwrite=False)


def test_faults_of_ours_stay_what_they_are():
    with pytest.raises(ZeroDivisionError), own_failures():
        _ = 1 / 0


def test_a_directory_with_something_is_not_written_to(tmp_path):
    check_vacant(str(tmp_path), overwrite=False)
    check_vacant(str(tmp_path / "none"), overwrite=False)
    check_vacant("s3://bucket/there", overwrite=False)
    (tmp_path / "file").touch()
    check_vacant(str(tmp_path), overwrite=True)
    with pytest.raises(errors.ConfigError, match="--overwrite"):
        check_vacant(str(tmp_path), overwrite=False)
    for overwrite in (False, True):
        with pytest.raises(errors.ConfigError, match="not a directory"):
            check_vacant(str(tmp_path / "file"), overwrite)
    # The way Spark prints a path.
    with pytest.raises(errors.ConfigError, match="--overwrite"):
        check_vacant(f"file:{tmp_path}", overwrite=False)


@pytest.mark.parametrize("command", [audit, compact_report, lag])
def test_paths_are_looked_at_before_spark_starts(tmp_path, monkeypatch, command):
    monkeypatch.setattr(command, "spark_for", None)
    log = tmp_path / "log"
    offsetlog.open(log, partitions=1).close()
    given = {"bootstrap": "127.0.0.1:1"} if command is lag else {}
    with pytest.raises(errors.MissingFileError):
        command.command(str(tmp_path / "none"), **given)
    for inside in (log, log / "tables", tmp_path):
        for overwrite in (False, True):
            with pytest.raises(errors.InvalidArgumentError, match="must be outside the log"):
                command.command(str(log), output_directory=str(inside), overwrite=overwrite, **given)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(errors.ConfigError, match="--overwrite"):
        command.command(str(log), output_directory=str(tmp_path / "full"), **given)


@pytest.mark.parametrize("command", [audit, compact_report, lag, snapshot, verify])
def test_a_job_for_a_cluster_says_that_the_driver_plans(tmp_path, command):
    given = {"bootstrap": "127.0.0.1:1"} if command is lag else {}
    given |= {"target": str(tmp_path / "out")} if command is snapshot else {}
    for master, is_said in ((None, False), ("local[2]", False), ("spark://host:7077", True)):
        with pytest.raises(errors.MissingFileError) as caught:
            command.command(str(tmp_path / "none"), master=master, **given)
        assert (DRIVER_PLANS in str(caught.value)) == is_said


def test_a_stall_of_no_time_is_refused_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "spark_for", None)
    for text in ("0s", "0"):
        with pytest.raises(errors.InvalidArgumentError, match=f"--stall {text}: .* give a time above 0, such as 15m"):
            audit.command(str(tmp_path), stall=text)


def test_a_report_that_cannot_be_written_is_said_before_the_audit(tmp_path, monkeypatch):
    (tmp_path / "there.html").touch()
    offsetlog.open(tmp_path / "log", partitions=1).close()
    log = str(tmp_path / "log")
    monkeypatch.setattr(audit, "spark_for", None)
    for report, why in (
        (tmp_path, "must be a file, not a directory"),
        (tmp_path / "there.html", "--overwrite"),
        (tmp_path / "none" / "audit.html", "the directory for the report does not exist"),
    ):
        with pytest.raises(errors.ConfigError, match=why):
            audit.command(log, report=report)
    monkeypatch.setattr(audit, "find_spec", lambda name: None)
    with pytest.raises(errors.ConfigError, match="matplotlib"):
        audit.command(log, report=tmp_path / "audit.html")


def test_the_exception_of_a_worker_is_the_cause():
    text = (
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "    process()\n"
        "ValueError: the first\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 9, in main\n'
        "ModuleNotFoundError: No module named 'offsetlog'\n"
        "  in two lines\n"
        "\n"
        "\tat org.apache.spark.api.python.BasePythonRunner\n"
    )
    said = str(failure_of(text))
    assert said.startswith("Spark: [PYTHON_EXCEPTION] An exception was thrown from the Python worker.")
    assert said.endswith("ModuleNotFoundError: No module named 'offsetlog' in two lines")
    begin = "Traceback (most recent call last):\n"
    assert str(failure_of(f"{begin}  File\nOSError: no space\n")) == "Spark: OSError: no space"
    assert str(failure_of(f"[A] b\n{begin}")) == "Spark: [A] b"


def test_a_cluster_without_a_python_is_refused(monkeypatch):
    session = pytest.importorskip("offsetlog.spark.jobs.session")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(errors.ConfigError, match=r"--master spark://host:7077.*PYSPARK_PYTHON"):
        session.session_for("audit", master="spark://host:7077")


@pytest.mark.parametrize("place", ["setting", "setting before the environment", "environment", "file"])
def test_the_python_of_the_workers_of_a_cluster_is_the_one_that_is_named(monkeypatch, tmp_path, place):
    session = pytest.importorskip("offsetlog.spark.jobs.session")
    seen = []

    def start(builder):
        seen.append(os.environ.get("PYSPARK_PYTHON"))
        raise RuntimeError("no cluster here")

    monkeypatch.setattr(session.SparkSession.Builder, "getOrCreate", start)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/environment/python")
    if place in ("setting", "file"):
        monkeypatch.delenv("PYSPARK_PYTHON")
    (tmp_path / "spark-defaults.conf").write_text("# of all\nspark.pyspark.python   /opt/file/python\nspark.x=y\n")
    settings = {"spark.pyspark.python": "/opt/setting/python"} if place.startswith("setting") else None
    with pytest.raises(errors.ConfigError, match="no cluster here"):
        session.session_for("audit", master="spark://host:7077", settings=settings)
    assert seen == [f"/opt/{place.partition(' ')[0]}/python"]


class Cluster:
    """A session of a cluster whose executors register while it is looked at."""

    def __init__(self, counts, master="spark://host:7077", **settings):
        self.counts, self.master, self.settings = list(counts), master, settings
        self.sparkContext = self._jsc = self
        self.pythonExec = "python3"
        self.registered = []
        self.dataSource = SimpleNamespace(register=self.registered.append)
        self.looks = 0

    def getConf(self):  # noqa: N802  (PySpark's name)
        return {name.replace("_", "."): value for name, value in self.settings.items()}

    def sc(self):
        return self

    def getExecutorMemoryStatus(self):  # noqa: N802  (Spark's name)
        self.looks += 1
        return SimpleNamespace(size=lambda: 1 + self.count)

    @property
    def count(self):
        return self.counts[min(self.looks, len(self.counts)) - 1]

    @property
    def defaultParallelism(self):  # noqa: N802  (PySpark's name)
        return max(4 * self.count, 2)

    @property
    def read(self):
        reader = SimpleNamespace(load=lambda path: path)
        reader.format = reader.option = lambda *given: reader
        return reader


def test_a_job_waits_for_the_executors_of_its_cluster(monkeypatch):
    session = pytest.importorskip("offsetlog.spark.jobs.session")
    monkeypatch.setattr(session.time, "sleep", lambda seconds: None)
    cluster = Cluster([0, 0, 1, 2, 2, 5, 5, 5])
    session._wait_for_executors(cluster)
    assert cluster.looks == 8
    # Nobody waits where there are none to come, nor for ever.
    for other in (Cluster([0], master="local[2]"), Cluster([0], spark_dynamicAllocation_enabled="true")):
        session._wait_for_executors(other)
        assert other.looks == 0
    nobody = Cluster([0])
    session._wait_for_executors(nobody)
    assert nobody.looks == session._EXECUTOR_LOOKS_MAX


def test_a_view_of_a_job_is_planned_for_the_executors_that_are_there(monkeypatch):
    session = pytest.importorskip("offsetlog.spark.jobs.session")
    source = pytest.importorskip("offsetlog.spark.source")
    monkeypatch.setattr(source, "hadoop_settings_of", lambda _: source.HadoopSettings())
    cluster = Cluster([0, 3])
    for cluster.looks in (1, 2):
        session.view_of(cluster, "/log", "offsets")
    assert [source.default_parallelism for source in cluster.registered] == [2, 12]
