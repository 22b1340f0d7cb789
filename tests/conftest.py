"""Hooks of all tests: their tiers, and interrupts where a shell ignores them."""

from __future__ import annotations

import signal
import threading

import pytest
from depth import DEPTH, first_seed
from tiers import arrange


def pytest_configure() -> None:
    """Takes SIGINT again where a shell without job control ignores it for background jobs: some tests send it."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Says how deep this run goes, and the seed to repeat it with."""
    return f"depth: {DEPTH} (OFFSETLOG_DEPTH), first seed: {first_seed()} (OL_SEED)"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Arranges the tests before their markers select some of them."""
    arrange(items)
