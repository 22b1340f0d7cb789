import os

import pytest


@pytest.fixture
def one_core(monkeypatch):
    """Partitions are opened one after the other: the n-th operation is the same one when a sequence is repeated."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
