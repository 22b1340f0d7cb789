"""`offsetlog delete`: deletes offsets of a group, or the whole group."""

from __future__ import annotations

from typing import Annotated

import typer

from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath, Wide
from offsetlog.cli.changes import effect_of
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import ASKS, Consent, DryRun, Force, Yes
from offsetlog.cli.group_facts import GroupFacts, complain_unknown, facts_of, is_known, number_of
from offsetlog.cli.moments import aged_text
from offsetlog.cli.output import Format, Output, count_text
from offsetlog.cli.positions import is_selected, parse_selection
from offsetlog.cli.refusals import refusals_of
from offsetlog.cli.stores import LockTimeout, PartitionCount
from offsetlog.cli.text import name_text
from offsetlog.types import Change, OffsetAndMetadata

HELP = f"""Delete offsets of a group; without topics, delete the whole group with its group metadata.

{ASKS} If the group has members, the command needs --force, because a
broker would refuse the deletion. A deletion writes tombstones. The offsets disappear from the log when it is compacted.
Until then, `offsetlog undelete` brings them back.

Exit codes: 0 done, or nothing to do; 1 refused, or there is no such group; 2 could not be done.

\b
Examples:
  offsetlog delete data billing orders:0        one offset
  offsetlog delete data billing orders          every offset of a topic
  offsetlog delete data billing --dry-run       what deleting the whole group would delete
  offsetlog delete data billing --yes           the whole group, without a question
"""


def _counted(facts: GroupFacts) -> list[str]:
    # Deleting the whole group deletes these, too, besides its committed offsets.
    parts = [count_text(facts.records, "record") + " of the group itself"] if facts.records else []
    if facts.pending:
        parts.append(f"{count_text(facts.pending, 'pending offset')} of open transactions")
    return parts


def _deed(group: str, values: list[OffsetAndMetadata], facts: GroupFacts, *, whole: bool) -> str:
    offsets = count_text(len(values), "committed offset")
    if whole:
        deed = f"delete the whole group {name_text(group)}: {', '.join([offsets, *_counted(facts)])}"
    else:
        deed = f"delete {offsets} of group {name_text(group)}"
    newest = max((value.commit_timestamp for value in values), default=-1)
    return deed if newest < 0 else f"{deed}, last committed {aged_text(newest)}"


def command(
    path: StorePath,
    group: GroupName,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:PARTITION]",
            help="Delete only the offsets of these topics or partitions.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    partitions: PartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Deletes the offsets or the group; returns the exit code."""
    selection = {parse_selection(text) for text in topics or []}
    output = Output(form)
    consent = Consent(yes, force=force, dry_run=dry_run, wide=wide)
    deleted = 0
    code = 0
    if unknown := consent.look_for(path, partitions, group, is_known):
        return unknown
    with consent.open(path, partitions, lock_timeout) as store:
        values = {key: value for key, value in sorted(store.fetch(group).items()) if is_selected(key, selection)}
        facts = facts_of(store, group)
        deed = _deed(group, [*values.values()], facts, whole=not selection)
        effect = effect_of(deed, [Change(group, *key, value, None) for key, value in values.items()], facts)
        is_something = bool(values) or (not selection and bool(facts.records or facts.pending))
        if not is_something and not is_known(store, group):
            return complain_unknown(group, path, number_of(store, group))
        if dry_run and is_something:
            code = consent.show(output, effect, refusals_of(store, path, partitions, [number_of(store, group)]))
        elif is_something:
            consent.ask(effect)
            deleted = store.delete(group, [*values] if selection else None)
    if not dry_run:
        output.result(columns("delete"), {"group": group, "deleted_offsets": deleted})
    if not is_something:
        output.line("there is nothing to delete")
    elif not dry_run:
        others = "".join(f", and {each}" for each in ([] if selection else _counted(facts)))
        output.line(f"deleted {count_text(len(values), 'offset')} of {name_text(group)}{others}")
    return code
