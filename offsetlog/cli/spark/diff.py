"""`offsetlog spark diff`: the differences between two directories, or two moments of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offsetlog.cli.arguments import OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.group_facts import complain_unknown
from offsetlog.cli.output import Format, Output
from offsetlog.cli.spark.options import (
    DirectoryPath,
    DriverMemory,
    Master,
    OutputDirectory,
    Overwrite,
    Permissive,
    Settings,
    moment_option,
)
from offsetlog.cli.spark.session import checked_on_driver, report_incomplete, spark_for
from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs.places import check_log, check_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELP = """Print the positions that differ between two directories, or in one directory between two times.

Another commit of the same offset, leader epoch and metadata is not a difference. A time has the form that
`offsetlog diff` takes, or is a number of ms since 1970.

Exit codes: 0 nothing differs; 1 there is no such group, the state of that time was cleaned away, or --permissive was
given and parts of a log are missing; 2 refused, or could not be read; 3 something differs.

\b
Examples:
  offsetlog spark diff old new
  offsetlog spark diff data --at 2026-03-01T02:30
  offsetlog spark diff old new --at 2026-03-01T02:30 --to 2026-03-01T02:45 --output changes
"""


def _row(row: dict[str, object]) -> dict[str, object]:
    # Renames the fields of the job's table to the names that all commands share.
    def renamed(name: str) -> str:
        side, _, field = name.partition("_")
        return f"{field}_{side}" if side in ("before", "after") else name

    return {renamed(name): value for name, value in row.items()}


#: The exit code if the states differ; 1 and 2 are for states that could not be compared.
DIFFERENT = 3


def _printed(changes: DataFrame, form: Format, *, wide: bool) -> int:
    """Prints the changes; returns their number."""
    rows = (_row(row.asDict()) for row in changes.orderBy("group", "topic", "partition").toLocalIterator())
    return Output(form).rows(columns("spark diff"), rows, "nothing differs", wide=wide)


def command(
    path: DirectoryPath,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="The directory to compare with.", show_default=False)
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="The time of the first state; now by default.", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="The time of the second state; now by default.", show_default=False)
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="Compare only this group.", show_default=False)] = None,
    output: OutputDirectory = None,
    overwrite: Overwrite = False,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints or writes the changes; returns the exit code."""
    if other is None and at is None and to is None:
        raise InvalidArgumentError("there is nothing to compare: give OTHER, --at or --to")
    first, second = moment_option(at), moment_option(to)
    logs = [path] if other is None else [path, other]
    for each in logs:
        with checked_on_driver(master):
            check_log(each)
    if output is not None:
        check_target(output, *logs, overwrite=overwrite)
    with spark_for("diff", master, driver_memory, settings, output) as spark:
        from offsetlog.spark.jobs import diff
        from offsetlog.spark.jobs.completeness import write_marked_table

        asked = {"before_at": first, "after_at": second, "group": group}
        problems = diff.problems(spark, path, other, permissive=permissive, **asked)
        changes = diff.run(spark, path, other, permissive=permissive, reported=problems, **asked)
        if output is not None:
            write_marked_table(spark, changes, output, path=path, problems=problems, overwrite=overwrite)
            is_same = spark.read.parquet(output).isEmpty()
        else:
            is_same = _printed(changes, form, wide=wide) == 0
        states = [(logs[0], first), (logs[-1], second)]
        may_be_unknown = is_same and not problems
        if may_be_unknown and group is not None and not diff.has_group(spark, states, group):
            return complain_unknown(group, " and ".join(logs))
    return report_incomplete(problems) or (0 if is_same else DIFFERENT)
