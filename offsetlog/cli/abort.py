"""`offsetlog abort`: ends an open transaction."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from offsetlog.cli.arguments import OutputFormat, StorePath
from offsetlog.cli.output import Format, Output, count_text
from offsetlog.cli.stores import CheckedPartitionCount, open_writable
from offsetlog.errors import TransactionError

HELP = """Abort an open transaction: its pending offsets are dropped.

For what a program left open when it ended. Where a broker's coordinator will end the transaction itself, let it. On a
terminal it is done only after a question.

\b
Examples:
  offsetlog transactions data           which there are
  offsetlog abort data 11
  offsetlog abort data 11 --yes         without a question
  offsetlog abort /var/kafka-logs 11    in a broker's directory, while the broker is stopped
"""


def command(
    path: StorePath,
    producer_id: Annotated[int, typer.Argument(metavar="PRODUCER_ID", min=0, help="Whose.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    partitions: CheckedPartitionCount = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Aborts; returns the exit code."""
    output = Output(form)
    with open_writable(path, partitions, "disk", create=False, by_partition=True) as store:
        pending = [known.positions for known in store.transactions() if known.producer_id == producer_id]
        if not pending:
            raise TransactionError(f"there is no open transaction of producer {producer_id}")
        what = f"the transaction of producer {producer_id} with {count_text(sum(pending), 'pending offset')}"
        if not yes and sys.stdin.isatty() and not typer.confirm(f"Abort {what}?", err=True):
            raise typer.Abort
        ended = store.abort_transaction(producer_id)
    if output.is_json:
        output.object({"producer_id": producer_id, "log_partitions": ended, "dropped": sum(pending)})
    output.line(f"aborted {what} in {count_text(ended, 'log partition')}")
    return 0
