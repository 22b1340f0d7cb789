"""A watch that reads the log batch by batch: slow, and simple enough to be believed.

The contract of watches is tested over it; it shows that the contract can be kept.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import pyarrow

from offsetlog import arguments
from offsetlog.errors import ClosedError, PartitionError
from offsetlog.manager.checked_offsets import checked_group
from offsetlog.manager.log_manager import LogManager
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange
from tests.conformance.oracle_batches import Batch, read_segment
from tests.conformance.oracle_records import decode_key, decode_value

Found = list[PositionChange | LogGap]


class ReadingWatch:
    """See Watch."""

    def __init__(
        self,
        manager: LogManager,
        groups: frozenset[str] | None,
        positions: dict[int, tuple[int, int]],
    ) -> None:
        self._manager = manager
        self._groups = groups
        self._at = positions
        self._closed = False

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        return dict(self._at)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll(self, timeout: float | None = 0.0, max_changes: int = 500) -> Found:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._closed:
                raise ClosedError("the watch is closed")
            found: Found = []
            for partition in self._at:
                found += self._read(partition, max_changes - len(found))
            if found or (deadline is not None and time.monotonic() >= deadline):
                return found
            threading.Event().wait(0.001)

    def _read(self, partition: int, limit: int) -> Iterator[PositionChange | LogGap]:
        yield from self._gap(partition)
        reached = self._manager.positions(partition).watermark
        while limit > 0 and self._at[partition][1] < reached:
            at = self._at[partition][1]
            batch = self._batch(partition, at)
            for record in batch.records:
                if record.offset < at or limit <= 0:
                    continue
                self._at[partition] = (batch.leader_epoch, record.offset + 1)
                change = self._change(partition, record)
                if change is not None:
                    limit -= 1
                    yield change

    def _gap(self, partition: int) -> Iterator[LogGap]:
        epoch, at = self._at[partition]
        found = self._manager.end_offset_for_epoch(partition, epoch)
        positions = self._manager.positions(partition)
        if positions.log_start > at:
            self._at[partition] = (epoch, positions.log_start)
            yield LogGap(partition, at, positions.log_start, "cleaned")
            return
        known = found.end_offset if found.end_offset >= 0 else positions.log_end
        cut = min(known, positions.log_end)
        if epoch >= 0 and cut < at:
            self._at[partition] = (found.epoch, cut)
            yield LogGap(partition, cut, at, "truncated")

    def _batch(self, partition: int, offset: int) -> Batch:
        buffer = bytearray(1 << 20)
        size = self._manager.read_into(partition, offset, buffer)
        return read_segment(bytes(buffer[:size]))[0][0]

    def _change(self, partition: int, record: Any) -> PositionChange | None:
        key = decode_key(record.key)
        if key is None or key["type"] != "1":
            return None
        place = key["data"]
        if self._groups is not None and place["group"] not in self._groups:
            return None
        value = None
        if record.value is not None:
            body = decode_value(1, record.value)["data"]
            epoch = body.get("leaderEpoch", -1)
            value = OffsetAndMetadata(
                body["offset"], body["metadata"], epoch, body["commitTimestamp"]
            )
        at, when = record.offset, record.timestamp
        return PositionChange(
            partition, at, at, when, place["group"], place["topic"], place["partition"], value
        )

    def poll_arrow(
        self, timeout: float | None = 0.0, max_changes: int = 65_536
    ) -> list[pyarrow.RecordBatch | LogGap]:
        answered: list[Any] = []
        for each in self.poll(timeout, max_changes):
            if isinstance(each, LogGap):
                answered.append(each)
                continue
            value = each.value
            kept = dict.fromkeys(OffsetAndMetadata._fields) if value is None else value._asdict()
            row = {**each._asdict(), **kept}
            del row["value"], row["topic_id"]
            answered.append(pyarrow.RecordBatch.from_pylist([row]))
        return answered

    def __iter__(self) -> Iterator[PositionChange | LogGap]:
        while True:
            try:
                found = self.poll(None)
            except ClosedError:
                return
            yield from found

    async def __aiter__(self) -> AsyncIterator[PositionChange | LogGap]:
        while not self._closed:
            for each in self.poll():
                yield each
            await asyncio.sleep(0.001)


class WatchedManager(LogManager):
    """A log manager with such watches."""

    watches: type[ReadingWatch] = ReadingWatch

    def watch(self, groups: Any = None, *, from_position: Any = None) -> Any:
        named = None if groups is None else arguments.listed_groups(groups)
        kept = None if named is None else frozenset(checked_group(each) for each in named)
        if from_position is None:
            own = range(self.partitions) if kept is None else map(self.partition_for, kept)
            from_position = {partition: self._now(partition) for partition in own}
        for partition in from_position:
            if partition not in range(self.partitions):
                raise PartitionError(f"there is no log partition {partition}")
        return self.watches(self, kept, {**from_position})

    def _now(self, partition: int) -> tuple[int, int]:
        watermark = self.positions(partition).watermark
        if watermark == 0:
            return -1, 0
        buffer = bytearray(1 << 20)
        size = self.read_into(partition, watermark - 1, buffer)
        return read_segment(bytes(buffer[:size]))[0][0].leader_epoch, watermark


class ReportsTwice(WatchedManager):
    """A planted defect: what a poll returned last comes again at the next watch."""

    class watches(ReadingWatch):  # noqa: N801
        @property
        def position(self) -> dict[int, tuple[int, int]]:
            return {key: (epoch, max(0, at - 1)) for key, (epoch, at) in self._at.items()}


class SkipsGaps(WatchedManager):
    """A planted defect: a gap is not reported."""

    class watches(ReadingWatch):  # noqa: N801
        def _gap(self, partition: int) -> Iterator[LogGap]:
            for gap in super()._gap(partition):
                assert gap
            yield from ()


class WatchesAboveTheWatermark(WatchedManager):
    """A planted defect: what is not committed yet is reported."""

    class watches(ReadingWatch):  # noqa: N801
        def _batch(self, partition: int, offset: int) -> Batch:
            buffer = bytearray(1 << 20)
            size = self._manager.read_into(partition, offset, buffer, uncommitted=True)
            return read_segment(bytes(buffer[:size]))[0][0]

        def _read(self, partition: int, limit: int) -> Iterator[PositionChange | LogGap]:
            manager, asked = self._manager, self._manager.positions
            end = asked(partition).log_end
            vars(manager)["positions"] = lambda number: asked(number)._replace(watermark=end)
            try:
                yield from super()._read(partition, limit)
            finally:
                del vars(manager)["positions"]
