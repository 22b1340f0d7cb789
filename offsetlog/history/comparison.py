"""The differences between two states of different logs, such as a directory and its backup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from offsetlog.types import Change, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow

_KEY = ("group", "topic", "partition")
_VALUE = ("offset", "metadata", "leader_epoch", "commit_timestamp", "expire_timestamp", "topic_id")
#: The columns that are compared; times are not (docs/history.md).
_COMPARED = ("offset", "metadata", "leader_epoch", "topic_id")


def compare_group(
    group: str,
    before: Mapping[TopicPartition, OffsetAndMetadata],
    after: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[Change]:
    """Returns the positions of one group that differ between two states, sorted."""
    pairs = ((key, before.get(key), after.get(key)) for key in sorted({*before, *after}))
    return [Change(group, *key, old, new) for key, old, new in pairs if not _is_same(old, new)]


def compare_tables(before: pyarrow.Table, after: pyarrow.Table) -> list[Change]:
    """Returns the positions that differ between two states, sorted.

    Args:
        before: a table such as `OffsetStore.to_arrow` returns.
        after: another such table.
    """
    joined = _side(before, "before").join(_side(after, "after"), [*_KEY], join_type="full outer")
    changes = (_change_of(row) for batch in _unequal(joined).to_batches(1 << 14) for row in batch.to_pylist())
    return sorted((each for each in changes if not _is_same(each.before, each.after)), key=lambda each: each[:3])


def _is_same(before: OffsetAndMetadata | None, after: OffsetAndMetadata | None) -> bool:
    """Returns whether two values are equal.  Topic ids are compared only if both values have one."""
    if before is None or after is None:
        return before is after
    one_lacks_id = before.topic_id is None or after.topic_id is None
    return before[:3] == after[:3] and (one_lacks_id or before.topic_id == after.topic_id)


def _side(table: pyarrow.Table, name: str) -> pyarrow.Table:
    """Returns one side of the join: the key columns, and the other columns with `name` as a prefix of their names."""
    import pyarrow

    def plain(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
        # The join takes no dictionaries.
        return column.cast(column.type.value_type) if pyarrow.types.is_dictionary(column.type) else column

    columns = {each: plain(table.column(each)) for each in _KEY}
    return pyarrow.table(columns | {f"{name}_{each}": plain(table.column(each)) for each in _VALUE})


def _unequal(joined: pyarrow.Table) -> pyarrow.Table:
    """Returns the rows that exist on one side only, and the rows in which a compared column may differ."""
    import pyarrow.compute as pc

    def or_all(masks: Iterable[Any]) -> Any:
        first, *others = masks
        for each in others:
            first = pc.or_(first, each)
        return first

    pairs = {each: (joined.column(f"before_{each}"), joined.column(f"after_{each}")) for each in _COMPARED}
    # A null is a missing row, which the offset shows, or a topic id that is not known.
    masks = (pc.fill_null(pc.not_equal(*pair), name == "offset") for name, pair in pairs.items())
    return joined.filter(or_all(masks))


def _change_of(row: Mapping[str, Any]) -> Change:
    return Change(row["group"], row["topic"], row["partition"], _value_of(row, "before"), _value_of(row, "after"))


def _value_of(row: Mapping[str, Any], side: str) -> OffsetAndMetadata | None:
    values = {each: row[f"{side}_{each}"] for each in _VALUE}
    if values["offset"] is None:
        return None
    topic_id = values.pop("topic_id")
    return OffsetAndMetadata(**values, topic_id=None if topic_id is None else UUID(bytes=topic_id))
