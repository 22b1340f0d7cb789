"""A watch: reports the changes of committed positions in a manager's logs when they take effect."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from offsetlog import arguments
from offsetlog._native.row_blocks import RowBlocks
from offsetlog.errors import ClosedError, InvalidArgumentError, OffsetLogError
from offsetlog.manager.checked_offsets import checked_timeout
from offsetlog.manager.watched_log import Chunk, Place, WatchedLog
from offsetlog.types import LogGap, PositionChange

if TYPE_CHECKING:
    import pyarrow

#: The seconds after which a waiting watch checks the logs by itself.  This is needed because the
#: high watermark (W) also moves without a report: at the end of a load, and when positions expire
#: in the background.
LOOKS_EVERY = 0.1
#: The number of changes that an iteration reads at a time.
ITERATED = 500
#: The largest number of changes in one read of a log.
ROWS_MAX = 65_536


class LogWatch:
    """Reads the logs of several partitions, one after the other; see Watch.

    Args:
        logs: the watched partitions, each at the place from which the watch reports changes.
        closed: called with the watch when it is closed.
    """

    def __init__(self, logs: Sequence[WatchedLog], closed: Callable[[LogWatch], object]) -> None:
        self._logs = {log.number: log for log in logs}
        self._on_closed = closed
        self._lock = threading.Lock()
        self._blocks = RowBlocks("changes", None)
        self._last = -1     # the log partition that was read last
        self._moved = set(self._logs)
        self._failure: OffsetLogError | None = None
        # `_unread` has the changes that an iteration has read but not yielded yet, each with the
        # place after it (None inside a transaction).  `_handed` has the places after the changes
        # that were yielded.
        self._unread: deque[tuple[Any, int, Place | None]] = deque()
        self._handed: dict[int, Place] = {}
        self._closed = False
        self._news = threading.Condition()
        self._wakes: list[Callable[[], object]] = []

    # -------------------------------------------------------------------------------------- from outside

    def on_moved(self, number: int) -> None:
        """Reports that the high watermark of a partition has moved; any thread may call this."""
        if number in self._logs and number not in self._moved:
            self._moved.add(number)
            self._wake()

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()
            wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake()

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        """The place where a later watch can continue; see Watch.position."""
        with self._lock:
            return {number: log.place for number, log in self._logs.items()} | self._handed

    def close(self) -> None:
        """Ends the watch; see Watch.close."""
        if not self._closed:
            self._closed = True
            self._on_closed(self)
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------ reading

    def poll(
        self, timeout: float | None = 0.0, max_changes: int = 500
    ) -> list[PositionChange | LogGap]:
        """Waits until there are changes, and returns them; see Watch.poll."""
        return self._poll(timeout, max_changes, arrow=False)

    def poll_arrow(
        self, timeout: float | None = 0.0, max_changes: int = 65_536
    ) -> list[pyarrow.RecordBatch | LogGap]:
        """Returns changes as Arrow batches; see Watch.poll_arrow."""
        return self._poll(timeout, max_changes, arrow=True)

    def _poll(self, timeout: float | None, max_changes: int, *, arrow: bool) -> list[Any]:
        arguments.checked_number("max_changes", max_changes, 1, 2**63 - 1)
        checked_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._read(max_changes, arrow=arrow)
            left = None if deadline is None else deadline - time.monotonic()
            if found or (left is not None and left <= 0):
                return found
            self._wait(left)

    def _wait(self, left: float | None) -> None:
        with self._news:
            if not self._moved and not self._closed:
                self._news.wait(LOOKS_EVERY if left is None else min(left, LOOKS_EVERY))
        if not self._moved:
            self._moved.update(self._logs)

    def _read(self, max_changes: int, *, arrow: bool) -> list[Any]:
        with self._lock:
            self._raise_failure()
            found = self._take_unread(arrow=arrow)
            if not found:
                for chunk in self._read_in_turn(max_changes, arrow=arrow):
                    found += chunk.items
            return found

    def _raise_failure(self) -> None:
        if self._closed:
            raise ClosedError("the watch is closed")
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _take_unread(self, *, arrow: bool) -> list[Any]:
        if arrow and self._unread:
            raise InvalidArgumentError(
                f"an iteration over this watch has not yet returned {len(self._unread)} changes that "
                "it read; finish the iteration, or call poll, before you call poll_arrow"
            )
        found = [item for item, _, _ in self._unread]
        self._unread.clear()
        self._handed.clear()
        return found

    def _read_in_turn(self, max_changes: int, *, arrow: bool) -> list[Chunk]:
        chunks: list[Chunk] = []
        try:
            self._read_logs(chunks, max_changes, arrow=arrow)
        except OffsetLogError as failure:
            if not chunks:
                raise
            self._failure = failure  # raised by the next call, so that the changes read are not lost
        except BaseException:
            # After an interrupt, such as a signal, the changes that were read are not delivered, so
            # they must be read again later.
            for chunk in reversed(chunks):
                self._logs[chunk.number].go_back(chunk.before)
            self._moved.update(self._logs)
            raise
        return chunks

    def _read_logs(self, chunks: list[Chunk], max_changes: int, *, arrow: bool) -> None:
        # Each call begins after the partition that was read last.  A partition that always has more
        # changes, or that always fails, therefore does not keep the others from being read.
        left = max_changes
        for number in sorted(self._moved, key=lambda each: (each <= self._last, each)):
            is_end = False
            while not is_end:
                if left <= 0:
                    return
                self._last = number
                self._moved.discard(number)  # before the read, so that a later move of W is seen
                try:
                    chunk, is_end = self._logs[number].read(
                        self._blocks, min(max_changes, ROWS_MAX), arrow=arrow
                    )
                finally:
                    if not is_end:
                        self._moved.add(number)
                if chunk.items:
                    chunks.append(chunk)
                    left -= chunk.changes

    # ---------------------------------------------------------------------------------------- iterating

    def _next(self) -> PositionChange | LogGap | None:
        # Returns the next change of an iteration; None if there is none now.
        with self._lock:
            self._raise_failure()
            if not self._unread:
                self._handed.clear()
                self._keep(self._read_in_turn(ITERATED, arrow=False))
            if not self._unread:
                return None
            item, number, place = self._unread.popleft()
            if place is not None:
                self._handed[number] = place
            found: PositionChange | LogGap = item
            return found

    def _keep(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._handed.setdefault(chunk.number, chunk.before)
            for item, after in zip(chunk.items, [*chunk.items[1:], None], strict=True):
                place: Place | None = chunk.after
                if isinstance(item, PositionChange) and after is not None:
                    is_inside = (
                        isinstance(after, PositionChange) and after.effective_at == item.effective_at
                    )
                    place = None if is_inside else (item.epoch, item.effective_at + 1)
                self._unread.append((item, chunk.number, place))

    def __iter__(self) -> Iterator[PositionChange | LogGap]:
        """Yields changes until the watch is closed; see Watch."""
        with contextlib.suppress(ClosedError):
            while not self._closed:
                item = self._next()
                if item is None:
                    self._wait(None)
                else:
                    yield item

    async def __aiter__(self) -> AsyncIterator[PositionChange | LogGap]:
        """Yields changes in the running event loop; see Watch."""
        with contextlib.suppress(ClosedError):
            while not self._closed:
                item = self._next()
                if item is None:
                    await self._wait_in_loop()
                else:
                    yield item

    async def _wait_in_loop(self) -> None:
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not news.done():
                news.set_result(None)

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, so no task waits any more
                loop.call_soon_threadsafe(settle)

        with self._news:
            if self._moved or self._closed:
                return
            self._wakes.append(wake)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news, LOOKS_EVERY)
        finally:
            with self._news:
                if wake in self._wakes:
                    self._wakes.remove(wake)
        if not self._moved:
            self._moved.update(self._logs)
