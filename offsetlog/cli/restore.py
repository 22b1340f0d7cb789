"""`offsetlog restore`: makes a group's positions again what they were."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

import offsetlog
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath, Wide
from offsetlog.cli.changes import confirm, keys_of, selected, show, what_text
from offsetlog.cli.fetch import is_selected
from offsetlog.cli.moments import MOMENTS, moment_text, past_moment
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.positions import parse_selection
from offsetlog.cli.stores import PartitionCount, open_writable
from offsetlog.cli.text import name_text
from offsetlog.types import Change, TopicPartition

HELP = f"""Make the committed offsets of a group again what they were at a moment.

It is one new commit, all of it or nothing; nothing in the log is changed, so that another restore can undo it. What was
not committed then is deleted. On a terminal it is done only after a question. Stop the group's consumers first: what
they commit next comes on top.

{MOMENTS}

\b
Exit codes: 0 done, or nothing to do; 1 what was committed then was cleaned away, refused, or there is
no such group or topic; 2 could not be read.

\b
Examples:
  offsetlog restore data billing --at -2h --dry-run       what would change; PATH is only read
  offsetlog restore data billing --at 2026-03-01T02:30
  offsetlog restore data billing orders:0 --at offset:1200 --yes
"""


def _line(group: str, changes: list[Change], moment: datetime | int, *, done: bool) -> str:
    if not changes:
        return f"nothing to do: the offsets of group {name_text(group)} are what they were at {moment_text(moment)}"
    if not done:
        return f"would {what_text(changes)} of group {name_text(group)}, as of {moment_text(moment)}"
    return f"group {name_text(group)} is as it was at {moment_text(moment)} ({what_text(changes)}: done)"


def _unknown(
    store: offsetlog.OffsetStore, group: str, moment: datetime | int, selection: set[str | TopicPartition]
) -> int:
    # Nothing to do is no answer to a name that was mistyped.
    known = {*store.fetch(group), *store.fetch(group, at=moment)}
    if not known:
        complain(f"group {name_text(group)} has no committed offset, neither now nor at {moment_text(moment)}")
        return 1
    unknown = [each for each in selection if not any(is_selected(key, {each}) for key in known)]
    for each in unknown:
        what = name_text(each) if isinstance(each, str) else f"{name_text(each.topic)}:{each.partition}"
        complain(
            f"group {name_text(group)} has no committed offset of {what}, neither now nor at {moment_text(moment)}"
        )
    return 1 if unknown else 0


def command(
    path: StorePath,
    group: GroupName,
    at: Annotated[str, typer.Option("--at", metavar="MOMENT", help="When they were right.", show_default=False)],
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC[:PARTITION]", help="Only these.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    partitions: PartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Restores; returns the exit code."""
    output = Output(form)
    moment = past_moment(at)
    selection = {parse_selection(text) for text in topics or []}
    if dry_run:
        with offsetlog.open(path, partitions, read_only=True) as store:
            changes = selected(store.restore(group, moment, dry_run=True), selection)
            unknown = _unknown(store, group, moment, selection)
        if unknown:
            return unknown
        show(output, changes, wide=wide)
        output.line(_line(group, changes, moment, done=False))
        return 0
    with open_writable(path, partitions, "disk", create=False) as store:
        changes = selected(store.restore(group, moment, dry_run=True), selection)
        unknown = _unknown(store, group, moment, selection)
        if unknown:
            return unknown
        if changes:
            confirm(output, store, group, changes, yes=yes, wide=wide)
            changes = store.restore(group, moment, keys_of(changes))
    if output.is_json:
        show(output, changes, wide=wide)
    output.line(_line(group, changes, moment, done=True))
    return 0
