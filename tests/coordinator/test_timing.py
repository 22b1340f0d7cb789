"""Deadlines of classic groups: initial delays, sessions, rebalances (docs/format/coordinator.md §5.8)."""

from __future__ import annotations

import pytest

from offsetlog.coordinator.classic_group import GroupState
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.errors import InternalError
from offsetlog.protocol.messages import LeaveGroupRequest, LeaveGroupRequestMember

from .driver import Driver
from .requests import GROUP, heartbeat, join, sync


class Members:
    """A driver, and members that have joined a group."""

    def __init__(self, **config: int) -> None:
        self.driver = Driver(CoordinatorConfig(**config))

    @property
    def group(self):
        return self.driver.coordinator.group(GROUP)

    def new_id(self, **more) -> str:
        """The id that a new member is given."""
        answer = self.driver.ask(join(**more), 9)
        assert answer.error_code == 79
        return answer.member_id

    def stable(self, count: int = 1, **more) -> list[str]:
        """Members of a stable group of generation 1, the leader first."""
        ids = [self.new_id(**more) for _ in range(count)]
        calls = [self.driver.send(join(each, **more), 9) for each in ids]
        while calls[-1] not in self.driver.answers:
            self.driver.advance(1)
        answers = [self.driver.answers[call] for call in calls]
        assert {each.generation_id for each in answers} == {self.group.generation}
        self.sync_all(ids)
        return ids

    def sync_all(self, ids: list[str]) -> None:
        generation = self.group.generation
        calls = [self.driver.send(sync(each, generation), 5) for each in ids[1:]]
        calls.append(self.driver.send(sync(ids[0], generation, tuple(ids)), 5))
        assert {self.driver.answers[call].error_code for call in calls} == {0}
        assert self.group.state is GroupState.STABLE


@pytest.fixture
def members():
    return Members()


# ------------------------------------------------------------------------------- the first rebalance


def test_the_first_rebalance_waits_for_more_members():
    members = Members()
    driver = members.driver
    first = members.new_id()
    call = driver.send(join(first), 9)
    driver.advance(2.9)
    assert call not in driver.answers
    driver.advance(0.1)
    assert driver.answers[call].generation_id == 1


def test_a_member_that_comes_puts_the_first_rebalance_off_and_not_without_end():
    members = Members()
    driver = members.driver
    ids = [members.new_id(rebalance=9000) for _ in range(8)]
    began = driver.now
    calls = [driver.send(join(ids[0], rebalance=9000), 9)]
    for each in ids[1:]:
        driver.advance(1.4)
        if calls[0] in driver.answers:
            break
        calls.append(driver.send(join(each, rebalance=9000), 9))
    assert driver.answers[calls[0]].generation_id == 1
    # At most the rebalance timeout, in steps of the delay.
    assert 9 <= driver.now - began < 9 + 1.4
    assert len(members.group.members) == len(calls) == 7


def test_nobody_is_waited_for_without_a_delay():
    members = Members(initial_rebalance_delay=0)
    assert members.driver.answers[members.driver.send(join(members.new_id()), 9)].generation_id == 1


# ------------------------------------------------------------------------------------------ sessions


def test_an_id_that_is_not_used_is_forgotten(members):
    given = members.new_id(session=10_000)
    members.driver.advance(9.9)
    assert members.group.pending_ids == {given}
    members.driver.advance(0.1)
    assert not members.group.pending_ids
    assert members.driver.ask(join(given), 9).error_code == 25


def test_a_rebalance_waits_for_an_id_that_was_given_out_until_that_is_forgotten(members):
    (leader,) = members.stable()
    members.new_id(session=20_000)
    driver = members.driver
    call = driver.send(join(leader), 9)
    driver.advance(19.9)
    assert call not in driver.answers
    driver.advance(0.1)
    assert driver.answers[call].generation_id == 2


def test_a_member_without_heartbeats_leaves_at_the_end_of_its_session(members):
    leader, follower = members.stable(2)
    driver = members.driver
    for _ in range(4):
        driver.advance(5)
        answer = driver.ask(heartbeat(leader, 1), 4)
    assert answer.error_code == 27
    assert set(members.group.members) == {leader}
    call = driver.send(join(leader), 9)
    assert driver.answers[call].generation_id == 2
    assert [each.member_id for each in driver.answers[call].members] == [leader]
    assert driver.ask(heartbeat(follower, 1), 4).error_code == 25


