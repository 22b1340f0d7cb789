"""A leader with a lease answers a fetch only where the lease still held after the read."""

from __future__ import annotations

import pytest

from offsetlog._native import fetch_columns
from offsetlog.errors import NotCoordinatorError

from .managers import KEYS, leading
from .manual_executor import ManualExecutor


@pytest.fixture
def executor():
    return ManualExecutor()


@pytest.mark.parametrize("keys", [None, [KEYS[0]]])
def test_a_lease_that_ends_during_a_fetch_refuses_it(tmp_path, executor, monkeypatch, keys):
    with leading(tmp_path / "data", executor=executor) as manager:
        manager.commit("g", {KEYS[0]: 7}, durability="process")
        manager.grant(0, 1, 5.0)
        assert manager.fetch("g", keys)[KEYS[0]].offset == 7
        for name in ("fetch_group", "fetch_keys"):
            read = getattr(fetch_columns, name)

            def read_late(*given, read=read):
                executor.time = 5.0  # this thread rested, and another leads by now
                return read(*given)

            monkeypatch.setattr(fetch_columns, name, read_late)
        with pytest.raises(NotCoordinatorError, match="lease"):
            manager.fetch("g", keys)
