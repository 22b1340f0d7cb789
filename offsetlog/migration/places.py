"""The interfaces through which a migration reads and writes a place that keeps committed offsets."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from offsetlog.types import TopicPartition
from offsetlog.zookeeper.group_nodes import GroupNodes


class Held(NamedTuple):
    """A committed position.

    Attributes:
        offset: the committed offset.
        leader_epoch: -1 for none.
        metadata: "" for none.
        expire_timestamp: ms since 1970, -1 for none.
        version: version of its node in ZooKeeper; -1 elsewhere.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp: int = -1
    version: int = -1


class Refused(NamedTuple):
    """Something that cannot be migrated.

    Attributes:
        place: its location, such as the path of a node; "" if group, topic and partition say it.
        group: its name.
        topic: "" for the whole group.
        partition: as stored, "" for the whole topic.
        offset: as stored, or None.
        reason: why it is refused, in one sentence.
    """

    place: str
    group: str
    topic: str
    partition: str
    offset: str | None
    reason: str


@dataclass(slots=True)
class GroupOffsets:
    """A group as read from a place.

    Attributes:
        group: its name.
        offsets: its readable positions.
        refused: its unreadable positions.
        is_closed: why none of its positions can be written; "" if they can.
        is_lost: whether its log partition lost data and so accepts no commits.
        has_consumers: whether it has live consumers, which may commit meanwhile.
        nodes: its nodes in ZooKeeper; None elsewhere.
    """

    group: str
    offsets: dict[TopicPartition, Held] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    is_closed: str = ""
    is_lost: bool = False
    has_consumers: bool = False
    nodes: GroupNodes | None = None


class Change(NamedTuple):
    """A position to write: its new value, and the target's current one or None."""

    key: TopicPartition
    held: Held
    current: Held | None


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """The changes of a group, possibly none; they are written all or none.

    Attributes:
        changes: by position.
        target: the group as the target was read.
    """

    changes: list[Change]
    target: GroupOffsets

    @property
    def group(self) -> str:
        """Its name."""
        return self.target.group


class Fate(enum.Enum):
    """The outcome of a write: made, refused, changed (refused because the target had changed), or unknown."""

    MADE = enum.auto()
    REFUSED = enum.auto()
    CHANGED = enum.auto()
    UNKNOWN = enum.auto()


class Written(NamedTuple):
    """A write with its fate.

    Attributes:
        write: the write.
        fate: its outcome.
        reason: why it was refused; "" otherwise.
        refused: the refused positions, if the others of the group were written; None for all.
    """

    write: GroupWrite
    fate: Fate
    reason: str = ""
    refused: frozenset[TopicPartition] | None = None


class Source(Protocol):
    """A place to read from.

    Attributes:
        has: which of the fields leader_epoch, metadata and expire_timestamp it can hold.
        incomplete: losses and damage in it that were accepted.
    """

    has: frozenset[str]
    incomplete: tuple[str, ...]

    def groups(self) -> list[str]:
        """Returns the groups that have positions in this place, sorted."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; one that does not exist is empty."""
        ...


class Target(Protocol):
    """A place to write to.

    Attributes:
        keeps: which of the fields leader_epoch, metadata and expire_timestamp it keeps.
        incomplete: losses and damage in it that were accepted.
    """

    incomplete: tuple[str, ...]
    keeps: frozenset[str]

    def prepare(self, *, dry_run: bool) -> None:
        """Checks that the place can keep groups, and creates what is missing unless it is a dry run."""
        ...

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns why this place cannot keep positions of these names, or None."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; one that does not exist is empty."""
        ...

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Executes the writes in any order; yields each once its fate is known.

        Each is all or none, unless the place was asked to split writes that are too large for one request.
        """
        ...
