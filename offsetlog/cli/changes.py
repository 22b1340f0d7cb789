"""Prints, selects and describes the changes between two states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from offsetlog._native.files import format_uuid
from offsetlog.cli.columns import columns, shown_as
from offsetlog.cli.consent import Effect
from offsetlog.cli.group_facts import GroupFacts
from offsetlog.cli.output import Output, count_text
from offsetlog.cli.positions import is_selected
from offsetlog.cli.text import name_text
from offsetlog.types import Change, OffsetAndMetadata, TopicPartition


def _step_text(step: int | None) -> str:
    return "-" if step is None else f"{step:+d}"


COLUMNS = shown_as(columns("diff"), "step", show=_step_text)
_UNDOABLE = shown_as(columns("restore"), "step", show=_step_text)


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
    """Yields changes as rows of COLUMNS; the fields of a missing value are None."""
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
    """Returns the changes of the selected topics and partitions; an empty selection returns all changes."""
    return [each for each in changes if is_selected(TopicPartition(each.topic, each.partition), selection)]


def keys_of(changes: Iterable[Change]) -> list[TopicPartition]:
    """Returns the topic partitions that change."""
    return [TopicPartition(each.topic, each.partition) for each in changes]


def what_text(changes: list[Change]) -> str:
    """Returns a summary such as "commit 3 offsets and delete 1 offset"."""
    back = sum(each.after is not None for each in changes)
    parts = [f"commit {count_text(back, 'offset')}"] if back else []
    if len(changes) > back:
        parts.append(f"delete {count_text(len(changes) - back, 'offset')}")
    return " and ".join(parts)


def _offset_text(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def name_change(row: dict[str, Any]) -> str:
    """Converts a row of `change_rows` to text for a sentence, such as "orders:0 42 -> none"."""
    place = f"{name_text(row['topic'])}:{row['partition']}"
    before, after = row["offset_before"], row["offset_after"]
    if before == after:
        return f"{place} {before} with other metadata"
    return f"{place} {_offset_text(before)} -> {_offset_text(after)}"


def effect_of(deed: str, changes: Iterable[Change], *facts: GroupFacts, loses: str | None = None) -> Effect:
    """Returns the effect of a command that makes these changes.

    The command needs --force if one of the `facts` says that its group is in use, or if `loses` gives a reason.
    """
    in_use = tuple(each.in_use for each in facts if each.in_use is not None)
    if loses is not None:
        in_use += (loses,)
    return Effect(deed, COLUMNS, [*change_rows(changes)], name_change, in_use=in_use)


def show_done(output: Output, changes: list[Change], undo_at: int | None, *, wide: bool) -> None:
    """Prints the changes of a command that can be undone; without changes, prints only the heading in TSV and CSV."""
    if changes or not output.is_text:
        rows = ({**row, "undo_at": undo_at} for row in change_rows(changes))
        output.rows(_UNDOABLE, rows, "", wide=wide)


def undo_text(changes: list[Change], undo_at: int, *, whole_group: bool) -> str:
    """Returns how to undo these changes of one group: which restore does it, and whether that needs --force."""
    named = "the group" if whole_group else "the same topics"
    # An undo that only deletes may delete all offsets of the group, and without --force such a restore is refused.
    forced = " (add --force if the group then has no offsets)" if all(each.before is None for each in changes) else ""
    return f"to undo these changes, restore {named} with --at offset:{undo_at}{forced}"
