"""A group whose record is on its way to W: what waits for it, for how long, and what a crash leaves."""

from __future__ import annotations

import pytest

from offsetlog import error_codes
from offsetlog.coordinator.classic_group import GroupState
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.protocol.messages import LeaveGroupRequest, LeaveGroupRequestMember, OffsetCommitRequest

from .driver import Driver
from .requests import GROUP, heartbeat, join, sync


@pytest.fixture
def driver():
    """A driver whose group has one member, which has joined generation 1 and not synced yet."""
    driver = Driver(CoordinatorConfig(initial_rebalance_delay=0))
    driver.member = driver.ask(join(), 9).member_id
    assert driver.ask(join(driver.member), 9).generation_id == 1
    driver.at_once = False
    return driver


def group_of(driver):
    return driver.coordinator.group(GROUP)


def test_a_sync_is_answered_when_its_record_has_passed_w(driver):
    call = driver.send(sync(driver.member, 1, (driver.member,)), 5)
    assert call not in driver.answers
    assert group_of(driver).state is GroupState.COMPLETING_REBALANCE
    driver.settle()
    assert driver.answers[call].assignment == b"for " + driver.member.encode()
    assert group_of(driver).state is GroupState.STABLE


def test_the_next_request_waits_for_the_record(driver):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    later = driver.send(join(driver.member), 9)
    assert later not in driver.answers
    driver.settle()
    assert driver.answers[later].generation_id == 2


def test_a_heartbeat_does_not_wait(driver):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    assert driver.ask(heartbeat(driver.member, 1), 4).error_code == 0


def test_a_record_that_fails_changes_nothing_and_the_group_rebalances(driver):
    call = driver.send(sync(driver.member, 1, (driver.member,)), 5)
    driver.settle(error_codes.NOT_COORDINATOR)
    assert driver.answers[call].error_code == 16
    assert group_of(driver).state is GroupState.PREPARING_REBALANCE
    assert [record.generation for _, record in driver.log] == [0]


def test_a_record_that_takes_too_long_is_answered_and_not_undone(driver):
    call = driver.send(sync(driver.member, 1, (driver.member,)), 5)
    waiting = driver.send(join(driver.member), 9)
    driver.advance(4.9)
    assert call not in driver.answers
    driver.advance(0.2)
    assert [driver.answers[each].error_code for each in (call, waiting)] == [15, 15]
    driver.settle()
    assert group_of(driver).state is GroupState.STABLE
    again = driver.send(sync(driver.member, 1), 5)
    assert driver.answers[again].assignment == b"for " + driver.member.encode()


def test_what_came_later_has_its_own_time(driver):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    driver.advance(3)
    late = driver.send(join(driver.member), 9)
    driver.advance(4)
    assert late not in driver.answers
    driver.advance(1.1)
    assert driver.answers[late].error_code == 15


def test_the_end_of_a_session_waits_too_and_is_not_lost(driver):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    driver.advance(30)
    driver.settle()
    # The session restarted with the assignment.
    assert group_of(driver).state is GroupState.STABLE
    driver.advance(10)
    driver.settle()
    assert group_of(driver).state is GroupState.EMPTY


def test_a_leave_of_the_last_member_waits_for_the_record_of_the_empty_group(driver):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    driver.settle()
    call = driver.send(LeaveGroupRequest(GROUP, members=(LeaveGroupRequestMember(driver.member),)), 5)
    assert call not in driver.answers
    driver.settle()
    assert driver.answers[call].members[0].error_code == 0
    assert (group_of(driver).state, group_of(driver).generation) == (GroupState.EMPTY, 2)


def test_a_new_group_is_answered_before_its_first_record_and_goes_on_after_it():
    driver = Driver(at_once=False)
    first = driver.ask(join(), 9)
    assert first.error_code == 79
    call = driver.send(join(first.member_id), 9)
    assert call not in driver.answers
    driver.settle()
    driver.advance(0)
    assert driver.answers[call].generation_id == 1


