"""`offsetlog groups`: the consumer groups in a log."""

from __future__ import annotations

from typing import Any

from offsetlog.cli.arguments import LogPath, OutputFormat
from offsetlog.cli.output import Column, Format, Output
from offsetlog.cli.states import read_states
from offsetlog.reading import group_rows

HELP = """Print the groups that a log knows, sorted by name.

A group is known by a record of its own, by a committed offset, or by one in an open transaction. Its state is what
the log tells: Stable with members, else Empty.

\b
Examples:
  offsetlog groups /var/kafka-logs
  offsetlog groups /var/kafka-logs --format json
"""


def _member_text(members: list[dict[str, Any]]) -> str:
    return str(len(members))


COLUMNS = [
    Column("group", wide=True),
    Column("type"),
    Column("state"),
    Column("protocol_type", wide=True),
    Column("protocol", wide=True),
    Column("generation", right=True, show=lambda number: "-" if number == -1 else str(number)),
    Column("members", right=True, show=_member_text),
    Column("simple", narrow=False),
    Column("log_partition", "partition", right=True),
]


def command(path: LogPath, form: OutputFormat = Format.TEXT) -> int:
    """Prints the groups; returns the exit code."""
    states = read_states(path)
    rows = group_rows(states.partitions)
    Output(form).rows(COLUMNS, rows, "no groups")
    return states.complain()
