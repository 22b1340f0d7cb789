"""`offsetlog spark snapshot`: the table of committed positions as Parquet, Delta or Iceberg."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, cast

import typer

from offsetlog.cli.arguments import OutputFormat
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output, count_text
from offsetlog.cli.spark.options import (
    DirectoryPath,
    DriverMemory,
    Master,
    Overwrite,
    Permissive,
    Settings,
    moment_option,
)
from offsetlog.cli.spark.session import checked_on_driver, report_incomplete, spark_for
from offsetlog.spark.jobs.places import TableFormat, check_log, check_table_format, check_target

HELP = """Write the committed positions as of a time to a table that any tool can read.

The table has the columns of the view "offsets", and one folder for each log partition. The file _snapshot.json (with
Delta and Iceberg, a property of the table) names the source, the moment, the number of rows, and the digest that was
read back from the table.
Delta and Iceberg need their own Spark packages. For Iceberg, TARGET is the name of a table with its catalog. A log with
missing parts is refused. With --permissive the command accepts such a log, and marks the table as incomplete.

Exit codes: 0 done, 1 done and incomplete, 2 refused, or it could not be read or written.

\b
Examples:
  offsetlog spark snapshot /var/kafka-logs offsets.parquet
  offsetlog spark snapshot data monday --at 2026-03-02T00:00
"""


def command(
    path: DirectoryPath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The new table.", show_default=False)],
    at: Annotated[
        str | None, typer.Option("--at", help="The time of the positions; now by default.", show_default=False)
    ] = None,
    table_format: Annotated[
        str, typer.Option("--table-format", metavar="parquet|delta|iceberg", help="The format of the table.")
    ] = "parquet",
    overwrite: Overwrite = False,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Writes the table; returns the exit code."""
    moment = moment_option(at)
    check_table_format(table_format)
    with checked_on_driver(master):
        check_log(path)
    if table_format != "iceberg":
        check_target(target, path, overwrite=overwrite)
    with spark_for("snapshot", master, driver_memory, settings) as spark:
        from offsetlog.spark.jobs import snapshot

        chosen = cast(TableFormat, table_format)
        written = snapshot.run(
            spark, path, target, at=moment, table_format=chosen, overwrite=overwrite, permissive=permissive
        )
    output = Output(form)
    row = {**asdict(written), "digest": written.positions, "digests": written.log_partitions}
    output.result(columns("spark snapshot"), row)
    output.line(f"{count_text(written.rows, 'position')} in {target}")
    output.line(f"digest {written.positions}")
    return report_incomplete(written.incomplete)
