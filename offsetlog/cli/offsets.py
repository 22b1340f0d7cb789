"""`offsetlog offsets`: the committed offsets in a log."""

from __future__ import annotations

from typing import Annotated

import typer

from offsetlog.cli.arguments import LogPath, OutputFormat, Wide
from offsetlog.cli.layout import Column
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.states import read_states
from offsetlog.cli.text import name_text, time_text
from offsetlog.directory.listing import offset_rows

HELP = """Print the committed offsets, sorted by group, topic and partition.

PATH is only read: it may belong to a running broker.  Uncommitted transactions are left out.

\b
Examples:
  offsetlog offsets /var/kafka-logs
  offsetlog offsets /var/kafka-logs --group billing --format json
  offsetlog offsets /var/kafka-logs/__consumer_offsets-12/00000000000000000000.log
"""

COLUMNS = [
    Column("group"),
    Column("topic"),
    Column("partition", right=True),
    Column("offset", right=True),
    Column("leader_epoch", "epoch", lambda epoch: "-" if epoch == -1 else str(epoch), right=True),
    Column("metadata"),
    Column("commit_timestamp", "committed (UTC)", time_text, rank=1),
    Column("expire_timestamp", "expires (UTC)", time_text, rank=2),
    Column("topic_id", rank=2),
    Column("log_partition", rank=2, right=True),
    Column("log_offset", rank=2, right=True),
]


def command(
    path: LogPath,
    group: Annotated[
        str | None, typer.Option("--group", help="Only this group; --group=-x for a name that begins with a dash.")
    ] = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the committed offsets; returns the exit code."""
    states = read_states(path)
    shown = Output(form).rows(COLUMNS, offset_rows(states.partitions, group), "no committed offsets", wide=wide)
    if group is not None and not shown:
        complain(f"no offset of group {name_text(group)} is committed")
    return states.complain()
