"""`offsetlog undelete`: lists deleted positions, and brings them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog.cli.arguments import OutputFormat, StorePath, Wide
from offsetlog.cli.changes import effect_of, keys_of, selected, show_done, undo_text
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import ASKS, Consent, DryRun, Force, Yes
from offsetlog.cli.group_facts import complain_unknown, facts_of, is_known, number_of
from offsetlog.cli.moments import MOMENTS, aged_moment_text, aged_text
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.positions import is_selected, parse_selection
from offsetlog.cli.refusals import refusals_of
from offsetlog.cli.stores import LockTimeout, PartitionCount
from offsetlog.cli.text import name_text, time_text
from offsetlog.errors import InvalidArgumentError
from offsetlog.moments import parse_past_moment, parse_time
from offsetlog.types import Change, Deletion, TopicPartition

HELP = f"""Commit deleted offsets of a group again, or list what was deleted.

Deleted offsets come back with their last values or, with --at, with their values at a moment. Offsets that are
committed now do not change. Expired offsets also come back, because the log does not distinguish them from deleted
ones. A value that was cleaned away is lost. {ASKS} If the group has
members, the command needs --force.

Without GROUP, or with --list, the command only reads PATH, and lists the deletions that the log still holds.

{MOMENTS}

Exit codes: 0 done, 1 a value is lost, the command was refused, or there is no such group, 2 could not be read.

\b
Examples:
  offsetlog undelete data                              lists deleted offsets of all groups
  offsetlog undelete data --list --since -1d
  offsetlog undelete data billing --dry-run            what would come back
  offsetlog undelete data billing orders --yes
  offsetlog undelete data billing --at 2026-03-01T02:30
"""


def deletion_rows(deletions: Iterable[Deletion]) -> Iterator[dict[str, Any]]:
    """Yields deletions as rows of the table."""
    for each in deletions:
        last = each.last
        yield {
            "group": each.group,
            "topic": each.topic,
            "partition": each.partition,
            "timestamp": each.timestamp,
            "offset": None if last is None else last.offset,
            "recoverable": each.recoverable,
            "metadata": None if last is None else last.metadata,
            "leader_epoch": None if last is None else last.leader_epoch,
            "commit_timestamp": None if last is None else last.commit_timestamp,
            "log_partition": each.log_partition,
            "log_offset": each.log_offset,
            "last_log_offset": each.last_log_offset,
        }


def _list(store: offsetlog.OffsetStore, output: Output, listed: list[Deletion], *, wide: bool) -> int:
    output.rows(columns("undelete --list"), deletion_rows(listed), "the log holds no deletion", wide=wide)
    problems = store.problems()
    for problem in problems:
        complain(str(problem))
    return 1 if problems else 0


def _is_known(store: offsetlog.OffsetStore, group: str) -> bool:
    # With --since, a group that exists may have no deletion that is recent enough.
    return is_known(store, group) or bool(store.deletions(group))


def _tell_lost(group: str, lost: list[Deletion]) -> int:
    for each in lost:
        complain(f"{name_text(each.topic)}:{each.partition} of group {name_text(group)} is lost: it was cleaned away")
    return 1 if lost else 0


def _deed(group: str, changes: list[Change], deletions: list[Deletion], moment: datetime | int | None) -> str:
    deed = f"commit {count_text(len(changes), 'deleted offset')} of group {name_text(group)} again"
    if moment is not None:
        return f"{deed}, as of {aged_moment_text(moment)}"
    chosen = {(each.topic, each.partition) for each in changes}
    times = sorted(each.timestamp for each in deletions if (each.topic, each.partition) in chosen)
    if not times:
        return deed
    first = f"from {time_text(times[0])} to " if times[0] < times[-1] else ""
    return f"{deed}, deleted {first}{aged_text(times[-1])}"


def command(
    path: StorePath,
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", help="The group; without it, all deletions are listed.", show_default=False),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC[:PARTITION]", help="Only these topics or partitions.", show_default=False),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List what was deleted.")] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only offsets deleted since this time.", show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="MOMENT", help="Restore the values as of this moment.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    partitions: PartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Brings deleted offsets back, or lists them; returns the exit code."""
    output = Output(form)
    selection = {parse_selection(text) for text in topics or []}
    moment = None if at is None else parse_past_moment(at)
    younger = None if since is None else parse_time(since)
    if group is None or only_list:
        if moment is not None:
            raise InvalidArgumentError(
                "--at selects the values to bring back, but this command only lists deletions; omit --at, or give "
                "GROUP without --list"
            )
        with offsetlog.open(path, partitions, read_only=True) as store:
            found = store.deletions(group, younger)
            if group is not None and not found and not _is_known(store, group):
                return complain_unknown(group, path, number_of(store, group))
            listed = [each for each in found if is_selected(TopicPartition(each.topic, each.partition), selection)]
            return _list(store, output, listed, wide=wide)
    consent = Consent(yes, force=force, dry_run=dry_run, wide=wide)
    code, undo_at = 0, None
    if unknown := consent.look_for(path, partitions, group, _is_known):
        return unknown
    with consent.open(path, partitions, lock_timeout) as store:
        would = store.undelete(group, at=moment, since=younger, dry_run=True)
        changes = selected(would.restored, selection)
        if not would.restored and not would.lost and not _is_known(store, group):
            return complain_unknown(group, path, number_of(store, group))
        if changes:
            deed = _deed(group, changes, store.deletions(group, younger), moment)
            effect = effect_of(deed, changes, facts_of(store, group))
            if dry_run:
                code = consent.show(output, effect, refusals_of(store, path, partitions, [number_of(store, group)]))
            else:
                consent.ask(effect)
                changes = restored = store.undelete(group, keys_of(changes), at=moment, since=younger).restored
                undo_at = restored.undo_at
    if (not changes or not dry_run) and (yes or not output.is_text):
        show_done(output, changes, undo_at, wide=wide)
    if changes and not dry_run:
        output.line(f"committed {count_text(len(changes), 'offset')} of {name_text(group)} again")
        if undo_at is not None:
            output.line(undo_text(changes, undo_at, whole_group=not topics))
    elif not changes:
        output.line("nothing would come back" if dry_run else "nothing came back")
    return max(code, _tell_lost(group, _named(would.lost, selection)))


def _named(lost: list[Deletion], selection: set[str | TopicPartition]) -> list[Deletion]:
    return [each for each in lost if is_selected(TopicPartition(each.topic, each.partition), selection)]
