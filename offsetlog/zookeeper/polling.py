"""Waits for sockets, which a client of ZooKeeper does several times for each request.

This module makes one system call for each wait.  kazoo itself creates, fills, polls and closes an epoll object for each
wait.  These five system calls take most of the processor time of a small request.
"""

from __future__ import annotations

import math
import select
from collections.abc import Iterable, Sequence
from typing import Any

_READABLE, _WRITABLE = select.POLLIN | select.POLLPRI, select.POLLOUT


def wait_for_sockets(
    readers: Sequence[Any], writers: Sequence[Any], _: Iterable[Any] = (), timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Waits until a socket is ready or broken, like `select.select`; descriptors may be above 1023.

    Raises:
        ValueError: a socket is closed, or the timeout is negative.
        TypeError: the timeout is not a number.
    """
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    waiting = select.poll()
    events: dict[int, int] = {}
    for wanted, sockets in ((_READABLE, readers), (_WRITABLE, writers)):
        for each in sockets:
            number = each if isinstance(each, int) else each.fileno()
            events[number] = events.get(number, 0) | wanted
            waiting.register(number, events[number])
    found = dict(waiting.poll(None if timeout is None else math.ceil(timeout * 1000)))
    if any(event & select.POLLNVAL for event in found.values()):
        raise ValueError("a socket is closed")
    # A broken socket counts as ready for everything; its use then raises the error.
    return (_ready(readers, found, ~_WRITABLE), _ready(writers, found, ~_READABLE), [])


def _ready(sockets: Sequence[Any], found: dict[int, int], events: int) -> list[Any]:
    return [each for each in sockets if found.get(each if isinstance(each, int) else each.fileno(), 0) & events]
