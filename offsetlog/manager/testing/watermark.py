"""W, the high watermark: records above W are not visible; each waiting caller is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from offsetlog.errors import (
    CommitTimeoutError,
    CoordinatorLoadingError,
    ExpectedOffsetError,
    FencedLeaderEpochError,
    GenerationError,
    NotCoordinatorError,
    RewindError,
)
from offsetlog.manager.interface import Capability, OffsetManager, PartitionState, Pending
from offsetlog.manager.testing.errors import check_error, refused
from offsetlog.manager.testing.replica_set import ReplicaSet
from offsetlog.manager.testing.serving import Caller, wait_until
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import Position

#: The ways in which leadership can end while commits wait.
ENDS: dict[str, Callable[[OffsetManager, int, int], object]] = {
    "become_follower": lambda manager, partition, epoch: manager.become_follower(
        partition, epoch + 1
    ),
    "become_follower in its epoch": lambda manager, partition, epoch: manager.become_follower(
        partition, epoch
    ),
    "resign": lambda manager, partition, epoch: manager.resign(partition, epoch),
    "stop": lambda manager, partition, epoch: manager.stop(),
}


@pytest.mark.needs(Capability.REPLICATION)
class TestWatermark:
    """A commit takes effect when the high watermark passes its record."""

    def test_a_commit_waits_for_the_watermark(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        pending = leader.commit_async(GROUP, {KEYS[0]: 1}, durability="replicas")
        assert not pending.done()
        assert replicas.fetched() == {}
        leader.flush(replicas.partition).result(manager_site.harness.patience)
        replicas.ship()
        assert not pending.done()
        replicas.advance()
        assert pending.result(manager_site.harness.patience) == Position(replicas.partition, 0)
        assert replicas.fetched() == {KEYS[0]: 1}

    def test_a_call_waits_for_the_watermark(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, patience = replicas.elect("one"), manager_site.harness.patience

        def commit() -> Position:
            return leader.commit(GROUP, {KEYS[0]: 1}, durability="replicas", timeout=patience)

        caller = Caller(commit, patience)
        wait_until(lambda: leader.positions(replicas.partition).log_end == 1, patience)
        leader.flush(replicas.partition).result(patience)
        assert caller.is_waiting
        replicas.replicate()
        assert caller.answer() == Position(replicas.partition, 0)

    def test_the_watermark_answers_those_below_it(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        pending = [leader.commit_async(GROUP, {KEYS[0]: offset}) for offset in range(6)]
        for watermark in (2, 2, 1, 5):
            moved = leader.advance(replicas.partition, replicas.epoch, watermark)
            reached = max(2, watermark)
            assert moved == reached == leader.positions(replicas.partition).watermark
            assert [each.done() for each in pending] == [at < reached for at in range(6)]
            assert replicas.fetched() == {KEYS[0]: reached - 1}
        assert leader.advance(replicas.partition, replicas.epoch, 1000) == 6
        assert [each.result(0).log_offset for each in pending] == list(range(6))

    def test_a_follower_applies_what_is_below_the_watermark(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        for offset in range(4):
            leader.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.ship()
        assert follower.advance(replicas.partition, replicas.epoch, 3) == 3
        found = follower.positions(replicas.partition)
        assert (found.watermark, found.log_end) == (3, 4)
        assert found.log_start <= found.applied <= found.watermark

    def test_a_commit_that_does_not_wait_is_not_there_either(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        leader.commit(GROUP, {KEYS[0]: 1}, durability="process")
        leader.commit(GROUP, {KEYS[1]: 1}, durability="disk")
        assert leader.positions(replicas.partition).flushed == 2
        assert replicas.fetched() == {}
        replicas.replicate()
        assert replicas.fetched() == {KEYS[0]: 1, KEYS[1]: 1}

    def test_a_timeout_answers_and_does_not_undo(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, patience = replicas.elect("one"), manager_site.harness.patience
        with refused(CommitTimeoutError) as caught:
            leader.commit(GROUP, {KEYS[0]: 1}, durability="replicas", timeout=0.01)
        assert (caught.value.error_code, caught.value.retriable) == (15, True)
        pending = leader.commit_async(GROUP, {KEYS[1]: 2}, durability="replicas", timeout=0.01)
        wait_until(pending.done, patience)
        with refused(CommitTimeoutError):
            pending.result(patience)
        assert replicas.fetched() == {}
        assert leader.positions(replicas.partition).log_end == 2
        replicas.replicate()
        assert replicas.fetched() == {KEYS[0]: 1, KEYS[1]: 2}
        with refused(CommitTimeoutError):
            pending.result(patience)

    def test_a_timeout_of_a_delete_does_not_undo_it(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        leader.commit(GROUP, {KEYS[0]: 1, KEYS[1]: 1}, durability="process")
        replicas.replicate()
        with refused(CommitTimeoutError):
            leader.delete(GROUP, [KEYS[0]], timeout=0.01)
        assert replicas.fetched() == {KEYS[0]: 1, KEYS[1]: 1}
        replicas.replicate()
        assert replicas.fetched() == {KEYS[1]: 1}
        with refused(CommitTimeoutError):
            leader.delete_group(GROUP, timeout=0.01)
        replicas.replicate()
        assert replicas.fetched() == {}

    @pytest.mark.needs(Capability.GENERATIONS)
    def test_a_timeout_of_a_fence_does_not_undo_it(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        with refused(CommitTimeoutError):
            leader.fence(GROUP, {KEYS[0]: 7}, timeout=0.01)
        assert replicas.fetched() == {}
        replicas.replicate()
        assert replicas.fetched() == {KEYS[0]: 7}
        with refused(GenerationError):
            leader.commit_async(GROUP, {KEYS[0]: 8}, generation=2**31 - 1)

    def test_who_waits_shorter_than_the_commit_can_wait_again(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader, patience = replicas.elect("one"), manager_site.harness.patience
        pending = leader.commit_async(GROUP, {KEYS[0]: 1}, timeout=patience)
        with refused(CommitTimeoutError):
            pending.result(0.01)
        assert not pending.done()
        replicas.replicate()
        assert pending.result(patience) == pending.position

    @pytest.mark.parametrize("name", ENDS)
    def test_leadership_that_ends_answers_those_who_wait(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader, patience = replicas.elect("one"), manager_site.harness.patience
        pending = leader.commit_async(GROUP, {KEYS[0]: 1}, timeout=patience)
        called: list[object] = []
        pending.add_done_callback(called.append)
        waiting = Caller(lambda: leader.commit(GROUP, {KEYS[1]: 1}, timeout=patience), patience)
        wait_until(lambda: leader.positions(replicas.partition).log_end == 2, patience)
        ENDS[name](leader, replicas.partition, replicas.epoch)
        with refused(NotCoordinatorError):
            pending.result(patience)
        with refused(NotCoordinatorError):
            waiting.answer()
        assert called == [pending]

    def test_commits_wait_in_an_event_loop(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")

        async def commit(offset: int) -> Position:
            return await leader.commit_async(GROUP, {KEYS[0]: offset}, durability="replicas")

        async def commit_all() -> list[Position]:
            tasks = [asyncio.create_task(commit(offset)) for offset in range(20)]
            while leader.positions(replicas.partition).log_end < 20:
                await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)
            await asyncio.to_thread(replicas.replicate)
            return await asyncio.wait_for(asyncio.gather(*tasks), manager_site.harness.patience)

        assert [each.log_offset for each in asyncio.run(commit_all())] == list(range(20))

    def test_an_awaited_commit_hears_that_leadership_ended(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")

        async def commit() -> NotCoordinatorError:
            pending = leader.commit_async(GROUP, {KEYS[0]: 1}, durability="replicas")
            resign = asyncio.to_thread(leader.resign, replicas.partition, replicas.epoch)
            task = asyncio.create_task(resign)
            try:
                await asyncio.wait_for(self._await(pending), manager_site.harness.patience)
            except NotCoordinatorError as failure:
                return failure
            finally:
                await task
            raise AssertionError("a commit succeeded after the leader had resigned")

        check_error(asyncio.run(commit()))

    @staticmethod
    async def _await(pending: object) -> object:
        return await pending  # type: ignore[misc]

    @pytest.mark.needs(Capability.CONDITIONS)
    def test_conditions_count_what_waits(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        first = leader.commit_async(GROUP, {KEYS[0]: 5})
        second = leader.commit_async(GROUP, {KEYS[0]: 6}, expected={KEYS[0]: 5})
        unexpected = leader.commit_async(GROUP, {KEYS[0]: 7}, expected={KEYS[0]: None})
        back = leader.commit_async(GROUP, {KEYS[0]: 5}, monotonic=True)
        assert not any(each.done() for each in (first, second, unexpected, back))
        replicas.replicate()
        with refused(ExpectedOffsetError):
            unexpected.result(manager_site.harness.patience)
        with refused(RewindError):
            back.result(manager_site.harness.patience)
        assert replicas.fetched() == {KEYS[0]: 6}

    @pytest.mark.needs(Capability.CONDITIONS)
    def test_a_refusal_waits_for_what_it_rests_on(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, patience = replicas.elect("one"), manager_site.harness.patience
        leader.commit_async(GROUP, {KEYS[0]: 5})
        wrong = {KEYS[0]: 4}
        waiting = Caller(
            lambda: leader.commit(GROUP, {KEYS[0]: 7}, expected=wrong, timeout=patience), patience
        )
        pending = leader.commit_async(GROUP, {KEYS[0]: 7}, expected=wrong, timeout=patience)
        with refused(CommitTimeoutError):
            leader.commit(GROUP, {KEYS[0]: 7}, expected=wrong, durability="process", timeout=0.01)
        assert not pending.done()
        leader.resign(replicas.partition, replicas.epoch)
        with refused(NotCoordinatorError):
            pending.result(patience)
        with refused(NotCoordinatorError):
            waiting.answer()

    @pytest.mark.parametrize("call", ["delete", "delete_group"])
    def test_a_delete_that_finds_nothing_waits_for_the_delete_before_it(
        self, manager_site: ManagerSite, call: str
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader, patience = replicas.elect("one"), manager_site.harness.patience
        leader.commit_async(GROUP, {KEYS[0]: 5})
        replicas.replicate()

        def delete(timeout: float) -> Pending[int]:
            if call == "delete":
                return leader.delete_async(GROUP, KEYS[:1], timeout=timeout)
            return leader.delete_group_async(GROUP, timeout=timeout)

        first, again = delete(patience), delete(patience)
        with refused(CommitTimeoutError):
            delete(0.01).result(patience)
        assert not again.done()
        replicas.replicate()
        assert (first.result(patience), again.result(patience)) == (1, 0)


@pytest.mark.needs(Capability.REPLICATION)
class TestElections:
    """A new leader answers once the high watermark has reached the log end that it was elected with."""

    def test_a_new_leader_loads_until_the_watermark_is_there(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        first = replicas.elect("one")
        for offset in range(3):
            first.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.ship()
        leader = replicas.elect("two")
        partition = replicas.partition
        transition = leader.become_leader(partition, replicas.epoch)
        for watermark in (0, 2):
            replicas.advance(watermark)
            assert not transition.done()
            assert 0 <= transition.progress < 1
            assert leader.state(partition) is PartitionState.LOADING
            with refused(CoordinatorLoadingError) as caught:
                leader.fetch(GROUP)
            assert (caught.value.error_code, caught.value.retriable) == (14, True)
        replicas.advance(3)
        assert transition.result(manager_site.harness.patience) == 3
        assert leader.state(partition) is PartitionState.ACTIVE
        assert replicas.fetched() == {KEYS[0]: 2}

    def test_while_it_loads_what_needs_the_table_is_refused(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        first = replicas.elect("one")
        first.commit(GROUP, {KEYS[0]: 1, KEYS[1]: 1}, durability="process")
        replicas.ship()
        leader = replicas.elect("two")
        needing: dict[str, Callable[[], object]] = {
            "fetch": lambda: leader.fetch(GROUP),
            "fetch of keys": lambda: leader.fetch(GROUP, KEYS),
            "delete": lambda: leader.delete(GROUP, KEYS),
            "delete_group": lambda: leader.delete_group(GROUP),
        }
        if Capability.CONDITIONS in leader.capabilities:
            needing |= {
                "expected": lambda: leader.commit(GROUP, {KEYS[0]: 2}, expected={KEYS[0]: 1}),
                "monotonic": lambda: leader.commit(GROUP, {KEYS[0]: 2}, monotonic=True),
            }
        if Capability.GENERATIONS in leader.capabilities:
            needing |= {
                "generation": lambda: leader.commit(GROUP, {KEYS[0]: 2}, generation=-1),
                "fence": lambda: leader.fence(GROUP),
            }
        for name, call in needing.items():
            with refused(CoordinatorLoadingError, case=name):
                call()
        assert leader.positions(replicas.partition).log_end == 2
        # A plain commit may be accepted; in that case, the newest value counts.
        expected = {KEYS[0]: 1, KEYS[1]: 1}
        try:
            leader.commit(GROUP, {KEYS[0]: 9}, durability="process")
            expected[KEYS[0]] = 9
        except CoordinatorLoadingError as failure:
            check_error(failure)
        replicas.replicate()
        replicas.wait_for_leader()
        replicas.replicate()
        assert replicas.fetched() == expected

    @pytest.mark.parametrize("name", ["become_leader", "become_follower", "resign"])
    def test_a_change_takes_the_place_of_an_earlier_one(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        replicas = ReplicaSet(manager_site)
        replicas.elect("one").commit(GROUP, {KEYS[0]: 1}, durability="process")
        replicas.ship()
        leader = replicas.elect("two")
        partition, patience = replicas.partition, manager_site.harness.patience
        first = leader.become_leader(partition, replicas.epoch)
        called: list[object] = []
        first.add_done_callback(called.append)
        second = getattr(leader, name)(partition, replicas.epoch + 1)
        assert second is not first
        with refused(FencedLeaderEpochError):
            first.result(patience)
        assert called == [first]
        if name == "become_leader":
            leader.advance(partition, replicas.epoch + 1, 1)
        second.result(patience)

    def test_a_wait_for_a_transition_can_end_before_it(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        replicas.elect("one").commit(GROUP, {KEYS[0]: 1}, durability="process")
        replicas.ship()
        leader = replicas.elect("two")
        transition = leader.become_leader(replicas.partition, replicas.epoch)
        with refused(CommitTimeoutError):
            transition.result(0.01)
        replicas.advance()

        async def wait() -> int:
            return await transition

        assert asyncio.run(wait()) == 1

    def test_what_was_not_answered_may_be_gone(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        leader.commit(GROUP, {KEYS[0]: 1}, durability="process")
        replicas.replicate()
        lost = leader.commit_async(GROUP, {KEYS[0]: 2})
        other = replicas.elect("two")
        replicas.advance()
        replicas.wait_for_leader()
        with refused(NotCoordinatorError):
            lost.result(manager_site.harness.patience)
        other.commit(GROUP, {KEYS[1]: 3}, durability="process")
        leader.truncate_to(replicas.partition, replicas.epoch, 1)
        replicas.replicate()
        for name in ("two", "one"):
            replicas.lead(name)
            assert replicas.fetched() == {KEYS[0]: 1, KEYS[1]: 3}
