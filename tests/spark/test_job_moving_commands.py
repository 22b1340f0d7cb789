"""`offsetlog spark repartition`, `verify`, `diff`, `snapshot`, `migrate`: what they print, and how they end."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import offsetlog
from offsetlog import TopicPartition
from offsetlog.cli.app import application
from offsetlog.cli.spark import diff, migrate, repartition, snapshot, verify
from offsetlog.cli.spark.options import moment_option
from offsetlog.errors import ConfigError, InvalidArgumentError, MissingFileError

pytestmark = pytest.mark.spark


def run(*arguments):
    return CliRunner().invoke(application("spark"), ["spark", *map(str, arguments)], standalone_mode=False)


def test_the_commands(spark, tmp_path):
    data = tmp_path / "data"
    with offsetlog.open(data, 2) as store:
        for number in range(6):
            store.commit(f"group-{number}", {TopicPartition("orders", 0): number})
        digest = store.digest()

    done = run("repartition", data, tmp_path / "moved", "--partitions", 3, "--format", "json")
    assert done.return_value == 0, done.output
    report = json.loads(done.stdout)
    assert (report["partitions_before"], report["partitions_after"]) == (2, 3)
    assert (report["records"], report["digest"]) == (6, str(digest))

    done = run("verify", tmp_path / "moved", "--logical", "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.return_value == 0, done.output
    assert [(row["log_partition"], row["equal"], row["spark"] == row["engine"]) for row in rows] == [
        (number, True, True) for number in (0, 1, 2, None)
    ]
    # The sum is that of the log before it was moved, however many log partitions that had.
    assert rows[-1] == {"log_partition": None, "end": None, "equal": True, "spark": str(digest), "engine": str(digest)}
    done = run("verify", data, "--logical", "--format", "tsv")
    assert done.stdout.splitlines()[-1].split("\t")[2:4] == ["true", str(digest)]
    assert len(run("verify", data, "--format", "json").stdout.splitlines()) == 2, "log offsets make a sum meaningless"

    dump = tmp_path / "dump.jsonl"
    lines = [{"group": "group-1", "topic": "orders", "partition": 0, "offset": 100}, {"group": "none"}]
    dump.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run("migrate", tmp_path / "moved", "--dump", dump)
    assert done.return_value == 1
    assert "1 position moved forward" in done.output
    assert "dump.jsonl:2: group 'none'" in done.output
    assert "the topic is missing" in done.output

    assert run("diff", data, data, "--group", "group-1").return_value == 0
    done = run("diff", data, data, "--group", "nobody")
    assert (done.return_value, f"there is no group nobody in {data} and {data}" in done.output) == (1, True)
    assert run("diff", data, data, "--output", tmp_path / "same").return_value == 0
    assert run("diff", data, tmp_path / "moved", "--output", tmp_path / "changes").return_value == diff.DIFFERENT
    done = run("diff", data, tmp_path / "moved")
    assert done.return_value == diff.DIFFERENT == 3
    assert done.stdout.splitlines()[1].split("\t")[:6] == ["group-1", "orders", "0", "changed", "1", "100"]

    done = run("snapshot", data, tmp_path / "table", "--format", "json")
    assert done.return_value == 0
    assert json.loads(done.stdout)["digest"] == f"{digest.positions:032x}"


def test_usage(tmp_path):
    for arguments in (
        ["diff", tmp_path],
        ["migrate", tmp_path],
        ["repartition", tmp_path, tmp_path / "new", "--partitions", 3, "--keep", "nothing"],
    ):
        done = run(*arguments)
        assert isinstance(done.exception, InvalidArgumentError), arguments


def test_what_is_wrong_with_a_path_is_reported_before_spark_starts(tmp_path, monkeypatch):
    def spark_for(*_):
        raise AssertionError("Spark has started")

    for command in (diff, migrate, repartition, snapshot, verify):
        monkeypatch.setattr(command, "spark_for", spark_for)
    data, none = tmp_path / "data", tmp_path / "none"
    with offsetlog.open(data, 2) as store:
        store.commit("group", {TopicPartition("orders", 0): 1})
    (tmp_path / "file").touch()
    for arguments, error in [
        (["repartition", none, tmp_path / "new", "--partitions", 3], MissingFileError),
        (["repartition", data, tmp_path / "file", "--partitions", 3], ConfigError),
        (["repartition", data, data / "new", "--partitions", 3], InvalidArgumentError),
        (["verify", none], MissingFileError),
        (["verify", tmp_path], MissingFileError),
        (["verify", next(data.glob("__consumer_offsets-*"))], InvalidArgumentError),
        (["snapshot", none, tmp_path / "new"], MissingFileError),
        (["snapshot", data, tmp_path / "file"], ConfigError),
        (["snapshot", data, data, "--overwrite"], InvalidArgumentError),
        (["snapshot", data, tmp_path / "new", "--at", "{0"], InvalidArgumentError),
        (["snapshot", data, tmp_path / "new", "--table-format", "orc"], InvalidArgumentError),
        (["diff", data, none], MissingFileError),
        (["diff", data, data, "--output", tmp_path / "file"], ConfigError),
        (["diff", data, data, "--output", tmp_path, "--overwrite"], InvalidArgumentError),
        (["diff", data, "--at", "²"], InvalidArgumentError),
        (["migrate", data, "--dump", none], MissingFileError),
        (["migrate", tmp_path / "file", "--dump", tmp_path / "file"], InvalidArgumentError),
        (["migrate", "s3://bucket/data", "--dump", tmp_path / "file"], InvalidArgumentError),
    ]:
        done = run(*arguments)
        assert isinstance(done.exception, error), (arguments, done.exception)


def test_moments():
    assert moment_option(None) is moment_option("now") is None
    assert moment_option("1700000000000") == "2023-11-14T22:13:20+00:00"  # milliseconds
    assert moment_option('{"0": 5}') == '{"0": 5}'
    assert moment_option("2026-03-01T02:30") == "2026-03-01T02:30:00+00:00"
    assert moment_option("offset:12") == "offset:12"
