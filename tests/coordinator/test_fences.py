"""Fences: the generation of a group ends at once, whatever its members do, and not before its record counts."""

from __future__ import annotations

import pytest

from offsetlog import error_codes
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.classic_group import GroupState
from offsetlog.coordinator.coordinator import CoordinatorConfig, OtherGroup
from offsetlog.coordinator.group_record import Fence, GroupRecord
from offsetlog.protocol.messages import OffsetCommitRequest

from .driver import PARTITION, Driver
from .requests import GROUP, heartbeat, join, sync

#: Stands for the positions, which a coordinator passes on.
ORDER = object()
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 25, 27


@pytest.fixture
def driver():
    """A driver whose group has one member, in a stable generation 1."""
    driver = Driver(CoordinatorConfig(initial_rebalance_delay=0))
    driver.member = driver.ask(join(), 9).member_id
    assert driver.ask(join(driver.member), 9).generation_id == 1
    assert driver.ask(sync(driver.member, 1, (driver.member,)), 5).error_code == 0
    driver.at_once = False
    return driver


def fence(driver: Driver, group: str = GROUP) -> Call:
    call = Call(0)
    driver.coordinator.fence(group, ORDER, call, driver.now)
    return call


def commit_refusal(driver: Driver, generation: int, member: str) -> error_codes.ErrorCode | None:
    request = OffsetCommitRequest(GROUP, generation, member)
    return driver.coordinator.commit_refusal(request, 9, driver.now)


def state_of(driver: Driver) -> tuple[GroupState, int]:
    group = driver.coordinator.group(GROUP)
    return group.state, group.generation


def test_the_record_is_that_of_an_empty_group_with_the_positions_of_the_order(driver):
    call = fence(driver)
    ((group, record),) = driver.above
    assert (group, record.order) == (GROUP, ORDER)
    assert record.record == GroupRecord("consumer", 2, None, None, driver.now_ms())
    assert call not in driver.answers
    driver.settle()
    assert driver.answers[call] == 2
    assert state_of(driver) == (GroupState.EMPTY, 2)


def test_nobody_commits_above_the_positions_of_a_fence(driver):
    assert driver.ask(heartbeat(driver.member, 1), 4).error_code == 0
    assert driver.answers_itself(GROUP, 1, driver.member, None)
    fence(driver)
    for _ in range(2):
        # The front knows nothing of it any more, and learns nothing meanwhile.
        assert not driver.answers_itself(GROUP, 1, driver.member, None)
        assert commit_refusal(driver, 1, driver.member) is error_codes.REBALANCE_IN_PROGRESS
        assert driver.ask(heartbeat(driver.member, 1), 4).error_code == REBALANCE_IN_PROGRESS
    driver.settle()
    assert commit_refusal(driver, 1, driver.member) is error_codes.UNKNOWN_MEMBER_ID
    assert driver.ask(heartbeat(driver.member, 1), 4).error_code == UNKNOWN_MEMBER_ID
    assert not driver.answers_itself(GROUP, 1, driver.member, None)


def test_its_members_join_again(driver):
    fence(driver)
    waiting = driver.send(join(driver.member), 9)
    assert waiting not in driver.answers
    driver.at_once = True
    driver.settle()
    assert driver.answers[waiting].error_code == UNKNOWN_MEMBER_ID
    member = driver.ask(join(), 9).member_id
    again = driver.send(join(member), 9)
    driver.advance(0)
    assert driver.answers[again].generation_id == 3


def test_a_fence_that_fails_changes_nothing(driver):
    call = fence(driver)
    driver.settle(error_codes.COORDINATOR_NOT_AVAILABLE)
    assert driver.answers[call] is error_codes.COORDINATOR_NOT_AVAILABLE
    assert state_of(driver) == (GroupState.STABLE, 1)
    assert commit_refusal(driver, 1, driver.member) is None
    assert driver.ask(heartbeat(driver.member, 1), 4).error_code == 0


