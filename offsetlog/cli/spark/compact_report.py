"""`offsetlog spark compact-report`: the bytes that a compaction would free."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from offsetlog.cli.arguments import LogPartitions, OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output
from offsetlog.cli.spark.options import (
    DirectoryPath,
    DriverMemory,
    Master,
    OutputDirectory,
    Overwrite,
    Permissive,
    Settings,
)
from offsetlog.cli.spark.session import checked_on_driver, report_incomplete, spark_for
from offsetlog.spark.jobs.places import check_paths

HELP = """Report which records of a log are live, which are dead, and what a compaction would free.

The report has one row for each log partition or, with --groups, one row for each group. A broker's cleaner does not
clean the active segment, so the report leaves the active segment out. `offsetlog compact` closes the active segment
first. With --roll, the report shows what `offsetlog compact` would free. An open transaction keeps all records after
its start from being cleaned. If all dead records are in the active segment or after the start of an open transaction,
nothing is freed. The freed bytes can be slightly negative, because batches that stay can gain a delete horizon. If
parts of the log are missing, the command needs --permissive.

Exit codes: 0 done; 1 done with --permissive, but data is missing; 2 refused, or data could not be read or written.

\b
Examples:
  offsetlog spark compact-report data
  offsetlog spark compact-report data --roll --groups --format json
  offsetlog spark compact-report /var/kafka-logs --output tables
"""


def _row(row: dict[str, Any]) -> dict[str, Any]:
    # Renames the fields of the job's tables to the names that all commands share.
    row["clean_end"] = row.pop("end", None)
    for name in ("tombstone", "expired_tombstone", "marker", "expired_marker"):
        row[f"{name}s"] = row.pop(name)
    return row


def command(
    path: DirectoryPath,
    groups: Annotated[bool, typer.Option("--groups", help="Print a row for each group.")] = False,
    roll: Annotated[
        bool, typer.Option("--roll", help="Report as if the active segments were closed before the compaction.")
    ] = False,
    log_partitions: LogPartitions = None,
    output_directory: OutputDirectory = None,
    overwrite: Overwrite = False,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the report; returns the exit code."""
    with checked_on_driver(master):
        check_paths(path, output_directory, overwrite)
    with spark_for("compact-report", master, driver_memory, settings, output_directory) as spark:
        from offsetlog.spark.jobs import compact_report as job
        from offsetlog.spark.jobs.completeness import write_marked

        report = job.run(spark, path, partitions=log_partitions, roll=roll, permissive=permissive)
        if groups:
            table, name = report.groups.orderBy("group", "log_partition"), "spark compact-report --groups"
        else:
            table, name = report.partitions.orderBy("log_partition"), "spark compact-report"
        rows = (_row(row.asDict()) for row in table.toLocalIterator())
        Output(form).rows(columns(name), rows, "the log holds no records", wide=wide)
        if output_directory is not None:
            found, problems = report.tables(), report.incomplete
            write_marked(spark, found, output_directory, path=path, problems=problems, overwrite=overwrite)
    return report_incomplete(report.incomplete)
