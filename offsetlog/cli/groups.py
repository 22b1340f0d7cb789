"""`offsetlog groups`: the consumer groups in a log."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from offsetlog.cli.arguments import LogPath, OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output
from offsetlog.cli.states import read_states
from offsetlog.directory.listing import decode_text, group_rows
from offsetlog.directory.reading import PartitionState

HELP = """Print the groups in a log, sorted by name or by their last commit.

As on a broker, a group is listed if it has a record of its own, a committed offset, or an offset in an open
transaction. The method `groups()` of the library omits groups that have only an offset in an open transaction. A group
that appears only in an aborted transaction is not listed; a running broker lists it until it cleans up. The state is
Stable if the group has members, and Empty otherwise, because the log shows no other states.

Exit codes: 0 done, 1 damage was found, 2 could not be read.

\b
Examples:
  offsetlog groups /var/kafka-logs
  offsetlog groups /var/kafka-logs --sort changed        the group that committed last comes first
  offsetlog groups /var/kafka-logs --format json
"""


class Order(enum.StrEnum):
    """The order of the groups."""

    NAME = "name"
    CHANGED = "changed"


def _last_commits(states: Iterable[PartitionState]) -> dict[str, int]:
    """Returns the latest commit time among each group's offsets, in ms since 1970; -1 if the time is unknown."""
    found: dict[str, int] = {}
    for replay in (state.replay for state in states):
        for name in replay.groups():
            youngest = max((committed for *_, committed, _, _, _ in replay.positions(name)), default=-1)
            text = decode_text(name)
            found[text] = max(youngest, found.get(text, -1))
    return found


def rows_of(states: Sequence[PartitionState]) -> list[dict[str, Any]]:
    """Returns the groups of some log partitions as rows of the table, sorted by name."""
    times = _last_commits(states)
    return [{**row, "last_commit": times.get(row["group"], -1)} for row in group_rows(states)]


def command(
    path: LogPath,
    sort: Annotated[
        Order,
        typer.Option("--sort", help='Sort by name ("name"), or by last commit, with the latest first ("changed").'),
    ] = Order.NAME,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the groups; returns the exit code."""
    states = read_states(path)
    rows = rows_of(states.partitions)
    if sort is Order.CHANGED:
        rows.sort(key=lambda row: -row["last_commit"])
    Output(form).rows(columns("groups"), rows, "no groups", wide=wide)
    return states.complain()
