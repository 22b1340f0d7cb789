"""Implements `await ticket`: one thread of a store waits for the disk, on behalf of all event loops."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING

from offsetlog._native.tickets import Ticket
from offsetlog.errors import ClosedError

if TYPE_CHECKING:
    import asyncio


class TicketWaiter:
    """Creates futures for tickets.  The first ticket starts a thread, which completes the futures.

    Any thread may use the object.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[Ticket, asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._filled = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._pid = os.getpid()

    def __call__(self, ticket: Ticket) -> asyncio.Future[None]:
        """Returns a future of the running loop that completes when the ticket is durable or has failed."""
        # Checked before locking: in a forked child, the thread that holds the lock may not exist.
        if os.getpid() != self._pid:
            raise ClosedError(
                "the store was opened before this process was forked; open the store again here"
            )
        # Imported here because commands do not need it and start faster without it; code that awaits has it already.
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._filled:
            if self._stopped:
                raise ClosedError("the store is closed")
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="offsetlog-waiter", daemon=True)
                thread.start()
                self._thread = thread
            self._queue.append((ticket, loop, future))
            self._filled.notify()
        return future

    def stop(self) -> None:
        """Completes every awaited ticket, and stops the thread."""
        with self._filled:
            self._stopped = True
            self._filled.notify()
            thread = self._thread
        # The waiter's own thread may briefly hold the last reference to a store.
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._filled:
                while not self._queue and not self._stopped:
                    self._filled.wait()
                if not self._queue:
                    return
                taken = list(self._queue)
                self._queue.clear()
            self._answer(taken)

    @staticmethod
    def _answer(
        taken: list[tuple[Ticket, asyncio.AbstractEventLoop, asyncio.Future[None]]],
    ) -> None:
        # The first ticket of a partition waits for the disk; later ones find it flushed.
        answers: dict[
            asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], BaseException | None]]
        ] = {}
        for ticket, loop, future in taken:
            failure: BaseException | None = None
            try:
                ticket.result()
            except Exception as raised:
                failure = raised
            answers.setdefault(loop, []).append((future, failure))
        for loop, done in answers.items():
            try:
                loop.call_soon_threadsafe(_settle, done)
            except RuntimeError:  # the loop is closed: no task waits any more
                continue


def _settle(done: list[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for future, failure in done:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
