"""`offsetlog spark migrate`: moves offsets from ZooKeeper, or from a file, to a log directory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from offsetlog.cli.arguments import OutputFormat
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import Consent, Yes
from offsetlog.cli.migrations import effect_of, outcome_lines
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.spark.options import DriverMemory, Master, Permissive, Settings
from offsetlog.cli.spark.session import report_incomplete, spark_for
from offsetlog.cli.stores import LOCKED_ADVICE, LockTimeout, NewPartitionCount
from offsetlog.cli.text import name_text
from offsetlog.errors import InvalidArgumentError, LockedError
from offsetlog.spark.jobs.places import check_file, store_path

HELP = """Commit the offsets that consumers kept in ZooKeeper (before Kafka 0.9), or that a file lists.

The command reads the offsets from the nodes /consumers/GROUP/offsets/TOPIC/PARTITION of a running ZooKeeper, or from a
dump. A dump is a file of JSON lines, or of CSV with a heading. The fields are either group, topic, partition and
offset, or path and value. A position in TARGET moves back only with --overwrite. The command asks before it moves
positions back; --yes answers the question. A row that is not a valid position is refused and reported with its line in
the dump.

Exit codes: 0 every row was committed, or needed no commit; 1 a row or a move back was refused, a group of --group has
no offsets in the source, or with --permissive a part of TARGET is missing; 2 the command was refused, or data could not
be read or written.

\b
Examples:
  offsetlog spark migrate data --zookeeper zk1:2181,zk2:2181 --dry-run
  offsetlog spark migrate data --zookeeper zk1:2181/kafka --group billing
  offsetlog spark migrate data --dump offsets.jsonl
  offsetlog spark migrate data --dump offsets.jsonl --overwrite --dry-run
"""


def command(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The log directory.", show_default=False)],
    zookeeper: Annotated[
        str | None,
        typer.Option("--zookeeper", metavar="HOST:PORT,.../ROOT", help="The ZooKeeper to read.", show_default=False),
    ] = None,
    dump: Annotated[
        str | None,
        typer.Option("--dump", metavar="FILE", help="The dump to read, instead of ZooKeeper.", show_default=False),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Migrate only this group. Can be given several times.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Also move positions back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    yes: Yes = False,
    lock_timeout: LockTimeout = 0.0,
    tasks: Annotated[int, typer.Option("--tasks", min=1, max=256, help="Number of connections to ZooKeeper.")] = 4,
    partitions: NewPartitionCount = None,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Commits the offsets; returns the exit code."""
    if (zookeeper is None) == (dump is None):
        raise InvalidArgumentError("give the source: either --zookeeper or --dump")
    store_path(target)
    if dump is not None:
        check_file(dump)
    with spark_for("migrate", master, driver_memory, settings) as spark:
        from pyspark.sql import functions as fn

        from offsetlog.spark.jobs import migrate

        if zookeeper is not None:
            hosts, _, root = zookeeper.partition("/")
            rows = migrate.from_zookeeper(spark, hosts, root=f"/{root}" if root else "", groups=group, tasks=tasks)
        else:
            rows = migrate.from_dump(spark, str(dump))
            if group:
                # A row without a group may belong to one of these groups.
                rows = rows.where(fn.col("group").isin(group) | fn.col("group").isNull())
        consent = Consent(yes, dry_run=False)
        try:
            done = migrate.run(
                spark,
                rows,
                target,
                partitions=partitions,
                overwrite=overwrite,
                dry_run=dry_run,
                agree=lambda counts, back: consent.ask(effect_of(target, counts, back, counts["back"])),
                permissive=permissive,
                lock_timeout=lock_timeout,
                groups=group or (),
            )
        except LockedError as failure:
            raise failure.advise(LOCKED_ADVICE) from None
    output = Output(form)
    fields = asdict(done)
    for name in fields.pop("unknown"):
        complain(f"group {name_text(name)} has no offsets in the source")
    output.result(columns("spark migrate"), fields)
    if output.is_text:
        for line in outcome_lines(done.committed, done.kept, dry_run=dry_run):
            output.line(line)
        if not (done.committed or done.kept or done.refused):
            output.line("the source has no positions")
        if dry_run:
            output.line("nothing was written")
    if done.refused:
        complain(f"{count_text(done.refused, 'row')} refused")
        for each in done.examples:
            line = f"{each['file']}:{each['line']}: " if each.get("line") is not None else ""
            place = f"{line}group {each['group']!r}, topic {each['topic']!r}, partition {each['partition']!r}"
            complain(f"  {place}, offset {each['offset']!r}: {each['reason']}")
    return max(report_incomplete(done.incomplete), 1 if done.refused or done.unknown else 0)
