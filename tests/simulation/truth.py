"""The one truth: all records that were ever below some replica's W, and the states they make."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable

from tests.simulation.batches import (
    Batch,
    Position,
    Record,
    decode,
    generation_of,
    is_commit,
    key_of,
    next_of,
    position_of,
)
from tests.simulation.operations import GroupState, Operation


class Violation(AssertionError):
    """A promise was broken."""


class Truth:
    """Takes committed batches in the order of the log, and checks each call at its place.

    A record is named by its leader epoch and its log offset: an epoch has one leader, which writes
    each offset once.  So a call has its effect if, and only if, its last record is committed in the
    epoch that it wrote in.
    """

    def __init__(self) -> None:
        self.start = self.end = 0
        self.batches: dict[int, bytes] = {}
        self.records: dict[int, tuple[int, Record]] = {}
        self.states: dict[str, GroupState] = defaultdict(GroupState)
        #: group -> (the log offset from which the state is so, the state).
        self.versions: dict[str, list[tuple[int, GroupState]]] = defaultdict(
            lambda: [(0, GroupState())]
        )
        #: The position records that took effect, in that order: (the log offset from which on one
        #: counts, its own).
        self.changes: list[tuple[int, int]] = []
        self._pending: dict[int, list[Record]] = defaultdict(list)
        self._starts: dict[tuple[int, int], list[Operation]] = defaultdict(list)
        self._ends: dict[tuple[int, int], list[Operation]] = defaultdict(list)
        self._now: Operation | None = None

    # -------------------------------------------------------------------------------- what is known

    def wrote(self, operation: Operation) -> None:
        """A call has written [start, end) in its epoch; before anybody can have committed it."""
        self._starts[operation.epoch, operation.start].append(operation)
        self._ends[operation.epoch, operation.end].append(operation)

    def begin_at(self, start: int) -> None:
        """The log begins at an offset."""
        self.start = self.end = start

    # ---------------------------------------------------------------------------------- new batches

    def append(self, data: bytes) -> None:
        """Takes the next batch that is committed."""
        batch = decode(data)
        self.batches[batch.base] = data
        now = self._now
        if now is not None and (now.epoch != batch.epoch or now.end <= batch.base):
            self._now = None        # the rest of it was cut
        for operation in self._starts.pop((batch.epoch, batch.base), ()):
            operation.before = self.states[operation.group].copy()
            self._now = operation
        for record in batch.records:
            self.records[record.offset] = (batch.epoch, record)
        self._apply(batch)
        self.end = next_of(data)
        for operation in self._ends.pop((batch.epoch, self.end), ()):
            self._check_effect(operation)
            self._now = None

    def _apply(self, batch: Batch) -> None:
        if batch.is_control:
            pending = self._pending.pop(batch.producer, [])
            self._take(pending if is_commit(batch) else [], batch.last + 1, batch.last)
        elif batch.producer >= 0:
            self._pending[batch.producer] += batch.records
        else:
            self._take(list(batch.records), batch.last + 1)

    def _take(self, records: list[Record], end: int, ended_at: int = -1) -> None:
        if records and self._now is None:
            raise Violation(f"what takes effect at log offset {end - 1} belongs to no call")
        groups = set()
        for record in records:
            group, key = key_of(record)
            groups.add(group)
            if key is not None:
                self.changes.append((max(record.offset, ended_at), record.offset))
            state = self.states[group]
            if record.value is None:
                self._admit(record, state.positions.get(key) if key is not None else None)
            if key is None:
                state.generation = None if record.value is None else generation_of(record.value)
            elif record.value is None:
                state.positions.pop(key, None)
            else:
                state.positions[key] = position_of(record.value)
        for group in sorted(groups):
            self.versions[group].append((end, self.states[group].copy()))

    def _admit(self, record: Record, known: Position | None) -> None:
        operation = self._now
        if operation is not None and operation.admits is not None:
            group, key = key_of(record)
            if not operation.admits(key, known):
                raise Violation(f"{operation} removed {key} of {group}, which was {known}")

    # --------------------------------------------------------------------------------------- checks

    def _check_effect(self, operation: Operation) -> None:
        before = operation.before
        if before is None:
            raise Violation(f"{operation} does not begin where it was written")
        if operation.effect is None:
            operation.took_effect = True
            self._check_cleared(operation)
            return
        found = self.states[operation.group]
        wanted = before.copy()
        operation.effect(wanted)
        operation.took_effect = _same(found, wanted)
        if operation.took_effect:
            if operation.condition is not None and not operation.condition(before):
                raise Violation(f"{operation} had its effect, though its condition did not hold")
        elif not (operation.failed and _same(found, before)):
            raise Violation(f"{operation} changed {before} to {found}, and not to {wanted}")
        self.check_answer(operation)

    def check_answer(self, operation: Operation) -> None:
        """Compares what a call returned with the state that it found, once both are known."""
        if operation.answer is None or operation.answers is None or not operation.took_effect:
            return
        assert operation.before is not None
        wanted = operation.answers(operation.before)
        if operation.answer != wanted:
            raise Violation(f"{operation} returned {operation.answer}, and not {wanted}")

    def _check_cleared(self, operation: Operation) -> None:
        key = operation.clears
        if key is None or operation.failed:
            return
        for group, state in self.states.items():
            settled = self._at(group, operation.settled).positions.get(key)
            if settled is not None and state.positions.get(key) == settled:
                raise Violation(f"{operation} left {settled} of group {group}")

    def _at(self, group: str, offset: int) -> GroupState:
        versions = self.versions[group]
        return versions[bisect_right(versions, offset, key=lambda version: version[0]) - 1][1]

    def find(self, group: str, floor: int, holds: Callable[[GroupState], bool]) -> int | None:
        """Returns from which log offset on the state was as a call saw it, at or above a floor.

        None if it never was.
        """
        versions = self.versions[group]
        first = bisect_right(versions, floor, key=lambda version: version[0]) - 1
        for offset, state in versions[max(first, 0) :]:
            if holds(state):
                return max(offset, floor)
        return None


def _same(left: GroupState, right: GroupState) -> bool:
    return left.generation == right.generation and left.shown() == right.shown()
