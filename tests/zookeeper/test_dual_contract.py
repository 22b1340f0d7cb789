"""The dual manager keeps the contract of managers."""

from __future__ import annotations

import pytest

from offsetlog.manager.testing.test_contract import *  # noqa: F403

from .managers import DualHarness

pytestmark = pytest.mark.ci

HARNESS = DualHarness()
offset_managers = [HARNESS]


@pytest.fixture(autouse=True)
def _on_the_ensemble(ensemble):
    HARNESS.hosts = ensemble.hosts
