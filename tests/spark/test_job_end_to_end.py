"""The commands over logs that a real broker left, and over stores: what they print, write and refuse."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("typer")

import offsetlog
from offsetlog import MaintenanceConfig, TopicPartition
from offsetlog.cli.app import run
from offsetlog.spark.jobs import audit, lag
from offsetlog.spark.source import register

from .frames import RECORDS, frame
from .oracle_rows import record_rows

DATA = Path(__file__).parent.parent / "data" / "kafka-4.3.0"
TXN, GROUPS = DATA / "txn" / "log", DATA / "groups" / "log"


@pytest.fixture(scope="module", autouse=True)
def registered(spark):
    # The commands take the session that runs.
    register(spark)


def called(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run(["spark", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def rows(table) -> list[str]:
    return sorted(map(str, table.collect()))


@pytest.mark.parametrize("log", [TXN, GROUPS], ids=["txn", "groups"])
def test_the_source_gives_what_the_independent_reader_reads(spark, log):
    from_source = audit.commits_of(audit.read(spark, str(log)))
    from_oracle = audit.commits_of(frame(spark, record_rows(log), RECORDS))
    names = [
        name
        for name in from_source.columns
        if name not in ("topic_id", "metadata", "leader_epoch", "expire_timestamp", "commit_timestamp")
    ]
    assert rows(from_source.select(*names)) == rows(from_oracle.select(*names))


def test_audit(spark, tmp_path, capsys):
    report, tables = tmp_path / "audit.html", tmp_path / "tables"
    arguments = [
        "audit",
        str(TXN),
        "--stall",
        "1s",
        "--report",
        str(report),
        "--output",
        str(tables),
        "--format",
        "json",
    ]
    code, out, _ = called(capsys, *arguments)
    assert code == 0
    result = json.loads(out)
    assert (result["kind"], result["groups"], result["commits"] + result["deletes"]) == ("audit", 40, 561)
    written = {each.name: spark.read.parquet(str(each)) for each in tables.iterdir()}
    assert set(written) == {
        "totals", "groups", "positions", "rewinds", "stalls", "silences", "zombies", "generations", "rates",
        "over_time", "transactions", "coverage",
    }  # fmt: skip
    for name, count in result["findings"].items():
        assert written[name].count() == count, name
    assert written["groups"].count() == result["groups"]
    # The final positions are those that the broker answered.
    expected = {}
    for line in (DATA / "txn" / "expected" / "offsets.tsv").read_text().splitlines():
        group, topic, partition, offset, *_ = line.split("\t")
        expected[json.loads(group), topic, int(partition)] = int(offset)
    found = written["positions"].where("offset is not null").collect()
    assert {(row.group, row.topic, row.partition): row.offset for row in found} == expected
    assert report.read_text().startswith("<!DOCTYPE html>")
    # Nothing is written over unasked.
    assert called(capsys, *arguments)[0] == 2


def test_compact_report(spark, tmp_path, capsys):
    with offsetlog.open(tmp_path, 2, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        for number in range(50):
            store.commit("g", {TopicPartition("t", number % 3): number})
        code, out, _ = called(capsys, "compact-report", str(tmp_path), "--roll", "--format", "json")
        (report,) = [each for each in store.compact() if each.cleaned]
    assert code == 0
    (summary,) = [json.loads(line) for line in out.splitlines()]
    assert (summary["records"], summary["superseded"], summary["records_after"]) == (50, 47, 3)
    assert abs(summary["freed_bytes"] - (report.bytes_before - report.bytes_after)) <= 30
    code, out, _ = called(capsys, "compact-report", str(tmp_path), "--groups", "--format", "json")
    assert [(json.loads(line)["group"], json.loads(line)["freed_records"]) for line in out.splitlines()] == [("g", 0)]


def test_lag(spark, tmp_path, capsys):
    data, ends = tmp_path / "data", tmp_path / "ends.json"
    with offsetlog.open(data, 2, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        store.commit("g", {TopicPartition("t", 0): 10, TopicPartition("t", 1): 99})
        time.sleep(0.003)
        middle = time.time_ns() // 1_000_000 - 1
        store.commit("g", {TopicPartition("t", 0): 40})
    samples = [("t", 0, 50, middle - 1000), ("t", 1, 60, middle - 1000), ("t", 0, 100, middle + 1000)]
    names = ("topic", "partition", "log_end_offset", "timestamp")
    ends.write_text("".join(json.dumps(dict(zip(names, sample, strict=True))) + "\n" for sample in samples))
    code, out, _ = called(
        capsys, "lag", str(data), "--ends", str(ends), "--format", "json", "--output", str(tmp_path / "lag")
    )
    assert code == 0
    report = json.loads(out)
    assert (report["partitions"], report["lag"], report["beyond_end"], report["without_end"]) == (2, 60, 1, 0)
    assert spark.read.parquet(str(tmp_path / "lag" / "lag")).where("problem = 'beyond the end'").count() == 1
    found = lag.run(spark, str(data), spark.read.json(str(ends)), times=[middle, middle + 60_000])
    assert sorted((row.time, row.partition, row.committed, row.lag) for row in found.collect()) == [
        (middle, 0, 10, 40),
        (middle, 1, 99, 0),
        (middle + 60_000, 0, 40, 60),
        (middle + 60_000, 1, 99, 0),
    ]


def test_a_time_in_the_future_is_refused(tmp_path, capsys):
    ends, year = tmp_path / "ends.json", "2162-03-01T02:30"
    ends.write_text('{"topic": "billing.in", "partition": 0, "log_end_offset": 50, "timestamp": 1000}\n')
    report = tmp_path / "report"
    for arguments in (
        ["audit", str(GROUPS), "--until", year, "--output", str(report)],
        ["lag", str(GROUPS), "--ends", str(ends), "--at", year, "--output", str(report)],
        ["diff", str(GROUPS), "--at", year, "--output", str(report)],
        ["diff", str(GROUPS), "--to", year, "--output", str(report)],
    ):
        code, out, err = called(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"={year}:00.000 lies in the future: this machine's clock says 20" in err
        assert not report.exists()


def test_lag_against_the_logs_themselves(capsys):
    # The log directory of the offsets is one of logs like any other: nobody reads it.
    code, out, _ = called(capsys, "lag", str(GROUPS), "--logs", str(GROUPS), "--format", "json")
    assert code == 0
    assert {json.loads(line)["lag"] for line in out.splitlines()} == {None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lag", "PATH"], "--ends, --bootstrap"),
        (["lag", "PATH", "--logs", "x", "--every", "1h"], "need --ends"),
        (["audit", "PATH/none"], "PATH/none"),
        (["audit", "PATH", "--stall", "soon"], "not a duration"),
        (["audit", "PATH", "--conf", "a"], "NAME=VALUE"),
    ],
)
def test_what_is_refused(capsys, arguments, message):
    code, out, err = called(capsys, *(each.replace("PATH", str(GROUPS)) for each in arguments))
    assert (code, out) == (2, "")
    assert message.replace("PATH", str(GROUPS)) in err
    assert err.startswith("offsetlog: ")
    assert err.count("\n") == 1


def test_a_process_of_its_own(tmp_path):
    """As a user starts it, and through spark-submit's own way into a program, which brings its session along."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    submit = Path(sys.executable).with_name("spark-submit")
    program = Path(offsetlog.__file__).parent / "spark" / "__main__.py"
    arguments = ["diff", str(TXN), str(GROUPS), "--group", "c01-audit1", "--format", "json"]
    if submit.exists():
        command = [str(submit), "--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"]
        environment |= {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [*command, str(program), *arguments]
    else:
        command = [sys.executable, "-m", "offsetlog.spark", *arguments, "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 3, done.stderr  # something is different
    (found,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert (found["partition"], found["change"], found["offset_before"]) == (0, "removed", 100)


def test_a_failure_is_reported_once(tmp_path):
    """In a Spark of its own: nothing of what its threads say about a failed task."""
    damaged = tmp_path / "__consumer_offsets-0"
    shutil.copytree(TXN / damaged.name, damaged, copy_function=shutil.copyfile)
    damaged.chmod(0o755)
    segment = min(damaged.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    command = [sys.executable, "-m", "offsetlog.spark", "compact-report", str(tmp_path), "--master", "local[1]"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode != 0
    assert str(segment) in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("offsetlog: ")
    assert not re.search(r"^\s+at |Traceback| ERROR |log level", done.stderr, re.MULTILINE)
