"""`offsetlog snapshot`: writes snapshots, from which the next open goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog.cli.arguments import OutputFormat, StorePath, Wide
from offsetlog.cli.layout import Column
from offsetlog.cli.output import Format, Output, bytes_text, complain, count_text, progress
from offsetlog.cli.stores import CheckedPartitionCount, open_writable
from offsetlog.directory.log_directory import TOPIC
from offsetlog.errors import OffsetLogError

HELP = """Write a snapshot of each log, so that the next start does not read all of the log.

A snapshot is a file beside the log, which a broker ignores. It is a cache: it can be deleted at any time, and is not
used if it does not match the log. An open store writes snapshots by itself. PATH's lock is taken.

\b
Examples:
  offsetlog snapshot data
  offsetlog snapshot data --partition 3
  offsetlog snapshot /var/kafka-logs      the directory of a stopped broker

\b
Exit codes: 0 done, 1 a log is damaged or failed, 2 could not be done.
"""


def _since_text(offset: int | None) -> str:
    return "the whole log" if offset is None else str(offset)


def _size_text(size: int) -> str:
    return bytes_text(size) if size else "nothing new to write"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.2f} s"


COLUMNS = [
    Column("log_partition", right=True),
    Column("offset", "log offset", right=True),
    Column("positions", right=True),
    Column("size", show=_size_text, right=True),
    Column("since", "read from", _since_text, right=True, rank=1),
    Column("written", rank=1),
    Column("seconds", "took", _seconds_text, right=True, rank=2),
]


class Snapshots:
    """One run of the command over the log partitions of a store."""

    def __init__(self, store: offsetlog.OffsetStore, numbers: list[int] | None) -> None:
        self.store = store
        self.numbers = [plan.number for plan in store.maintenance.plans(numbers)]
        self.failed = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Writes one snapshot after the other; gives a row of each."""
        with progress("snapshots", len(self.numbers), in_bytes=False) as advance:
            for number in self.numbers:
                try:
                    (report,) = self.store.snapshot([number])
                except OffsetLogError as failure:
                    self.failed += 1
                    complain(f"{TOPIC}-{number}: {failure}")
                else:
                    yield {
                        "log_partition": number,
                        "offset": report.offset,
                        "positions": report.positions,
                        "size": report.size,
                        "since": report.since,
                        "written": report.written,
                        "seconds": round(report.seconds, 3),
                    }
                advance(1)


def command(
    path: StorePath,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="P", min=0, help="Only this log partition; may be given several times."),
    ] = None,
    partitions: CheckedPartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Writes snapshots; returns the exit code."""
    output = Output(form)
    with open_writable(path, partitions, "disk", create=False, by_partition=True) as store:
        run = Snapshots(store, partition)
        written = output.rows(COLUMNS, run.rows(), "there is no log partition yet", wide=wide)
    if not output.is_json:
        output.line(f"{count_text(written, 'log partition')} of {len(run.numbers)} can be started from a snapshot")
    return 1 if run.failed else 0
