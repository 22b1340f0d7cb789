"""A classic group: its members, its state, and the rules that depend on neither time nor the log.

The rules are in docs/format/coordinator.md §5.8-5.11.  `Membership` applies them to requests in the order in which the
requests arrive.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from offsetlog import error_codes
from offsetlog._native.records import decode_subscription
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.group_record import Expiry, GroupRecord, MemberRecord
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import CorruptionError, InternalError, UnsupportedVersionError

#: The protocol type of consumers, whose subscriptions can be read.
CONSUMER = "consumer"

#: The protocols that a member offers, with the preferred one first: names, and the metadata that
#: the leader gets.
Protocols = tuple[tuple[str, bytes], ...]


class GroupState(enum.Enum):
    """The state of a classic group, with the names that DescribeGroups uses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class Member:
    """A member; times in milliseconds.

    Attributes:
        awaiting_join: the member's JoinGroup call that waits until the rebalance completes; None if no such call waits.
        awaiting_sync: the member's SyncGroup call that waits until the leader's assignment is stored; None if no such
            call waits.
        is_new: whether the first JoinGroup of the member has not been answered yet, so that the member cannot send
            heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Call | None = None
    awaiting_sync: Call | None = None
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        """Whether the member is static, that is, whether it keeps its membership when its client restarts."""
        return self.group_instance_id is not None

    @property
    def protocol_names(self) -> set[str]:
        """The distinct names of the protocols that the member offers."""
        return {name for name, _ in self.protocols}

    def metadata(self, protocol: str | None) -> bytes:
        """Returns the member's metadata for a protocol; b"" if the member does not offer the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str | None:
        """Returns the first of the member's protocols that is among the candidates; None if there is none."""
        return next((name for name, _ in self.protocols if name in candidates), None)


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A classic group as its coordinator knows it.

    `apply` sets the fields that a record contains.  A rebalance in progress changes some of them before its record is
    written.  If another coordinator loads the group before that, it starts the rebalance again.

    Attributes:
        previous_state: the state before the present one.  A rebalance that begins in the state EMPTY waits for more
            members.
        has_record: whether the log has a record of the group.
        pending_ids: member ids that the coordinator has generated, and with which no member has joined yet.
        pending_sync: the ids of the members that have not sent a SyncGroup in this generation yet.
        new_member_added: whether a member has joined while the first rebalance was waiting for more members.
        remaining_delay, last_delay: for how long the first rebalance can still be postponed, and for how long it was
            last postponed, in ms.
        awaiting_join: the number of members that wait until the rebalance completes.  The number is stored, so that a
            join need not count the members.
    """

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.DEAD
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_ids: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    subscribed_topics: frozenset[str] | None = None
    new_member_added: bool = False
    remaining_delay: int = 0
    last_delay: int = 0
    has_record: bool = False
    awaiting_join: int = field(init=False)
    _offered: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._count_members()

    # ------------------------------------------------------------------------------------------ state

    def transition_to(self, state: GroupState) -> None:
        """Changes to a state."""
        self.previous_state = self.state
        self.state = state

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin.  It may not if one is being prepared already, or if the group is dead."""
        return self.is_in(
            GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY
        )

    @property
    def rebalance_timeout(self) -> int:
        """The longest rebalance timeout of any member, in ms."""
        return max((each.rebalance_timeout for each in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether every member has a waiting JoinGroup, and a member has joined with every generated member id."""
        return not self.pending_ids and self.awaiting_join == len(self.members)

    def not_yet_rejoined(self) -> list[Member]:
        """Returns the members that have not sent a JoinGroup for this rebalance yet."""
        return [each for each in self.members.values() if each.awaiting_join is None]

    def accepts(self, member_id: str, size_max: int) -> bool:
        """Whether a member may join a group that is limited to `size_max` members."""
        if self.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or self.awaiting_join < size_max
        return member is not None or len(self.members) < size_max

    # ---------------------------------------------------------------------------------------- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Adds a member.  The first member becomes the leader."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_ids.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member, or a member id with which no member has joined.

        If the leader is removed, another member becomes the leader.
        """
        member = self.members.pop(member_id, None)
        self.pending_ids.discard(member_id)
        self.pending_sync.discard(member_id)
        if member is not None:
            self._count(member, -1)
        if member is not None and member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def elect_joined_leader(self) -> bool:
        """If the leader has not rejoined, makes a member that has rejoined the leader.

        Returns whether the group's leader has now rejoined; False if the group had no leader.
        """
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is not None and leader.awaiting_join is not None:
            return True
        if leader is None:
            return False
        joined = next((each for each in self.members.values() if each.awaiting_join is not None), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None

    def replace_static(self, member: Member, old_id: str) -> None:
        """Replaces a static member by its restarted instance, which has a new member id."""
        old = self.members[old_id]
        assert old.group_instance_id == member.group_instance_id is not None
        # Keeps the position in the list, since members are listed in the order in which they
        # joined.
        self.members = {
            (member.member_id if each == old_id else each): (member if each == old_id else kept)
            for each, kept in self.members.items()
        }
        self._count(old, -1)
        self._count(member, 1)
        self.static_members[member.group_instance_id] = member.member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member.member_id)
        if self.leader == old_id:
            self.leader = member.member_id

    def await_join(self, member: Member, call: Call) -> Call | None:
        """Makes the member's JoinGroup wait for the rebalance.  Returns the earlier call that it replaces, or None."""
        before = self.take_join(member)
        member.awaiting_join = call
        self.awaiting_join += 1
        return before

    def take_join(self, member: Member) -> Call | None:
        """Removes the member's waiting JoinGroup from the group and returns it; returns None if there is none."""
        call, member.awaiting_join = member.awaiting_join, None
        if call is not None:
            self.awaiting_join -= 1
        return call

    def offer(self, member: Member, protocols: Protocols) -> None:
        """Replaces the protocols that a member offers."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def _count(self, member: Member, by: int) -> None:
        for name in member.protocol_names:
            self._offered[name] += by
            if not self._offered[name]:
                del self._offered[name]
        if member.awaiting_join is not None:
            self.awaiting_join += by

    def _count_members(self) -> None:
        self.awaiting_join, self._offered = 0, Counter()
        for each in self.members.values():
            self._count(each, 1)

    def refusal_of(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        """Returns the error for a request of this member; None if the member is known."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return error_codes.UNKNOWN_MEMBER_ID
            if known != member_id:
                return error_codes.FENCED_INSTANCE_ID
        return None if member_id in self.members else error_codes.UNKNOWN_MEMBER_ID

    # -------------------------------------------------------------------------------------- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member that offers these protocols may join the group; False if it offers none."""
        if not protocols:
            return False
        if self.state is GroupState.EMPTY:
            return bool(protocol_type)
        if protocol_type != self.protocol_type:
            return False
        return any(self._offered[name] == len(self.members) for name, _ in protocols)

    def candidates(self) -> frozenset[str]:
        """Returns the protocols that all members support."""
        everybody = len(self.members)
        return frozenset(name for name, count in self._offered.items() if count == everybody > 0)

    def elected_protocol(self) -> str:
        """Returns the protocol with the most votes.

        If several have the most votes, the one that got its first vote earliest is chosen.

        Raises:
            InternalError: the members have no protocol in common; `supports` should have prevented this.
        """
        candidates = self.candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            if vote is not None:
                votes[vote] = votes.get(vote, 0) + 1
        if not votes:
            raise InternalError(f"group {self.group_id!r}: the members have no protocol in common")
        return max(votes, key=lambda name: votes[name])

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER or not self.members or self.protocol is None:
            return None if self.members else frozenset()
        found: set[str] = set()
        for member in self.members.values():
            try:
                found.update(decode_subscription(member.metadata(self.protocol))["topics"])
            except (CorruptionError, UnsupportedVersionError):
                return None
        return frozenset(found)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic; also True if a consumer group's subscriptions cannot be read."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER

    @property
    def expiry(self) -> Expiry | None:
        """The order to delete expired positions; None if no position may expire (docs/format/coordinator.md §5.13)."""
        if self.state is GroupState.EMPTY:
            return Expiry(None)
        is_read = self.protocol_type == CONSUMER and self.subscribed_topics is not None
        return Expiry(self.subscribed_topics) if is_read and self.state is GroupState.STABLE else None

    # ---------------------------------------------------------------------------------------- records

    def begin_generation(self) -> None:
        """Begins the next generation, with the members that have joined."""
        self.generation += 1
        self.protocol = self.elected_protocol()
        self.subscribed_topics = self._read_subscriptions()
        self.pending_sync = set(self.members)
        self.transition_to(GroupState.COMPLETING_REBALANCE)

    def record(self, now_ms: int, assignments: dict[str, bytes] | None = None) -> GroupRecord:
        """Returns a record of the group's present state; `assignments`, if given, replaces the members' assignments."""
        given = assignments if assignments is not None else self.assignments()
        return GroupRecord(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            now_ms,
            tuple(
                self._member_record(each, given.get(each.member_id, b""))
                for each in self.members.values()
            ),
        )

    def assignments(self) -> dict[str, bytes]:
        """Returns the assignment of each member, as the leader sent it."""
        return {each.member_id: each.assignment for each in self.members.values()}

    def _member_record(self, member: Member, assignment: bytes) -> MemberRecord:
        return MemberRecord(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout,
            member.session_timeout,
            member.metadata(self.protocol),
            assignment,
        )

    def apply(self, record: GroupRecord) -> None:
        """Sets the fields of the group that a record contains.

        The first record of a group can be applied when members are already joining.  These members stay in the group,
        although the record does not contain them.
        """
        self.has_record = True
        self.current_state_timestamp = record.current_state_timestamp
        if not record.members and record.generation == self.generation and self.state is not GroupState.EMPTY:
            return
        members = {}
        for each in record.members:
            member = self.members.get(each.member_id) or _member_of(each, record.protocol)
            member.assignment = each.assignment
            members[each.member_id] = member
        self.members = members
        self._count_members()
        self.static_members = {
            each.group_instance_id: each.member_id
            for each in members.values()
            if each.group_instance_id is not None
        }
        self.protocol_type = record.protocol_type
        self.generation = record.generation
        self.protocol = record.protocol
        self.leader = record.leader
        self.subscribed_topics = self._read_subscriptions()
        self.transition_to(GroupState.STABLE if members else GroupState.EMPTY)


def _member_of(record: MemberRecord, protocol: str | None) -> Member:
    return Member(
        record.member_id,
        record.group_instance_id,
        record.client_id,
        record.client_host,
        record.rebalance_timeout,
        record.session_timeout,
        ((protocol or "", record.subscription),),
    )
