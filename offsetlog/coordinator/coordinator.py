"""The coordinator of the groups in the log partitions that this process leads.

The coordinator does no I/O.  The caller passes in the requests, the time, and the outcomes of writes.  The coordinator
passes out its answers and records through a port.  The records of a group are applied in the order of the log.  While a
record of the group is being written, the next request to the group waits (docs/architecture.md §7a).

The coordinator itself decides about the first request of a running consumer.  It then admits the consumer to the front,
which is the code that reads the requests.  For an admitted consumer, the front answers further requests with the same
values without asking the coordinator.  Before anything may change a group, the coordinator revokes the admissions of
its members (csrc/front/admissions.h).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from offsetlog import error_codes
from offsetlog.coordinator.answers import (
    Refusals,
    has_unwritable_name,
    join_refusal,
    leave_answer,
    leaving,
)
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.classic_group import CONSUMER, ClassicGroup, GroupState
from offsetlog.coordinator.group_record import Expiry, Fence, GroupRecord
from offsetlog.coordinator.membership import (
    SYNC_WITH_PROTOCOL,
    Membership,
    MembershipConfig,
    Timer,
    Write,
)
from offsetlog.coordinator.ports import Ports
from offsetlog.coordinator.timers import Timers
from offsetlog.error_codes import ErrorCode
from offsetlog.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)


@dataclass(frozen=True, slots=True)
class CoordinatorConfig(MembershipConfig):
    """The settings of a coordinator (docs/format/configuration.md §10.1).  Times are in milliseconds."""

    commit_timeout: int = 5000


#: From this version on, a commit to a group that does not exist gets an error that says so.
COMMIT_WITH_MISSING_GROUP = 9

#: A deadline whose handling failed is handled again after this time.
FAILED_RETRY_SECONDS = 5.0

#: The handling of a request or a deadline; it may have to wait until a record of its group is written.
Step = Callable[[float], Write | None]


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """A group that is not a classic group.  This coordinator keeps the group's records but does not run the group.

    Attributes:
        group_type: "consumer", "share" or "streams", the names that ListGroups uses.
        has_members: whether the log holds a record of any member.
    """

    group_type: str
    has_members: bool


@dataclass(slots=True, eq=False)
class _Waiting:
    step: Step
    refusals: Callable[[ErrorCode], Refusals]
    deadline: float


@dataclass(slots=True, eq=False)
class _Slot:
    # A group, its record that is being written, and the steps that wait for that write.
    group: ClassicGroup
    in_flight: Write | None = None
    waiting: deque[_Waiting] = field(default_factory=deque)

    @property
    def is_fenced(self) -> bool:
        """Whether a record that ends the group's generation is now being written."""
        return self.in_flight is not None and isinstance(self.in_flight.record, Fence)

    @property
    def is_bare(self) -> bool:
        group = self.group
        is_busy = self.in_flight is not None or bool(self.waiting or group.pending_ids or group.members)
        return not is_busy and not group.has_record


