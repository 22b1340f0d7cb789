"""The table of a moment as Parquet, and what stands beside it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pyarrow.parquet
import pytest

import offsetlog
from offsetlog import TopicPartition
from offsetlog.errors import ConfigError, InvalidArgumentError
from offsetlog.spark.jobs import snapshot
from offsetlog.spark.jobs.session import register

pytestmark = pytest.mark.spark


def test_the_table_as_of_a_moment(spark, tmp_path):
    register(spark)
    with offsetlog.open(tmp_path / "data", 4) as store:
        for number in range(12):
            store.commit(f"group-{number}", {TopicPartition("orders", 0): number, TopicPartition("orders", 1): 7})
        digest = store.digest()
        rows = store.to_arrow().num_rows
        time.sleep(0.01)
        moment = datetime.now(UTC).isoformat()
        time.sleep(0.01)
        store.commit("group-1", {TopicPartition("orders", 0): 1000})
    told = snapshot.run(spark, tmp_path / "data", str(tmp_path / "table"), at=moment)

    assert told.rows == rows == 24
    assert told.positions == f"{digest.positions:032x}"
    assert sum(int(each, 16) for each in told.log_partitions.values()) % (1 << 128) == digest.positions
    noted = json.loads((tmp_path / "table" / snapshot.NOTE).read_text())
    assert noted["at"] == moment
    assert noted["positions"] == told.positions
    assert noted["source"] == str(tmp_path / "data")
    # For any reader of Parquet, the note is no part of it.
    table = pyarrow.parquet.read_table(tmp_path / "table").to_pylist()
    assert sorted((row["group"], row["partition"], row["offset"]) for row in table) == sorted(
        (f"group-{number}", *place) for number in range(12) for place in ((0, number), (1, 7))
    )
    with pytest.raises(ConfigError, match="already"):
        snapshot.run(spark, tmp_path / "data", str(tmp_path / "table"))


def test_a_format_that_spark_has_no_package_for(spark, tmp_path):
    with pytest.raises(ConfigError, match=r"no package for delta.*io\.delta:delta-spark"):
        snapshot.run(spark, tmp_path, str(tmp_path / "table"), table_format="delta")
    with pytest.raises(ConfigError, match=r"no package for iceberg.*iceberg-spark-runtime"):
        snapshot.run(spark, tmp_path, "local.offsets", table_format="iceberg")
    with pytest.raises(InvalidArgumentError, match="parquet, delta, iceberg"):
        snapshot.check_format(spark, "csv")
