"""The pages of Spark run as they are written, and print what they show."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from maven_packages import packages_or_skip, skip_or_fail
from pyspark.sql import SparkSession

from tests.kafka.kafka_packages import KafkaMissing, find_packages
from tests.pages import ROOT, is_like, play
from tests.spark.page_host import JAR, differences_of
from tests.spark.spark_run import DEADLINE_SECONDS

pytestmark = pytest.mark.source_tree


@pytest.mark.gate
def test_the_page_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    there = {"/data/offsets": str(tmp_path / "offsets")}
    for printed in play("docs/how-to/spark.md", there, session={"spark": spark}):
        assert is_like(printed.expected, printed.actual), printed


@pytest.mark.ci
def test_the_manual_of_spark() -> None:
    """A session with other packages than that of the tests, so that it takes a process of its own."""
    for name in ("s3proxy", "spark-kafka"):
        packages_or_skip(name)
    try:
        find_packages()
    except KafkaMissing as missing:
        skip_or_fail(str(missing))
    make = subprocess.run(["make", "-s", "jvm"], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    if not JAR.exists():
        skip_or_fail(f"no reader in the JVM: {make.stderr}")
    found = differences_of("docs/spark.md")
    assert not found, found
