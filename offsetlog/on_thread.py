"""Blocking calls for an event loop: each runs on a thread, and always to its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")


async def on_thread(call: Callable[[], Result], stop: Callable[[], object] | None = None) -> Result:
    """Makes a call on a thread of the running loop, and waits for its end without blocking the loop.

    A task that is cancelled meanwhile still waits for the end of the call, so that the call never runs on beside the
    caller's next line.

    Args:
        call: the function to call.
        stop: called on a thread if the task is cancelled, to end the call soon.

    Raises:
        asyncio.CancelledError: the task was cancelled; the call has ended, whatever its result.
        BaseException: raised by the call.
    """
    # Code that awaits has imported it already; commands do not need it, and start faster without it.
    import asyncio

    work: asyncio.Task[Result] = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        pending: list[asyncio.Task[Any]] = [work]
        if stop is not None:
            pending.append(asyncio.ensure_future(asyncio.to_thread(stop)))
        while not all(each.done() for each in pending):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(pending)
        for each in pending:
            if not each.cancelled():
                each.exception()  # retrieved, so that the loop does not report it
        raise
