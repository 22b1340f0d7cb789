"""Threads of a store's maintenance."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MaintenanceThread(threading.Thread):
    """A thread of a store's maintenance.

    An unused store may be closed on a maintenance thread, because the thread held the last
    reference or collects garbage.  In that case the thread must not wait for itself, nor for
    threads that wait for it.

    Args:
        work: the function to run.
        name: the name of the thread.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        super().__init__(target=work, name=name, daemon=True)


def on_maintenance_thread() -> bool:
    """Returns whether the current thread is a maintenance thread of any store."""
    return isinstance(threading.current_thread(), MaintenanceThread)
