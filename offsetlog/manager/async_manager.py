"""An asyncio version of `OffsetManager`.

A commit, a delete or a fence is written on the thread of the event loop.  No thread waits for its answer, so thousands
of calls can wait at once.  Calls that read or truncate files, or that wait for threads, run on a few threads of
AsyncOffsetManager, so that they do not block the loop.  Calls that only read memory run in the loop.  Some of these
calls, such as `partition_for` and `state`, are not coroutines.

    async with AsyncOffsetManager(manager) as offsets:
        await offsets.become_leader(offsets.partition_for("group"), 1)
        await offsets.commit("group", {TopicPartition("topic", 0): 5})
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from offsetlog.manager.interface import (
    Capability,
    Durability,
    OffsetManager,
    PartitionState,
    Transition,
    Watch,
    WatchPosition,
)
from offsetlog.types import (
    Committed,
    EpochEnd,
    FileRange,
    Key,
    LogPositions,
    OffsetAndMetadata,
    OtherKey,
    PartitionKey,
    Position,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

#: The default of `threads`: the largest number of calls that read or truncate files at a time.
THREADS = 4


class AsyncOffsetManager:
    """Wraps an OffsetManager for asyncio; see OffsetManager for every call and its errors.

    If a task is cancelled while it waits, the call is not undone: a commit remains written, and a load continues.  If
    the call runs on a thread, the cancelled task first waits until the call has ended.  The caller may therefore reuse
    a buffer that it has passed to the call.

    Several event loops may use one object, and other code may call the wrapped manager directly at the same time.

    Args:
        manager: the wrapped manager.  Start and stop it through this object, or directly.
        threads: the largest number of calls that read or truncate files at a time.
    """

    def __init__(self, manager: OffsetManager, *, threads: int = THREADS) -> None:
        self.manager = manager
        self._thread_count = threads
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    # --------------------------------------------------------------------------------------- threads

    async def _on_thread(self, call: Callable[[], T]) -> T:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._thread_count, "offsetlog-async")
            running = self._threads.submit(call)
        future = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not running.cancel():
                await _end_of(future)
            raise

    # ------------------------------------------------------------------------------------------ life

    @property
    def capabilities(self) -> frozenset[Capability]:
        """See OffsetManager.capabilities; not a coroutine."""
        return self.manager.capabilities

    @property
    def partitions(self) -> int:
        """See OffsetManager.partitions; not a coroutine."""
        return self.manager.partitions

    async def start(self) -> None:
        """Starts the manager on a thread; see OffsetManager.start."""
        await self._on_thread(self.manager.start)

    async def stop(self) -> None:
        """Stops the manager on a thread, and ends the threads of this object; see OffsetManager.stop."""
        try:
            await self._on_thread(self.manager.stop)
        finally:
            with self._lock:
                threads, self._threads = self._threads, None
            if threads is not None:
                threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        """Starts the manager."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops the manager."""
        await self.stop()

    def partition_for(self, group: str) -> int:
        """See OffsetManager.partition_for; not a coroutine."""
        return self.manager.partition_for(group)

    # ------------------------------------------------------------------------------------ leadership

    async def become_leader(self, partition: int, epoch: int) -> int:
        """Leads a partition; returns the log end once the partition answers calls.  See OffsetManager.become_leader.

        Several changes of the role of one partition may be in progress; the change with the newest epoch prevails.
        """
        return await self._transition(partial(self.manager.become_leader, partition, epoch))

    async def become_follower(self, partition: int, epoch: int) -> int:
        """Follows a leader; returns the log end once the change is complete.  See OffsetManager.become_follower."""
        return await self._transition(partial(self.manager.become_follower, partition, epoch))

    async def resign(self, partition: int, epoch: int) -> int:
        """Stops leading; returns the log end once the change is complete.  See OffsetManager.resign."""
        return await self._transition(partial(self.manager.resign, partition, epoch))

    async def _transition(self, begin: Callable[[], Transition]) -> int:
        # The call runs on a thread, because a new leader reads its log above the high watermark before the call
        # returns.
        transition = await self._on_thread(begin)
        return await transition

    def state(self, partition: int) -> PartitionState:
        """See OffsetManager.state; not a coroutine."""
        return self.manager.state(partition)

    def leader_epoch(self, partition: int) -> int:
        """See OffsetManager.leader_epoch; not a coroutine."""
        return self.manager.leader_epoch(partition)

    # --------------------------------------------------------------------------------------- offsets

    async def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: Durability | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> Position:
        """Commits positions of a group, and waits without a thread; see OffsetManager.commit."""
        return await self.manager.commit_async(
            group,
            offsets,
            expected=expected,
            monotonic=monotonic,
            generation=generation,
            timeout=timeout,
            durability=durability,
            client=client,
            principal=principal,
        )

    async def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed positions; runs on a thread if the manager has `fetch_waits`.  See OffsetManager.fetch."""
        if getattr(self.manager, "fetch_waits", False):
            return await self._on_thread(partial(self.manager.fetch, group, partitions))
        return self.manager.fetch(group, partitions)

    async def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group, and waits without a thread; see OffsetManager.delete."""
        return await self.manager.delete_async(group, partitions, timeout=timeout)

    async def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes everything of a group, and waits without a thread; see OffsetManager.delete_group."""
        return await self.manager.delete_group_async(group, timeout=timeout)

    async def fence(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Ends the generation of a group, and waits without a thread; see OffsetManager.fence."""
        return await self.manager.fence_async(group, offsets, timeout=timeout)

    async def expire(self, *, timeout: float | None = None) -> int:
        """Deletes expired positions on the manager's threads; see OffsetManager.expire."""
        return await self.manager.expire_async(timeout=timeout)

    async def on_topic_deleted(
        self, topics: Sequence[str], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of deleted topics on the manager's threads; see OffsetManager.on_topic_deleted."""
        return await self.manager.on_topic_deleted_async(topics, timeout=timeout)

    def throttle(
        self, group: str, client: str | None = None, principal: str | None = None
    ) -> float:
        """See OffsetManager.throttle; not a coroutine."""
        return self.manager.throttle(group, client, principal)

    # ----------------------------------------------------------------------------------- replication

    async def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Appends batches on a thread; the caller must not change the buffer meanwhile.

        See OffsetManager.append_as_follower.
        """
        return await self._on_thread(
            partial(self.manager.append_as_follower, partition, epoch, batches)
        )

    def advance(self, partition: int, epoch: int, offset: int) -> int:
        """See OffsetManager.advance; not a coroutine."""
        return self.manager.advance(partition, epoch, offset)

    async def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        """Truncates a follower's log on a thread; see OffsetManager.truncate_to."""
        return await self._on_thread(partial(self.manager.truncate_to, partition, epoch, offset))

    async def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Starts a follower's log again at an offset, on a thread; see OffsetManager.restart_at."""
        await self._on_thread(partial(self.manager.restart_at, partition, epoch, offset))

    async def flush(self, partition: int) -> int:
        """Makes everything written so far durable; returns the flushed end.  See OffsetManager.flush."""
        return await self.manager.flush(partition)

    def positions(self, partition: int) -> LogPositions:
        """See OffsetManager.positions; not a coroutine."""
        return self.manager.positions(partition)

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """See OffsetManager.end_offset_for_epoch; not a coroutine."""
        return self.manager.end_offset_for_epoch(partition, epoch)

    async def read_into(
        self,
        partition: int,
        offset: int,
        buffer: Buffer,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> int:
        """Reads batches on a thread, which writes them to the buffer until the call has ended.

        See OffsetManager.read_into.
        """
        return await self._on_thread(
            partial(
                self.manager.read_into,
                partition,
                offset,
                buffer,
                epoch=epoch,
                uncommitted=uncommitted,
            )
        )

    async def file_range(
        self,
        partition: int,
        offset: int,
        size_max: int,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> FileRange:
        """Returns a range of a file; runs on a thread, because it may read an index.  See OffsetManager.file_range."""
        return await self._on_thread(
            partial(
                self.manager.file_range,
                partition,
                offset,
                size_max,
                epoch=epoch,
                uncommitted=uncommitted,
            )
        )

    # ----------------------------------------------------------------------------------------- watch

    def watch(
        self,
        groups: Iterable[str] | None = None,
        *,
        from_position: WatchPosition | None = None,
    ) -> Watch:
        """Watches changes of positions; this call is not a coroutine.  See OffsetManager.watch.

        Iterate over the watch with `async for`.
        """
        return self.manager.watch(groups, from_position=from_position)


async def _end_of(future: asyncio.Future[T]) -> None:
    """Waits until a call on a thread has ended, even if the waiting task is cancelled several times."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        future.exception()  # no task asks for it any more
