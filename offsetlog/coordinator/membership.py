"""Handles joins, syncs, heartbeats and leaves of classic groups (docs/format/coordinator.md §5.8-5.11).

This module does no I/O, reads no clock and generates no ids.  The caller passes in the time and the ids, receives the
answers and records, and reports whether each record was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from offsetlog import error_codes
from offsetlog.coordinator.answers import (
    Refusals,
    assignment_of,
    awaited_syncs,
    differs,
    is_unwritable,
    join_refusal,
    leave_answer,
    leave_refusal,
    leaving,
    members_for_leader,
    new_member,
    protocols_of,
    rebalance_timeout_of,
)
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.classic_group import ClassicGroup, GroupState, Member
from offsetlog.coordinator.group_record import Expiry, Fence, GroupRecord
from offsetlog.coordinator.timers import Timers
from offsetlog.error_codes import ErrorCode
from offsetlog.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

#: From this version on, a new member first gets an id, and then joins with it.
JOIN_WITH_REQUIRED_ID = 4
#: From this version on, a static leader that returns is asked to skip the assignment.
JOIN_WITH_SKIPPED_ASSIGNMENT = 9
#: From this version on, a SyncGroup names the protocol.
SYNC_WITH_PROTOCOL = 5


#: If the record of a group that lost its last member cannot be written, it is written again after
#: this time.
EMPTY_RETRY_SECONDS = 1.0
#: The highest generation number.
GENERATION_MAX = 2**31 - 1
#: The shortest interval between two checks of a rebalance that waits for absent static members
#: only, whatever their timeouts.
ABSENT_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """The settings of classic groups (docs/format/configuration.md §10.1).  Times are in milliseconds."""

    initial_rebalance_delay: int = 3000
    min_session_timeout: int = 6000
    max_session_timeout: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout: int = 300_000


class Timer(NamedTuple):
    """A deadline of a group.

    `member_id` is the member whose session ends at the deadline; "" if the deadline concerns all members.
    """

    group_id: str
    kind: str
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """A record that must be written for a group, and the calls that wait for it.

    Attributes:
        record: the change of the group.  A GroupRecord contains the new state of the group.  An Expiry deletes the
            group's expired positions, and the group itself if nothing else is left.  A Fence ends the group's
            generation.  None deletes the group and its positions.
        done: a function that answers the waiting calls, and may return the next record to write.  It is called once,
            with the error of the write and the time in seconds.  The error is None if the record has been applied.
        refusals: a function that returns the waiting calls, each with an answer that refuses the call.  It is called
            only if the calls must be refused before `done` is called.
    """

    record: GroupRecord | Expiry | Fence | None
    done: Callable[[ErrorCode | None, float], Write | None]
    refusals: Callable[[ErrorCode], Refusals]


class Membership:
    """The handlers of classic groups.

    Args:
        config: the settings.
        timers: the deadlines of all groups; the keys are Timer objects.
        new_id: a function that generates the random part of a member id.
        now_ms: a function that returns the time of day for records, in ms since 1970.
        answer: a function that sends an answer; its arguments are the call and the answer.
    """

    def __init__(
        self,
        config: MembershipConfig,
        timers: Timers,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
        answer: Callable[[Call, Any], None],
    ) -> None:
        self._config = config
        self._timers = timers
        self._new_id = new_id
        self._now_ms = now_ms
        self._answer = answer

    # ------------------------------------------------------------------------------------------- join

    def join(
        self, group: ClassicGroup, request: JoinGroupRequest, call: Call, now: float
    ) -> Write | None:
        """Handles a JoinGroup of a group that exists."""
        member_id = request.member_id
        if group.state is GroupState.DEAD:
            self._refuse_join(call, error_codes.COORDINATOR_NOT_AVAILABLE, member_id)
            return None
        if not group.accepts(member_id, self._config.max_size):
            self._refuse_join(call, error_codes.GROUP_MAX_SIZE_REACHED, "")
            return None
        if not group.supports(request.protocol_type, protocols_of(request)):
            self._refuse_join(call, error_codes.INCONSISTENT_GROUP_PROTOCOL, member_id)
            return None
        if not member_id:
            return self._join_new(group, request, call, now)
        if member_id in group.pending_ids:
            return self._join_with_given_id(group, request, call, now)
        refusal = group.refusal_of(member_id, request.group_instance_id)
        if refusal is not None:
            self._refuse_join(call, refusal, member_id)
            return None
        return self._join_again(group, group.members[member_id], request, call, now)

    def _refuse_join(self, call: Call, error: ErrorCode, member_id: str) -> None:
        self._answer(call, join_refusal(call, error, member_id))

    def _join_new(
        self, group: ClassicGroup, request: JoinGroupRequest, call: Call, now: float
    ) -> Write | None:
        instance_id = request.group_instance_id
        member_id = f"{call.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if is_unwritable(member_id):
            self._refuse_join(call, error_codes.UNKNOWN_SERVER_ERROR, "")
            return None
        old_id = None if instance_id is None else group.static_members.get(instance_id)
        if old_id is not None:
            return self._replace_static(group, old_id, member_id, request, call, now)
        if instance_id is None and call.version >= JOIN_WITH_REQUIRED_ID:
            group.pending_ids.add(member_id)
            self._set_session(group, member_id, request.session_timeout_ms, now)
            self._refuse_join(call, error_codes.MEMBER_ID_REQUIRED, member_id)
            return None
        return self._add(group, member_id, request, call, now)

    def _join_with_given_id(
        self, group: ClassicGroup, request: JoinGroupRequest, call: Call, now: float
    ) -> Write | None:
        if request.group_instance_id is not None:
            # Only members without an instance id are given an id.
            self._refuse_join(call, error_codes.UNKNOWN_SERVER_ERROR, "")
            return None
        return self._add(group, request.member_id, request, call, now)

    def _join_again(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinGroupRequest,
        call: Call,
        now: float,
    ) -> Write | None:
        is_same = member.protocols == protocols_of(request)
        if group.state is GroupState.EMPTY:
            self._refuse_join(call, error_codes.UNKNOWN_MEMBER_ID, member.member_id)
            return None
        if group.state is GroupState.COMPLETING_REBALANCE and is_same:
            # The member may not have received the first answer.
            self._answer(call, self._joined(group, member))
            return None
        is_leader = group.leader == member.member_id
        if group.state is GroupState.STABLE and is_same and not is_leader:
            self._answer(call, self._joined(group, member))
            return None
        self._update(group, member, request, call)
        return self._rebalance_or_complete(group, now)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        call: Call,
        now: float,
    ) -> Write | None:
        member = new_member(member_id, request, call)
        is_first_rebalance = group.previous_state is GroupState.EMPTY
        if group.state is GroupState.PREPARING_REBALANCE and is_first_rebalance:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        # A member cannot send heartbeats while its join waits, so it may be gone unnoticed.
        self._set_session(group, member_id, self._config.new_member_join_timeout, now)
        return self._rebalance_or_complete(group, now)

    def _update(
        self, group: ClassicGroup, member: Member, request: JoinGroupRequest, call: Call
    ) -> None:
        group.offer(member, protocols_of(request))
        member.session_timeout = request.session_timeout_ms
        member.rebalance_timeout = rebalance_timeout_of(request)
        before = group.await_join(member, call)
        if before is not None:
            # The member's client has given up on that request, or another client uses its id.
            self._refuse_join(before, error_codes.REBALANCE_IN_PROGRESS, member.member_id)

    def _joined(self, group: ClassicGroup, member: Member) -> JoinGroupResponse:
        is_leader = group.leader == member.member_id
        is_listed = is_leader and group.state is GroupState.COMPLETING_REBALANCE
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            member_id=member.member_id,
            members=members_for_leader(group) if is_listed else (),
        )

    # --------------------------------------------------------------------------------- static members

    def _replace_static(
        self,
        group: ClassicGroup,
        old_id: str,
        member_id: str,
        request: JoinGroupRequest,
        call: Call,
        now: float,
    ) -> Write | None:
        old = group.members[old_id]
        member = new_member(member_id, request, call)
        member.is_new = False
        # As in Kafka, the client's id and host stay those of the member that joined first.
        member.client_id, member.client_host = old.client_id, old.client_host
        member.assignment = old.assignment
        if group.state is GroupState.STABLE and self._keeps_protocol(group, old, member):
            return self._store_replacement(group, old, member, call, now)
        self._fence(group, old)
        group.replace_static(member, old_id)
        self._timers.cancel(Timer(group.group_id, "member", old_id))
        self._set_session(group, member_id, member.session_timeout, now)
        return self._rebalance_or_complete(group, now)

    def _keeps_protocol(self, group: ClassicGroup, old: Member, member: Member) -> bool:
        kept = old.protocols
        group.offer(old, member.protocols)
        try:
            candidates = group.candidates()
            return bool(candidates) and group.elected_protocol() == group.protocol
        finally:
            group.offer(old, kept)

    def _store_replacement(
        self, group: ClassicGroup, old: Member, member: Member, call: Call, now: float
    ) -> Write:
        # The group does not change until the record is applied, so a failed write changes nothing.
        former_leader = group.leader or ""
        member.awaiting_join = None
        replaced = ClassicGroup(
            group.group_id,
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            members=dict(group.members),
            static_members=dict(group.static_members),
        )
        replaced.replace_static(member, old.member_id)

        def done(error: ErrorCode | None, now: float) -> None:
            if error is not None:
                self._refuse_join(call, error, member.member_id)
                return
            self._fence(group, old)
            self._timers.cancel(Timer(group.group_id, "member", old.member_id))
            applied = group.members[member.member_id]
            group.offer(applied, member.protocols)
            self._set_session(group, member.member_id, member.session_timeout, now)
            self._answer(call, self._came_back(group, applied, former_leader, call))
            return

        return Write(
            replaced.record(self._now_ms()),
            done,
            lambda error: [(call, join_refusal(call, error, member.member_id))],
        )

    def _came_back(
        self, group: ClassicGroup, member: Member, former_leader: str, call: Call
    ) -> JoinGroupResponse:
        answer = self._joined(group, member)
        if call.version < JOIN_WITH_SKIPPED_ASSIGNMENT:
            # A member that believes it is the leader would assign again, and wait for a rebalance
            # that never comes.
            return answer._replace(leader=former_leader)
        is_leader = group.leader == member.member_id
        members = members_for_leader(group) if is_leader else ()
        return answer._replace(members=members, skip_assignment=is_leader)

    def _fence(self, group: ClassicGroup, member: Member) -> None:
        call = group.take_join(member)
        if call is not None:
            self._refuse_join(call, error_codes.FENCED_INSTANCE_ID, member.member_id)
        self._answer_sync(member, SyncGroupResponse(error_code=error_codes.FENCED_INSTANCE_ID.code))

    # -------------------------------------------------------------------------------------- rebalance

    def _rebalance_or_complete(self, group: ClassicGroup, now: float) -> Write | None:
        if group.can_rebalance:
            return self.rebalance(group, now)
        return self._complete_if_all_joined(group, now)

    def rebalance(self, group: ClassicGroup, now: float) -> Write | None:
        """Begins a rebalance.  SyncGroup calls that are waiting are refused, so that their members join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._drop_assignments(group, error_codes.REBALANCE_IN_PROGRESS, now)
        self._timers.cancel(Timer(group.group_id, "sync"))
        is_first = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE)
        join = Timer(group.group_id, "join")
        if is_first:
            delay = self._config.initial_rebalance_delay
            group.remaining_delay = max(group.rebalance_timeout - delay, 0)
            group.last_delay = delay
            self._timers.set(join, now + delay / 1000)
            return None
        # The members' timeouts limit the wait for ids that were given out; without members, it does
        # not wait.
        if group.has_all_members_joined or not group.members:
            return self._complete_join(group, now)
        self._timers.set(join, now + group.rebalance_timeout / 1000)
        return None

    def _complete_if_all_joined(self, group: ClassicGroup, now: float) -> Write | None:
        # The first rebalance waits until its time is over, even if everyone has joined.
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        is_first = group.previous_state is GroupState.EMPTY
        if is_preparing and not is_first and group.has_all_members_joined:
            return self._complete_join(group, now)
        return None

    def _on_join_time(self, group: ClassicGroup, now: float) -> Write | None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return None
        is_first = group.previous_state is GroupState.EMPTY
        if is_first and group.new_member_added and group.remaining_delay:
            group.new_member_added = False
            delay = min(self._config.initial_rebalance_delay, group.remaining_delay)
            group.remaining_delay = max(group.remaining_delay - group.last_delay, 0)
            group.last_delay = delay
            self._timers.set(Timer(group.group_id, "join"), now + delay / 1000)
            return None
        return self._complete_join(group, now)

    def _complete_join(self, group: ClassicGroup, now: float) -> Write | None:
        self._timers.cancel(Timer(group.group_id, "join"))
        group.new_member_added = False
        for member in group.not_yet_rejoined():
            if not member.is_static:
                group.remove(member.member_id)
                self._timers.cancel(Timer(group.group_id, "member", member.member_id))
        if not group.members:
            return self._store_empty(group)
        if not group.elect_joined_leader():
            # Only static members are left, and none has joined: wait until they join or their
            # sessions end.
            seconds = max(group.rebalance_timeout / 1000, ABSENT_RETRY_SECONDS)
            self._timers.set(Timer(group.group_id, "join"), now + seconds)
            return None
        group.begin_generation()
        for member in group.members.values():
            self._answer_join(group, member, now)
        self._timers.set(Timer(group.group_id, "sync"), now + group.rebalance_timeout / 1000)
        return None

    def _answer_join(self, group: ClassicGroup, member: Member, now: float) -> None:
        call = group.take_join(member)
        member.is_new = False
        self._set_session(group, member.member_id, member.session_timeout, now)
        if call is not None:
            self._answer(call, self._joined(group, member))

    def _store_empty(self, group: ClassicGroup) -> Write:
        record = GroupRecord(
            group.protocol_type, group.generation + 1, None, None, self._now_ms()
        )

        def done(error: ErrorCode | None, now: float) -> None:
            if error is not None:
                # The group is still without members and in a rebalance, which must be completed
                # later.
                self._timers.set(Timer(group.group_id, "join"), now + EMPTY_RETRY_SECONDS)

        return Write(record, done, lambda error: [])

    # ------------------------------------------------------------------------------------------- sync

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, call: Call, now: float
    ) -> Write | None:
        """Handles a SyncGroup of a group that exists."""
        error = self._sync_refusal(group, request)
        if error is not None:
            self._answer(call, SyncGroupResponse(error_code=error.code))
            return None
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._timers.cancel(Timer(group.group_id, "sync"))
        if group.state is GroupState.STABLE:
            self._answer(call, assignment_of(group, member))
            return None
        # As with joins, only one request of a member waits.
        self._answer_sync(
            member, SyncGroupResponse(error_code=error_codes.REBALANCE_IN_PROGRESS.code)
        )
        member.awaiting_sync = call
        if group.leader != member.member_id:
            return None
        given = {each.member_id: each.assignment for each in request.assignments}
        return Write(
            group.record(self._now_ms(), given),
            lambda failure, now: self._assigned(group, failure, now),
            lambda failure: awaited_syncs(group, failure),
        )

    def _sync_refusal(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
        if group.state is GroupState.DEAD:
            return error_codes.COORDINATOR_NOT_AVAILABLE
        refusal = group.refusal_of(request.member_id, request.group_instance_id)
        if refusal is not None:
            return refusal
        if request.generation_id != group.generation:
            return error_codes.ILLEGAL_GENERATION
        if differs(request.protocol_type, group.protocol_type) or differs(
            request.protocol_name, group.protocol
        ):
            return error_codes.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return error_codes.REBALANCE_IN_PROGRESS
        return error_codes.UNKNOWN_MEMBER_ID if group.state is GroupState.EMPTY else None

    def _assigned(self, group: ClassicGroup, error: ErrorCode | None, now: float) -> Write | None:
        if error is not None:
            self._drop_assignments(group, error, now)
            return self._rebalance_or_complete(group, now)
        for member in group.members.values():
            if self._answer_sync(member, assignment_of(group, member)):
                # The member's session may have ended unnoticed while its sync waited.
                self._set_session(group, member.member_id, member.session_timeout, now)
        return None

    def _drop_assignments(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        for member in group.members.values():
            member.assignment = b""
            if self._answer_sync(member, SyncGroupResponse(error_code=error.code)):
                self._set_session(group, member.member_id, member.session_timeout, now)

    def _answer_sync(self, member: Member, answer: SyncGroupResponse) -> bool:
        call, member.awaiting_sync = member.awaiting_sync, None
        if call is not None:
            self._answer(call, answer)
        return call is not None

    def _on_sync_time(self, group: ClassicGroup, now: float) -> Write | None:
        late = group.pending_sync & group.members.keys()
        if not late or not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return None
        for member_id in late:
            group.remove(member_id)
            self._timers.cancel(Timer(group.group_id, "member", member_id))
        return self.rebalance(group, now)

    # -------------------------------------------------------------------------------------- heartbeat

    def heartbeat_refusal(
        self, group: ClassicGroup, request: HeartbeatRequest, now: float
    ) -> ErrorCode | None:
        """Returns the error for a Heartbeat, or None if it is valid.

        A valid heartbeat restarts the member's session.
        """
        if group.state is GroupState.DEAD:
            return error_codes.COORDINATOR_NOT_AVAILABLE
        refusal = group.refusal_of(request.member_id, request.group_instance_id)
        if refusal is not None:
            return refusal
        if request.generation_id != group.generation:
            return error_codes.ILLEGAL_GENERATION
        if group.state is GroupState.EMPTY:
            return error_codes.UNKNOWN_MEMBER_ID
        self.touch(group, request.member_id, now)
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        return error_codes.REBALANCE_IN_PROGRESS if is_preparing else None

    def touch(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """Restarts a member's session."""
        member = group.members[member_id]
        self._set_session(group, member_id, member.session_timeout, now)

    def heard(self, group: ClassicGroup, member_id: str, at: float) -> None:
        """Restarts a member's session as of a past time, `at`, unless the session was restarted after that time."""
        member = group.members.get(member_id)
        if member is not None:
            timer = Timer(group.group_id, "member", member_id)
            self._timers.postpone(timer, at + member.session_timeout / 1000)

    # ------------------------------------------------------------------------------------------ leave

    def leave(
        self, group: ClassicGroup, request: LeaveGroupRequest, call: Call, now: float
    ) -> Write | None:
        """Handles a LeaveGroup of a group that exists.  If the change needs a record, the answer follows the write."""
        if group.state is GroupState.DEAD:
            self._answer(call, leave_refusal(error_codes.COORDINATOR_NOT_AVAILABLE))
            return None
        results = tuple(self._leave_one(group, each) for each in leaving(request, call))
        answer = leave_answer(results, call)
        write = None
        if any(each.error_code == 0 for each in results):
            write = self._members_left(group, now)
        if write is None:
            self._answer(call, answer)
            return None
        return self._answered_after(write, call, answer)

    def _answered_after(self, write: Write, call: Call, answer: LeaveGroupResponse) -> Write:
        def done(error: ErrorCode | None, now: float) -> Write | None:
            self._answer(call, answer if error is None else leave_refusal(error))
            return write.done(error, now)

        return Write(write.record, done, lambda error: [(call, leave_refusal(error))])

    def _members_left(self, group: ClassicGroup, now: float) -> Write | None:
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.rebalance(group, now)
        return self._complete_if_all_joined(group, now)

    def _leave_one(
        self, group: ClassicGroup, leaver: LeaveGroupRequestMember
    ) -> LeaveGroupResponseMember:
        member_id: str | None = leaver.member_id
        refusal = None
        if not leaver.member_id:
            # An administrator removes a static member by giving only its instance id.
            member_id = group.static_members.get(leaver.group_instance_id or "")
            refusal = error_codes.UNKNOWN_MEMBER_ID if member_id is None else None
        elif leaver.member_id not in group.pending_ids:
            refusal = group.refusal_of(leaver.member_id, leaver.group_instance_id)
        if refusal is None:
            assert member_id is not None
            self._remove(group, member_id)
        return LeaveGroupResponseMember(
            leaver.member_id, leaver.group_instance_id, 0 if refusal is None else refusal.code
        )

    def _remove(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(Timer(group.group_id, "member", member_id))
        member = group.remove(member_id)
        if member is not None:
            self._refuse_removed(member)

    def _refuse_removed(self, member: Member) -> None:
        if member.awaiting_join is not None:
            # The removed member's client, if it still runs, joins again.
            self._refuse_join(member.awaiting_join, error_codes.UNKNOWN_MEMBER_ID, "")
        self._answer_sync(member, SyncGroupResponse(error_code=error_codes.UNKNOWN_MEMBER_ID.code))

    # ----------------------------------------------------------------------------------------- delete

    def delete(self, group: ClassicGroup, call: Call) -> Write | None:
        """Deletes a group that has no members.  The answer is an ErrorCode, or None for success."""
        if group.state is GroupState.DEAD:
            self._answer(call, error_codes.GROUP_ID_NOT_FOUND)
            return None
        if group.state is not GroupState.EMPTY:
            self._answer(call, error_codes.NON_EMPTY_GROUP)
            return None

        def done(error: ErrorCode | None, now: float) -> None:
            self._answer(call, error)

        return Write(None, done, lambda error: [(call, error)])

    # ------------------------------------------------------------------------------------------ fence

    def fence(self, group: ClassicGroup, order: Any, call: Call) -> Write | None:
        """Ends the group's generation and removes its members.  The answer is the new generation or an ErrorCode."""
        if group.generation >= GENERATION_MAX:
            self._answer(call, error_codes.INVALID_REQUEST)
            return None
        generation = group.generation + 1
        members = list(group.members.values())
        record = GroupRecord(group.protocol_type, generation, None, None, self._now_ms())

        def done(error: ErrorCode | None, now: float) -> None:
            if error is None:
                for kind in ("join", "sync"):
                    self._timers.cancel(Timer(group.group_id, kind))
                group.pending_sync.clear()
                group.new_member_added = False
                for each in members:
                    self._timers.cancel(Timer(group.group_id, "member", each.member_id))
                    self._refuse_removed(each)
            self._answer(call, generation if error is None else error)

        return Write(Fence(record, order), done, lambda error: [(call, error)])

    # ------------------------------------------------------------------------------------------ timers

    def _set_session(
        self, group: ClassicGroup, member_id: str, timeout_ms: int, now: float
    ) -> None:
        self._timers.set(Timer(group.group_id, "member", member_id), now + timeout_ms / 1000)

    def on_timer(self, group: ClassicGroup, timer: Timer, now: float) -> Write | None:
        """Handles a deadline of the group that has passed; it may have passed some time ago."""
        if timer in self._timers:
            return None    # the timer was set again in the meantime
        if timer.kind == "join":
            return self._on_join_time(group, now)
        if timer.kind == "sync":
            return self._on_sync_time(group, now)
        return self._on_session_end(group, timer.member_id, now)

    def _on_session_end(self, group: ClassicGroup, member_id: str, now: float) -> Write | None:
        if member_id in group.pending_ids:
            group.pending_ids.remove(member_id)
            return self._complete_if_all_joined(group, now)
        member = group.members.get(member_id)
        if member is None:
            return None
        is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
        if is_waiting and not member.is_new:
            return None    # the member's session restarts with the answer
        self._remove(group, member_id)
        return self._members_left(group, now)

    # ----------------------------------------------------------------------------------- load, unload

    def begin_sessions(self, group: ClassicGroup, now: float) -> Write | None:
        """Begins the sessions of the members of a loaded group.

        If the group is larger than the size limit, begins a rebalance.
        """
        for member in group.members.values():
            self._set_session(group, member.member_id, member.session_timeout, now)
        if len(group.members) > self._config.max_size:
            return self.rebalance(group, now)
        return None

    def end(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Refuses all waiting calls with `error`, because another coordinator has the group or it was deleted."""
        for member_id in [*group.members, *group.pending_ids]:
            self._timers.cancel(Timer(group.group_id, "member", member_id))
        for kind in ("join", "sync"):
            self._timers.cancel(Timer(group.group_id, kind))
        for member in group.members.values():
            call = group.take_join(member)
            if call is not None:
                self._refuse_join(call, error, member.member_id)
            self._answer_sync(member, SyncGroupResponse(error_code=error.code))
        group.transition_to(GroupState.DEAD)

