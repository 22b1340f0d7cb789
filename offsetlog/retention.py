"""Returns the rows of `OffsetStore.expiring` as objects, for callers of a store (docs/retention.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetlog.types import Expiring

if TYPE_CHECKING:
    import pyarrow


def listed(table: pyarrow.Table) -> list[Expiring]:
    """Returns the rows of `OffsetStore.expiring` as objects.  The first row is the one that expires soonest."""
    columns = [table[name].to_pylist() for name in Expiring._fields]
    rows = [Expiring(*row) for row in zip(*columns, strict=True)]
    # The row of a whole group must follow the row of its last position.
    return sorted(rows, key=_order)


def _order(row: Expiring) -> tuple[int, str, bool, str, int]:
    return (row.expires_at or 0, row.group, row.topic is None, row.topic or "", row.partition or 0)
