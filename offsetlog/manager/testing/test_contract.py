"""The whole contract for pytest: run this module by name, or import everything from it into a test module."""

from offsetlog.manager.testing.arguments import TestArguments
from offsetlog.manager.testing.commits import TestCommits
from offsetlog.manager.testing.conditions import TestConditions
from offsetlog.manager.testing.deletes import TestDeletes, TestExpiry, TestQuotas
from offsetlog.manager.testing.durability import TestDurability
from offsetlog.manager.testing.leadership import TestLeadership
from offsetlog.manager.testing.life import TestLife, TestPartitions
from offsetlog.manager.testing.members import TestFences, TestGenerations, TestGroupsWithMembers
from offsetlog.manager.testing.refusals import TestRefusals
from offsetlog.manager.testing.replication import TestFollowers, TestReading, TestShipping
from offsetlog.manager.testing.replication_epochs import TestReplicationEpochs
from offsetlog.manager.testing.threads import TestThreads
from offsetlog.manager.testing.watch import TestWatch
from offsetlog.manager.testing.watch_gaps import TestWatchOfReplicas
from offsetlog.manager.testing.watermark import TestElections, TestWatermark

__all__ = [
    "TestArguments",
    "TestCommits",
    "TestConditions",
    "TestDeletes",
    "TestDurability",
    "TestElections",
    "TestExpiry",
    "TestFences",
    "TestFollowers",
    "TestGenerations",
    "TestGroupsWithMembers",
    "TestLeadership",
    "TestLife",
    "TestPartitions",
    "TestQuotas",
    "TestReading",
    "TestRefusals",
    "TestReplicationEpochs",
    "TestShipping",
    "TestThreads",
    "TestWatch",
    "TestWatchOfReplicas",
    "TestWatermark",
]
