"""Work that waits for the disk, done on threads; the request that asked for it is answered afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from offsetlog.server.exchange import Exchange
from offsetlog.server.read_memory import ReadMemory

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Requests that read from the disk at the same time; the others wait for them.
THREADS = 8


class KeptRequests(Protocol):
    """The memory of the requests that wait for threads."""

    def keep(self, size: int) -> None:
        """Counts so many bytes."""

    def give_back_kept(self, size: int) -> None:
        """Counts them no longer."""


class DiskWork:
    """The work of one server; every method is called on its event loop.

    Args:
        loop: the server's.
        requests: of the requests that it has.
        read_bytes_max: of answers that are read and not written yet, in all.

    Attributes:
        read_memory: for those answers; whoever reads takes a share of it first.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, requests: KeptRequests, read_bytes_max: int
    ) -> None:
        self._loop = loop
        self._requests = requests
        self.read_memory = ReadMemory(read_bytes_max)
        self._pool = ThreadPoolExecutor(THREADS, "offsetlog-disk")
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def run(self, function: Callable[[], T]) -> T:
        """Calls a function on a thread, and returns what it does."""
        return await self._loop.run_in_executor(self._pool, function)

    async def run_alone(self, function: Callable[[], T]) -> T:
        """As `run`, for what takes much memory: one of these at a time, in the order of the calls."""
        async with self._one_at_a_time:
            return await self.run(function)

    def answer(self, exchange: Exchange, handler: Coroutine[Any, Any, None]) -> None:
        """Has a coroutine answer a request; the next ones of its connection wait for the answer.

        If it fails, the connection ends, as it does when another handler fails.  Until the coroutine
        has ended, it may refer to the request, whether or not its client is still there: so long the
        request counts in the memory for requests.
        """
        exchange.wait(ends_soon=True)
        size = exchange.size
        self._requests.keep(size)
        task = self._loop.create_task(self._answer(exchange, handler))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, size))

    def _ended(self, size: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._requests.give_back_kept(size)

    async def _answer(self, exchange: Exchange, handler: Coroutine[Any, Any, None]) -> None:
        try:
            await handler
        except asyncio.CancelledError:
            exchange.end("the server is stopping")
            raise
        except Exception:
            api = exchange.request.api_key
            _log.exception("the handler of API %d failed; its request gets no answer", api, extra={"api": api})
            exchange.end("the request handler failed")

    async def stop(self, seconds: float) -> None:
        """Waits for what is under way, at most for some time, and gives up the rest."""
        tasks = set(self._tasks)
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=seconds)
            for task in left:
                task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
