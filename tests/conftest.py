"""Hooks of all tests: their tiers, and interrupts where a shell ignores them."""

from __future__ import annotations

import signal
import threading

import pytest
from tiers import arrange


def pytest_configure() -> None:
    """Takes SIGINT again where a shell without job control ignores it for background jobs: some tests send it."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Arranges the tests before their markers select some of them."""
    arrange(items)
