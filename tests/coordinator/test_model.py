"""Members come and go, time passes, records fail or take their time, and the coordinator crashes at any record.

These hold whatever happens: a coordinator that loads the log finds the group that the records made;
the generation that members get only grows while one coordinator lives, and that of the log
always; all members of a generation have assignments of one leader; a commit of an old generation is
refused once a newer one is stable, or a fence is on its way, also where the front answers without the
coordinator; a member that is heard of at the front alone stays, and one that is silent goes.
Nothing waits for ever: a rebalance, an assignment and a session have a deadline, and a request that is not
answered is held by its group.
"""

from __future__ import annotations

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from offsetlog import error_codes
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.classic_group import GroupState
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.coordinator.membership import Timer
from offsetlog.protocol.messages import (
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.depth import by_depth, first_seed

from .driver import Driver, logged
from .requests import GROUP, heartbeat, join, sync

SEED = first_seed(14)
EXAMPLES = by_depth(gate=300, long=5000)
STEPS = by_depth(gate=60, long=120)
#: The session timeout of every member, in seconds.
SESSION = 10

clients = st.integers(0, 4)
#: True now and then: once in so many draws of its rule.
rarely = st.sampled_from([True, False, False, False, False, False])
#: Protocols that a member offers, mostly the same; without any it is refused.
offers = st.sampled_from([("range",)] * 12 + [("range", "rr")] * 4 + [("rr", "range"), ("rr",), ()])
#: In milliseconds.
rebalance_timeouts = st.sampled_from([8_000] * 12 + [1_000, 1, 0, -2, -(2**31)])
failures = st.sampled_from([error_codes.NOT_COORDINATOR, error_codes.COORDINATOR_NOT_AVAILABLE])


class Client:
    """A member as its client sees it; odd ones are static."""

    def __init__(self, number: int) -> None:
        self.instance = f"instance-{number}" if number % 2 else None
        self.member_id = ""
        self.generation = -1
        self.members: tuple[str, ...] = ()
        self.leads = False
        self.must_join = False
        self.synced = -1
        self.protocol = "range"
        self.join = None
        self.sync = None


class GroupBesideRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(CoordinatorConfig(initial_rebalance_delay=500, max_size=5), at_once=False)
        self.clients = [Client(number) for number in range(5)]
        #: By generation: the assignment that its leader made, by member.
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.generation_known = 0
        self.logged = 0
        self.stable = 0
        self.fenced = 0
        self.tokens = 0
        #: Fences that were ordered.
        self.fences: list[Call] = []
        #: By member: when a request of it was last answered, by the coordinator or by the front.
        self.last_heard: dict[str, float] = {}
        #: Requests to this coordinator that are not known to be answered.
        self.calls: list[Call] = []

    @property
    def group(self):
        return self.driver.coordinator.group(GROUP)

    # --------------------------------------------------------------------------------------- requests

    def send(self, request, version):
        call = self.driver.send(request, version)
        self.calls.append(call)
        return call

    @rule(number=clients, offered=offers, rebalance=rebalance_timeouts)
    def join(self, number, offered=("range",), rebalance=8_000):
        if self.clients[number].join is None:
            self.join_again(number, offered, rebalance)

    @rule(number=clients, offered=offers, rebalance=rebalance_timeouts)
    def join_again(self, number, offered, rebalance):
        """A join over another connection, also while the one before it waits."""
        client = self.clients[number]
        request = join(client.member_id, instance=client.instance, rebalance=rebalance)
        protocols = tuple(JoinGroupRequestProtocol(each, b"r") for each in offered)
        client.join = self.send(request._replace(protocols=protocols), 9)
        self.read_answers()

    @rule(numbers=st.lists(clients, min_size=1, max_size=12))
    def go_on(self, numbers):
        """Clients do what they would do next, and records pass W."""
        for number in numbers:
            client = self.clients[number]
            if client.generation < 0 or client.must_join:
                self.join(number)
            elif client.generation != client.synced:
                self.sync(number)
            else:
                self.heartbeat(number)
            self.driver.settle()
            self.driver.advance(0.2)
            self.read_answers()

    @rule(number=clients, now=rarely)
    def restart_client(self, number, now):
        """A dynamic member is another one from now on, a static one comes back under its name."""
        if not now:
            return
        client = self.clients[number]
        client.member_id, client.generation, client.join, client.sync = "", -1, None, None

    @rule(number=clients)
    def sync(self, number):
        client = self.clients[number]
        if client.sync is not None or client.generation < 0:
            return
        self.tokens += 1
        given = tuple(
            SyncGroupRequestAssignment(each, f"{self.tokens} {each}".encode()) for each in client.members
        )
        request = SyncGroupRequest(
            GROUP, client.generation, client.member_id, client.instance, "consumer", client.protocol,
            given if client.leads else (),
        )
        client.sync = (self.send(request, 5), client.generation, client.member_id)
        self.read_answers()

    @rule(number=clients)
    def heartbeat(self, number):
        client = self.clients[number]
        if client.generation < 0:
            return
        self.heard(client)
        key = (client.generation, client.member_id, None)
        if self.driver.answers_itself(GROUP, *key):
            # The coordinator would say the same.
            assert self.group.state is GroupState.STABLE
            assert self.group.generation == client.generation
            return
        error = self.driver.ask(heartbeat(client.member_id, client.generation), 4).error_code
        assert error in (0, 22, 25, 27)
        client.must_join = error == 27
        if error in (22, 25):
            self.forget(client)

    @rule(number=clients, now=rarely)
    def leave(self, number, now):
        client = self.clients[number]
        if client.member_id and now:
            leaver = LeaveGroupRequestMember(client.member_id, client.instance)
            self.send(LeaveGroupRequest(GROUP, members=(leaver,)), 5)
            self.forget(client)
        self.read_answers()

    @rule(number=clients, back=st.integers(0, 2))
    def commit(self, number, back):
        """A commit of an old generation is refused once a newer one is stable."""
        client = self.clients[number]
        generation = client.generation - back
        if generation < 0:
            return
        if self.driver.answers_itself(GROUP, generation, client.member_id, client.instance):
            assert generation == self.group.generation
            assert generation >= self.stable
            assert client.member_id in self.group.members
            self.heard(client)
            return
        request = OffsetCommitRequest(GROUP, generation, client.member_id, client.instance)
        refusal = self.driver.coordinator.commit_refusal(request, 9, self.driver.now)
        if generation < self.stable:
            assert refusal is not None
        if refusal is None:
            assert generation == self.group.generation
            self.heard(client)

        if refusal is None:
            # Nothing that ends this generation stands before it in the log.
            above = [logged(record) for _, record in self.driver.above]
            assert all(record.members or record.generation <= generation for record in above)

    @rule(now=rarely)
    def fence(self, now):
        if now:
            call = Call(0)
            self.driver.coordinator.fence(GROUP, None, call, self.driver.now)
            self.fences.append(call)
        self.read_answers()

    # ---------------------------------------------------------------------------------- time, records

    @rule(seconds=st.sampled_from([0.1, 0.5, 2, 6, 11]))
    def wait(self, seconds):
        self.driver.advance(seconds)
        self.read_answers()

    @rule()
    def settle(self):
        self.driver.settle()
        self.read_answers()

    @rule(error=failures, now=rarely)
    def fail(self, error, now):
        if now:
            self.driver.settle(error)
            self.read_answers()

    @rule(kept=st.integers(0, 1), now=rarely)
    def crash(self, kept, now):
        if not now:
            return
        self.driver.restarted(kept)
        if self.group is not None:
            self.last_heard.update(dict.fromkeys(self.group.members, self.driver.now))
        self.calls.clear()
        for client in self.clients:
            client.join = client.sync = None
        self.fences.clear()
        self.generation_known = self.logged_generation()

    # ---------------------------------------------------------------------------------------- answers

    def heard(self, client: Client) -> None:
        if self.group is not None and client.member_id in self.group.members:
            self.last_heard[client.member_id] = self.driver.now

    def forget(self, client: Client) -> None:
        client.member_id = "" if client.instance is None else client.member_id
        client.generation = -1

    def read_fences(self) -> None:
        for call in list(self.fences):
            answer = self.driver.answers.pop(call, None)
            if answer is None:
                continue
            self.fences.remove(call)
            if isinstance(answer, int):
                assert answer <= self.logged_generation()
                assert answer > self.fenced
                self.fenced = self.stable = max(answer, self.stable)

    def read_answers(self) -> None:
        self.read_fences()
        for client in self.clients:
            if client.join in self.driver.answers:
                self.joined(client, self.driver.answers.pop(client.join))
            if client.sync is not None and client.sync[0] in self.driver.answers:
                self.synced(client, self.driver.answers.pop(client.sync[0]))

    def joined(self, client: Client, answer) -> None:
        client.join = None
        if answer.error_code == 79:
            client.member_id = answer.member_id
        elif answer.error_code == 0:
            assert answer.generation_id >= self.generation_known
            self.generation_known = answer.generation_id
            client.member_id, client.generation = answer.member_id, answer.generation_id
            client.must_join = False
            client.protocol = answer.protocol_name
            self.last_heard[client.member_id] = self.driver.now
            client.leads = answer.leader == answer.member_id
            client.members = tuple(each.member_id for each in answer.members)
            assert bool(client.members) <= client.leads
        elif answer.error_code in (25, 82):
            client.member_id = ""

    def synced(self, client: Client, answer) -> None:
        (_, generation, member_id), client.sync = client.sync, None
        if answer.error_code == 0:
            client.synced = generation
            self.last_heard[member_id] = self.driver.now
        elif answer.error_code in (22, 25):
            self.forget(client)
        elif answer.error_code == 27:
            client.must_join = True
        if answer.error_code or not answer.assignment:
            return
        token = answer.assignment.split()[0]
        made = self.assigned.setdefault(generation, {})
        assert made.setdefault(member_id, answer.assignment) == answer.assignment
        tokens = {each.split()[0] for each in made.values()}
        assert tokens == {token}, f"generation {generation} has assignments of two leaders"

    # ------------------------------------------------------------------------------------- what holds

    def logged_generation(self) -> int:
        return self.driver.log[-1][1].generation if self.driver.log else 0

    @invariant()
    def the_log_says_what_was_applied(self):
        if not self.driver.log or self.group is None:
            return
        record, group = self.driver.log[-1][1], self.group
        assert record.generation >= self.logged
        self.logged = record.generation
        if group.state is GroupState.STABLE:
            assert group.generation == record.generation
            assert group.leader == record.leader
            assert group.assignments() == {each.member_id: each.assignment for each in record.members}
            self.stable = max(self.stable, group.generation)
        if group.state is GroupState.EMPTY and not group.members:
            assert not record.members
            assert group.generation == record.generation

    @invariant()
    def a_load_finds_the_group_of_the_log(self):
        other = Driver(self.driver.config)
        other.log = list(self.driver.log)
        other.now = self.driver.now
        other.restarted()
        group = other.coordinator.group(GROUP)
        if not self.driver.log:
            assert group is None
            return
        record = self.driver.log[-1][1]
        assert (group.generation, group.protocol, group.leader) == (
            record.generation, record.protocol, record.leader,
        )
        assert tuple(group.members) == tuple(each.member_id for each in record.members)

    @invariant()
    def what_is_admitted_is_stable(self):
        for generation, member_id, instance in self.driver.admitted.get(GROUP, {}):
            if not member_id:
                assert generation < 0
                continue
            assert self.group.state is GroupState.STABLE
            assert generation == self.group.generation
            assert self.group.refusal_of(member_id, instance) is None

    @invariant()
    def silent_members_go(self):
        group = self.group
        # While a record is on its way, so is what follows from a session's end.
        if group is None or group.state is not GroupState.STABLE or self.driver.above:
            return
        for member_id in group.members:
            # A session restarts when an answer has waited for a record, which a client that was restarted does
            # not read.
            heard = max(self.last_heard.get(member_id, 0), self.driver.settled_at)
            assert self.driver.now - heard <= SESSION + 0.001

    @invariant()
    def members_and_leader_fit(self):
        group = self.group
        if group is None:
            return
        assert group.leader is None or group.leader in group.members
        assert set(group.static_members.values()) <= group.members.keys()
        if group.state is GroupState.STABLE:
            assert group.members
            assert all(each.vote(frozenset([group.protocol])) for each in group.members.values())

    @invariant()
    def what_waits_has_a_deadline(self):
        group, timers = self.group, self.driver.coordinator._timers
        # A record that is on its way has one of its own, and goes on with all of this.
        if group is None or self.driver.above:
            return
        if group.state is GroupState.PREPARING_REBALANCE:
            assert Timer(GROUP, "join") in timers
        if group.state is GroupState.COMPLETING_REBALANCE:
            # Without a record on its way the leader is among those that have not asked yet.
            assert group.leader in group.pending_sync
            assert Timer(GROUP, "sync") in timers
        for member_id, member in group.members.items():
            is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
            assert is_waiting or Timer(GROUP, "member", member_id) in timers
        for member_id in group.pending_ids:
            assert Timer(GROUP, "member", member_id) in timers

    @invariant()
    def a_request_is_answered_or_held(self):
        self.calls = [each for each in self.calls if not each.answered]
        slot = self.driver.coordinator._slot(GROUP)
        held = set()
        if slot is not None:
            for member in slot.group.members.values():
                held |= {member.awaiting_join, member.awaiting_sync}
            for each in (*slot.waiting, *filter(None, [slot.in_flight])):
                held |= {call for call, _ in each.refusals(error_codes.NOT_COORDINATOR)}
        assert held.issuperset(self.calls)

    @invariant()
    def what_is_counted_is_so(self):
        group = self.group
        if group is None:
            return
        members = group.members.values()
        assert group.awaiting_join == sum(each.awaiting_join is not None for each in members)
        offered = [each.protocol_names for each in members]
        assert group.candidates() == (set.intersection(*offered) if offered else set())


def test_members_come_and_go():
    print(f"seed {SEED}")
    run = seed(SEED)(GroupBesideRules)
    run_state_machine_as_test(
        run,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_member_that_only_the_front_hears_of_stays_until_it_is_silent():
    driver = Driver()
    member_id = driver.ask(join(), 9).member_id
    generation = driver.ask(join(member_id), 9).generation_id
    driver.ask(sync(member_id, generation, (member_id,)), 5)
    driver.ask(heartbeat(member_id, generation), 4)
    for _ in range(20):
        driver.advance(SESSION / 2)
        if not driver.answers_itself(GROUP, generation, member_id, None):
            # Its session was looked at: the next heartbeat is the coordinator's.
            assert driver.ask(heartbeat(member_id, generation), 4).error_code == 0
        assert driver.answers_itself(GROUP, generation, member_id, None)
    driver.advance(SESSION - 0.1)
    group = driver.coordinator.group(GROUP)
    assert group is not None
    assert member_id in group.members
    driver.advance(0.2)
    assert member_id not in group.members
    assert not driver.answers_itself(GROUP, generation, member_id, None)
