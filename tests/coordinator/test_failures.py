"""A step that fails in a way that nobody has thought of: the other groups, and what waits, go on."""

from __future__ import annotations

import pytest

from offsetlog.coordinator.coordinator import FAILED_RETRY_SECONDS, CoordinatorConfig
from offsetlog.protocol.messages import LeaveGroupRequest

from .driver import Driver
from .requests import GROUP, join, sync


class Broken(Exception):
    """An error that no code of the coordinator raises."""


@pytest.fixture
def breaking(monkeypatch):
    """Has a method of a driver's membership fail, for one group or all."""

    def make(driver: Driver, method: str, group_id: str | None = None):
        membership = driver.coordinator._membership
        real = getattr(membership, method)

        def fail(group, *more):
            if group_id is None or group.group_id == group_id:
                raise Broken(group.group_id)
            return real(group, *more)

        monkeypatch.setattr(membership, method, fail)

    return make


def test_a_deadline_that_fails_keeps_no_other_group_and_comes_again(breaking, monkeypatch):
    driver = Driver(CoordinatorConfig(initial_rebalance_delay=1000))
    calls = {name: driver.send(join()._replace(group_id=name), 3) for name in ("a", "b", "c")}
    breaking(driver, "on_timer", "b")
    driver.now += 1
    with pytest.raises(ExceptionGroup) as raised:
        driver.coordinator.tick(driver.now)
    assert [type(each) for each in raised.value.exceptions] == [Broken]
    assert [driver.answers[calls[name]].error_code for name in ("a", "c")] == [0, 0]
    assert calls["b"] not in driver.answers
    monkeypatch.undo()
    driver.advance(FAILED_RETRY_SECONDS)
    assert driver.answers[calls["b"]].error_code == 0


def member_that_syncs() -> tuple[Driver, str]:
    """A driver, and its one member, whose assignment is on its way to W."""
    driver = Driver(at_once=False)
    call = driver.send(join(), 3)
    driver.settle()
    driver.advance(0)
    return driver, driver.answers[call].member_id


def test_a_request_that_waits_and_fails_is_answered_and_the_next_goes_on(breaking, monkeypatch):
    driver, member_id = member_that_syncs()
    driver.send(sync(member_id, 1, (member_id,)), 3)
    breaking(driver, "leave")
    left = driver.send(LeaveGroupRequest(GROUP, member_id), 2)
    again = driver.send(join(member_id), 3)
    with pytest.raises(ExceptionGroup):
        driver.settle()
    assert driver.answers[left].error_code == -1
    assert driver.answers[again].generation_id == 2


def test_what_fails_when_a_record_is_written_keeps_nothing_that_waits(breaking, monkeypatch):
    driver, member_id = member_that_syncs()
    synced = driver.send(sync(member_id, 1, (member_id,)), 3)
    again = driver.send(join(member_id), 3)
    breaking(driver, "_assigned")
    with pytest.raises(Broken):
        driver.settle()
    assert driver.answers[synced].error_code == -1
    assert driver.answers[again].generation_id == 2
