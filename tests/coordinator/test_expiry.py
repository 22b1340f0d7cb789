"""Expiry in each state of a group, while nothing else changes the group."""

from __future__ import annotations

import pytest

from offsetlog import error_codes
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.coordinator import OtherGroup
from offsetlog.coordinator.group_record import Expiry
from offsetlog.protocol.messages import JoinGroupRequestProtocol, LeaveGroupRequest, LeaveGroupRequestMember

from .driver import PARTITION, Driver
from .requests import GROUP, heartbeat, join, sync

#: A consumer's subscription of version 0, to the topic "orders".
ORDERS = b"\0\0" + b"\0\0\0\1" + b"\0\6orders" + b"\xff\xff\xff\xff"


@pytest.fixture
def driver():
    return Driver(at_once=False)


def expire(driver: Driver, group: str = GROUP) -> Call:
    call = Call(0)
    driver.coordinator.expire(group, call, driver.now)
    return call


def member_of(driver: Driver, protocol_type: str = "consumer") -> str:
    """A member of a group that is stable then; it reads "orders"."""
    driver.at_once = True
    protocols = (JoinGroupRequestProtocol("range", ORDERS),)
    request = join()._replace(protocols=protocols, protocol_type=protocol_type)
    member = driver.ask(request, 9).member_id
    driver.ask(request._replace(member_id=member), 9)
    asked = sync(member, 1, (member,))._replace(protocol_type=protocol_type)
    assert driver.ask(asked, 5).error_code == 0
    driver.at_once = False
    return member


def test_of_a_group_that_only_has_positions_the_log_knows_all(driver):
    driver.offsets.add("g")
    call = expire(driver)
    assert driver.above == [("g", Expiry(None))]
    assert call not in driver.answers
    driver.settle()
    assert driver.answers[call] is None
    # The mark that kept it from changing is gone.
    assert driver.coordinator._partitions[PARTITION] == {}


def test_of_a_stable_consumer_group_those_stay_that_are_read(driver):
    member_of(driver)
    assert driver.coordinator.live_groups() == {PARTITION: ["g"]}
    expire(driver)
    assert driver.above == [("g", Expiry(frozenset({"orders"})))]


def test_of_a_group_of_another_protocol_nothing_expires_while_it_has_members(driver):
    member_of(driver, "connect")
    assert driver.coordinator.live_groups() == {PARTITION: []}
    assert driver.answers[expire(driver)] is None
    assert driver.above == []


def test_nothing_expires_while_a_rebalance_runs(driver):
    member_of(driver)
    driver.send(join(), 3)
    assert driver.answers[expire(driver)] is None
    assert driver.above == []


def test_after_its_last_member_a_group_is_as_its_record_says(driver):
    member = member_of(driver)
    driver.at_once = True
    driver.send(LeaveGroupRequest(GROUP, members=(LeaveGroupRequestMember(member),)), 5)
    driver.at_once = False
    assert driver.coordinator.live_groups() == {PARTITION: []}
    expire(driver)
    assert driver.above == [("g", Expiry(None))]


def test_a_group_whose_members_another_coordinator_knows_is_left_alone(driver):
    driver.coordinator.loaded(PARTITION, [], driver.now, {"modern": OtherGroup("consumer", True)})
    assert driver.answers[expire(driver, "modern")] is None
    assert driver.above == []


def test_a_partition_that_is_not_led_refuses(driver):
    driver.coordinator.resign(PARTITION)
    assert driver.answers[expire(driver)] is error_codes.NOT_COORDINATOR


def test_the_front_answers_for_the_group_no_more(driver):
    member = member_of(driver)
    driver.send(heartbeat(member, 1), 4)
    assert "g" in driver.admitted
    expire(driver)
    assert "g" not in driver.admitted


def test_a_join_waits_until_the_tombstones_are_written(driver):
    member_of(driver)
    expire(driver)
    call = driver.send(join(), 3)
    assert call not in driver.answers
    driver.settle()
    driver.advance(60)
    assert driver.answers[call].error_code == 0


def test_a_group_of_which_nothing_is_left_begins_again(driver):
    member = member_of(driver)
    driver.at_once = True
    driver.send(LeaveGroupRequest(GROUP, members=(LeaveGroupRequestMember(member),)), 5)
    driver.at_once = False
    call = expire(driver)
    waiting = driver.send(join(), 3)
    driver.gone.add("g")
    driver.settle()
    assert driver.answers[call] is None
    assert driver.answers[waiting].error_code == error_codes.COORDINATOR_NOT_AVAILABLE.code
    assert driver.coordinator.group("g") is None
    again = driver.send(join(), 3)
    driver.settle()
    assert driver.answers[again].generation_id == 1


def test_an_expiry_that_fails_changes_nothing(driver):
    member = member_of(driver)
    call = expire(driver)
    driver.settle(error_codes.NOT_COORDINATOR)
    assert driver.answers[call] is error_codes.NOT_COORDINATOR
    assert driver.ask(heartbeat(member, 1), 4).error_code == 0
