"""Runs the disk work of requests on threads, and answers each request afterwards."""

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

#: The number of requests that read from the disk at the same time; others wait for these.
THREADS = 8


class KeptRequests(Protocol):
    """Counts the memory of requests that wait for threads."""

    def keep(self, size: int) -> None:
        """Counts `size` bytes."""

    def give_back_kept(self, size: int) -> None:
        """Stops counting `size` bytes."""


class DiskWork:
    """The disk work of one server; call every method on its event loop.

    Args:
        loop: the server's event loop.
        requests: counts the memory of requests that wait for this work.
        read_bytes_max: limit for all answers that were read but not sent yet, in bytes.

    Attributes:
        read_memory: the memory for answers that were read and not sent yet; each read first takes a share of it.
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
        """Calls a function on a thread, and returns its result."""
        return await self._loop.run_in_executor(self._pool, function)

    async def run_alone(self, function: Callable[[], T]) -> T:
        """Does the same as `run`, but one call at a time and in order, for functions that need much memory."""
        async with self._one_at_a_time:
            return await self.run(function)

    def answer(self, exchange: Exchange, handler: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine that answers a request; later requests of the same connection wait.

        If the coroutine fails, the connection ends, as for every handler.  The coroutine may use
        the request even after the client has gone.  Therefore the request counts as held memory
        until the coroutine ends.
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
        """Waits at most `seconds` until the running work ends, then cancels the work that is not done."""
        tasks = set(self._tasks)
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=seconds)
            for task in left:
                task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
