"""`offsetlog delete`: deletes offsets of a group, or the whole group."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath
from offsetlog.cli.fetch import is_selected
from offsetlog.cli.members import count_members
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.positions import parse_selection
from offsetlog.cli.stores import PartitionCount, open_writable
from offsetlog.cli.text import name_text

HELP = """Delete offsets of a group; without topics the whole group, with its own records.

On a terminal the whole group is deleted only after a question, also one with members, which a broker would refuse.
What is deleted is marked so in the log (tombstones) and disappears from it when it is compacted.

\b
Examples:
  offsetlog delete data billing orders:0        one offset
  offsetlog delete data billing orders          every offset of a topic
  offsetlog delete data billing --yes           the whole group, without a question
"""


def _ask(group: str, positions: int, members: int) -> None:
    what = f"group {name_text(group)} with {count_text(positions, 'committed offset')}"
    if members:
        what += f" and {count_text(members, 'member')}"
    if not typer.confirm(f"Delete the {what}?", err=True):
        raise typer.Abort


def command(
    path: StorePath,
    group: GroupName,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC[:PARTITION]", help="Only these.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    partitions: PartitionCount = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Deletes; returns the exit code."""
    selection = {parse_selection(text) for text in topics or []}
    output = Output(form)
    with open_writable(path, partitions, "disk", create=False) as store:
        chosen = [key for key in store.fetch(group) if is_selected(key, selection)]
        if selection:
            deleted = store.delete(group, chosen)
        else:
            members = count_members(store, group)
            if not yes and sys.stdin.isatty():
                _ask(group, len(chosen), members)
            deleted = store.delete(group)
            if members:
                complain(f"group {name_text(group)} had {count_text(members, 'member')}; a broker would have refused")
    if output.is_json:
        output.object({"group": group, "deleted": deleted})
    line = f"deleted {count_text(len(chosen), 'offset')} of {name_text(group)}"
    if deleted > len(chosen):
        line += f", and {count_text(deleted - len(chosen), 'record')} of the group itself"
    output.line(line if deleted else "there was nothing to delete")
    return 0
