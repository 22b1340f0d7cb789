"""`offsetlog fetch`: the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog._native.files import format_uuid
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath
from offsetlog.cli.output import Column, Format, Output, complain, name_text, time_text
from offsetlog.cli.positions import parse_selection
from offsetlog.types import OffsetAndMetadata, TopicPartition

HELP = """Print the committed offsets of one group, as the store answers them.

PATH is only read. Without topics all offsets of the group are printed.

\b
Examples:
  offsetlog fetch data billing
  offsetlog fetch data billing orders:0 invoices
  offsetlog fetch data billing orders:0 --format json
"""

COLUMNS = [
    Column("topic", wide=True),
    Column("partition", right=True),
    Column("offset", right=True),
    Column("leader_epoch", "epoch", lambda epoch: "-" if epoch == -1 else str(epoch), right=True),
    Column("metadata", wide=True),
    Column("commit_timestamp", "committed (UTC)", time_text),
    Column("expire_timestamp", "expires (UTC)", time_text, narrow=False),
    Column("topic_id", narrow=False),
]


def is_selected(key: TopicPartition, selection: set[str | TopicPartition]) -> bool:
    """Tells whether a partition is among those that were named; without names all are."""
    return not selection or key in selection or key.topic in selection


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
        list[str] | None, typer.Argument(metavar="TOPIC[:PARTITION]", help="Only these.", show_default=False)
    ] = None,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the offsets; returns the exit code."""
    selection = {parse_selection(text) for text in topics or []}
    with offsetlog.open(path, read_only=True) as store:
        found = {key: value for key, value in store.fetch(group).items() if is_selected(key, selection)}
        problems = store.problems()
    if found or form is Format.JSON:
        Output(form).rows(COLUMNS, _rows(group, found), "")
    if not found:
        complain(f"nothing is committed for {name_text(group)}{' there' if selection else ''}")
    for problem in problems:
        complain(str(problem))
    return 1 if problems else 0
