"""Facts about a group besides its committed offsets: members, group records, pending offsets.

The store does not decode group records, so the facts are read from the group's log partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import offsetlog
from offsetlog._native.codec import partition_for
from offsetlog._native.files import FileSystem
from offsetlog._native.records import decode_key, decode_value
from offsetlog.cli.output import complain, count_text
from offsetlog.cli.text import name_text
from offsetlog.directory.listing import decode_text, group_rows
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.directory.reading import PartitionState, find_partitions, read_state
from offsetlog.errors import CorruptionError, InsideCommitError, OffsetOutOfRangeError
from offsetlog.moments import Moment
from offsetlog.types import OffsetAndMetadata, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Facts about a group, from the log of its partition.

    Attributes:
        group: the group's name.
        members: how many members the group's records name.
        records: how many group records it has.
        is_readable: whether all group records can be decoded; if not, the group's members are unknown.
        pending: how many pending offsets the group has in open transactions.
    """

    group: str
    members: int = 0
    records: int = 0
    is_readable: bool = True
    pending: int = 0

    @property
    def in_use(self) -> str | None:
        """Why a change of the group needs --force, as a sentence; None if it needs no --force."""
        if self.members:
            return f"group {name_text(self.group)} has {count_text(self.members, 'member')} that may go on committing"
        if not self.is_readable:
            name = name_text(self.group)
            return f"group {name} has a record that cannot be read, so the members of the group are unknown"
        return None


def read_partition(path: Path, number: int) -> PartitionState | None:
    """Reads the state of a log partition from its files; returns None if the partition is missing.

    Raises the same errors as `read_state`.
    """
    for files in find_partitions(path):
        if files.number == number:
            return read_state(files)
    return None


def facts_in(state: PartitionState, group: str) -> GroupFacts:
    """Returns the facts about a group from the state of its log partition."""
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


def complain_unknown(group: str, path: Path | str, number: int | None = None) -> int:
    """Reports that a log does not contain a group; returns the exit code for this case.

    Args:
        group: the group.
        path: the log directory; for several directories, one text with their names.
        number: the log partition of the group; None if the caller does not know it.
    """
    if number is not None and number in absent_partitions(Path(path), number + 1):
        complain(
            f"log partition {number} of group {name_text(group)} is not in {path}: a broker has only the partitions "
            f"that it replicates; use another log directory of this broker, or a broker that has log partition {number}"
        )
    else:
        hint = _may_be_elsewhere(path) if number is None and isinstance(path, Path) else ""
        complain(f"there is no group {name_text(group)} in {path}{hint}")
    return 1


def _may_be_elsewhere(path: Path) -> str:
    # The number of partitions is not known, only that it is higher than that of each partition here.
    present = LogDirectory(path, FileSystem()).partition_numbers()
    absent = absent_partitions(path, max(present, default=-1) + 1)
    if not absent:
        return ""
    return (
        f", which has {count_text(len(present), 'log partition')} and lacks at least {len(absent)}: a broker has only "
        "the log partitions that it replicates, and the group may be in a log partition that is missing here"
    )


def absent_partitions(path: Path, count: int) -> list[int]:
    """Returns the log partitions below `count` that are missing from a broker's directory.

    The list is empty for a directory of offsetlog, because there the first write to a log partition creates it.
    """
    directory = LogDirectory(path, FileSystem())
    if not directory.is_from_broker():
        return []
    present = {*directory.partition_numbers()}
    return [number for number in range(count) if number not in present]


def number_of(store: offsetlog.OffsetStore, group: str) -> int:
    """Returns the log partition of a group."""
    return partition_for(group.encode(), store.partitions)


def is_known(store: offsetlog.OffsetStore, group: str) -> bool:
    """Returns whether the group has committed offsets, pending offsets or a group record.

    Raises the same errors as `read_state`.
    """
    if store.fetch(group):
        return True
    facts = facts_of(store, group)
    return bool(facts.records or facts.pending)


def fetch_at(
    store: offsetlog.OffsetStore, group: str, moment: Moment | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the committed positions of a group at a moment.

    If the log does not contain the group, the result is empty, even if `moment` is a log offset that the group's log
    partition does not have.  The caller can then report a mistyped name instead of a wrong log offset.  Otherwise this
    function raises the same errors as `OffsetStore.fetch`.
    """
    try:
        return store.fetch(group, at=moment)
    except (InsideCommitError, OffsetOutOfRangeError):
        if is_known(store, group) or any(store.group_history(group).values()):
            raise
        return {}


def is_listed(path: Path, group: str) -> bool:
    """Returns whether `offsetlog groups` lists the group; raises the errors of `find_partitions` and `read_state`."""
    states = [read_state(each) for each in find_partitions(path)]
    return any(row["group"] == group for row in group_rows(states))


def facts_of(store: offsetlog.OffsetStore, group: str) -> GroupFacts:
    """Returns the facts about a group in a store that has no other writer; raises the same errors as `read_state`."""
    state = read_partition(store.path, number_of(store, group))
    return GroupFacts(group) if state is None else facts_in(state, group)
