"""`offsetlog transactions`: the open transactions in a log."""

from __future__ import annotations

from typing import Any

from offsetlog.cli.arguments import LogPath, OutputFormat, Wide
from offsetlog.cli.columns import columns, shown_as
from offsetlog.cli.output import Format, Output
from offsetlog.cli.states import read_states
from offsetlog.cli.text import name_text
from offsetlog.directory.listing import transaction_rows

HELP = """Print the open transactions, by log partition.

Each row has the producer, the transaction's first log offset, the time of its first pending offset, and the number of
pending offsets. Records after the first log offset of an open transaction are not cleaned, even if the transaction has
no pending offsets.

Exit codes: 0 done, 1 damage was found, 2 could not be read.

\b
Examples:
  offsetlog transactions /var/kafka-logs
  offsetlog transactions data --format json
  offsetlog abort data 11                       ends one of them
"""


def _groups_text(groups: list[str]) -> str:
    return " ".join(_groups_parts(groups))


def _groups_parts(groups: list[str]) -> list[str]:
    return [name_text(name) for name in groups] or ["-"]


COLUMNS = shown_as(columns("transactions"), "group_names", show=_groups_text, parts=_groups_parts, right=False)


def command(path: LogPath, wide: Wide = False, form: OutputFormat = Format.TEXT) -> int:
    """Prints the open transactions; returns the exit code."""
    states = read_states(path)
    rows: list[dict[str, Any]] = transaction_rows(states.partitions)
    Output(form).rows(COLUMNS, rows, "no open transactions", wide=wide)
    return states.complain()
