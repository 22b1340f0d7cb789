"""The past of a store as it was written down: every record of its log, read by the independent reader of
tests/conformance before any of it could be cleaned, and replayed record by record into dicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance import oracle
from model.reference import log_partition

from offsetlog import TopicPartition

Told = tuple[int, int, str, int]


class PastReference:
    """All records that a store of `count` partitions in `path` ever had.  `note` reads on."""

    def __init__(self, path: Path, count: int) -> None:
        self.path, self.count = path, count
        self.entries: dict[int, list[oracle.LogRecord]] = {number: [] for number in range(count)}
        self.batches: dict[int, list[oracle.Batch]] = {number: [] for number in range(count)}

    def note(self) -> None:
        """Adds what was appended since the last call; to be called before a cleaner may have seen it."""
        for segment in oracle.read_log(self.path):
            known = self.batches[segment.log_partition]
            end = known[-1].last_offset if known else -1
            fresh = [batch for batch in segment.batches if batch.base_offset > end]
            known += fresh
            single = oracle.Segment(segment.log_partition, segment.name, tuple(fresh), None)
            self.entries[segment.log_partition] += oracle.records([single])

    def end(self, number: int) -> int:
        known = self.batches[number]
        return known[-1].last_offset + 1 if known else 0

    def ends(self, number: int) -> list[int]:
        return [batch.last_offset + 1 for batch in self.batches[number]]

    def is_inside(self, number: int, cut: int) -> bool:
        """Whether a log offset would split a commit, which is a batch, or a compressed set of messages."""
        return any(
            min([batch.base_offset, *(record.offset for record in batch.records)]) < cut <= batch.last_offset
            for batch in self.batches[number]
        )

    def cut(self, number: int, timestamp_ms: int) -> int:
        """The end of the longest prefix whose timestamps are all <= the given one."""
        offset = 0
        for batch in self.batches[number]:
            if batch.max_timestamp > timestamp_ms:
                return offset
            offset = batch.last_offset + 1
        return offset

    def _below(self, number: int, cut: int) -> Iterator[oracle.LogRecord]:
        for entry in self.entries[number]:
            if entry.record is not None and entry.record.offset < cut:
                yield entry

    def state(self, number: int, cut: int) -> dict[tuple[str, str, int], Told]:
        """(group, topic, partition) -> (offset, log offset, metadata, leader epoch)."""
        state = oracle.State()
        for entry in self._below(number, cut):
            state.apply(entry)
        return {
            slot: (value.offset, value.log_offset, value.metadata, value.leader_epoch)
            for slot, value in state.offsets.items()
        }

    def group(self, group: str, cut: int) -> dict[TopicPartition, tuple[int, str, int]]:
        """Returns the right answer of `fetch(group, at=cut)`, without times."""
        state = self.state(log_partition(group, self.count), cut)
        return {
            TopicPartition(topic, partition): (offset, metadata, leader_epoch)
            for (name, topic, partition), (offset, _, metadata, leader_epoch) in state.items()
            if name == group
        }

    def everything(self, cuts: dict[int, int]) -> dict[tuple[str, str, int], tuple[int, str, int]]:
        """The state of the whole store, each log partition at its own cut."""
        found = {}
        for number, cut in cuts.items():
            for slot, (offset, _, metadata, leader_epoch) in self.state(number, cut).items():
                found[slot] = (offset, metadata, leader_epoch)
        return found


def values_of(fetched):
    """A fetched group in the form of `PastReference.group`."""
    return {key: (value.offset, value.metadata, value.leader_epoch) for key, value in fetched.items()}
