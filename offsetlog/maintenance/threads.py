"""Threads that work for a store by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MaintenanceThread(threading.Thread):
    """A thread of the maintenance of a store.

    It may be the one on which a store ends that nobody uses any more: where it held the last
    reference, or where the garbage is collected.  It must not wait for itself then, nor for others
    that wait for it.

    Args:
        work: its work.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        super().__init__(target=work, name=name, daemon=True)


def on_maintenance_thread() -> bool:
    """Tells whether the current thread is one of them, of whichever store."""
    return isinstance(threading.current_thread(), MaintenanceThread)
