"""`offsetlog groups`: the consumer groups in a log."""

from __future__ import annotations

from offsetlog.cli.arguments import LogPath, OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output
from offsetlog.cli.states import read_states
from offsetlog.directory.listing import group_rows

HELP = """Print the groups in a log, sorted by name.

As on a broker, a group is listed if it has a record of its own, a committed offset, or an offset in an open
transaction; `groups()` of the library omits groups that have only the last. A group that appears only in an aborted
transaction is not listed; a running broker lists it until it cleans up. The log shows only the states Stable (with
members) and Empty.

Exit codes: 0 done, 1 damage was found, 2 could not be read.

\b
Examples:
  offsetlog groups /var/kafka-logs
  offsetlog groups /var/kafka-logs --format json
"""


def command(path: LogPath, wide: Wide = False, form: OutputFormat = Format.TEXT) -> int:
    """Prints the groups; returns the exit code."""
    states = read_states(path)
    rows = group_rows(states.partitions)
    Output(form).rows(columns("groups"), rows, "no groups", wide=wide)
    return states.complain()
