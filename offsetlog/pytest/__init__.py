"""A pytest plugin that runs a real server of Kafka's protocol for tests of clients (docs/pytest.md).

pytest finds the plugin when offsetlog is installed.  The server is imported only when a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from offsetlog.pytest.faults import Fault, FaultMenu
    from offsetlog.pytest.running_server import Group, OffsetlogServer, ServerFactory

__all__ = ["Fault", "FaultMenu", "Group", "OffsetlogServer", "ServerFactory"]

_MODULES = {
    "Fault": "offsetlog.pytest.faults",
    "FaultMenu": "offsetlog.pytest.faults",
    "Group": "offsetlog.pytest.running_server",
    "OffsetlogServer": "offsetlog.pytest.running_server",
    "ServerFactory": "offsetlog.pytest.running_server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


@pytest.fixture(scope="session")
def offsetlog_server_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerFactory]:
    """A factory of servers.  At the end of the session, it stops the servers that are still running."""
    from offsetlog.pytest.running_server import ServerFactory

    with ServerFactory(lambda: tmp_path_factory.mktemp("offsetlog")) as factory:
        yield factory


@pytest.fixture
def offsetlog_server(offsetlog_server_factory: ServerFactory) -> Iterator[OffsetlogServer]:
    """A running server; each test gets a new one."""
    with offsetlog_server_factory() as server:
        yield server
