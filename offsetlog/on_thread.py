"""Calls that block, made for an event loop: each runs on a thread, and always to its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")


async def on_thread(call: Callable[[], Result], stop: Callable[[], object] | None = None) -> Result:
    """Makes a call on a thread of the running loop's, and waits for its end without blocking the loop.

    A task that is cancelled meanwhile waits for the end all the same: what the call opens or closes is never half done
    when the next line of the caller runs.

    Args:
        call: what is called.
        stop: called on a thread when the task is cancelled, to have the call end soon.

    Raises:
        asyncio.CancelledError: the task was cancelled; the call has ended, with whatever result.
        BaseException: that of the call.
    """
    # Code that awaits has imported it; a command, which does not, starts faster without it.
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
                each.exception()  # looked at, so that the loop does not report it
        raise
