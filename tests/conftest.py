"""Hooks of all tests: their tiers, the Spark that they start, and interrupts where a shell ignores them."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from depth import DEPTH, first_seed
from tiers import arrange, check_groups

#: The contract of offset managers, which tests/manager runs; runs of pytest within a test.
pytest_plugins = ["offsetlog.manager.testing.plugin", "pytester"]

#: A Spark of a test runs many queries once: no optimising compiler, one collector thread.
SPARK_JVM_FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def pytest_configure() -> None:
    """Sets the JVM flags of Spark, also for commands that start one; takes SIGINT again, which some tests send.

    A shell without job control ignores SIGINT for background jobs.
    """
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SPARK_JVM_FLAGS)
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    """Checks that a worker of pytest-xdist announces the groups of its tests."""
    check_groups(ids)
