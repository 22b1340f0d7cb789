"""A server, and a client of it."""

from __future__ import annotations

import pytest

from .running import Client, RunningServer


@pytest.fixture
def server(tmp_path):
    with RunningServer(tmp_path / "data") as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.address) as connected:
        yield connected
