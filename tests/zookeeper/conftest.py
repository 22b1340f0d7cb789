"""One ensemble of three servers for all tests of this folder that leave it as it was."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection

from .ensemble import Ensemble, is_possible

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def zookeeper_is_here() -> None:
    """Skips the test where no ZooKeeper can be run, or fails it where packages are required."""
    if not is_possible():
        if os.environ.get("OFFSETLOG_REQUIRE_PACKAGES"):
            pytest.fail("no java, or no ZooKeeper among PySpark's jars")
        pytest.skip("no java, or no ZooKeeper among PySpark's jars")


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory, zookeeper_is_here: None) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def root(ensemble: Ensemble) -> str:
    """A root of the test's own, as "/root-7": an empty node."""
    name = f"/root-{os.getpid()}-{next(_NUMBERS)}"
    with ZooKeeperConnection(ConnectionSettings(hosts=ensemble.hosts)) as connection:
        connection.create(name)
    return name


@pytest.fixture
def hosts(ensemble: Ensemble, root: str) -> str:
    """All servers with the root of the test's own."""
    return f"{ensemble.hosts}{root}"


@pytest.fixture
def connection(hosts: str) -> Iterator[ZooKeeperConnection]:
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts, request_timeout=20.0)) as started:
        yield started
