"""Runs blocking calls for an event loop.  Each call runs on a thread of its own, and always to its end."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")


async def on_thread(call: Callable[[], Result], stop: Callable[[], object] | None = None) -> Result:
    """Runs a call on a thread of its own, and waits for its end without blocking the loop.

    The thread pool of the loop is not used, because it may have been shut down or may have no idle thread.

    If the task is cancelled, this function still waits until the call has ended.  The call therefore never runs
    concurrently with the caller's next line.

    If the system refuses to start a thread, a call without `stop` runs on the thread of the loop, and blocks the loop
    until it ends.  A call with `stop` can take long, so it raises RuntimeError instead.

    Args:
        call: the function to call.
        stop: a function that makes the call end soon.  It is called on another thread when the task is cancelled.

    Raises:
        asyncio.CancelledError: the task was cancelled.  The call has ended, and its result or exception is dropped.
        RuntimeError: the system refused to start a thread for a call with `stop`.  Nothing was called.
        BaseException: the exception of the call.
    """
    # Imported here because commands do not need it and start faster without it; code that awaits has it already.
    import asyncio

    work = asyncio.wrap_future(_begin(call, may_block=stop is None))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        pending: list[asyncio.Future[Any]] = [work]
        if stop is not None:
            pending.append(asyncio.wrap_future(_begin(stop, may_block=True)))
        while not all(each.done() for each in pending):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(pending)
        for each in pending:
            if not each.cancelled():
                each.exception()  # retrieved, so that the loop does not report it
        raise


def _begin(call: Callable[[], Result], *, may_block: bool) -> Future[Result]:
    ended: Future[Result] = Future()
    ended.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(call)
        except BaseException as failure:
            ended.set_exception(failure)
        else:
            ended.set_result(result)

    try:
        threading.Thread(target=run, name="offsetlog-call").start()
    except RuntimeError:
        if not may_block:
            raise
        run()
    return ended
