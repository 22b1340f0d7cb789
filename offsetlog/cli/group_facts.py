"""Facts about a group beside its committed offsets: members, records of its own, pending offsets.

The store does not know what the records of a group say; the log of its partition does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import offsetlog
from offsetlog._native.codec import partition_for
from offsetlog._native.records import decode_key, decode_value
from offsetlog.cli.output import complain, count_text
from offsetlog.cli.text import name_text
from offsetlog.directory.listing import decode_text, group_rows
from offsetlog.directory.reading import PartitionState, find_partitions, read_state
from offsetlog.errors import CorruptionError


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Facts about a group, from the log of its partition.

    Attributes:
        group: its name.
        members: how many its records name.
        records: how many it has of its own.
        is_readable: whether each of these can be decoded; otherwise nobody knows its members.
        pending: how many offsets open transactions hold for it.
    """

    group: str
    members: int = 0
    records: int = 0
    is_readable: bool = True
    pending: int = 0

    @property
    def in_use(self) -> str | None:
        """Why it takes --force to change the group, as a sentence; None where it does not."""
        if self.members:
            return f"group {name_text(self.group)} has {count_text(self.members, 'member')}, who may go on committing"
        if not self.is_readable:
            return f"group {name_text(self.group)} has a record that cannot be read, so that nobody knows its members"
        return None


def read_partition(path: Path, number: int) -> PartitionState | None:
    """Returns what the files of a log partition say, None where there is none; raises as `read_state`."""
    for files in find_partitions(path):
        if files.number == number:
            return read_state(files)
    return None


def facts_in(state: PartitionState, group: str) -> GroupFacts:
    """Returns the facts about a group of a log partition."""
    records, is_readable = 0, True
    for key, value, _ in state.replay.group_records():
        decoded = decode_key(key)
        if decoded is None or group not in (decoded["data"].get("group"), decoded["data"].get("groupId")):
            continue
        records += 1
        try:
            decode_value(int(decoded["type"]), value)
        except CorruptionError:
            is_readable = False
    members = sum(len(row["members"]) for row in group_rows([state]) if row["group"] == group)
    pending = sum(
        decode_text(each[0]) == group
        for producer_id, *_ in state.replay.transactions()
        for each in state.replay.pending(producer_id)
    )
    return GroupFacts(group, members, records, is_readable, pending)


def complain_unknown(group: str, path: Path | str) -> int:
    """Reports that a log knows nothing of a group; returns the exit code of every command that names one."""
    complain(f"there is no group {name_text(group)} in {path}")
    return 1


def is_known(store: offsetlog.OffsetStore, group: str) -> bool:
    """Returns whether the group has committed or pending offsets or a record of its own; raises as `read_state`."""
    if store.fetch(group):
        return True
    facts = facts_of(store, group)
    return bool(facts.records or facts.pending)


def is_listed(path: Path, group: str) -> bool:
    """Returns whether `offsetlog groups` lists the group; raises as `find_partitions` and `read_state`."""
    states = [read_state(each) for each in find_partitions(path)]
    return any(row["group"] == group for row in group_rows(states))


def facts_of(store: offsetlog.OffsetStore, group: str) -> GroupFacts:
    """Returns the facts about a group of a store, which has no other writer; raises as `read_state`."""
    state = read_partition(store.path, partition_for(group.encode(), store.partitions))
    return GroupFacts(group) if state is None else facts_in(state, group)
