"""`offsetlog spark verify`: compares the digest of each log partition, computed by Spark and by the engine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from offsetlog.cli.arguments import OutputFormat, Wide
from offsetlog.cli.columns import columns, shown_as
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.spark.options import DirectoryPath, DriverMemory, Master, Permissive, Settings
from offsetlog.cli.spark.session import checked_on_driver, spark_for
from offsetlog.spark.jobs.places import log_directory
from offsetlog.types import Digest

HELP = """Compute the digest of each log partition twice: by Spark, and by a replay in the engine.

Both digests cover the same records, even while the log is written to. The command only reads PATH. If a log ends before
the offset in the checkpoint beside it, the log has lost its tail. The command reports a lost tail, and all other data
that the directory's files show to be missing. With --permissive, only the digests decide the exit code.

With --logical, the last row is the sum over all log partitions, and names no log partition. If the sums of two clusters
are equal, their states are equal, however many log partitions each cluster has.

Exit codes: 0 the digests are equal, 1 the digests differ, or damage or a missing tail was found, 2 could not be read.

\b
Examples:
  offsetlog spark verify /var/kafka-logs
  offsetlog spark verify data --logical        to compare with another cluster's digests
"""

COLUMNS = shown_as(columns("spark verify"), "equal", show=lambda equal: "yes" if equal else "NO")


def _row(log_partition: int | None, end: int | None, spark: Digest, engine: Digest) -> dict[str, Any]:
    return {
        "log_partition": log_partition,
        "end": end,
        "equal": spark == engine,
        "spark": str(spark),
        "engine": str(engine),
    }


def command(
    path: DirectoryPath,
    logical: Annotated[
        bool, typer.Option("--logical", help="Omit log offsets from the digests, to compare two clusters.")
    ] = False,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the digests; returns the exit code."""
    with checked_on_driver(master):
        log_directory(path, "directory")
    with spark_for("verify", master, driver_memory, settings) as spark:
        from offsetlog.spark.jobs import verify

        found = verify.run(spark, path, physical=not logical)
        whole = verify.summed(each.spark for each in found), verify.summed(each.engine for each in found)
    rows = [_row(each.log_partition, each.end, each.spark, each.engine) for each in found]
    if logical and found:
        rows.append(_row(None, None, *whole))
    Output(form).rows(COLUMNS, rows, "there is no log partition", wide=wide)
    for each in found:
        for damage in each.damages:
            complain(damage)
        for finding in each.findings:
            complain(f"{finding.severity}: log partition {each.log_partition}: {finding.reason} ({finding.path})")
    is_right = all(each.spark == each.engine if permissive else each.is_equal for each in found)
    return 0 if is_right else 1
