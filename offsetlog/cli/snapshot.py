"""`offsetlog snapshot`: writes snapshots, so that the next open need not read the whole log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import offsetlog
from offsetlog.cli.arguments import LogPartitions, OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns, shown_as
from offsetlog.cli.output import Format, Output, bytes_text, complain, count_text, progress
from offsetlog.cli.positions import parse_log_partitions
from offsetlog.cli.stores import CheckedPartitionCount, LockTimeout, open_writable
from offsetlog.directory.log_directory import TOPIC
from offsetlog.errors import OffsetLogError

HELP = """Write a snapshot of each log, so that the next start does not read all of the log.

A snapshot is a file beside the log. A broker ignores this file. A snapshot can be deleted at any time, and is not used
if it does not match the log. An open store writes snapshots by itself. The command takes the lock of PATH.

\b
Examples:
  offsetlog snapshot data
  offsetlog snapshot data --log-partition 3
  offsetlog snapshot /var/kafka-logs      the directory of a stopped broker

Exit codes: 0 done, 1 a log is damaged or failed, 2 could not be done.
"""


def _size_text(size: int | None) -> str:
    return "nothing new to write" if size is None else bytes_text(size)


COLUMNS = shown_as(columns("snapshot"), "bytes", show=_size_text)


class Snapshots:
    """One run of the command over the log partitions of a store."""

    def __init__(self, store: offsetlog.OffsetStore, numbers: list[int] | None) -> None:
        self.store = store
        self.numbers = [plan.number for plan in store.maintenance.plans(numbers)]
        self.failed = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Writes one snapshot after another; yields a row for each, and reports failures on the standard error."""
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
                        "log_offset": report.offset,
                        "offsets": report.positions,
                        "bytes": report.size if report.written else None,
                        "read_from": report.since,
                        "written": report.written,
                        "elapsed_ms": round(report.seconds * 1000),
                    }
                advance(1)


def command(
    path: StorePath,
    log_partitions: LogPartitions = None,
    partitions: CheckedPartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Writes snapshots; returns the exit code."""
    output = Output(form)
    numbers = parse_log_partitions(log_partitions)
    with open_writable(
        path, partitions, "disk", create=False, by_partition=True, lock_timeout=lock_timeout
    ) as store:
        run = Snapshots(store, numbers)
        written = output.rows(COLUMNS, run.rows(), "there is no log partition yet", wide=wide)
    output.line(f"{count_text(written, 'log partition')} of {len(run.numbers)} can start from a snapshot")
    return 1 if run.failed else 0
