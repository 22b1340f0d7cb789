"""The ZooKeeper manager and the dual manager keep the contract of managers."""

from __future__ import annotations

import pytest

from offsetlog.manager.testing.test_contract import *  # noqa: F403

from .managers import DualHarness, ZooKeeperHarness

offset_managers = [ZooKeeperHarness(), DualHarness()]


@pytest.fixture(autouse=True)
def _on_the_ensemble(ensemble):
    for harness in offset_managers:
        harness.hosts = ensemble.hosts
