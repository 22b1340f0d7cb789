"""`offsetlog restore`: restores a group's positions as of a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

import offsetlog
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath, Wide
from offsetlog.cli.changes import effect_of, keys_of, selected, show_done, undo_text, what_text
from offsetlog.cli.consent import ASKS, Consent, DryRun, Force, Yes
from offsetlog.cli.group_facts import complain_unknown, facts_of, fetch_at, is_known, number_of
from offsetlog.cli.moments import MOMENTS, aged_moment_text, moment_text
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.positions import is_selected, parse_selection
from offsetlog.cli.refusals import damage_of, refusals_of
from offsetlog.cli.stores import LockTimeout, PartitionCount, look_into
from offsetlog.cli.text import name_text
from offsetlog.errors import DeletesGroupError, OffsetLogError
from offsetlog.history.restore import Restoration
from offsetlog.moments import parse_past_moment
from offsetlog.types import Change, TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
#: The time of day that follows a date.
_CLOCK = re.compile(r"\d\d(?::\d\d?){1,2}", re.ASCII)

HELP = f"""Restore the committed offsets of a group as they were at a moment.

The restore is one new commit, all or nothing. It removes nothing from the log, so another restore can undo it. With
--format text, the last line shows the value of --at that undoes the restore. Positions that were not committed at the
moment are deleted. {ASKS} Stop the group's consumers first, because their next commits overwrite the restored
positions. If the group has members, or if the restore would delete all offsets of the group, the command needs --force.
--dry-run also says why the restore would be refused.

{MOMENTS}

Exit codes: 0 done, or nothing to do; 1 refused, the state at the moment was cleaned away, the log partition is
damaged, or there is no such group or topic; 2 could not be read.

\b
Examples:
  offsetlog restore data billing --at -2h --dry-run       what would change; PATH is only read
  offsetlog restore data billing --at 2026-03-01T02:30
  offsetlog restore data billing orders:0 --at offset:1200 --yes
"""


def _deed(group: str, changes: list[Change], moment: datetime | int) -> str:
    when = aged_moment_text(moment)
    if all(each.after is None for each in changes):
        when += ", when none of the offsets to delete was committed"
    return f"restore group {name_text(group)} to {when}: {what_text(changes)}"


def _line(group: str, changes: list[Change], moment: datetime | int, hint: str) -> str:
    if not changes:
        name = name_text(group)
        return f"nothing to do: the offsets of group {name} are already those of {moment_text(moment)}{hint}"
    return f"restored group {name_text(group)} to {moment_text(moment)}: {what_text(changes)}"


def _hint(
    store: offsetlog.OffsetStore, group: str, moment: datetime | int, selection: set[str | TopicPartition]
) -> str:
    # The printed time of the bad commit is not a moment before it.
    if isinstance(moment, int):
        return ""
    at_ms = (moment - _EPOCH) // _MS
    try:
        before = store.restore(group, str(at_ms - 1), dry_run=True, delete_all=True)
    except OffsetLogError:
        return ""
    if not selected(before, selection):
        return ""
    return f" (the last change has exactly this time; to restore the state before that change, use --at {at_ms - 1})"


def _plan(
    store: offsetlog.OffsetStore, group: str, moment: datetime | int, selection: set[str | TopicPartition]
) -> tuple[list[Change], str | None]:
    """Returns the changes, and the reason why they need --force although the group has no members, or None."""
    keys = _keys(store, group, moment, selection)
    try:
        return store.restore(group, moment, keys, dry_run=True), None
    except DeletesGroupError as failure:
        return store.restore(group, moment, keys, dry_run=True, delete_all=True), failure.message.partition("; ")[0]


def _keys(
    store: offsetlog.OffsetStore, group: str, moment: datetime | int, selection: set[str | TopicPartition]
) -> list[TopicPartition] | None:
    if not selection:
        return None
    return [key for key in {*store.fetch(group), *store.fetch(group, at=moment)} if is_selected(key, selection)]


def _unknown(
    store: offsetlog.OffsetStore, group: str, moment: datetime | int, selection: set[str | TopicPartition]
) -> int:
    # A mistyped name is an error; "nothing to do" would hide it.
    known = {*store.fetch(group), *fetch_at(store, group, moment)}
    if not known and not is_known(store, group):
        return complain_unknown(group, store.path, number_of(store, group))
    if not known:
        complain(f"group {name_text(group)} has no committed offset, neither now nor at {moment_text(moment)}")
        return 1
    unknown = [each for each in selection if not any(is_selected(key, {each}) for key in known)]
    for each in unknown:
        what = name_text(each) if isinstance(each, str) else f"{name_text(each.topic)}:{each.partition}"
        hint = "; a partition is written TOPIC:PARTITION" if isinstance(each, str) and each.isdecimal() else ""
        if _CLOCK.fullmatch(what):
            hint = "; a time with a space needs quotes"
        complain(
            f"group {name_text(group)} has no committed offset of {what}, neither now nor at "
            f"{moment_text(moment)}{hint}"
        )
    return 1 if unknown else 0


def command(
    path: StorePath,
    group: GroupName,
    at: Annotated[
        str, typer.Option("--at", metavar="MOMENT", help="Restore the positions as of this moment.", show_default=False)
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
    hint, undo_at = "", None
    with look_into(path, partitions, writes=consent.may_write) as store:
        numbers = (number_of(store, group),)
        damage = damage_of(store, numbers)
        unknown = _unknown(store, group, moment, selection)
        if unknown and not damage:
            return unknown
        changes, loses = _plan(store, group, moment, selection)
        if changes:
            effect = effect_of(_deed(group, changes, moment), changes, facts_of(store, group), loses=loses)
            if dry_run:
                return consent.show(output, effect, refusals_of(store, path, partitions, numbers))
            consent.refuse_damaged(damage)
            consent.check(effect)
        else:
            hint = _hint(store, group, moment, selection)
    if changes:
        changes = restored = _restore(consent, path, partitions, lock_timeout, group, moment, selection)
        undo_at = restored.undo_at
    if yes or not output.is_text:
        show_done(output, changes, undo_at, wide=wide)
    if damage is not None:
        complain(damage)
        complain(f"the offsets of group {name_text(group)} at {moment_text(moment)} are unknown: nothing was done")
        return 1
    output.line(_line(group, changes, moment, hint))
    if undo_at is not None:
        output.line(undo_text(changes, undo_at, whole_group=not topics))
    return 0


def _restore(
    consent: Consent,
    path: Path,
    partitions: int | None,
    lock_timeout: float,
    group: str,
    moment: datetime | int,
    selection: set[str | TopicPartition],
) -> Restoration:
    # Only now the lock keeps others from committing: the question shows what holds under it.
    with consent.open(path, partitions, lock_timeout) as store:
        changes, loses = _plan(store, group, moment, selection)
        if not changes:
            return Restoration()
        consent.ask(effect_of(_deed(group, changes, moment), changes, facts_of(store, group), loses=loses))
        return store.restore(group, moment, keys_of(changes), delete_all=loses is not None)