def test_members_that_wait_for_a_rebalance_are_answered(driver):
    driver.at_once = True
    other = driver.ask(join(), 9).member_id
    waiting = driver.send(join(other), 9)
    assert waiting not in driver.answers
    driver.at_once = False
    call = fence(driver)
    assert waiting not in driver.answers
    driver.settle()
    assert driver.answers[waiting].error_code == UNKNOWN_MEMBER_ID
    assert driver.answers[call] == 2
    # Neither the rebalance nor the session of anybody ends any more.
    driver.advance(3600)
    assert (driver.above, state_of(driver)) == ([], (GroupState.EMPTY, 2))


def test_members_that_wait_for_an_assignment_are_answered_and_its_generation_ends_too(driver):
    driver.at_once = True
    other = driver.ask(join(), 9).member_id
    joins = [driver.send(join(other), 9), driver.send(join(driver.member), 9)]
    answers = [driver.answers[each] for each in joins]
    assert {each.generation_id for each in answers} == {2}
    follower = next(each.member_id for each in answers if each.leader != each.member_id)
    waiting = driver.send(sync(follower, 2), 5)
    assert waiting not in driver.answers
    driver.at_once = False
    # The log knows generation 1 alone.
    call = fence(driver)
    driver.settle()
    assert driver.answers[waiting].error_code == UNKNOWN_MEMBER_ID
    assert driver.answers[call] == 3
    driver.advance(3600)
    assert (driver.above, state_of(driver)) == ([], (GroupState.EMPTY, 3))


def test_a_fence_waits_for_the_record_before_it(driver):
    driver.at_once = True
    rejoined = driver.ask(join(driver.member), 9)
    assert rejoined.generation_id == 2
    driver.at_once = False
    syncing = driver.send(sync(driver.member, 2, (driver.member,)), 5)
    call = fence(driver)
    assert [isinstance(record, Fence) for _, record in driver.above] == [False]
    assert commit_refusal(driver, 2, driver.member) is error_codes.REBALANCE_IN_PROGRESS
    driver.settle()
    assert driver.answers[syncing].error_code == 0
    assert driver.answers[call] == 3


def test_a_group_that_is_not_there_begins_with_its_next_generation():
    driver = Driver(at_once=False)
    call = fence(driver)
    driver.settle()
    assert driver.answers[call] == 1
    assert state_of(driver) == (GroupState.EMPTY, 1)
    failed = fence(driver, "other")
    driver.settle(error_codes.NOT_COORDINATOR)
    assert driver.answers[failed] is error_codes.NOT_COORDINATOR
    assert driver.coordinator.group("other") is None


def test_a_group_that_is_deleted_first_begins_again():
    driver = Driver(at_once=False)
    fence(driver)
    driver.settle()
    deleted, fenced = Call(0), Call(0)
    driver.coordinator.delete(GROUP, deleted, driver.now)
    driver.coordinator.fence(GROUP, ORDER, fenced, driver.now)
    driver.settle()
    assert (driver.answers[deleted], driver.answers[fenced]) == (None, 1)
    assert state_of(driver) == (GroupState.EMPTY, 1)


def test_a_fence_that_takes_too_long_is_answered_and_not_undone(driver):
    call = fence(driver)
    driver.advance(5.1)
    assert driver.answers[call] is error_codes.COORDINATOR_NOT_AVAILABLE
    assert commit_refusal(driver, 1, driver.member) is error_codes.REBALANCE_IN_PROGRESS
    driver.settle()
    assert state_of(driver) == (GroupState.EMPTY, 2)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_crash_leaves_all_or_nothing_of_a_fence(driver, kept):
    fence(driver)
    driver.restarted(kept)
    assert state_of(driver) == ((GroupState.EMPTY, 2) if kept else (GroupState.STABLE, 1))


def test_what_cannot_be_fenced_is_refused(driver):
    driver.coordinator.loaded(
        PARTITION, [("last", GroupRecord("", 2**31 - 1))], driver.now, {"modern": OtherGroup("consumer", True)}
    )
    assert driver.answers[fence(driver, "modern")] is error_codes.INCONSISTENT_GROUP_PROTOCOL
    assert driver.answers[fence(driver, "last")] is error_codes.INVALID_REQUEST
    driver.coordinator.resign(PARTITION)
    assert driver.answers[fence(driver)] is error_codes.NOT_COORDINATOR
    driver.coordinator.begin_load(PARTITION)
    assert driver.answers[fence(driver)] is error_codes.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.above == []
