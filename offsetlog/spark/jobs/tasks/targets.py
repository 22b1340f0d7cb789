"""The log partition of a group."""

from __future__ import annotations

import pyarrow as pa

from offsetlog._native.codec import partition_for


def partitions_of(groups: pa.Array, counts: pa.Array) -> pa.Array:
    """Returns the log partition of each group as an int column; null for a null group.

    Source: docs/format/partitioning.md §4.

    Args:
        groups: an Arrow column of names.
        counts: an Arrow column with the number of partitions, which is the same in every row.
    """
    if len(groups) == 0:
        return pa.array([], pa.int32())
    count = counts[0].as_py()
    encoded = groups.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    numbers = [partition_for(name, count) for name in encoded.dictionary.to_pylist()]
    return pa.array(numbers, pa.int32()).take(encoded.indices)


def partition_of(group: str | None, count: int) -> int | None:
    """Returns the log partition of one group; None for None.  Spark calls this function for each row."""
    return None if group is None else partition_for(group, count)
