"""A place that keeps committed offsets: the way in which a migration reads it and writes there."""

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
        version: of its node in ZooKeeper; -1 elsewhere.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp: int = -1
    version: int = -1


class Refused(NamedTuple):
    """Something that cannot be migrated.

    Attributes:
        place: where it stands, as the path of a node; "" where group, topic and partition say it.
        group: its name.
        topic: "" for the whole group.
        partition: as it stands there, "" for the whole topic.
        offset: as it stands there, None where there is none.
        reason: why, in one sentence.
    """

    place: str
    group: str
    topic: str
    partition: str
    offset: str | None
    reason: str


@dataclass(slots=True)
class GroupOffsets:
    """A group as a place has it.

    Attributes:
        group: its name.
        offsets: the readable ones.
        refused: the others.
        is_closed: why nothing of it can be written, "" where it can.
        is_lost: whether its log partition lost something, and takes no commits.
        has_consumers: whether it has live consumers, which may move on.
        nodes: as it stands in ZooKeeper; None elsewhere.
    """

    group: str
    offsets: dict[TopicPartition, Held] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    is_closed: str = ""
    is_lost: bool = False
    has_consumers: bool = False
    nodes: GroupNodes | None = None


class Change(NamedTuple):
    """A position to write: its new value, and that of the target, None for nothing."""

    key: TopicPartition
    held: Held
    current: Held | None


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """The changes of a group, which are made all or none; there may be none.

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
    """The outcome of a write: made, refused for good, refused since the target changed meanwhile, or unknown."""

    MADE = enum.auto()
    REFUSED = enum.auto()
    CHANGED = enum.auto()
    UNKNOWN = enum.auto()


class Written(NamedTuple):
    """A write with its fate.

    Attributes:
        write: which.
        fate: its outcome.
        reason: of a refusal, "" otherwise.
        refused: the positions that were refused, where the others of the group were made; None for all.
    """

    write: GroupWrite
    fate: Fate
    reason: str = ""
    refused: frozenset[TopicPartition] | None = None


class Source(Protocol):
    """A place that is read.

    Attributes:
        has: those of the fields leader_epoch, metadata and expire_timestamp that it can have.
        incomplete: losses and damage in it, which were let pass.
    """

    has: frozenset[str]
    incomplete: tuple[str, ...]

    def groups(self) -> list[str]:
        """Returns the groups that have something there, sorted."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups, in this order; one that is not there is empty."""
        ...


class Target(Protocol):
    """A place that is written to.

    Attributes:
        keeps: those of the fields leader_epoch, metadata and expire_timestamp that it keeps.
        incomplete: losses and damage in it, which were let pass.
    """

    incomplete: tuple[str, ...]
    keeps: frozenset[str]

    def prepare(self, *, dry_run: bool) -> None:
        """Checks that groups can be kept here, and makes what they stand in where something is written."""
        ...

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns why this place cannot keep positions of these names, None where it can."""
        ...

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups, in this order; one that is not there is empty."""
        ...

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Makes the writes, in any order; yields each once, when its fate is known.

        Each is made all or none, unless the place was asked to divide one that is too large for that.
        """
        ...
