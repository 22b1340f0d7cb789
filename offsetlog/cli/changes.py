"""Changes between two states: how they are printed, picked and asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import typer

import offsetlog
from offsetlog._native.files import format_uuid
from offsetlog.cli.fetch import is_selected
from offsetlog.cli.layout import Column
from offsetlog.cli.members import count_members
from offsetlog.cli.output import Output, complain, count_text
from offsetlog.cli.text import name_text, time_text
from offsetlog.types import Change, OffsetAndMetadata, TopicPartition


def _epoch_text(epoch: int | None) -> str:
    return "-" if epoch in (None, -1) else str(epoch)


def _step_text(step: int | None) -> str:
    return "-" if step is None else f"{step:+d}"


COLUMNS = [
    Column("group"),
    Column("topic"),
    Column("partition", right=True),
    Column("offset_before", "before", right=True),
    Column("offset_after", "after", right=True),
    Column("step", show=_step_text, right=True),
    Column("metadata_before", rank=1),
    Column("metadata_after", rank=1),
    Column("leader_epoch_before", "epoch before", _epoch_text, right=True, rank=2),
    Column("leader_epoch_after", "epoch after", _epoch_text, right=True, rank=2),
    Column("commit_timestamp_before", "committed before (UTC)", time_text, rank=2),
    Column("commit_timestamp_after", "committed after (UTC)", time_text, rank=2),
    Column("topic_id_before", rank=2),
    Column("topic_id_after", rank=2),
]


def _fields(value: OffsetAndMetadata | None, when: str) -> dict[str, Any]:
    if value is None:
        names = ("offset", "metadata", "leader_epoch", "commit_timestamp", "topic_id")
        return {f"{name}_{when}": None for name in names}
    return {
        f"offset_{when}": value.offset,
        f"metadata_{when}": value.metadata,
        f"leader_epoch_{when}": value.leader_epoch,
        f"commit_timestamp_{when}": value.commit_timestamp,
        f"topic_id_{when}": None if value.topic_id is None else format_uuid(value.topic_id.bytes),
    }


def change_rows(changes: Iterable[Change]) -> Iterator[dict[str, Any]]:
    """Yields changes as rows of COLUMNS; what is not there has None in every field."""
    for group, topic, partition, before, after in changes:
        step = None if before is None or after is None else after.offset - before.offset
        yield {
            "group": group,
            "topic": topic,
            "partition": partition,
            "step": step,
            **_fields(before, "before"),
            **_fields(after, "after"),
        }


def selected(changes: Iterable[Change], selection: set[str | TopicPartition]) -> list[Change]:
    """Returns the changes of what was named; without names all."""
    return [each for each in changes if is_selected(TopicPartition(each.topic, each.partition), selection)]


def keys_of(changes: Iterable[Change]) -> list[TopicPartition]:
    """Returns where the changes are."""
    return [TopicPartition(each.topic, each.partition) for each in changes]


def what_text(changes: list[Change]) -> str:
    """Returns what they do, as "commit 3 offsets and delete 1 offset"."""
    back = sum(each.after is not None for each in changes)
    parts = [f"commit {count_text(back, 'offset')}"] if back else []
    if len(changes) > back:
        parts.append(f"delete {count_text(len(changes) - back, 'offset')}")
    return " and ".join(parts)


def show(output: Output, changes: list[Change], *, wide: bool) -> None:
    """Prints changes; of none only where JSON is wanted, which then has no line."""
    if changes:
        output.rows(COLUMNS, change_rows(changes), "", wide=wide)


def confirm(
    output: Output, store: offsetlog.OffsetStore, group: str, changes: list[Change], *, yes: bool, wide: bool
) -> None:
    """Shows what is about to be written, and on a terminal asks for it; raises typer.Abort where it is not wanted."""
    members = count_members(store, group)
    if members:
        complain(f"group {name_text(group)} has {count_text(members, 'member')}, who may go on committing")
    if not output.is_json:
        show(output, changes, wide=wide)
    if yes or not sys.stdin.isatty():
        return
    question = what_text(changes)
    if not typer.confirm(f"{question[0].upper()}{question[1:]} of group {name_text(group)}?", err=True):
        raise typer.Abort