def test_a_heartbeat_restarts_a_session(members):
    (leader,) = members.stable()
    for _ in range(10):
        members.driver.advance(9.9)
        assert members.driver.ask(heartbeat(leader, 1), 4).error_code == 0


def test_the_last_member_leaves_an_empty_group_with_a_record(members):
    members.stable()
    members.driver.advance(10)
    assert members.group.state is GroupState.EMPTY
    group_id, record = members.driver.log[-1]
    assert (group_id, record.generation, record.members, record.protocol_type) == (GROUP, 2, (), "consumer")
    assert record.protocol is record.leader is None


def test_members_that_wait_for_a_rebalance_do_not_expire(members):
    leader, late = members.stable(2, session=60_000, rebalance=50_000)
    driver = members.driver
    call = driver.send(join(leader, session=6_000, rebalance=50_000), 9)
    driver.advance(40)
    assert leader in members.group.members
    driver.advance(10)    # the rebalance timeout: who has not joined is dropped
    assert driver.answers[call].generation_id == 2
    assert set(members.group.members) == {leader}
    assert driver.ask(heartbeat(late, 1), 4).error_code == 25


def test_a_new_member_that_waits_too_long_is_asked_to_join_again():
    members = Members(new_member_join_timeout=30_000)
    driver = members.driver
    members.stable(session=1_800_000, rebalance=100_000)
    newcomer = members.new_id()
    call = driver.send(join(newcomer), 9)
    driver.advance(30)
    assert driver.answers[call].error_code == 25
    assert newcomer not in members.group.members


def test_members_that_do_not_sync_in_time_are_removed(members):
    leader, follower = members.stable(2, session=600_000, rebalance=20_000)
    driver = members.driver
    calls = [driver.send(join(each, session=600_000, rebalance=20_000), 9) for each in (leader, follower)]
    assert {driver.answers[call].generation_id for call in calls} == {2}
    waiting = driver.send(sync(follower, 2), 5)
    driver.advance(20)
    assert set(members.group.members) == {follower}
    assert members.group.state is GroupState.PREPARING_REBALANCE
    assert driver.answers[waiting].error_code == 27


def test_static_members_keep_their_place_through_a_rebalance():
    members = Members(initial_rebalance_delay=0)
    driver = members.driver
    driver.send(join(instance="one", session=100_000, rebalance=20_000), 9)
    first = members.group.static_members["one"]
    members.sync_all([first])
    call = driver.send(join(instance="two", session=100_000, rebalance=20_000), 9)
    driver.advance(20)
    assert driver.answers[call].generation_id == 2
    assert set(members.group.static_members) == {"one", "two"}
    # It has not joined, so that another one leads.
    assert driver.answers[call].leader == driver.answers[call].member_id


@pytest.mark.parametrize("rebalance", [1, 0, -2, -(2**31)])
def test_an_absent_static_member_that_allows_no_time_keeps_nobody_busy(rebalance):
    members = Members(initial_rebalance_delay=0)
    driver = members.driver
    one = join(instance="one", session=10_000, rebalance=rebalance)
    driver.send(one, 3)
    first = members.group.static_members["one"]
    members.sync_all([first])
    call = driver.send(join(), 3)
    driver.send(one._replace(member_id=first), 3)
    other = driver.answers[call].member_id
    members.sync_all([first, other])
    driver.send(LeaveGroupRequest(GROUP, members=(LeaveGroupRequestMember(other),)), 5)
    assert members.group.state is GroupState.PREPARING_REBALANCE
    driver.now += 0.01
    driver.coordinator.tick(driver.now)
    deadline = driver.coordinator.next_deadline()
    assert deadline is not None
    assert deadline >= driver.now + 0.9
    driver.advance(20)
    assert members.group.state is GroupState.EMPTY


def test_a_rebalance_of_absent_static_members_goes_on_until_their_sessions_end():
    members = Members()
    driver = members.driver
    for name in ("one", "two"):
        driver.send(join(instance=name, session=100_000, rebalance=20_000), 9)
    driver.advance(3)
    ids = [members.group.static_members[name] for name in ("one", "two")]
    driver.advance(200)
    assert members.group.state is GroupState.EMPTY
    assert not members.group.members
    assert not set(ids) & set(members.group.static_members.values())


# ---------------------------------------------------------------------------------------- after a load


