"""`offsetlog diff`: the changes between two moments, or between two directories."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

import offsetlog
from offsetlog.cli.arguments import OnlyGroup, OutputFormat, StorePath, Wide
from offsetlog.cli.changes import COLUMNS, change_rows
from offsetlog.cli.group_facts import absent_partitions, complain_unknown, is_known, number_of
from offsetlog.cli.help import MomentsCommand
from offsetlog.cli.moments import MOMENTS
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.stores import PartitionCount
from offsetlog.errors import InvalidArgumentError, PartitionCountError
from offsetlog.history.comparison import compare_group, compare_tables
from offsetlog.moments import parse_moment
from offsetlog.types import Change

HELP = f"""Print what changed between two moments, or differs between two directories, by group, topic and partition.

The command only reads the directories. A is the first moment, and B is the second. With --other, the command compares
the state of PATH at A with the state of the other directory at B. B defaults to now. With --other, A also defaults to
now. A position that was only committed again, with the same offset, leader epoch and metadata, is not printed.

{MOMENTS} A moment that is a log offset needs --group.

Exit codes: 0 done, and with --other nothing differs; 1 there is no such group, the state of a moment was cleaned
away, or damage was found; 2 could not be read; 3 with --other, something differs.

\b
Examples:
  offsetlog diff data '2h ago'                           what changed in the last two hours
  offsetlog diff data 2026-03-01T02:30 2026-03-01T02:45
  offsetlog diff data -2h now --group billing --format json
  offsetlog diff data offset:1200 --group billing
  offsetlog diff data --other /backup/data               whether a copy has the same positions
"""

#: With this class, the argument -2h is a moment, and not the options -2 and -h.
COMMAND_CLASS = MomentsCommand


Moment = datetime | int | None


def _is_later(first: Moment, second: Moment) -> bool:
    if isinstance(first, datetime) and isinstance(second, datetime):
        return first > second
    if isinstance(first, int) and isinstance(second, int):
        return first > second
    return first is None and second is not None


#: The sentences that are printed if there is no row: the first for two moments, the second for two directories.
_NOTHING = ("nothing changed", "nothing differs")
#: The exit code if two directories differ; 1 and 2 are for states that could not be compared.
DIFFERENT = 3


class _State(NamedTuple):
    """A store, and the moment at which its state is compared."""

    store: offsetlog.OffsetStore
    moment: Moment

    def has(self, group: str) -> bool:
        return is_known(self.store, group) or bool(self.store.fetch(group, at=self.moment))


def _changes(before: _State, after: _State, group: str | None) -> list[Change]:
    if before.store is after.store:
        return before.store.diff(before.moment, after.moment, group)
    if group is not None:
        return compare_group(group, *(state.store.fetch(group, at=state.moment) for state in (before, after)))
    return compare_tables(*(state.store.to_arrow(at=state.moment) for state in (before, after)))


def _open_other(path: Path, partitions: int | None) -> offsetlog.OffsetStore:
    """Opens the second directory with the number of log partitions that it records, or with `partitions` if none."""
    try:
        return offsetlog.open(path, read_only=True)
    except PartitionCountError:
        if partitions is None:
            raise
        return offsetlog.open(path, partitions, read_only=True)


def _absent(store: offsetlog.OffsetStore, group: str | None) -> str | None:
    """Returns a line that names the log partitions missing from a broker's directory; None if none is missing."""
    absent = absent_partitions(store.path, store.partitions)
    if group is not None:
        absent = [number for number in absent if number == number_of(store, group)]
    if not absent:
        return None
    return (
        f"{store.path} lacks {count_text(len(absent), 'log partition')} (the first is {absent[0]}), because a broker "
        "has only the partitions that it replicates; all positions in an absent log partition count as missing"
    )


def command(
    path: StorePath,
    before: Annotated[str | None, typer.Argument(metavar="A", help="The first moment.", show_default=False)] = None,
    after: Annotated[str, typer.Argument(metavar="B", help="The second moment.")] = "now",
    other: Annotated[
        Path | None,
        typer.Option("--other", metavar="DIRECTORY", help="Compare with the state of this log directory."),
    ] = None,
    group: OnlyGroup = None,
    partitions: PartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the changes; returns the exit code."""
    if before is None and other is None:
        raise InvalidArgumentError("there is nothing to compare: give a moment, such as '2h ago', or --other DIRECTORY")
    texts = ("now" if before is None else before, after)
    moments = [parse_moment(text) for text in texts]
    for text, moment in zip(texts, moments, strict=True):
        if group is None and isinstance(moment, int):
            raise InvalidArgumentError(f"{text} needs --group, since each log partition has its own log offsets")
    if other is None and _is_later(*moments):
        complain(f"{texts[0]} is later than {texts[1]}: the columns `*_before` show the later state")
    with ExitStack() as opened:
        stores = [opened.enter_context(offsetlog.open(path, partitions, read_only=True))]
        if other is not None:
            stores.append(opened.enter_context(_open_other(other, partitions)))
        first, second = _State(stores[0], moments[0]), _State(stores[-1], moments[1])
        changes = _changes(first, second, group)
        problems = [problem for store in stores for problem in store.problems()]
        absent = [_absent(each, group) for each in stores if other is not None]
        number = None if group is None else number_of(first.store, group)
        is_unknown = group is not None and not changes and not first.has(group) and not second.has(group)
    output = Output(form)
    if not is_unknown or not output.is_text:
        output.rows(COLUMNS, change_rows(changes), _NOTHING[other is not None], wide=wide)
    if group is not None and is_unknown:
        complain_unknown(group, path if other is None else f"{path} and {other}", number if other is None else None)
    for problem in [*filter(None, absent), *map(str, problems)]:
        complain(problem)
    if problems or is_unknown:
        return 1
    return DIFFERENT if changes and other is not None else 0
