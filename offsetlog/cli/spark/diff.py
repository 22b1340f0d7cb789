"""`offsetlog spark diff`: what is not the same in two directories, or in one at two moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from offsetlog.cli.arguments import OutputFormat, Wide
from offsetlog.cli.layout import Column
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

HELP = """Print the positions that two directories do not have the same of, or one directory at two times.

A position that was only committed again, with the same offset, leader epoch and metadata, is the same. Times are
written as for `offsetlog diff`, or as ms since 1970.

\b
Exit codes: 0 nothing is different, 3 something is, 1 something was cleaned since, or with --permissive is missing,
2 refused, or could not be read.

\b
Examples:
  offsetlog spark diff old new
  offsetlog spark diff data --at 2026-03-01T02:30
  offsetlog spark diff old new --at 2026-03-01T02:30 --to 2026-03-01T02:45 --output changes
"""


class _Counted:
    """Rows that are counted as they are printed."""

    def __init__(self, rows: Iterable[dict[str, object]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[dict[str, object]]:
        for row in self._rows:
            self.count += 1
            yield row


def _value(row: dict[str, object], side: str) -> str:
    offset = row[f"{side}_offset"]
    return "-" if offset is None else f"{offset} {row[f'{side}_metadata'] or ''}".rstrip()


#: The exit code where the states are not the same; 1 and 2 are for states that could not be compared.
DIFFERENT = 3

COLUMNS = [
    Column("group"),
    Column("topic"),
    Column("partition", right=True),
    Column("change"),
    Column("before", right=True),
    Column("after", right=True),
]


def command(
    path: DirectoryPath,
    other: Annotated[str | None, typer.Argument(metavar="OTHER", help="Another one.", show_default=False)] = None,
    at: Annotated[str | None, typer.Option("--at", help="The time of the first state.", show_default=False)] = None,
    to: Annotated[str | None, typer.Option("--to", help="The time of the second.", show_default=False)] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only this group.", show_default=False)] = None,
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
        raise InvalidArgumentError("one directory now is the same as itself: give another, --at or --to")
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
            return report_incomplete(problems) or (0 if spark.read.parquet(output).isEmpty() else DIFFERENT)
        rows = (row.asDict() for row in changes.orderBy("group", "topic", "partition").toLocalIterator())
        printed = Output(form)
        if not printed.is_json:
            rows = ({**row, "before": _value(row, "before"), "after": _value(row, "after")} for row in rows)
        counted = _Counted(rows)
        printed.rows(COLUMNS, counted, "nothing is different", wide=wide)
    return report_incomplete(problems) or (DIFFERENT if counted.count else 0)
