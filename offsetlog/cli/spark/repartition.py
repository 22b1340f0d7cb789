"""`offsetlog spark repartition`: rewrites a log with another number of partitions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, cast

import typer

from offsetlog.cli.arguments import OutputFormat
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output, count_text
from offsetlog.cli.spark.options import DirectoryPath, DriverMemory, Master, Permissive, Settings
from offsetlog.cli.spark.session import checked_on_driver, report_incomplete, spark_for
from offsetlog.config import PARTITIONS_MAX
from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs.places import check_rewrite

HELP = """Copy a log directory to a new one that has another number of partitions of the offsets topic.

The command only reads PATH. It creates the directory TARGET, which is complete when the command ends, and does not
exist if the command fails. Every record goes to the log partition of its group, and keeps its order, its time and its
transaction. The digest proves that nothing is lost. Stop the broker first, because TARGET lacks the records that the
broker writes during the copy. If records cannot be moved without loss, the command refuses and names the reason. The
reason can be damage, missing parts, a group with records in two log partitions, or two open transactions of one
producer with different epochs.

Exit codes: 0 done; 1 done with --permissive, but data is missing; 2 refused, or data could not be read or written.

\b
Examples:
  offsetlog spark repartition /var/kafka-logs data --partitions 200
  offsetlog spark repartition data small --partitions 1 --keep state
"""


def command(
    path: DirectoryPath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The new directory.", show_default=False)],
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            max=PARTITIONS_MAX,
            help="Number of partitions of TARGET.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        str,
        typer.Option(
            "--keep", metavar="history|state", help="Copy every record (history), or only the live ones (state)."
        ),
    ] = "history",
    segment_bytes: Annotated[
        int | None,
        typer.Option("--segment-bytes", help="Size of a new segment in bytes; 100 MiB by default.", show_default=False),
    ] = None,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Rewrites the directory; returns the exit code."""
    if keep not in ("history", "state"):
        raise InvalidArgumentError(f"--keep must be history or state, not {keep!r}")
    # Wrong paths are reported before Spark starts.
    with checked_on_driver(master):
        check_rewrite(path, target)
    with spark_for("repartition", master, driver_memory, settings) as spark:
        from offsetlog.spark.jobs import repartition

        chosen = cast(repartition.Keep, keep)
        done = repartition.run(
            spark, path, target, partitions, keep=chosen, segment_bytes=segment_bytes, permissive=permissive
        )
    output = Output(form)
    row = {**asdict(done), "partitions_before": done.before, "partitions_after": done.after, "digest": str(done.digest)}
    output.result(columns("spark repartition"), row)
    before, after = (count_text(number, "log partition") for number in (done.before, done.after))
    output.line(f"{before} became {after} in {done.target}")
    output.line(f"{count_text(done.records, 'record')} in {count_text(done.batches, 'batch', 'batches')}")
    if done.renamed:
        renamed = count_text(done.renamed, "transaction")
        output.line(f"{renamed} got a new producer id, because another transaction has the old id")
    output.line(f"digest {done.digest}, before and after")
    return report_incomplete(done.incomplete)
