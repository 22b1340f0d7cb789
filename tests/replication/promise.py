"""The promise of replication: what was announced as committed is never lost, and never another."""

from __future__ import annotations

from collections.abc import Iterable

from offsetlog.replication.messages import PartitionState
from tests.replication.memory_log import MemoryLog, Record
from tests.replication.node import Node


class Promise:
    """Keeps every record that a replica announced as committed.

    Args:
        power_fails: whether only what is flushed survives.
    """

    def __init__(self, *, power_fails: bool) -> None:
        self.committed: list[Record] = []
        self.trimmed = 0
        self.reads = 0
        self._power_fails = power_fails
        self._leaders: dict[int, tuple[int, int]] = {}

    def leads(self, node: Node, epoch: int) -> None:
        """A process leads in an epoch: no other ever does."""
        led = self._leaders.setdefault(epoch, (node.replica, node.incarnation))
        assert led == (node.replica, node.incarnation), f"epoch {epoch} has two leaders"

    def announces(self, node: Node, watermark: int) -> None:
        """A replica announces W: to clients, or to itself."""
        if watermark <= node.watermark:
            return
        assert watermark <= node.log.log_end(), "W is above the log end"
        first = max(node.watermark, node.log.start)
        node.watermark = watermark
        known = len(self.committed)
        if watermark > known:
            start = node.log.start
            assert start <= known, "committed records are not in the log of who announces them"
            self.committed += node.log.records[known - start : watermark - start]
        assert self._holds(node.log, first, watermark), "a committed record is another one"

    def reads_at(self, node: Node) -> None:
        """A leader answers a client: with everything that was ever announced."""
        self.reads += 1
        assert node.watermark >= len(self.committed), "a leader answers with what is not the newest"

    def _holds(self, log: MemoryLog, first: int, end: int) -> bool:
        first = max(first, log.start)
        return self.committed[first:end] == log.records[first - log.start : max(0, end - log.start)]

    def check(self, nodes: Iterable[Node], state: PartitionState) -> None:
        """Compares all logs with what is committed."""
        end = len(self.committed)
        assert state.in_sync, "nobody is in sync"
        for node in nodes:
            assert node.log.start <= self.trimmed, f"replica {node.replica} lacks the log's start"
            assert self._holds(node.log, 0, node.watermark), (
                f"replica {node.replica} lost what it announced"
            )
            if node.replica in state.in_sync:
                # Any of these may be the next leader.
                kept = node.log.flushed_end if self._power_fails else node.log.log_end()
                assert kept >= end, f"replica {node.replica} keeps {kept} of {end} records"
                assert self._holds(node.log, 0, end), (
                    f"replica {node.replica} holds another committed record"
                )
