"""The ensemble of tests/zookeeper, with a root of each test's own."""

from __future__ import annotations

from zookeeper.conftest import connection, ensemble, hosts, root, zookeeper_is_here

__all__ = ["connection", "ensemble", "hosts", "root", "zookeeper_is_here"]
