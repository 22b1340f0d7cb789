"""`offsetlog spark audit`: what was committed, how often, by whom, and what looks wrong."""

from __future__ import annotations

from offsetlog.cli.arguments import OutputFormat, Wide
from offsetlog.cli.layout import Column
from offsetlog.cli.output import Format, Output
from offsetlog.spark.jobs.commands.options import (
    DirectoryPath,
    DriverMemory,
    LogPartitions,
    Master,
    Settings,
    spark_for,
)

HELP = """Print what every group committed: how often, and when.

\b
Examples:
  offsetlog spark audit data
"""

COLUMNS = [
    Column("group"),
    Column("commits", right=True),
    Column("deletes", right=True),
]


def command(
    path: DirectoryPath,
    log_partitions: LogPartitions = None,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Runs the audit; returns the exit code."""
    with spark_for("audit", master, driver_memory, settings) as spark:
        from offsetlog.spark.jobs import audit

        groups = audit.groups(audit.read(spark, path, partitions=log_partitions)).orderBy("group")
        Output(form).rows(COLUMNS, (row.asDict() for row in groups.collect()), "nothing was committed", wide=wide)
    return 0
