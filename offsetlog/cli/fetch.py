"""`offsetlog fetch`: the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog._native.files import format_uuid
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.group_facts import complain_unknown, fetch_at, is_known, number_of
from offsetlog.cli.moments import MOMENTS, moment_text
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.positions import is_selected, parse_selection
from offsetlog.cli.stores import PartitionCount
from offsetlog.cli.text import name_text
from offsetlog.moments import parse_moment
from offsetlog.types import OffsetAndMetadata, TopicPartition

HELP = f"""Print the committed offsets of one group, as the store returns them.

The command only reads PATH. If no topics are given, it prints all offsets of the group.

With --at, it prints the offsets as of a moment. {MOMENTS} `now` is a moment, too.

Exit codes: 0 done, 1 there is no such group, a requested topic or partition has no
committed offset, or damage was found, 2 could not be read.

\b
Examples:
  offsetlog fetch data billing
  offsetlog fetch data billing orders:0 invoices
  offsetlog fetch data billing orders:0 --format json
  offsetlog fetch data billing --at -2h
"""


def _rows(group: str, found: dict[TopicPartition, OffsetAndMetadata]) -> Iterator[dict[str, Any]]:
    for key in sorted(found):
        value = found[key]
        yield {
            "group": group,
            "topic": key.topic,
            "partition": key.partition,
            "offset": value.offset,
            "leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
            "commit_timestamp": value.commit_timestamp,
            "expire_timestamp": value.expire_timestamp,
            "topic_id": None if value.topic_id is None else format_uuid(value.topic_id.bytes),
        }


def command(
    path: StorePath,
    group: GroupName,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:PARTITION]",
            help="Print only the offsets of these topics or partitions.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="MOMENT", help="Print the positions as of this moment.", show_default=False),
    ] = None,
    partitions: PartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the offsets; returns the exit code."""
    selection = {parse_selection(text): text for text in topics or []}
    moment = None if at is None else parse_moment(at)
    with offsetlog.open(path, partitions, read_only=True) as store:
        fetched = fetch_at(store, group, moment)
        found = {key: value for key, value in fetched.items() if is_selected(key, set(selection))}
        problems = store.problems()
        number = number_of(store, group)
        is_unknown = not found and not is_known(store, group)
    output = Output(form)
    if found or not output.is_text:
        output.rows(columns("fetch"), _rows(group, found), "", wide=wide)
    verb = "is" if moment is None else "was"
    missing = [text for each, text in selection.items() if not any(is_selected(key, {each}) for key in found)]
    if is_unknown:
        complain_unknown(group, path, number)
    elif not found and not selection:
        by_then = "" if moment is None else f" by then ({moment_text(moment)})"
        complain(f"no offset of group {name_text(group)} {verb} committed{by_then}")
    else:
        for text in missing:
            complain(f"group {name_text(group)}: no offset of {text} {verb} committed")
    for problem in problems:
        complain(str(problem))
    return 1 if problems or missing or not found else 0
