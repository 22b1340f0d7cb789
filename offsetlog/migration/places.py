"""The interfaces through which a migration reads and writes places that keep committed offsets."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from offsetlog.types import TopicPartition
from offsetlog.zookeeper.group_nodes import GroupNodes


class Held(NamedTuple):
    """A committed position in a place.

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
        place: the location, such as the path of a node; "" if group, topic and partition identify it.
        group: the group's name.
        topic: the topic; "" for the whole group.
        partition: the partition as stored; "" for the whole topic.
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
        group: the group's name.
        offsets: the readable positions.
        refused: the unreadable positions.
        is_closed: why no position of the group can be written; "" if positions can be written.
        is_lost: whether the group's log partition lost data and so accepts no commits.
        has_consumers: whether the group has live consumers, which may commit during the migration.
        nodes: the group's nodes in ZooKeeper; None elsewhere.
    """

    group: str
    offsets: dict[TopicPartition, Held] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    is_closed: str = ""
    is_lost: bool = False
    has_consumers: bool = False
    nodes: GroupNodes | None = None


class Change(NamedTuple):
    """A position to write: its new value, and the target's current value or None."""

    key: TopicPartition
    held: Held
    current: Held | None


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """The changes of a group, if any; either all of them are written or none.

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
    """The outcome of a write: made, refused, changed (refused because the target had changed), or unknown."""

    MADE = enum.auto()
    REFUSED = enum.auto()
    CHANGED = enum.auto()
    UNKNOWN = enum.auto()


class Written(NamedTuple):
    """A write and its outcome.

    Attributes:
        write: the changes that were to be written.
        fate: the outcome of the write.
        reason: why the write was refused; "" otherwise.
        refused: in a refused write, the refused positions if the others were written; None if all were refused.
    """

    write: GroupWrite
    fate: Fate
    reason: str = ""
    refused: frozenset[TopicPartition] | None = None


class Source(Protocol):
    """A place to read from.

    Attributes:
        has: which of the fields leader_epoch, metadata and expire_timestamp the place can hold.
        incomplete: the losses and damage in the place that were accepted.
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
        keeps: which of the fields leader_epoch, metadata and expire_timestamp the place keeps.
        incomplete: the losses and damage in the place that were accepted.
    """

    incomplete: tuple[str, ...]
    keeps: frozenset[str]

    def prepare(self, *, dry_run: bool) -> None:
        """Checks that the place can keep groups; creates missing nodes unless this is a dry run."""
        ...

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns why this place cannot keep positions with these names, or None."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; a group that does not exist has no positions."""
        ...

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Executes the writes in any order; yields each write when its outcome is known.

        Each write is applied completely or not at all, unless the place was asked to split writes that are too large
        for one request.
        """
        ...