class Coordinator:
    """The coordinator of the groups in the log partitions that this process leads (see the docstring of the module).

    A partition is loading between the calls of `begin_load` and `loaded`.  If a partition is neither loading nor
    loaded, requests for it are answered with NOT_COORDINATOR.  Times are in seconds of a steady clock.  Not
    thread-safe.
    """

    def __init__(
        self, config: CoordinatorConfig, ports: Ports, partition_for: Callable[[str], int]
    ) -> None:
        self._config = config
        self._ports = ports
        self._partition_for = partition_for
        self._timers = Timers()
        self._membership = Membership(
            config, self._timers, ports.new_id, ports.now_ms, self._answer
        )
        self._loading: set[int] = set()
        self._partitions: dict[int, dict[str, _Slot]] = {}
        self._others: dict[int, dict[str, OtherGroup]] = {}

    # -------------------------------------------------------------------------------------- partitions

    def begin_load(self, partition: int) -> None:
        """Starts to lead a partition.  Until `loaded` is called, requests get COORDINATOR_LOAD_IN_PROGRESS."""
        self._loading.add(partition)

    def loaded(
        self,
        partition: int,
        records: Iterable[tuple[str, GroupRecord]],
        now: float,
        others: Mapping[str, OtherGroup] | None = None,
    ) -> None:
        """Ends the loading of a partition.

        `records` has the newest record of each classic group; `others` has the other groups.
        """
        slots = self._partitions[partition] = {}
        self._others[partition] = dict(others or {})
        self._loading.discard(partition)
        for group_id, record in records:
            slot = slots[group_id] = _Slot(ClassicGroup(group_id))
            slot.group.apply(record)
            self._take(slot, self._membership.begin_sessions(slot.group, now), now)
        self._ports.set_led(partition, True)

    def resign(self, partition: int) -> None:
        """Stops leading a partition.  Waiting requests are answered with NOT_COORDINATOR."""
        self._ports.set_led(partition, False)
        self._loading.discard(partition)
        self._others.pop(partition, None)
        for slot in self._partitions.pop(partition, {}).values():
            self._refuse_waiting(slot, error_codes.NOT_COORDINATOR)
            self._membership.end(slot.group, error_codes.NOT_COORDINATOR)

    def refusal(self, group_id: str) -> ErrorCode | None:
        """Returns the error that every request of a group gets; None if its partition is led and loaded here."""
        partition = self._partition_for(group_id)
        if partition in self._partitions:
            return None
        if partition in self._loading:
            return error_codes.COORDINATOR_LOAD_IN_PROGRESS
        return error_codes.NOT_COORDINATOR

    def group(self, group_id: str) -> ClassicGroup | None:
        """Returns the classic group of this name, or None.

        For a group that has only positions, returns an empty group.
        """
        slot = self._slot(group_id)
        if slot is not None:
            return slot.group
        return ClassicGroup(group_id) if self._ports.has_offsets(group_id) else None

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading."""
        return bool(self._loading)

    def loads(self, partition: int) -> bool:
        """Whether this process leads the partition and has not loaded it yet."""
        return partition in self._loading

    def loaded_partitions(self) -> list[int]:
        """Returns the partitions that are loaded."""
        return sorted(self._partitions)

    def other_group(self, group_id: str) -> OtherGroup | None:
        """Returns the group of this name if it is not a classic group; otherwise None."""
        return self._others.get(self._partition_for(group_id), {}).get(group_id)

    def fetch_refusal(
        self, group_id: str, member_id: str | None, member_epoch: int
    ) -> ErrorCode | None:
        """Returns the error for an OffsetFetch of a group; None if the request may be answered.

        The member id and the member epoch matter only for groups of type "consumer" or "streams".  This coordinator
        does not know the members of such groups, so it refuses requests with a member id or a member epoch
        (docs/format/coordinator.md §5.3).
        """
        error = self.refusal(group_id)
        if error is not None or (member_id is None and member_epoch < 0):
            return error
        other = self.other_group(group_id)
        is_modern = other is not None and other.group_type in ("consumer", "streams")
        return error_codes.UNKNOWN_MEMBER_ID if is_modern else None

    def other_groups(self) -> dict[str, OtherGroup]:
        """Returns all groups that are not classic groups."""
        return {name: each for others in self._others.values() for name, each in others.items()}

    def groups(self) -> list[ClassicGroup]:
        """Returns all groups that have records."""
        return [
            slot.group
            for slots in self._partitions.values()
            for slot in slots.values()
            if slot.group.has_record
        ]

    def count_by_state(self) -> Counter[tuple[str, str]]:
        """Counts the groups that have records, by type and state.  The names are those of ListGroups.

        Any thread may call this.  Each group is counted once, in a state that it had during the call.
        """
        found: Counter[tuple[str, str]] = Counter()
        for slots in self._partitions.copy().values():
            for slot in list(slots.values()):
                if slot.group.has_record:
                    found["classic", slot.group.state.value] += 1
        for others in self._others.copy().values():
            for other in list(others.values()):
                found[other.group_type, "Stable" if other.has_members else "Empty"] += 1
        return found

    def _slot(self, group_id: str) -> _Slot | None:
        return self._partitions[self._partition_for(group_id)].get(group_id)

    # ---------------------------------------------------------------------------------------- requests

    def join(self, request: JoinGroupRequest, call: Call, now: float) -> None:
        """Handles a JoinGroup."""
        error = self._join_refusal(request, call)
        if error is not None:
            self._answer(call, join_refusal(call, error, request.member_id))
            return
        slot = self._slot(request.group_id)
        is_new = slot is None
        if slot is None:
            slot = self._new_slot(request.group_id)
        self._run(
            slot,
            lambda now: self._join(slot, request, call, now, is_new=is_new),
            lambda error: [(call, join_refusal(call, error, request.member_id))],
            now,
        )

    def _join_refusal(self, request: JoinGroupRequest, call: Call) -> ErrorCode | None:
        if not request.group_id:
            return error_codes.INVALID_GROUP_ID
        refusal = self.refusal(request.group_id)
        if refusal is not None:
            return refusal
        if has_unwritable_name(request, call):
            return error_codes.UNKNOWN_SERVER_ERROR
        config = self._config
        session = request.session_timeout_ms
        if not config.min_session_timeout <= session <= config.max_session_timeout:
            return error_codes.INVALID_SESSION_TIMEOUT
        if self.other_group(request.group_id) is not None:
            return error_codes.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id and self.group(request.group_id) is None:
            return error_codes.UNKNOWN_MEMBER_ID
        return None

    def _new_slot(self, group_id: str) -> _Slot:
        slot = _Slot(ClassicGroup(group_id))
        self._partitions[self._partition_for(group_id)][group_id] = slot
        return slot

    def _join(
        self, slot: _Slot, request: JoinGroupRequest, call: Call, now: float, *, is_new: bool
    ) -> Write | None:
        write = self._membership.join(slot.group, request, call, now)
        if write is not None or not is_new or self._ports.has_offsets(request.group_id):
            return write

        # Writes a first record, so that the group exists if another coordinator takes over.
        def done(error: ErrorCode | None, now: float) -> None:
            if error is not None:
                self._answer(call, join_refusal(call, error, ""))

        return Write(
            GroupRecord(current_state_timestamp=self._ports.now_ms()),
            done,
            lambda error: [],    # the answer does not wait for the write
        )

    def sync(self, request: SyncGroupRequest, call: Call, now: float) -> None:
        """Handles a SyncGroup."""

        def refused(error: ErrorCode) -> Refusals:
            return [(call, SyncGroupResponse(error_code=error.code))]

        error = self._known_refusal(request.group_id)
        is_unnamed = request.protocol_type is None or request.protocol_name is None
        if call.version >= SYNC_WITH_PROTOCOL and is_unnamed:
            error = error_codes.INCONSISTENT_GROUP_PROTOCOL
        slot = self._slot(request.group_id) if error is None else None
        if slot is None:
            self._refuse(refused(error or error_codes.UNKNOWN_MEMBER_ID))
            return
        membership = self._membership
        self._run(slot, lambda now: membership.sync(slot.group, request, call, now), refused, now)

    def heartbeat(self, request: HeartbeatRequest, call: Call, now: float) -> None:
        """Handles a Heartbeat at once, even while a group's record is being written, because it changes no record."""
        error = self._known_refusal(request.group_id)
        slot = self._slot(request.group_id) if error is None else None
        if slot is not None:
            error = self._membership.heartbeat_refusal(slot.group, request, now)
            if error is None and slot.is_fenced:
                error = error_codes.REBALANCE_IN_PROGRESS
            if error is None:
                self._admit_member(
                    slot.group, request.generation_id, request.member_id, request.group_instance_id
                )
        elif error is None:
            error = error_codes.UNKNOWN_MEMBER_ID
        elif error is error_codes.COORDINATOR_LOAD_IN_PROGRESS:
            error = None    # members stay in their group while its coordinator loads
        self._answer(call, HeartbeatResponse(error_code=0 if error is None else error.code))

    def _admit_member(
        self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None
    ) -> None:
        # In every other state, the next heartbeat may get another answer.
        if group.state is GroupState.STABLE:
            self._ports.admit(group.group_id, generation, member_id, instance_id)

    def leave(self, request: LeaveGroupRequest, call: Call, now: float) -> None:
        """Handles a LeaveGroup."""

        def refused(error: ErrorCode) -> Refusals:
            return [(call, LeaveGroupResponse(error_code=error.code))]

        error = self._known_refusal(request.group_id)
        if error is not None:
            self._refuse(refused(error))
            return
        slot = self._slot(request.group_id)
        if slot is None:
            unknown = tuple(
                LeaveGroupResponseMember(
                    each.member_id, each.group_instance_id, error_codes.UNKNOWN_MEMBER_ID.code
                )
                for each in leaving(request, call)
            )
            self._answer(call, leave_answer(unknown, call))
            return
        membership = self._membership
        self._run(slot, lambda now: membership.leave(slot.group, request, call, now), refused, now)

    def _known_refusal(self, group_id: str) -> ErrorCode | None:
        if not group_id:
            return error_codes.INVALID_GROUP_ID
        return self.refusal(group_id)

    def delete(self, group_id: str, call: Call, now: float) -> None:
        """Deletes a group that has no members, with its positions.  The answer is an ErrorCode, or None for success."""
        error = self.refusal(group_id)
        other = self.other_group(group_id) if error is None else None
        slot = self._slot(group_id) if error is None else None
        if error is None and slot is None and other is None and not self._ports.has_offsets(group_id):
            error = error_codes.GROUP_ID_NOT_FOUND
        if other is not None and other.has_members:
            error = error_codes.NON_EMPTY_GROUP
        if error is not None:
            self._answer(call, error)
            return
        slot = slot or self._new_slot(group_id)
        membership, group = self._membership, slot.group
        self._run(slot, lambda now: membership.delete(group, call), lambda e: [(call, e)], now)

    def live_groups(self) -> dict[int, list[str]]:
        """Returns, by partition, the groups that have members and whose positions may expire."""
        return {
            partition: [
                group_id
                for group_id, slot in slots.items()
                if slot.group.members and slot.group.expiry is not None
            ]
            for partition, slots in self._partitions.items()
        }

    def expire(self, group_id: str, call: Call, now: float) -> None:
        """Deletes the expired positions of a group if the state of the group allows it.

        The answer is None, even if nothing could be deleted; after a failure it is the ErrorCode.
        """
        error = self.refusal(group_id)
        other = self.other_group(group_id) if error is None else None
        if error is not None or (other is not None and other.has_members):
            self._answer(call, error)
            return
        slot = self._slot(group_id) or self._new_slot(group_id)
        group = slot.group

        def done(error: ErrorCode | None, now: float) -> None:
            self._answer(call, error)

        def step(now: float) -> Write | None:
            if group.expiry is None:
                self._answer(call, None)
                return None
            return Write(group.expiry, done, lambda error: [(call, error)])

        self._run(slot, step, lambda error: [(call, error)], now)

    def fence(self, group_id: str, order: Any, call: Call, now: float) -> None:
        """Ends the generation of a group, whatever the state of the group is, and writes positions in the same batch.

        From then on, requests of the members are refused, so the members join again.  The answer is the new generation
        or an ErrorCode.  It is INCONSISTENT_GROUP_PROTOCOL if the group is not a classic group, and INVALID_REQUEST if
        the generation number of the group is at the maximum.
        """
        error = self.refusal(group_id)
        if error is None and self.other_group(group_id) is not None:
            error = error_codes.INCONSISTENT_GROUP_PROTOCOL
        if error is not None:
            self._answer(call, error)
            return
        slot = self._slot(group_id) or self._new_slot(group_id)

        def step(now: float) -> Write | None:
            if slot.group.state is not GroupState.DEAD:
                return self._membership.fence(slot.group, order, call)
            self.fence(group_id, order, call, now)    # the group was deleted in the meantime, so begin again
            return None

        self._run(slot, step, lambda error: [(call, error)], now)

    def offset_delete_refusal(self, group_id: str) -> ErrorCode | None:
        """Returns the error for an OffsetDelete.

        None means that positions of topics that no member reads may be deleted.
        """
        refusal = self._known_refusal(group_id)
        if refusal is not None:
            return refusal
        group = self.group(group_id)
        if self.other_group(group_id) is not None:
            return None
        if group is None or group.state is GroupState.DEAD:
            return error_codes.GROUP_ID_NOT_FOUND
        is_active = group.state is not GroupState.EMPTY
        return error_codes.NON_EMPTY_GROUP if is_active and group.protocol_type != CONSUMER else None

    # ----------------------------------------------------------------------------------------- offsets

    def commit_refusal(
        self, request: OffsetCommitRequest, version: int, now: float
    ) -> ErrorCode | None:
        """Returns the error for a commit; None if it is accepted.  An accepted commit restarts the member's session.

        The rules are in docs/format/coordinator.md §5.1.  The caller checks before this call that the topics exist, and
        after this call that the metadata is not too large.
        """
        refusal = self.refusal(request.group_id)
        if refusal is not None:
            return refusal
        group = self.group(request.group_id)
        generation = request.generation_id_or_member_epoch
        other = self.other_group(request.group_id)
        if other is not None:
            is_free = generation < 0 and not other.has_members
            return None if is_free else error_codes.UNKNOWN_MEMBER_ID
        if group is None and generation >= 0:
            is_new_error = version >= COMMIT_WITH_MISSING_GROUP
            return error_codes.GROUP_ID_NOT_FOUND if is_new_error else error_codes.ILLEGAL_GENERATION
        if group is None or (group.state is GroupState.EMPTY and generation < 0):
            self._admit_nobody(request)
            return None
        refusal = _member_refusal(group, request)
        slot = self._slot(request.group_id)
        if refusal is None and slot is not None and slot.is_fenced:
            # The commit would follow the positions of the fence in the log, and replace them.
            refusal = error_codes.REBALANCE_IN_PROGRESS
        if refusal is None and request.member_id in group.members:
            self._membership.touch(group, request.member_id, now)
            self._admit_member(group, generation, request.member_id, request.group_instance_id)
        return refusal

    def _admit_nobody(self, request: OffsetCommitRequest) -> None:
        # The client is not a member.  Requests with a member id or an instance id are not admitted,
        # since their values would be unlimited.
        if not request.member_id and request.group_instance_id is None:
            self._ports.admit(request.group_id, request.generation_id_or_member_epoch, "", None)

    # ---------------------------------------------------------------------------------------- in order

    def _run(
        self, slot: _Slot, step: Step, refusals: Callable[[ErrorCode], Refusals], now: float
    ) -> None:
        self._take_heard(slot)
        if slot.in_flight is not None:
            deadline = now + self._config.commit_timeout / 1000
            slot.waiting.append(_Waiting(step, refusals, deadline))
            return
        self._take(slot, step(now), now)

    def _take_heard(self, slot: _Slot) -> None:
        # Before anything may change a group, the front stops answering for it, and the requests
        # that the front has answered count for the members' sessions.
        group = slot.group
        for member_id, at in self._ports.revoke(group.group_id):
            self._membership.heard(group, member_id, at)

    def _take(self, slot: _Slot, write: Write | None, now: float) -> None:
        # Runs waiting steps until one needs a record; a step that fails does not stop the next one.
        failures: list[Exception] = []
        while write is None and slot.waiting:
            waiting = slot.waiting.popleft()
            try:
                write = waiting.step(now)
            except Exception as failure:
                failures.append(failure)
                self._refuse(waiting.refusals(error_codes.UNKNOWN_SERVER_ERROR))
        slot.in_flight = write
        if write is not None:
            group_id = slot.group.group_id
            self._timers.set(Timer(group_id, "write"), now + self._config.commit_timeout / 1000)
            self._ports.append(self._partition_for(group_id), group_id, write.record, write)
        _raise_all(failures)

    def written(
        self,
        partition: int,
        group_id: str,
        error: ErrorCode | None,
        now: float,
        *,
        token: object,
        is_gone: bool = False,
    ) -> None:
        """Reports that the record of a group was written; if the write failed, `error` is the error.

        `token` is the token that the coordinator passed to `Ports.append`.  `is_gone` says whether the last position of
        the group has expired, so that the group's records were deleted.
        """
        slot = self._partitions.get(partition, {}).get(group_id)
        write = None if slot is None else slot.in_flight
        if slot is None or write is None or write is not token:
            return    # the write belongs to a leadership that has ended; everything that waited for it is answered
        self._take_heard(slot)
        slot.in_flight = None
        self._timers.cancel(Timer(group_id, "write"))
        record = write.record.record if isinstance(write.record, Fence) else write.record
        if error is None and isinstance(record, GroupRecord):
            slot.group.apply(record)
        elif error is None and (record is None or is_gone):
            del self._partitions[partition][group_id]
            self._others[partition].pop(group_id, None)
            self._membership.end(slot.group, error_codes.COORDINATOR_NOT_AVAILABLE)
        try:
            following = write.done(error, now)
        except BaseException:
            self._refuse(write.refusals(error_codes.UNKNOWN_SERVER_ERROR))
            self._take(slot, None, now)
            raise
        self._take(slot, following, now)
        if isinstance(write.record, Expiry | Fence) and slot.is_bare and self._slot(group_id) is slot:
            # The slot only kept the group from changing during the write.
            del self._partitions[partition][group_id]

    def _on_write_time(self, slot: _Slot, now: float) -> None:
        # Answers the waiting calls but does not undo the write, which may still succeed.
        error = error_codes.COORDINATOR_NOT_AVAILABLE
        if slot.in_flight is None:
            return
        self._refuse(slot.in_flight.refusals(error))
        for each in slot.waiting:
            if each.deadline <= now:
                self._refuse(each.refusals(error))
        slot.waiting = deque(each for each in slot.waiting if each.deadline > now)
        latest = now + self._config.commit_timeout / 1000
        next_one = min((each.deadline for each in slot.waiting), default=latest)
        self._timers.set(Timer(slot.group.group_id, "write"), min(next_one, latest))

    # ------------------------------------------------------------------------------------------- time

    def next_deadline(self) -> float | None:
        """Returns the time at which `tick` must be called next; None if no deadline is set."""
        return self._timers.next()

    def count_timers(self) -> int:
        """Returns the number of deadlines that are set for members, rebalances and writes."""
        return len(self._timers)

    def tick(self, now: float) -> None:
        """Handles the deadlines that have passed.

        Raises:
            ExceptionGroup: some deadlines could not be handled, and will be tried again.  All others were handled.
        """
        failures: list[Exception] = []
        for key in self._timers.due(now):
            assert isinstance(key, Timer)
            try:
                self._on_deadline(key, now)
            except Exception as failure:
                failures.append(failure)
                self._timers.postpone(key, now + FAILED_RETRY_SECONDS)
        _raise_all(failures)

    def _on_deadline(self, timer: Timer, now: float) -> None:
        slot = self._partitions.get(self._partition_for(timer.group_id), {}).get(timer.group_id)
        if slot is not None:
            self._on_timer(slot, timer, now)

    def _on_timer(self, slot: _Slot, timer: Timer, now: float) -> None:
        if timer.kind == "write":
            self._on_write_time(slot, now)
            return
        self._take_heard(slot)
        membership = self._membership

        def step(now: float) -> Write | None:
            return membership.on_timer(slot.group, timer, now)

        if slot.in_flight is not None:
            # No call waits for this step, but it must not be lost.
            slot.waiting.append(_Waiting(step, lambda error: [], math.inf))
        else:
            self._take(slot, step(now), now)

    # ---------------------------------------------------------------------------------------- answers

    def _answer(self, call: Call, message: Any) -> None:
        if not call.answered:
            call.answered = True
            self._ports.answer(call, message)

    def _refuse(self, refusals: Refusals) -> None:
        for call, message in refusals:
            self._answer(call, message)

    def _refuse_waiting(self, slot: _Slot, error: ErrorCode) -> None:
        if slot.in_flight is not None:
            self._refuse(slot.in_flight.refusals(error))
        for each in slot.waiting:
            self._refuse(each.refusals(error))
        slot.waiting.clear()
        self._timers.cancel(Timer(slot.group.group_id, "write"))


def _raise_all(failures: list[Exception]) -> None:
    if failures:
        raise ExceptionGroup("some group operations failed", failures)


def _member_refusal(group: ClassicGroup, request: OffsetCommitRequest) -> ErrorCode | None:
    if group.state is GroupState.DEAD:
        return error_codes.COORDINATOR_NOT_AVAILABLE
    generation = request.generation_id_or_member_epoch
    is_anonymous = generation < 0 and not request.member_id and request.group_instance_id is None
    if is_anonymous:
        return error_codes.UNKNOWN_MEMBER_ID
    refusal = group.refusal_of(request.member_id, request.group_instance_id)
    if refusal is not None:
        return refusal
    if generation != group.generation:
        return error_codes.ILLEGAL_GENERATION
    is_completing = group.state is GroupState.COMPLETING_REBALANCE
    return error_codes.REBALANCE_IN_PROGRESS if is_completing else None
