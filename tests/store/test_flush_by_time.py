"""Commits that nobody waits for reach the disk by themselves, within a bounded time."""

from __future__ import annotations

import time

import pytest
from faults import FaultFileSystem

import offsetlog
from offsetlog import StoreConfig, opening

#: The machine may be busy.
DEADLINE_SECONDS = 30


def flushed(store) -> bool:
    facts = store._open_core.partition(0).log_facts()
    return facts["flushed"] == facts["end"]


def wait_for(condition) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_power_loss_takes_nothing_that_is_older_than_the_interval(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    fs = FaultFileSystem(root)
    config = StoreConfig(flush_interval_ms=20)
    with opening.open_with(root / "data", partitions=1, durability="process", config=config, fs=fs) as store:
        for offset in range(3):
            store.commit_one("g", "t", 0, offset)
            wait_for(lambda: flushed(store))
            for seed in range(3):
                left = tmp_path / f"left-{offset}-{seed}"
                left.mkdir()
                fs.materialize(left, seed)
                with offsetlog.open(left / "data") as found:
                    assert found.fetch_one("g", "t", 0).offset == offset
                    assert found.problems() == []


@pytest.mark.parametrize("interval", [None, 0])
def test_it_can_be_turned_off(tmp_path, interval):
    config = StoreConfig(flush_interval_ms=interval)
    with offsetlog.open(tmp_path / "data", partitions=1, durability="process", config=config) as store:
        store.commit_one("g", "t", 0, 1)
        time.sleep(0.3)
        assert not flushed(store)
        store.flush()
        assert flushed(store)


def test_a_ticket_that_nobody_waits_for_is_done_by_itself(tmp_path):
    config = StoreConfig(flush_interval_ms=20)
    with offsetlog.open(tmp_path / "data", partitions=1, config=config) as store:
        ticket = store.commit_async("g", {("t", 0): 1})
        wait_for(ticket.done)
