"""The contract of watches can be kept: one that reads the log batch by batch keeps it."""

from offsetlog.manager.testing.test_contract import TestWatch, TestWatchOfReplicas
from tests.manager.harnesses import WatchedHarness, WatchedReplicasHarness

__all__ = ["TestWatch", "TestWatchOfReplicas"]

offset_managers = [WatchedHarness(), WatchedReplicasHarness()]
