"""Computes the log offsets at which the records of positions took effect, for columns of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offsetlog.spark.in_effect import NEVER, counts_from, in_effect_from

#: The columns that `effective_offsets` reads.
NEEDED = ("group", "topic", "partition", "log_offset", "kind", "outcome", "marker_offset")


def effective_offsets(table: Any) -> Any:
    """Returns for each record the log offset from which on it was the value of its position; null if it never was.

    The rule is in `offsetlog.spark.in_effect`.

    Args:
        table: a pyarrow.Table with the columns NEEDED, in log order.  It must contain all records of each of its keys.
    """
    count = table.num_rows
    if count == 0:
        return pa.array([], pa.int64())
    counts = counts_from(
        equals(table.column("kind"), "delete"),
        lambda outcome: equals(table.column("outcome"), outcome),
        _integers(table.column("log_offset")),
        _integers(table.column("marker_offset")),
        np.where,
    )
    effective = in_effect_from(counts, _least_of_later(_key_numbers(table), counts), np.where)
    return pa.array(effective, pa.int64(), mask=effective == NEVER)


def _integers(column: Any) -> npt.NDArray[np.int64]:
    filled = pc.fill_null(column, NEVER)
    return np.asarray(filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled, dtype=np.int64)


def equals(column: Any, text: str) -> npt.NDArray[np.bool_]:
    """Returns for each row of an Arrow column of strings whether it equals `text`; False if it is null."""
    return np.asarray(pc.fill_null(pc.equal(column, text), False), dtype=np.bool_)


def _key_numbers(table: Any) -> npt.NDArray[np.int64]:
    """Returns a number for each row, which is equal for rows with the same group, topic and partition."""
    numbers = np.zeros(table.num_rows, np.int64)
    for name in ("group", "topic", "partition"):
        codes = table.column(name).combine_chunks().dictionary_encode()
        indices = np.asarray(pc.fill_null(codes.indices, -1), dtype=np.int64) + 1
        # The numbers are made dense after each step, so that the products never overflow.
        numbers = np.unique(numbers * (len(codes.dictionary) + 1) + indices, return_inverse=True)[1].reshape(-1)
    return numbers


def _least_of_later(keys: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns for each row the smallest value of the later rows with the same key; NEVER if there is no later row."""
    count = len(keys)
    order = np.argsort(keys, kind="stable")
    grouped = keys[order]
    known, ranks = np.unique(np.append(values, NEVER), return_inverse=True)
    ranks = ranks.reshape(-1)[:count][order]
    # The rows are read backwards.  The values of each key are shifted below those of the key read before it, so that
    # the running minimum restarts at each key.
    fall = (int(grouped[-1]) - grouped) * (len(known) + 1)
    running = np.minimum.accumulate((ranks - fall)[::-1])[::-1] + fall
    behind = np.full(count, len(known) - 1, np.int64)
    same = grouped[1:] == grouped[:-1]
    behind[:-1][same] = running[1:][same]
    least = np.empty(count, np.int64)
    least[order] = known[behind]
    return least
