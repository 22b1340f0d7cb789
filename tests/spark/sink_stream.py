"""A Spark of its own that a test can kill: streams the files of a directory into a store, while tasks of it fail.

`python -c "from tests.spark.sink_stream import main; main()" DIRECTORY SETTINGS`, where SETTINGS is JSON: `fail` "once"
makes the first attempt of some tasks fail half-way, "always" every attempt after the first epoch; `die_at` kills
whoever publishes at a step of that number; `to_the_end` ends the stream when it has read everything there is, which
otherwise runs until it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import functions
from pyspark.sql.types import LongType

from offsetlog.spark.sink import publishing
from offsetlog.spark.source import OffsetlogDataSource
from tests.spark.conftest import session
from tests.spark.sinks import COLUMNS

GROUPS = 6
POSITIONS = 8


class DyingSource(OffsetlogDataSource):
    """The sink, whose publisher may be killed at a step."""

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 (Spark's name)
        if not isinstance(publishing.reached, Countdown):
            publishing.reached = Countdown(int(os.environ.get("SINK_DIES_AT", "-1")))
        return super().streamWriter(schema, overwrite)


class Countdown:
    """Ends the process at a step of this number, of those that it takes over all its epochs; negative: never."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self, step: str) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def failing(how: str):
    """A column function that gives back what it gets, or fails the task."""

    def checked(offset: int) -> int:
        context = TaskContext.get()
        assert context is not None
        epoch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        chosen = (epoch + context.partitionId()) % 3 == 0 and offset % POSITIONS == POSITIONS - 1
        if chosen and ((how == "always" and epoch > 0) or (how == "once" and context.attemptNumber() == 0)):
            raise RuntimeError("a task fails, as it shall")
        return offset

    return functions.udf(checked, LongType(), useArrow=False)


def write_source(directory: Path, first: int, count: int) -> None:
    """Writes the files of some epochs; each commits every position once, with an offset of its own."""
    directory.mkdir(exist_ok=True)
    for epoch in range(first, first + count):
        rows = [
            {"group": f"g{group}", "topic": "t", "partition": part, "offset": epoch * POSITIONS + part}
            for group in range(GROUPS)
            for part in range(POSITIONS)
        ]
        partial = directory / f".{epoch:06d}.json"
        partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(partial, (1_700_000_000 + epoch, 1_700_000_000 + epoch))
        partial.rename(directory / f"{epoch:06d}.json")


def main() -> None:
    """Runs the stream."""
    directory, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    os.environ["SINK_DIES_AT"] = str(settings.get("die_at", -1))
    spark = session(
        master="local[2,4]",
        **{
            "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
            "spark.local.dir": str(directory / "local"),
            "spark.sql.streaming.schemaInference": "false",
            # One note for each file that was read, for the test to look at.
            "spark.sql.streaming.fileSource.log.compactInterval": "1000000",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(DyingSource)
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").json(str(directory / "source"))
    rows = rows.repartition(3, "group", "partition")
    rows = rows.withColumn("offset", failing(settings.get("fail", "never"))("offset"))
    writing = rows.writeStream.format("offsetlog").option("partitions", "4").option("durability", "process")
    writing = writing.option("checkpointLocation", str(directory / "checkpoint"))
    if settings.get("to_the_end"):
        writing = writing.trigger(availableNow=True)
    query = writing.start(str(directory / "store"))
    query.awaitTermination()
