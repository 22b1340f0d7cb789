"""The checker's model of each call of a client: how it changes the state of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from offsetlog.types import OffsetAndMetadata, TopicPartition
from tests.simulation.batches import Position

Positions: TypeAlias = dict[TopicPartition, Position]


@dataclass(slots=True)
class GroupState:
    """The positions and the generation of one group."""

    positions: Positions = field(default_factory=dict)
    generation: int | None = None

    def copy(self) -> GroupState:
        return GroupState(dict(self.positions), self.generation)

    def shown(self) -> dict[TopicPartition, tuple[int, int, str]]:
        """Returns what a fetch shows of it."""
        return {key: value[:3] for key, value in self.positions.items()}


@dataclass(slots=True, kw_only=True)
class Operation:
    """One call of a client, and what is known of it.

    Attributes:
        name: for the trace.
        group: the group; "" where it may concern many.
        invoked: the step in which it was called.
        effect: changes the state of the group in place; None where the records say it.
        condition: whether it may have an effect in a state.
        answers: the result of the call, by the state before it; None where it has none.
        answer: the result that it returned, None before.
        clears: the key that it removes from all groups; for calls without `effect`.
        settled: W when that was called: what was committed below it is removed.
        admits: whether a tombstone is one that the call may write; for calls without `effect`.
        epoch: the leader epoch in which it wrote, -1 if it wrote nothing.
        start: the log offset of its first record.
        end: the log offset after its last one.
        failed: whether it failed after it had written, so that it may have no effect.
        returned: the step in which it was acknowledged for all replicas; None if it was not.
        before: the state of the group at `start`.
        took_effect: whether it is below W and had its effect.
    """

    name: str
    group: str
    invoked: int
    effect: Callable[[GroupState], None] | None = None
    condition: Callable[[GroupState], bool] | None = None
    answers: Callable[[GroupState], int] | None = None
    answer: int | None = None
    clears: TopicPartition | None = None
    settled: int = 0
    admits: Callable[[TopicPartition | None, Position | None], bool] | None = None
    epoch: int = -1
    start: int = -1
    end: int = -1
    failed: bool = False
    returned: int | None = None
    before: GroupState | None = None
    took_effect: bool = False

    def __str__(self) -> str:
        return f"{self.name} of group {self.group or 'all'} at [{self.start}, {self.end})"


Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


def sets(offsets: Offsets) -> Callable[[GroupState], None]:
    """A commit."""

    def apply(state: GroupState) -> None:
        for key, value in offsets.items():
            position = Position(value.offset, value.leader_epoch, value.metadata, -1)
            state.positions[key] = position

    return apply


def removes(keys: Collection[TopicPartition]) -> Callable[[GroupState], None]:
    """A delete."""

    def apply(state: GroupState) -> None:
        for key in keys:
            state.positions.pop(key, None)

    return apply


def removes_all(state: GroupState) -> None:
    """The delete of a group."""
    state.positions.clear()
    state.generation = None


def fences(offsets: Offsets) -> Callable[[GroupState], None]:
    """A fence, with offsets in the same batch."""

    def apply(state: GroupState) -> None:
        state.generation = (state.generation or 0) + 1
        sets(offsets)(state)

    return apply


def holds(
    offsets: Offsets,
    expected: Mapping[TopicPartition, int | None] | None,
    monotonic: bool,
    generation: int | None,
) -> Callable[[GroupState], bool]:
    """The conditions of a commit."""

    def check(state: GroupState) -> bool:
        known = {key: value.offset for key, value in state.positions.items()}
        return (
            (expected is None or all(known.get(key) == at for key, at in expected.items()))
            and (
                not monotonic
                or all(known.get(key, -1) <= value.offset for key, value in offsets.items())
            )
            and (generation is None or generation < 0 or state.generation == generation)
        )

    return check


def lacks(keys: Collection[TopicPartition]) -> Callable[[GroupState], bool]:
    """A delete that wrote nothing: none of the keys was there."""
    return lambda state: not any(key in state.positions for key in keys)
