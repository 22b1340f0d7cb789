"""Threads of a test: those that something leaves, and calls that have to return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .managers import PATIENCE
from .proxy import CuttingProxy


class Threads:
    """The threads that were started since."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def wait_until_ended(self, but: CuttingProxy | None = None) -> None:
        kept = self._before if but is None else self._before.union(but._threads)
        for each in set(threading.enumerate()) - kept:
            each.join(PATIENCE)
            assert not each.is_alive()


def in_patience(call: Callable[[], Any]) -> Any:
    """Returns what a call returns or raises, which it does in time."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as failure:
            found.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found, "it did not return in time"
    return found[0]
