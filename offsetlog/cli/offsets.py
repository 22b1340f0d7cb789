"""`offsetlog offsets`: the committed offsets in a log."""

from __future__ import annotations

from typing import Annotated

import typer

from offsetlog.cli.arguments import LogPath, OutputFormat
from offsetlog.cli.output import Column, Format, Output, time_text
from offsetlog.cli.states import read_states
from offsetlog.reading import offset_rows

HELP = """Print the committed offsets, sorted by group, topic and partition.

PATH is only read: it may belong to a running broker.  Uncommitted transactions are left out.

\b
Examples:
  offsetlog offsets /var/kafka-logs
  offsetlog offsets /var/kafka-logs --group billing --format json
  offsetlog offsets /var/kafka-logs/__consumer_offsets-12/00000000000000000000.log
"""

COLUMNS = [
    Column("group", wide=True),
    Column("topic", wide=True),
    Column("partition", right=True),
    Column("offset", right=True),
    Column("leader_epoch", "epoch", lambda epoch: "-" if epoch == -1 else str(epoch), right=True),
    Column("metadata", wide=True),
    Column("commit_timestamp", "committed (UTC)", time_text),
    Column("expire_timestamp", "expires (UTC)", time_text, narrow=False),
    Column("topic_id", narrow=False),
    Column("log_partition", narrow=False, right=True),
    Column("log_offset", narrow=False, right=True),
]


def command(
    path: LogPath,
    group: Annotated[
        str | None, typer.Option("--group", help="Only this group; --group=-x for a name that begins with a dash.")
    ] = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the committed offsets; returns the exit code."""
    states = read_states(path)
    nothing = "no committed offsets" if group is None else "no committed offsets of this group"
    Output(form).rows(COLUMNS, offset_rows(states.partitions, group), nothing)
    return states.complain()
