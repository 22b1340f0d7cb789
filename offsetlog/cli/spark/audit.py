"""`offsetlog spark audit`: commits, how often they were made and by whom, and suspicious ones."""

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

HELP = """Tell what every group committed, and what looks wrong: rewinds, stalls, zombies.

Rewinds: an offset went down. Stalls: an offset did not move, or a group was silent while others went on, for --stall or
longer. Zombie commits: an older epoch after a newer one. Also open and aborted transactions, rates, and who commits
most. All of it is about the records that the log still holds; the coverage, which stands first, says how many those
are. A log of which something is missing is refused without --permissive.

--report makes one page of HTML with plots; --output writes every table, whole, as Parquet.

Exit codes: 0 done, 1 done with --permissive and incomplete, 2 refused, or it could not be read or written.

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
    # Nobody can say of a log that was cleaned that there was none.
    return "0" if coverage.nothing(name, "") == "" else "unknown, none in what is left"


def _check_report(report: Path, overwrite: bool) -> None:
    # An audit may take long: an obstacle to its report is named before.
    if report.is_dir():
        raise ConfigError("it is a directory, and the report is one file", path=report)
    if report.exists() and not overwrite:
        raise ConfigError("there is a file already; --overwrite replaces it", path=report)
    if not report.parent.is_dir():
        raise ConfigError("there is no such directory for the report", path=report.parent)
    if find_spec("matplotlib") is None:
        raise missing_library("the report", "matplotlib")


def _write_report(audit: Audit, path: str, report: Path, options: dict[str, str], rows: int) -> None:
    from offsetlog.spark.jobs.audit_report import gather, page

    report.write_text(page(gather(audit, options=options, rows=rows), path=path), encoding="utf-8")


def command(
    path: DirectoryPath,
    stall: Annotated[str, typer.Option("--stall", metavar="TIME", help="How long is too long.")] = "15m",
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Stalls last until then, or until the last commit.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page of HTML.", show_default=False)
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, max=100_000, help="Rows of each table on the page.")] = 50,
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
