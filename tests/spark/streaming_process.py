"""Follows a log into Parquet with a checkpoint, until it is killed or, with `once`, to the log's end.

python streaming_process.py LOG OUTPUT CHECKPOINT SCRATCH on|once
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import session

from offsetlog.spark.source import OffsetlogDataSource


def main(log: str, output: str, checkpoint: str, scratch: str, how: str) -> None:
    spark = session(**{"spark.sql.warehouse.dir": f"{scratch}/warehouse", "spark.local.dir": f"{scratch}/local"})
    spark.dataSource.register(OffsetlogDataSource)
    stream = (
        spark.readStream.format("offsetlog")
        .option("columns", "group,partition,offset,log_partition,log_offset")
        # Small batches are killed more often in the middle; what is left over at the end is no longer to take as long.
        .option("maxOffsetsPerTrigger", "700" if how == "on" else "20000")
        .option("failOnDataLoss", "false")
        .load(log)
    )
    writer = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint).option("path", output)
    query = writer.trigger(availableNow=True).start() if how == "once" else writer.start()
    print("started", flush=True)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
