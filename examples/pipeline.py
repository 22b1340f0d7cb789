"""The data pipeline from end to end, on a directory that a Kafka broker wrote: `make pipeline`.

The program reads the committed positions of the directory, and writes a snapshot of them.  It verifies the digest of
every log partition, moves the log to another number of partitions, and shows that no position is different there.  At
the end it writes an audit of the directory to a page of HTML.  It takes about half a minute.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from offsetlog.cli.spark import audit
from offsetlog.spark.jobs import diff, repartition, snapshot, verify
from offsetlog.spark.jobs.session import read_view, session_for

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "kafka-4.3.0" / "txn" / "log"
PARTITIONS = 3


def main(output: Path, data: Path = DATA) -> int:
    started = time.monotonic()
    # Removes only the files of an earlier run, by their names.
    for name in ("offsets", "moved"):
        shutil.rmtree(output / name, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    report = output / "audit.html"
    spark = session_for("pipeline", driver_memory="1g", settings={"spark.sql.shuffle.partitions": "2"})

    def step(what: str) -> None:
        print(f"{time.monotonic() - started:5.1f} s  {what}", flush=True)

    try:
        offsets = read_view(spark, data, "offsets")
        groups = offsets.groupBy("group").count().orderBy("group").collect()
        positions = sum(row["count"] for row in groups)
        step(f"offsets      {positions} committed positions of {len(groups)} groups in {data}")

        table = snapshot.run(spark, data, str(output / "offsets"))
        step(f"snapshot     {table.rows} rows of Parquet in {output / 'offsets'}")

        proved = verify.run(spark, data)
        equal = sum(each.is_equal for each in proved)
        step(f"verify       {equal} of {len(proved)} log partitions have the digest that the engine computes")

        moved = repartition.run(spark, data, output / "moved", PARTITIONS)
        step(f"repartition  {moved.before} partitions became {moved.after}, {moved.records} records, the same digest")

        changes = diff.run(spark, data, output / "moved").count()
        step(f"diff         {changes} positions are different after the repartition")

        print(flush=True)
        audit.command(str(data), report=report, overwrite=True)
        print(flush=True)
        step(f"audit        the report is {report}")
    finally:
        spark.stop()
    sound = equal == len(proved) and changes == 0 and table.rows == positions
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/pipeline").absolute()))
