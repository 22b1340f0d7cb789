"""`offsetlog restore`: restores a group's positions as of a moment."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

import offsetlog
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath, Wide
from offsetlog.cli.changes import effect_of, keys_of, selected, show, what_text
from offsetlog.cli.consent import ASKS, Consent, DryRun, Force, Yes
from offsetlog.cli.group_facts import complain_unknown, facts_of, is_known
from offsetlog.cli.moments import MOMENTS, aged_moment_text, moment_text
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.positions import is_selected, parse_selection
from offsetlog.cli.stores import LockTimeout, PartitionCount
from offsetlog.cli.text import name_text
from offsetlog.moments import parse_past_moment
from offsetlog.types import Change, TopicPartition

HELP = f"""Restore the committed offsets of a group as they were at a moment.

The restore is one new commit, all or nothing. The records before it stay in the log, so that another restore can undo
it. Positions that had no committed offset at that moment are deleted. {ASKS} Stop the
group's consumers first: their next commits overwrite the restored positions. A group that has members needs --force.

{MOMENTS}

Exit codes: 0 done, or nothing to do; 1 the state of that moment was cleaned away, the command was refused, or
there is no such group or topic; 2 could not be read.

\b
Examples:
  offsetlog restore data billing --at -2h --dry-run       what would change; PATH is only read
  offsetlog restore data billing --at 2026-03-01T02:30
  offsetlog restore data billing orders:0 --at offset:1200 --yes
"""


def _deed(group: str, changes: list[Change], moment: datetime | int) -> str:
    when = aged_moment_text(moment)
    if all(each.after is None for each in changes):
        when += ", when none of these offsets was committed"
    return f"restore group {name_text(group)} to {when}: {what_text(changes)}"


def _line(group: str, changes: list[Change], moment: datetime | int) -> str:
    if not changes:
        return f"nothing to do: the offsets of group {name_text(group)} are already those of {moment_text(moment)}"
    return f"restored group {name_text(group)} to {moment_text(moment)}: {what_text(changes)}"


def _unknown(
    store: offsetlog.OffsetStore, group: str, moment: datetime | int, selection: set[str | TopicPartition]
) -> int:
    # A mistyped name is an error; "nothing to do" would hide it.
    known = {*store.fetch(group), *store.fetch(group, at=moment)}
    if not known and not is_known(store, group):
        return complain_unknown(group, store.path)
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
    at: Annotated[
        str, typer.Option("--at", metavar="MOMENT", help="Restore the positions of this moment.", show_default=False)
    ],
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC[:PARTITION]", help="Only these topics or partitions.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    partitions: PartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Restores the positions; returns the exit code."""
    output = Output(form)
    moment = parse_past_moment(at)
    selection = {parse_selection(text) for text in topics or []}
    consent = Consent(yes, force=force, dry_run=dry_run, wide=wide)
    with consent.open(path, partitions, lock_timeout) as store:
        changes = selected(store.restore(group, moment, dry_run=True), selection)
        unknown = _unknown(store, group, moment, selection)
        if unknown:
            return unknown
        if changes:
            effect = effect_of(_deed(group, changes, moment), changes, facts_of(store, group))
            if dry_run:
                consent.show(output, effect)
                return 0
            consent.ask(effect)
            changes = store.restore(group, moment, keys_of(changes))
    if yes or not output.is_text:
        show(output, changes, wide=wide)
    output.line(_line(group, changes, moment))
    return 0
