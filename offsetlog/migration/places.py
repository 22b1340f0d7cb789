"""The interfaces through which a migration reads and writes places that keep committed offsets."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from offsetlog.types import TopicPartition
from offsetlog.zookeeper.group_nodes import GroupNodes


class Held(NamedTuple):
    """A committed position as a place stores it.

    Attributes:
        offset: the committed offset.
        leader_epoch: the committed leader epoch; -1 for none.
        metadata: the committed metadata; "" for none.
        expire_timestamp: when the position expires, in ms since 1970; -1 for none.
        version: the version of the position's node in ZooKeeper; -1 elsewhere.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp: int = -1
    version: int = -1


class Refused(NamedTuple):
    """Something that cannot be migrated.

    Attributes:
        place: where the refused node or row is, such as the path of the node; "" if group, topic and partition say
            this.
        group: the name of the group.
        topic: the topic; "" if the whole group is refused.
        partition: the partition as stored; "" if the whole topic is refused.
        offset: the offset as stored, or None.
        reason: why the migration refuses it, in one sentence.
    """

    place: str
    group: str
    topic: str
    partition: str
    offset: str | None
    reason: str


@dataclass(slots=True)
class GroupOffsets:
    """A group, as read from a place.

    Attributes:
        group: the name of the group.
        offsets: the positions that could be read.
        refused: the positions that could not be read.
        is_closed: the reason why no position of the group can be written; "" if positions can be written.
        is_lost: whether the log partition of the group has lost data, and therefore accepts no commits.
        has_consumers: whether the group has live consumers, which may commit during the migration.
        nodes: the nodes of the group in ZooKeeper; None if the place is a directory.
    """

    group: str
    offsets: dict[TopicPartition, Held] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    is_closed: str = ""
    is_lost: bool = False
    has_consumers: bool = False
    nodes: GroupNodes | None = None


class Change(NamedTuple):
    """A position to write: the new value, and the value that the target has now, or None if the target has none."""

    key: TopicPartition
    held: Held
    current: Held | None


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """The changes of one group, which may be empty.  Either all of the changes are written or none.

    Attributes:
        changes: the changes, one per position.
        target: the group, as read from the target.
    """

    changes: list[Change]
    target: GroupOffsets

    @property
    def group(self) -> str:
        """The group's name."""
        return self.target.group


class Fate(enum.Enum):
    """The outcome of a write.

    * MADE: the write was applied.
    * REFUSED: the write was refused for any reason other than CHANGED.
    * CHANGED: the write was refused because the target had changed since it was read.
    * UNKNOWN: the write may have been applied; its answer was lost.
    """

    MADE = enum.auto()
    REFUSED = enum.auto()
    CHANGED = enum.auto()
    UNKNOWN = enum.auto()


class Written(NamedTuple):
    """A write and its outcome.

    Attributes:
        write: the changes that were to be written.
        fate: the outcome of the write.
        reason: the reason why the write was refused; "" otherwise.
        refused: the refused positions if only part of the write was refused; None if all of it was refused.
    """

    write: GroupWrite
    fate: Fate
    reason: str = ""
    refused: frozenset[TopicPartition] | None = None


class Source(Protocol):
    """A place to read from.

    Attributes:
        has: those of the fields leader_epoch, metadata and expire_timestamp that the place can contain.
        incomplete: the losses and the damage in the place that were accepted.
    """

    has: frozenset[str]
    incomplete: tuple[str, ...]

    def groups(self) -> list[str]:
        """Returns the groups that have positions in this place, sorted."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; a group that does not exist has no positions."""
        ...


class Target(Protocol):
    """A place to write to.

    Attributes:
        keeps: those of the fields leader_epoch, metadata and expire_timestamp that the place stores.
        incomplete: the losses and the damage in the place that were accepted.
    """

    incomplete: tuple[str, ...]
    keeps: frozenset[str]

    def prepare(self, *, dry_run: bool) -> None:
        """Checks that the place can store groups.  Unless this is a dry run, creates missing nodes."""
        ...

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns the reason why this place cannot store positions with these names, or None."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; a group that does not exist has no positions."""
        ...

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Executes the writes in any order; yields each write once its outcome is known.

        Each write is applied as a whole or not at all.  If the place was asked to split writes that are too large for
        one request, part of such a write may be applied.
        """
        ...
