"""Who is in a group, as the log tells it."""

from __future__ import annotations

import offsetlog
from offsetlog._native.codec import partition_for
from offsetlog.directory.listing import group_rows
from offsetlog.directory.reading import find_partitions, read_state


def count_members(store: offsetlog.OffsetStore, group: str) -> int:
    """Returns how many members a group's own records name.

    The store does not know what these records say; the log of its partition does.
    """
    number = partition_for(group.encode(), store.partitions)
    for files in find_partitions(store.path):
        if files.number == number:
            return sum(len(row["members"]) for row in group_rows([read_state(files)]) if row["group"] == group)
    return 0
