"""Snapshots, differences and histories as tables of Delta Lake and Iceberg, with their own packages.

Iceberg has none for Spark 4.2: that of Spark 4.1 ends there with IncompatibleClassChangeError (its views implement an
interface that is a class now), so that it runs with a PySpark 4.1 of its own.  Without Java, Maven or the packages
these tests are skipped, and with OFFSETLOG_REQUIRE_PACKAGES=1 they fail.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from maven_packages import packages_or_skip

import offsetlog
from offsetlog import TopicPartition

from .pyspark_packages import pyspark_or_skip
from .spark_run import run

pytestmark = [pytest.mark.long, pytest.mark.spark]

ICEBERGS_PYSPARK = "4.1.4"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def check(form: str, settings: dict[str, str], names: dict[str, str], tmp_path: Path, pyspark: Path | None) -> None:
    with offsetlog.open(tmp_path / "data", 4) as store:
        for number in range(40):
            store.commit(f"group-{number % 9}", {TopicPartition("orders", number): number})
        before, count_before = store.digest(), store.to_arrow().num_rows
        time.sleep(0.01)  # log times are of whole milliseconds
        moment = datetime.now(UTC).isoformat()
        time.sleep(0.01)
        store.commit("group-1", {TopicPartition("orders", 1): 1000})
        store.commit("it's new", {TopicPartition("orders", 0): 5})
        store.delete("group-2", [("orders", 2)])
        after, count_after = store.digest(), store.to_arrow().num_rows
    jars = ",".join(map(str, packages_or_skip(form)))
    arguments: dict[str, Any] = {
        "settings": {**settings, "spark.jars": jars, "spark.sql.warehouse.dir": str(tmp_path / "warehouse")},
        "log": str(tmp_path / "data"),
        "form": form,
        "names": names,
        "moments": {"before": moment},
    }
    found = run("tables", arguments, pyspark=pyspark, directory=tmp_path)
    assert found["snapshots"] == [
        [count_before, f"{before.positions:032x}"],
        [count_after, f"{after.positions:032x}"],
    ]
    assert found["read back"] == [count_after, f"{after.positions:032x}"]
    assert "already" in found["refused"].lower()
    assert found["note"]["positions"] == f"{after.positions:032x}"
    assert found["note"]["format"] == form
    assert [change[:3] for change in found["changes"]] == [
        ["group-1", "orders", 1], ["group-2", "orders", 2], ["it's new", "orders", 0],
    ]  # fmt: skip
    assert found["history"][0] == 43


def test_delta(tmp_path: Path) -> None:
    # Relative, as on a command line.
    names = {name: f"it's {name}" for name in ("offsets", "changes", "history")}
    check("delta", DELTA, names, tmp_path, None)


def test_iceberg(tmp_path: Path) -> None:
    settings = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
    }
    names = {name: f"lake.db.{name}" for name in ("offsets", "changes", "history")}
    check("iceberg", settings, names, tmp_path, pyspark_or_skip(ICEBERGS_PYSPARK))
