"""Promises that a run must keep, checked while it goes on and at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from offsetlog.types import TopicPartition

KEYS = tuple(TopicPartition("t", number) for number in range(3))


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Write:
    """A commit or delete of all keys of a group; `value` -1 for a delete."""

    group: str
    value: int
    invoked: int
    returned: int | None = None     # when it was acknowledged
    log_offset: int | None = None   # of its first record


@dataclass(slots=True)
class GroupHistory:
    """What is known of one group: by value the write, and the least log offset that later calls must see."""

    writes: dict[int, Write] = field(default_factory=dict)
    deletes: list[Write] = field(default_factory=list)
    acknowledged: list[tuple[int, int]] = field(default_factory=list)    # (step of return, log offset)


def _floor(history: GroupHistory, step: int) -> int:
    # The greatest log offset that a call which returned before `step` has shown.
    return max((offset for returned, offset in history.acknowledged if returned < step), default=-1)


class Checker:
    """Keeps the histories of all groups, and every batch that was ever below some replica's W."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self.committed: dict[int, bytes] = {}
        self.digests: dict[int, tuple[int, ...]] = {}
        self.leaders: dict[int, int] = {}
        self.seen: dict[tuple[int, int], int] = {}
        self.shipped: dict[bytes, int] = {}

    def history(self, group: str) -> GroupHistory:
        return self.groups.setdefault(group, GroupHistory())

    # ------------------------------------------------------------------------------------------------ calls

    def wrote(self, write: Write) -> None:
        history = self.history(write.group)
        if write.value >= 0:
            history.writes[write.value] = write
        else:
            history.deletes.append(write)

    def acknowledged(self, write: Write, step: int) -> None:
        history = self.history(write.group)
        assert write.log_offset is not None
        floor = _floor(history, write.invoked)
        if write.log_offset <= floor:
            raise Violation(f"{write} was acknowledged at or below log offset {floor}, which an earlier call has shown")
        write.returned = step
        history.acknowledged.append((step, write.log_offset))

    def fetched(self, group: str, invoked: int, step: int, found: dict[TopicPartition, Any]) -> None:
        history = self.history(group)
        values = {key: found[key].offset for key in KEYS}
        if len(set(values.values())) != 1:
            raise Violation(f"group {group}: half of a commit is seen: {values}")
        value = values[KEYS[0]]
        floor = _floor(history, invoked)
        if value < 0:
            if floor >= 0 and not any(each.log_offset is None or each.log_offset >= floor for each in history.deletes):
                raise Violation(f"group {group}: nothing is there, though log offset {floor} was shown and not deleted")
            return
        write = history.writes.get(value)
        if write is None or write.log_offset is None:
            raise Violation(f"group {group}: {value} was never written")
        if write.log_offset < floor:
            raise Violation(f"group {group}: {value} of log offset {write.log_offset} after {floor} was shown")
        history.acknowledged.append((step, write.log_offset))

    # ------------------------------------------------------------------------------------------------ replicas

    def leads(self, epoch: int, number: int) -> None:
        """A replica wrote in an epoch: nobody else may."""
        if self.leaders.setdefault(epoch, number) != number:
            raise Violation(f"replicas {self.leaders[epoch]} and {number} both led in epoch {epoch}")

    def ships(self, records: bytes, epoch: int) -> None:
        """A leader of an epoch sends batches to a follower."""
        # One that was cut off may send later what the present leader has sent as well.
        if records:
            self.shipped[records] = max(epoch, self.shipped.get(records, -1))

    def appended(self, number: int, epoch: int, records: bytes) -> None:
        """A follower that is in an epoch has appended batches."""
        shipped = self.shipped.get(bytes(records), epoch)
        if shipped < epoch:
            raise Violation(f"replica {number}: batches of the leader of epoch {shipped} changed it in epoch {epoch}")

    def replica(self, node: Any) -> None:
        """W of a replica has moved: what is below it is one truth, and the same state."""
        replica = node.core.replica(0)
        if replica is None:
            return
        positions = replica.positions()
        place = (node.number, node.life)
        known = self.seen.get(place, positions.log_start)
        if positions.watermark <= known:
            return
        self._compare_batches(node, known, positions.watermark)
        self.seen[place] = positions.watermark
        if node.core.core.partition(0).role in ("active", "follower"):
            *sums, applied = replica.digest(physical=True)
            if self.digests.setdefault(applied, tuple(sums)) != tuple(sums):
                raise Violation(f"replica {node.number}: another digest at W {applied}")

    def _compare_batches(self, node: Any, start: int, end: int) -> None:
        buffer = bytearray(1 << 16)
        offset = start
        while offset < end:
            size = node.manager.read_into(0, offset, buffer)
            if size == 0:
                return      # W lies within a batch
            at = 0
            while at < size:
                base = int.from_bytes(buffer[at : at + 8], "big")
                length = int.from_bytes(buffer[at + 8 : at + 12], "big") + 12
                batch = bytes(buffer[at : at + length])
                if self.committed.setdefault(base, batch) != batch:
                    raise Violation(f"replica {node.number}: another batch at log offset {base} below W")
                offset = base + int.from_bytes(batch[23:27], "big") + 1
                at += length

    def survived(self, node: Any) -> None:
        """At the end: every acknowledged write is in the log of the last leader."""
        for history in self.groups.values():
            for write in [*history.writes.values(), *history.deletes]:
                if write.returned is not None and write.log_offset not in self.committed:
                    raise Violation(f"an acknowledged write is lost: {write}")
        end = node.manager.positions(0).watermark
        highest = max(self.committed, default=-1)
        if highest >= end:
            raise Violation(f"the last leader has W {end}, though log offset {highest} was committed")
