"""A program with a Spark of its own, which has Kafka's source: one command a line comes in, one answer a line goes out.

    python spark_session.py JARS

``{"checkpoint", "bootstrap", "topic", "starting", "listeners": [[target, group], ...], "name"}`` runs a query over what
is in the topic, with a listener on each target. The line that answers is ``answer `` with
``{"end", "id", "values", "failures"}``: the end offset of its last batch, its id, the values that it read as
[partition, text], and what the listeners could not commit.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from offsetlog.spark import OffsetCommitListener


def make_session(jars: str) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]").appName("offsetlog tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    listeners = [OffsetCommitListener(target, group) for target, group in asked["listeners"]]
    for listener in listeners:
        spark.streams.addListener(listener)
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", asked["bootstrap"])
    frame = source.option("subscribe", asked["topic"]).option("startingOffsets", asked["starting"]).load()
    values = frame.selectExpr("partition", "cast(value as string) as value")
    writer = values.writeStream.format("memory").queryName(asked["name"])
    query = writer.option("checkpointLocation", asked["checkpoint"]).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(120):
            raise TimeoutError("the query did not end")
        # A report comes some tenths of a second after its batch.
        end = time.monotonic() + 30
        while time.monotonic() < end and not all(listener.commits or listener.failures for listener in listeners):
            time.sleep(0.05)
    finally:
        for listener in listeners:
            spark.streams.removeListener(listener)
            listener.close(30)
    rows = spark.table(asked["name"]).collect()
    return {
        "end": json.loads(query.recentProgress[-1].sources[0].endOffset),
        "id": query.id,
        "values": sorted([row.partition, row.value] for row in rows),
        "failures": [str(failure.error) for listener in listeners for failure in listener.failures],
    }


def main() -> None:
    spark = make_session(sys.argv[1])
    try:
        for line in sys.stdin:
            print(f"answer {json.dumps(run(spark, json.loads(line)))}", flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
