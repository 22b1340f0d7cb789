"""Durability: a commit of any durability is answered, either within the call or later."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from offsetlog.manager.interface import PendingCommit
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import Position

Durability = Literal["process", "disk", "replicas"]
ALL: list[Durability] = ["process", "disk", "replicas"]


class TestDurability:
    """A commit of any durability is answered, either within the call or later."""

    @pytest.mark.parametrize("durability", ALL)
    def test_a_commit_of_each_durability_counts(
        self, manager_site: ManagerSite, durability: Durability
    ) -> None:
        manager = manager_site.leader()
        patience = manager_site.harness.patience
        manager.commit(GROUP, {KEYS[0]: 5}, durability=durability, timeout=patience)
        assert manager.fetch(GROUP)[KEYS[0]].offset == 5
        assert manager_site.restarted_after_a_crash().fetch(GROUP)[KEYS[0]].offset == 5

    @pytest.mark.parametrize("durability", ALL)
    def test_a_commit_that_is_not_waited_for_is_answered(
        self, manager_site: ManagerSite, durability: Durability
    ) -> None:
        manager = manager_site.leader()
        pending = manager.commit_async(GROUP, {KEYS[0]: 5}, durability=durability)
        assert isinstance(pending, PendingCommit)
        assert pending.position.log_partition == manager.partition_for(GROUP)
        assert pending.result(manager_site.harness.patience) == pending.position
        assert pending.done()
        assert manager.fetch(GROUP)[KEYS[0]].offset == 5
        called: list[PendingCommit] = []
        pending.add_done_callback(called.append)
        assert called == [pending]

    def test_the_order_of_commits_that_are_not_waited_for_stays(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.leader()
        pending = [manager.commit_async(GROUP, {KEYS[0]: offset}) for offset in range(50)]
        answers = [each.result(manager_site.harness.patience) for each in pending]
        assert sorted(answers) == answers
        assert manager.fetch(GROUP)[KEYS[0]].offset == 49

    @pytest.mark.parametrize("durability", ALL)
    def test_commits_are_awaited_in_an_event_loop(
        self, manager_site: ManagerSite, durability: Durability
    ) -> None:
        manager = manager_site.leader()

        async def commit(number: int) -> Position:
            group = f"group-{number % 5}"
            return await manager.commit_async(
                group, {KEYS[number % 4]: number}, durability=durability
            )

        async def commit_all() -> list[Position]:
            every = [commit(number) for number in range(100)]
            patience = manager_site.harness.patience
            return await asyncio.wait_for(asyncio.gather(*every), patience)

        positions = asyncio.run(commit_all())
        assert [each.log_partition for each in positions] == [
            manager.partition_for(f"group-{number % 5}") for number in range(100)
        ]
        for number in range(80, 100):
            found = manager.fetch(f"group-{number % 5}", [KEYS[number % 4]])
            assert found[KEYS[number % 4]].offset == number

    def test_two_can_wait_for_one_commit(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        pending = manager.commit_async(GROUP, {KEYS[0]: 1}, durability="disk")

        async def wait() -> Position:
            return await pending

        async def both() -> list[Position]:
            return list(await asyncio.gather(wait(), wait()))

        assert asyncio.run(both()) == [pending.position] * 2
        assert pending.result(0) == pending.position
