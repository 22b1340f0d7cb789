"""Promises that a run must keep, checked while it goes on and at its end.

Fetches, commits and all other calls of a group are checked for linearizability against the order of
the log: what was acknowledged stands above all that was acknowledged before it was called, and each
fetch shows the state of one place of the log that is not below what any earlier call has shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from offsetlog.errors import OffsetLogError
from offsetlog.types import OffsetAndMetadata, TopicPartition
from tests.simulation.batches import base_of, decode, next_of, split
from tests.simulation.operations import GroupState, Operation
from tests.simulation.truth import Truth, Violation

READ_BYTES = 1 << 16


class Checker:
    """Keeps what clients saw, and compares all replicas with the one truth."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.operations: list[Operation] = []
        self.leaders: dict[int, int] = {}
        self.fetches = 0
        #: Calls that wrote nothing, and whose answers were compared with the truth.
        self.shown = 0
        #: Some replica's log was cleaned below this offset: records may be missing in others, too.
        self.cleaned_to = 0
        self._digests: dict[int, tuple[int, ...]] = {}
        #: By the number of a node and its life: the offset up to which batches were compared, and
        #: that at which the digest was.
        self._seen: dict[tuple[int, int], int] = {}
        self._digested: dict[tuple[int, int], int] = {}
        #: The batches that leaders have sent, each with the newest epoch in which it was.
        self.shipped: dict[bytes, int] = {}
        #: (group, "" for all) -> (step, log offset that a call which returned then has shown).
        self._shown: dict[str, list[tuple[int, int]]] = {}

    # ---------------------------------------------------------------------------------------- calls

    def wrote(self, operation: Operation, node: Any, start: int, end: int) -> None:
        """A call has written [start, end) to the log of the node that leads."""
        operation.epoch, operation.start, operation.end = node.manager.leader_epoch(0), start, end
        if self.leaders.get(operation.epoch) != node.number:
            raise Violation(f"{operation} is of replica {node.number}, which was not elected")
        self.operations.append(operation)
        self.truth.wrote(operation)

    def elected(self, epoch: int, number: int) -> None:
        """The controller has elected a leader: nobody else writes in its epoch."""
        self.leaders[epoch] = number

    def acknowledged(self, operation: Operation, node: Any, step: int, answer: object) -> None:
        """All replicas in sync have what a call wrote, and it has returned an answer."""
        positions = node.manager.positions(0)
        if positions.watermark < operation.end:
            raise Violation(f"{operation} was acknowledged with W at {positions.watermark}")
        floor = self._floor(operation.group, operation.invoked)
        if operation.end <= floor:
            raise Violation(f"{operation} was acknowledged below {floor}, which was shown before")
        operation.returned = step
        operation.answer = answer if isinstance(answer, int) else None
        self.truth.check_answer(operation)
        self._show(operation.group, step, operation.end)

    def _floor(self, group: str, step: int) -> int:
        shown = self._shown.get(group, ())
        return max((offset for returned, offset in shown if returned < step), default=0)

    def _show(self, group: str, step: int, offset: int) -> None:
        self._shown.setdefault(group, []).append((step, offset))

    def fetched(
        self,
        group: str,
        step: int,
        found: Mapping[TopicPartition, OffsetAndMetadata],
        keys: Collection[TopicPartition] | None,
    ) -> None:
        """A fetch of some keys, or of all, was answered at once."""
        self.fetches += 1
        shown = {
            key: (value.offset, value.leader_epoch, value.metadata)
            for key, value in found.items()
            if value.offset >= 0
        }

        def is_it(state: GroupState) -> bool:
            known = state.shown()
            if keys is None:
                return known == shown
            return all(known.get(key) == shown.get(key) for key in keys)

        self._find(group, f"group {group}: {shown}", step, step, is_it)

    def showed(
        self, operation: Operation, text: str, step: int, condition: Callable[[GroupState], bool]
    ) -> None:
        """A call that wrote nothing has shown that a condition holds for the state of its group."""
        self.shown += 1
        self._find(operation.group, text, operation.invoked, step, condition)

    def _find(
        self, group: str, text: str, called: int, step: int, holds: Callable[[GroupState], bool]
    ) -> None:
        floor = self._floor(group, called)
        at = self.truth.find(group, floor, holds)
        if at is None:
            newest = self.truth.versions[group][-1]
            raise Violation(f"{text}: it was never so from {floor} on; now {newest}")
        self._show(group, step, at)

    # ------------------------------------------------------------------------------------- replicas

    def ships(self, records: bytes, epoch: int) -> None:
        """A leader of an epoch sends batches to a follower."""
        # One that was cut off may send later what the present leader has sent as well.
        if records:
            self.shipped[records] = max(epoch, self.shipped.get(records, -1))

    def appended(self, number: int, epoch: int, records: bytes) -> None:
        """A follower that is in an epoch has appended batches."""
        shipped = self.shipped.get(bytes(records), epoch)
        if shipped < epoch:
            raise Violation(
                f"replica {number}: batches of the leader of epoch {shipped} changed it in {epoch}"
            )

    def replica(self, node: Any) -> None:
        """A replica has one truth below its W, and there the state of all others."""
        replica = node.core.replica(0)
        if replica is None:
            return
        positions = replica.positions()
        node.reported(positions)
        place = (node.number, node.life)
        known = self._seen.get(place, positions.log_start)
        if positions.watermark > known:
            self._seen[place] = self._compare(node, known, positions.watermark)
        # A table that is loaded later is compared later.
        is_new = positions.applied != self._digested.get(place, -1)
        if is_new and node.core.core.partition(0).role in ("active", "follower"):
            self._compare_digest(node, replica)
            self._digested[place] = positions.applied

    def _compare_digest(self, node: Any, replica: Any) -> None:
        *sums, applied = replica.digest(physical=True)
        # Below, a cleaned log holds no longer what later records superseded.
        if applied < self.cleaned_to:
            return
        if self._digests.setdefault(applied, tuple(sums)) != tuple(sums):
            raise Violation(f"replica {node.number}: another digest at W {applied}")

    def _compare(self, node: Any, start: int, end: int) -> int:
        buffer = bytearray(READ_BYTES)
        offset = start
        while offset < end:
            size = node.manager.read_into(0, offset, buffer)
            if size == 0:
                break       # W lies within a batch
            for batch in split(memoryview(buffer)[:size]):
                self._compare_batch(node, offset, batch)
                offset = next_of(batch)
        return offset

    def _compare_batch(self, node: Any, offset: int, batch: bytes) -> None:
        truth, base = self.truth, base_of(batch)
        if truth.batches.get(base) == batch:
            return
        if base > offset and base > max(self.cleaned_to, truth.start):
            raise Violation(f"replica {node.number} has nothing from log offset {offset} to {base}")
        if base >= truth.end:
            if base > truth.end:
                raise Violation(f"replica {node.number} lacks what stands from {truth.end} on")
            truth.append(batch)
            return
        found = decode(batch)
        if found.last >= self.cleaned_to:
            raise Violation(f"replica {node.number}: another batch at log offset {base} below W")
        for record in found.records:
            if truth.records.get(record.offset) != (found.epoch, record):
                raise Violation(f"replica {node.number}: another record at {record.offset} below W")

    def cleaned(self, node: Any) -> None:
        """A replica's log was cleaned, at most up to its W."""
        self.cleaned_to = max(self.cleaned_to, node.manager.positions(0).watermark)

    def survived(self, node: Any) -> None:
        """At the end: every acknowledged call had its effect, and the last leader has all."""
        for operation in self.operations:
            if operation.returned is not None and not operation.took_effect:
                raise Violation(f"an acknowledged call is lost: {operation}")
        open_ones = node.core.core.partition(0).transactions()
        if open_ones:
            raise Violation(f"transactions that nobody will end are open: {open_ones}")
        end = node.manager.positions(0).watermark
        if end < self.truth.end:
            raise Violation(f"the last leader has W {end}, though {self.truth.end} was committed")


def look(checker: Checker, node: Any) -> None:
    """Has the checker look at a replica, unless its disk fails or its table is being loaded."""
    try:
        checker.replica(node)
    except OffsetLogError:
        return
