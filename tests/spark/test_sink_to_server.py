"""Rows that a query computes are committed to a store on a server, by the function that docs/spark.md shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from offsetlog import TopicPartition, errors
from tests.spark.sinks import COLUMNS

PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"


def shown(server: str) -> Callable[[Any, int], None]:
    """The function of the page, for another server."""
    beginning = r"from pyspark.sql import DataFrame\nfrom offsetlog import OffsetAndMetadata"
    (text,) = re.findall(rf"```python\n({beginning}.*?)\nquery = ", PAGE.read_text(), re.S)
    assert "offsets.example:9092" in text
    names: dict[str, Any] = {}
    exec(text.replace("offsets.example:9092", server), names)
    return names["commit_to_server"]


def test_a_stream_commits_to_a_server(spark, offsetlog_server, tmp_path):
    offsetlog_server.create_topic("t", 2)
    (tmp_path / "in").mkdir()
    lines = [
        f'{{"group": "g{number % 3}", "topic": "t", "partition": {number % 2}, "offset": {number}}}'
        for number in range(20)
    ]
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    rows = spark.readStream.schema(COLUMNS).json(str(tmp_path / "in"))
    commit = shown(offsetlog_server.bootstrap_servers)
    calls = []

    def counted(batch: Any, batch_id: int) -> None:
        calls.append(batch_id)
        commit(batch, batch_id)
        # A failure after it: Spark does the batch again, and commits the same.
        commit(batch, batch_id)

    query = rows.writeStream.foreachBatch(counted).option("checkpointLocation", str(tmp_path / "ck"))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert calls == [0]
    found = {
        (group, key): value.offset
        for group in ("g0", "g1", "g2")
        for key, value in offsetlog_server.committed(group).items()
    }
    assert found == {(f"g{n % 3}", TopicPartition("t", n % 2)): n for n in range(14, 20)}


def test_a_position_that_the_server_refuses_fails_the_batch(spark, offsetlog_server):
    rows = spark.createDataFrame([("g", "nowhere", 0, 1)], COLUMNS)
    with pytest.raises(errors.ClusterError, match="UNKNOWN_TOPIC_OR_PART"):
        shown(offsetlog_server.bootstrap_servers)(rows, 0)
