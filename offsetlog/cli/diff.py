"""`offsetlog diff`: the changes between two moments."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

import offsetlog
from offsetlog.cli.arguments import OnlyGroup, OutputFormat, StorePath, Wide
from offsetlog.cli.changes import COLUMNS, change_rows
from offsetlog.cli.group_facts import complain_unknown, is_known, number_of
from offsetlog.cli.help import MomentsCommand
from offsetlog.cli.moments import MOMENTS
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.stores import PartitionCount
from offsetlog.errors import InvalidArgumentError
from offsetlog.moments import parse_moment

HELP = f"""Print what changed between two moments, by group, topic and partition.

PATH is only read. B defaults to now. A position that was only committed again, with the same offset, leader
epoch and metadata, has not changed.

{MOMENTS} Log offsets need --group.

Exit codes: 0 done, 1 there is no such group, the state of a moment was cleaned away, or damage was
found, 2 could not be read.

\b
Examples:
  offsetlog diff data '2h ago'                           what changed in the last two hours
  offsetlog diff data 2026-03-01T02:30 2026-03-01T02:45
  offsetlog diff data -2h now --group billing --format json
  offsetlog diff data offset:1200 --group billing
"""

#: So that -2h is a moment, and not the options -2 and -h.
COMMAND_CLASS = MomentsCommand


def _is_known(store: offsetlog.OffsetStore, group: str, *moments: datetime | int | None) -> bool:
    return is_known(store, group) or any(store.fetch(group, at=moment) for moment in moments)


def _is_later(first: datetime | int | None, second: datetime | int | None) -> bool:
    if isinstance(first, datetime) and isinstance(second, datetime):
        return first > second
    if isinstance(first, int) and isinstance(second, int):
        return first > second
    return first is None and second is not None


def command(
    path: StorePath,
    before: Annotated[str, typer.Argument(metavar="A", help="The first moment.", show_default=False)],
    after: Annotated[str, typer.Argument(metavar="B", help="The second moment.")] = "now",
    group: OnlyGroup = None,
    partitions: PartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the changes; returns the exit code."""
    first, second = parse_moment(before), parse_moment(after)
    for text, moment in ((before, first), (after, second)):
        if group is None and isinstance(moment, int):
            raise InvalidArgumentError(f"{text} needs --group, since each log partition has offsets of its own")
    if _is_later(first, second):
        complain(f"{before} is later than {after}: `before` is the later state")
    with offsetlog.open(path, partitions, read_only=True) as store:
        changes = store.diff(first, second, group)
        problems = store.problems()
        number = None if group is None else number_of(store, group)
        is_unknown = group is not None and not changes and not _is_known(store, group, first, second)
    output = Output(form)
    if not is_unknown or not output.is_text:
        output.rows(COLUMNS, change_rows(changes), "nothing changed", wide=wide)
    if group is not None and is_unknown:
        complain_unknown(group, path, number)
    for problem in problems:
        complain(str(problem))
    return 1 if problems or is_unknown else 0
