"""`offsetlog spark audit`: the commits of each group, their rates, and suspicious commits."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offsetlog.cli.arguments import LogPartitions, OutputFormat
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output, bytes_text, complain
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
from offsetlog.cli.text import time_text
from offsetlog.errors import ConfigError, InvalidArgumentError
from offsetlog.missing_library import missing_library
from offsetlog.moments import duration_text, parse_duration, parse_time
from offsetlog.spark.jobs.places import check_paths

if TYPE_CHECKING:
    from offsetlog.spark.jobs.audit import Audit
    from offsetlog.spark.jobs.audit_coverage import Coverage

HELP = """Report the commits of every group, and suspicious ones: rewinds, stalls, zombies.

A rewind is a commit that moved an offset back. A stall is a period, at least as long as --stall, in which an offset
did not move, or in which a group was silent while others committed. A zombie commit has an older epoch than an earlier
commit. The audit also shows open and aborted transactions, rates, and the groups that commit most. It covers only the
records that the log still holds; the coverage, which is printed first, says how many those are. A log with missing
parts is refused without --permissive.

--report writes one HTML page with plots. --output writes all rows of every table, as Parquet.

Exit codes: 0 done; 1 done with --permissive, but data is missing; 2 refused, or data could not be read or written.

\b
Examples:
  offsetlog spark audit data --report audit.html
  offsetlog spark audit /var/kafka-logs --stall 1h --until now --output tables
  offsetlog spark audit data --log-partition 0,3-5 --format json
"""

FINDINGS = ("rewinds", "zombies", "stalls", "silences", "generations", "transactions")


def _stall(text: str) -> int:
    stall_ms = parse_duration(text)
    if stall_ms == 0:
        raise InvalidArgumentError(f"--stall {text}: every commit would be a stall; give a time above 0, such as 15m")
    return stall_ms


def _until(text: str | None) -> int | None:
    if text is None:
        return None
    return round(parse_time(text).timestamp() * 1000)


def _print(output: Output, coverage: Coverage, totals: dict[str, Any], counts: dict[str, int]) -> None:
    if not output.is_text:
        seen = {**asdict(coverage), "cleaned_share": coverage.cleaned_share}
        renamed = {
            "aborted_records": totals["aborted"],
            "open_records": totals["open"],
            "first_timestamp": totals["first_at"],
            "last_timestamp": totals["last_at"],
        }
        renamed["offsets"] = totals["positions"]
        row = {"kind": "audit", "coverage": seen, **totals, **renamed, "findings": counts}
        output.result(columns("spark audit"), row)
        return
    for line in coverage.lines():
        output.line(line)
    output.title(f"{totals['groups']:,} groups with {totals['positions']:,} positions")
    output.facts(
        [
            ("commits", f"{totals['commits']:,}, {totals['without_effect']:,} of them without effect"),
            ("deletions", f"{totals['deletes']:,}"),
            ("keys and values", bytes_text(totals["bytes"])),
            ("first", time_text(totals["first_at"])),
            ("last", time_text(totals["last_at"])),
            *((name, f"{count:,}" if count else _none(coverage, name)) for name, count in counts.items()),
        ]
    )


def _none(coverage: Coverage, name: str) -> str:
    # If the log was cleaned, finding none does not prove that there were none.
    return "0" if coverage.nothing(name, "") == "" else "unknown (none in the records that are left)"


def _check_report(report: Path, overwrite: bool) -> None:
    # An audit may take long, so an obstacle to its report is reported before it starts.
    if report.is_dir():
        raise ConfigError("the report must be a file, not a directory", path=report)
    if report.exists() and not overwrite:
        raise ConfigError("the file exists already; --overwrite replaces it", path=report)
    if not report.parent.is_dir():
        raise ConfigError("the directory for the report does not exist", path=report.parent)
    if find_spec("matplotlib") is None:
        raise missing_library("the report", "matplotlib")


def _write_report(audit: Audit, path: str, report: Path, options: dict[str, str], rows: int) -> None:
    from offsetlog.spark.jobs.audit_report import gather, page

    report.write_text(page(gather(audit, options=options, rows=rows), path=path), encoding="utf-8")


def command(
    path: DirectoryPath,
    stall: Annotated[
        str, typer.Option("--stall", metavar="TIME", help="Report a position that does not move for this long.")
    ] = "15m",
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Measure stalls up to this time, by default up to the last commit.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write the report to this HTML file.", show_default=False),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, max=100_000, help="Show at most this many rows in each table of the report.")
    ] = 50,
    log_partitions: LogPartitions = None,
    output_directory: OutputDirectory = None,
    overwrite: Overwrite = False,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Runs the audit; returns the exit code."""
    stall_ms, until_ms = _stall(stall), _until(until)
    with checked_on_driver(master):
        check_paths(path, output_directory, overwrite)
    if report is not None:
        _check_report(report, overwrite)
    options = {
        "path": path,
        "stall": duration_text(stall_ms),
        "until": "the last commit" if until_ms is None else f"{time_text(until_ms)} UTC",
        "log partitions": log_partitions or "all",
        "rows of each table": f"{rows:,}",
    }
    with spark_for("audit", master, driver_memory, settings, output_directory) as spark:
        from offsetlog.spark.jobs import audit as job
        from offsetlog.spark.jobs.completeness import write_marked

        audit = job.run(
            spark, path, partitions=log_partitions, stall_ms=stall_ms, until=until_ms, permissive=permissive
        )
        (totals,) = audit.totals.collect()
        tables = audit.tables()
        counts = {name: tables[name].count() for name in FINDINGS if name in tables}
        _print(Output(form), job.covered(audit, totals.asDict()), totals.asDict(), counts)
        if output_directory is not None:
            write_marked(spark, tables, output_directory, path=path, problems=audit.incomplete, overwrite=overwrite)
        if report is not None:
            _write_report(audit, path, report, {**options, "offsetlog": _version()}, rows)
            complain(f"the report is {report}")
        audit.commits.unpersist()
    return report_incomplete(audit.incomplete)


def _version() -> str:
    import offsetlog

    return offsetlog.__version__