def test_a_new_group_whose_record_fails_is_known_only_here():
    driver = Driver(at_once=False)
    call = driver.send(join(), 3)    # an old client joins at once
    driver.settle(error_codes.COORDINATOR_NOT_AVAILABLE)
    assert driver.answers[call].error_code == 15
    assert driver.coordinator.groups() == []


@pytest.mark.parametrize("kept", [0, 1])
def test_a_crash_leaves_what_a_load_finds(driver, kept):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    driver.restarted(kept)
    group = group_of(driver)
    assert (group.state, group.generation) == ((GroupState.STABLE, 1) if kept else (GroupState.EMPTY, 0))
    driver.at_once = True
    answer = driver.ask(sync(driver.member, 1), 5)
    assert answer.error_code == (0 if kept else 25)


def test_what_waits_is_answered_when_the_partition_goes(driver):
    calls = [
        driver.send(sync(driver.member, 1, (driver.member,)), 5),
        driver.send(join(driver.member), 9),
    ]
    driver.coordinator.resign(0)
    assert [driver.answers[each].error_code for each in calls] == [16, 16]
    assert driver.ask(join(driver.member), 9).error_code == 16
    assert driver.ask(heartbeat(driver.member, 1), 4).error_code == 16
    driver.settle()    # the record that passes W later belongs to nobody here


@pytest.mark.parametrize("error", [None, error_codes.NOT_COORDINATOR])
def test_a_record_of_an_ended_leadership_is_not_taken_for_one_of_the_next(driver, error):
    driver.send(sync(driver.member, 1, (driver.member,)), 5)
    (late,) = driver.tokens
    driver.coordinator.resign(0)
    driver.above.clear()
    driver.tokens.clear()
    driver.coordinator.begin_load(0)
    driver.coordinator.loaded(0, [], driver.now)
    call = driver.send(join(), 3)
    assert len(driver.above) == 1
    driver.coordinator.written(0, GROUP, error, driver.now, token=late)
    assert call not in driver.answers
    assert not group_of(driver).has_record
    driver.settle()
    assert group_of(driver).has_record


def test_requests_are_answered_while_the_partition_loads(driver):
    driver.coordinator.resign(0)
    driver.coordinator.begin_load(0)
    assert driver.ask(join(driver.member), 9).error_code == 14
    assert driver.ask(sync(driver.member, 1), 5).error_code == 14
    assert driver.ask(heartbeat(driver.member, 1), 4).error_code == 0


@pytest.mark.parametrize(
    ("generation", "member", "instance", "version", "error"),
    [
        (1, "m", None, 9, 27),     # the assignment is not stored yet
        (0, "m", None, 9, 22),
        (2, "m", None, 9, 22),
        (1, "other", None, 9, 25),
        (-1, "", None, 9, 25),     # anonymous, and the group has members
        (1, "m", "i", 9, 25),
    ],
)
def test_commits_before_the_assignment_is_stored(driver, generation, member, instance, version, error):
    request = OffsetCommitRequest(GROUP, generation, driver.member if member == "m" else member, instance)
    refusal = driver.coordinator.commit_refusal(request, version, driver.now)
    assert refusal is not None
    assert refusal.code == error


@pytest.mark.parametrize(
    ("generation", "member", "version", "error"),
    [(-1, "", 9, None), (-1, "anyone", 9, None), (0, "", 9, 69), (0, "", 8, 22), (3, "m", 2, 22)],
)
def test_commits_to_a_group_that_is_not_there(driver, generation, member, version, error):
    request = OffsetCommitRequest("nowhere", generation, member)
    refusal = driver.coordinator.commit_refusal(request, version, driver.now)
    assert (None if refusal is None else refusal.code) == error


@pytest.mark.parametrize(
    ("generation", "member", "error"),
    [(-1, "", None), (-1, "anyone", None), (0, "", 25), (3, "m", 25)],
)
def test_commits_to_a_group_that_only_has_positions(driver, generation, member, error):
    driver.offsets.add("simple")
    request = OffsetCommitRequest("simple", generation, member)
    refusal = driver.coordinator.commit_refusal(request, 9, driver.now)
    assert (None if refusal is None else refusal.code) == error
