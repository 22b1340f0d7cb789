"""`s3a://` through Spark: what `register` carries, what is shown of it, and tables that jobs write there.

Without Java, Maven or the packages these tests are skipped, and with OFFSETLOG_REQUIRE_PACKAGES=1 they fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest
from maven_packages import packages_or_skip

import offsetlog

from .conftest import JAR
from .missing_parts import build
from .s3_server import BUCKET, S3Server, s3_server
from .spark_run import DEADLINE_SECONDS, run

pytestmark = [pytest.mark.long, pytest.mark.spark]

#: An address where nobody listens: a session without settings must not ask for Amazon's buckets.
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("log") / "data", "closed")


def settings_of(server: S3Server) -> dict[str, str]:
    jar = {"spark.jars": JAR} if JAR else {}
    return {**{f"spark.hadoop.{name}": value for name, value in server.settings.items()}, **jar}


def offsetlog_spark(*arguments: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "offsetlog", "spark", *arguments, "--master", "local[1]", *confs],
        capture_output=True,
        text=True,
        env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def test_what_a_session_carries_and_shows(server: S3Server, log: Path) -> None:
    found = run(
        "s3",
        {
            "settings": settings_of(server),
            "log": str(log),
            "uri": server.put(log, "spark"),
            "secrets": [server.secret_key],
        },
        AWS_ENDPOINT_URL=NOWHERE,
    )
    assert found["registered"], "by the settings that register() carries"
    assert found["options"], "by options of the read, where nobody registered"
    assert found["again"]
    for failed in ("wrong", "unregistered", "session"):
        assert "offsetlog.errors.StorageError" in found[failed], failed
        assert f"{BUCKET}/spark" in found[failed]
        assert "fs.s3a.secret.key" in found[failed]
        assert "offsetlog.spark.register(spark)" in found[failed]
    assert found["shown"] == [], "secrets in plans, in classes or in errors"


def test_a_job_reads_there_and_writes_there(server: S3Server, log: Path) -> None:
    jars = ",".join(map(str, packages_or_skip("hadoop-aws")))
    uri, target = server.put(log, "job"), f"s3a://{BUCKET}/tables/snapshot"
    done = offsetlog_spark("snapshot", uri, target, settings={**settings_of(server), "spark.jars": jars})
    assert done.returncode == 0, done.stderr
    with offsetlog.open(log, read_only=True) as store:
        digest, count = store.digest(), store.to_arrow().num_rows
    assert f"digest {digest.positions:032x}" in done.stdout
    place = target.removeprefix("s3a://")
    assert pyarrow.dataset.dataset(place, filesystem=server.files, partitioning="hive").count_rows() == count
    with server.files.open_input_stream(f"{place}/_snapshot.json") as note:
        assert json.loads(note.read())["source"] == uri

    output = f"s3a://{BUCKET}/tables/report"
    done = offsetlog_spark(
        "compact-report", uri, "--output", output, settings={**settings_of(server), "spark.jars": jars}
    )
    assert done.returncode == 0, done.stderr
    assert server.files.get_file_info(f"{BUCKET}/tables/report").type == pyarrow.fs.FileType.Directory
    for text in (done.stdout, done.stderr):
        assert server.secret_key not in text


@pytest.mark.parametrize("job", ["audit", "lag", "compact-report"])
def test_every_job_reads_there_with_the_settings_of_the_session(
    server: S3Server, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
    options = []
    if job == "lag":
        ends = tmp_path / "ends.csv"
        ends.write_text("topic,partition,log_end_offset\norders,0,1000\n")
        options = ["--ends", str(ends)]
    done = offsetlog_spark(job, server.put(log, f"read-{job}"), *options, settings=settings_of(server))
    assert done.returncode in (0, 1), done.stderr
    assert NOWHERE not in done.stderr


@pytest.mark.parametrize("job", ["snapshot", "compact-report"])
def test_without_its_package_spark_is_refused_before_it_reads(server: S3Server, log: Path, job: str) -> None:
    target = f"s3a://{BUCKET}/tables/refused"
    arguments = [target] if job == "snapshot" else ["--output", target]
    done = offsetlog_spark(job, str(log), *arguments, settings=settings_of(server))
    assert done.returncode != 0
    assert "Spark has no file system for s3a://" in done.stderr
    assert "spark.jars.packages=org.apache.hadoop:hadoop-aws:" in done.stderr
    assert server.secret_key not in done.stderr
