"""The ensemble of tests/zookeeper, with a root of each test's own."""

from __future__ import annotations

from zookeeper.conftest import connection, ensemble, hosts, root

__all__ = ["connection", "ensemble", "hosts", "root"]