def test_sessions_restart_with_a_load(members):
    (leader,) = members.stable()
    members.driver.advance(9)
    members.driver.restarted()
    members.driver.advance(9)
    assert members.driver.ask(heartbeat(leader, 1), 4).error_code == 0
    members.driver.advance(10)
    assert members.group.state is GroupState.EMPTY


def test_a_loaded_group_above_the_limit_rebalances():
    members = Members()
    ids = members.stable(3)
    members.driver.config = CoordinatorConfig(max_size=2)
    members.driver.restarted()
    assert members.group.state is GroupState.PREPARING_REBALANCE
    answers = [members.driver.send(join(each), 9) for each in ids]
    members.driver.advance(60)
    errors = sorted(members.driver.answers[each].error_code for each in answers)
    assert errors == [0, 0, 81]


def test_a_member_without_protocols_joins_no_group_that_has_lost_its_members():
    members = Members()
    driver = members.driver
    first = members.new_id()
    driver.send(join(first), 9)
    driver.send(LeaveGroupRequest(GROUP, members=(LeaveGroupRequestMember(first),)), 5)
    assert members.group.state is GroupState.PREPARING_REBALANCE
    assert not members.group.members
    assert driver.ask(join()._replace(protocols=()), 3).error_code == 23
    call = driver.send(join(), 3)
    driver.advance(10)
    assert driver.answers[call].error_code == 0


def test_members_without_a_protocol_in_common_are_an_error_and_no_end_of_an_iteration():
    members = Members()
    members.stable(2)
    last = list(members.group.members.values())[-1]
    members.group.offer(last, (("other", b""),))
    with pytest.raises(InternalError, match="no protocol in common"):
        members.group.elected_protocol()


def test_a_join_that_is_sent_again_is_answered_when_the_later_one_comes(members):
    members.stable()
    driver = members.driver
    newcomer = members.new_id()
    calls = [driver.send(join(newcomer), 9) for _ in range(3)]
    assert [driver.answers[each].error_code for each in calls[:-1]] == [27, 27]
    assert driver.answers[calls[0]].member_id == newcomer
    driver.advance(60)
    assert driver.answers[calls[-1]].error_code == 0


def test_so_is_a_sync(members):
    leader, follower = members.stable(2)
    driver = members.driver
    for each in (leader, follower):
        driver.send(join(each), 9)
    calls = [driver.send(sync(follower, 2), 5) for _ in range(2)]
    assert driver.answers[calls[0]].error_code == 27
    driver.send(sync(leader, 2, (leader, follower)), 5)
    assert driver.answers[calls[1]].assignment == b"for " + follower.encode()


@pytest.mark.parametrize("synced", [True, False])
def test_a_static_member_that_comes_back_keeps_its_client_id_and_host(synced):
    members = Members(initial_rebalance_delay=0)
    driver = members.driver
    driver.send(join(instance="one"), 5, "before")
    if synced:
        members.sync_all([members.group.static_members["one"]])
    assert driver.answers[driver.send(join(instance="one"), 5, "after")].error_code == 0
    (member,) = members.group.members.values()
    assert member.client_id == "before"
    if synced:
        assert [each.client_id for each in driver.log[-1][1].members] == ["before"]


def test_a_join_does_not_look_at_all_members():
    looks = 0

    class Looked(dict):
        def values(self):
            nonlocal looks
            looks += 1
            return super().values()

    members = Members()
    driver = members.driver
    calls = [driver.send(join(), 3)]
    members.group.members = Looked(members.group.members)
    calls += [driver.send(join(), 3) for _ in range(50)]
    assert looks == 0
    while calls[-1] not in driver.answers:
        driver.advance(1)
    assert {driver.answers[each].error_code for each in calls} == {0}
    ids = list(members.group.members)
    members.sync_all(ids)
    members.group.members = Looked(members.group.members)
    for each in ids:
        driver.send(join(each), 3)
    # When the rebalance begins, and when it ends.
    assert looks < 20


def test_the_last_member_leaves_an_empty_group_although_an_id_is_given_out(members):
    (leader,) = members.stable()
    members.new_id()
    driver = members.driver
    driver.at_once = False
    call = driver.send(LeaveGroupRequest(GROUP, members=(LeaveGroupRequestMember(leader),)), 5)
    assert call not in driver.answers
    assert len(driver.above) == 1
    driver.settle()
    assert driver.answers[call].members[0].error_code == 0
    assert members.group.state is GroupState.EMPTY
