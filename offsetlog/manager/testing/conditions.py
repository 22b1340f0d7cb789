"""Conditional commits: the current values decide, and a commit that is refused writes nothing."""

from __future__ import annotations

import threading

import pytest

from offsetlog.errors import ExpectedOffsetError, RewindError
from offsetlog.manager.interface import Capability, OffsetManager, PendingCommit
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import Position


def _offsets(manager: OffsetManager) -> dict[tuple[str, int], int]:
    return {key: value.offset for key, value in manager.fetch(GROUP).items()}


def _answer(site: ManagerSite, answered: Position | PendingCommit) -> None:
    # If the storage must be read first, only its answer shows whether a condition holds.
    if isinstance(answered, PendingCommit):
        answered.result(site.harness.patience)


@pytest.mark.needs(Capability.CONDITIONS)
class TestConditions:
    """`expected=` and `monotonic=`."""

    def test_what_is_expected_and_holds_is_committed(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1}, expected={KEYS[0]: None})
        manager.commit(GROUP, {KEYS[0]: 2, KEYS[1]: 5}, expected={KEYS[0]: 1, KEYS[1]: None})
        manager.commit(GROUP, {KEYS[0]: 0, KEYS[1]: 6}, expected={KEYS[0]: 2})
        assert _offsets(manager) == {KEYS[0]: 0, KEYS[1]: 6}

    @pytest.mark.parametrize("name", ["commit", "commit_async"])
    @pytest.mark.parametrize("expected", [{KEYS[1]: 4}, {KEYS[1]: None}, {KEYS[0]: 1, KEYS[1]: 6}])
    def test_what_is_expected_and_does_not_hold_writes_nothing(
        self, manager_site: ManagerSite, expected: dict[tuple[str, int], int | None], name: str
    ) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1, KEYS[1]: 5})
        with refused(ExpectedOffsetError) as caught:
            _answer(
                manager_site,
                getattr(manager, name)(GROUP, {KEYS[0]: 8, KEYS[1]: 9}, expected=expected),
            )
        failure = caught.value
        assert isinstance(failure, ExpectedOffsetError)
        assert (failure.group, failure.topic, failure.partition) == (GROUP, "orders", 1)
        assert (failure.expected, failure.actual) == (expected[KEYS[1]], 5)
        assert _offsets(manager) == {KEYS[0]: 1, KEYS[1]: 5}

    def test_an_offset_that_is_expected_and_is_not_there(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        with refused(ExpectedOffsetError) as caught:
            manager.commit(GROUP, {KEYS[0]: 8}, expected={KEYS[0]: 0})
        assert isinstance(caught.value, ExpectedOffsetError)
        assert (caught.value.expected, caught.value.actual) == (0, None)
        assert _offsets(manager) == {}

    def test_after_a_delete_nothing_is_expected(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        manager.delete(GROUP, [KEYS[0]])
        with refused(ExpectedOffsetError):
            manager.commit(GROUP, {KEYS[0]: 2}, expected={KEYS[0]: 1})
        manager.commit(GROUP, {KEYS[0]: 2}, expected={KEYS[0]: None})
        assert _offsets(manager) == {KEYS[0]: 2}

    def test_a_monotonic_commit_goes_on_and_stays(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in (3, 3, 7):
            manager.commit(GROUP, {KEYS[0]: offset}, monotonic=True)
        assert _offsets(manager) == {KEYS[0]: 7}

    @pytest.mark.parametrize("name", ["commit", "commit_async"])
    def test_a_monotonic_commit_never_goes_back(self, manager_site: ManagerSite, name: str) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 3, KEYS[1]: 3})
        with refused(RewindError) as caught:
            _answer(
                manager_site,
                getattr(manager, name)(GROUP, {KEYS[0]: 4, KEYS[1]: 2}, monotonic=True),
            )
        failure = caught.value
        assert isinstance(failure, RewindError)
        assert (failure.partition, failure.asked, failure.actual) == (1, 2, 3)
        assert _offsets(manager) == {KEYS[0]: 3, KEYS[1]: 3}

    def test_of_many_that_expect_the_same_one_succeeds(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 0})
        rounds, threads = 30, 4
        won: list[int] = []
        start = threading.Barrier(threads)

        def race() -> None:
            for number in range(rounds):
                start.wait(manager_site.harness.patience)
                try:
                    manager.commit(
                        GROUP,
                        {KEYS[0]: number + 1},
                        expected={KEYS[0]: number},
                        durability="process",
                    )
                    won.append(number)
                except ExpectedOffsetError:
                    pass

        racers = [threading.Thread(target=race) for _ in range(threads)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(manager_site.harness.patience)
        assert sorted(won) == list(range(rounds))
        assert _offsets(manager) == {KEYS[0]: rounds}

    def test_conditions_know_what_was_there_before_a_restart(
        self, manager_site: ManagerSite
    ) -> None:
        manager_site.leader().commit(GROUP, {KEYS[0]: 5})
        manager = manager_site.restarted()
        with refused(RewindError):
            manager.commit(GROUP, {KEYS[0]: 4}, monotonic=True)
        with refused(ExpectedOffsetError):
            manager.commit(GROUP, {KEYS[0]: 6}, expected={KEYS[0]: None})
        manager.commit(GROUP, {KEYS[0]: 6}, expected={KEYS[0]: 5}, monotonic=True)
        assert _offsets(manager) == {KEYS[0]: 6}
