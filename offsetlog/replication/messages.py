"""Messages between the replicas of a partition and its controller (docs/format/wire.md §11.3).

Every message is plain data, is compared by value, and is safe to share between threads.  Offsets
are log offsets.  An unknown epoch, offset or incarnation is -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from offsetlog.types import EpochEnd as EpochEnd

#: The leader epoch of a log without records.
NO_EPOCH = -1
#: An incarnation that the sender does not know; Kafka's broker epoch -1.
UNKNOWN_INCARNATION = -1
#: The value of `leader` in the state of a partition without a leader.
NO_LEADER = -1


class FetchError(IntEnum):
    """How a leader answers a follower's fetch; the values are Kafka's error codes."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    NOT_LEADER_OR_FOLLOWER = 6
    STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A follower's request for records.

    Attributes:
        partition: the number of the log partition.
        replica: the id of the follower.
        incarnation: the number of this run of the follower's process; a restart gives it a greater
            one (Kafka's broker epoch).
        current_leader_epoch: the leader epoch that the follower is in.
        fetch_offset: the follower's log end.
        last_fetched_epoch: the leader epoch of the last record in the follower's log; -1 for none.
        flushed_offset: the end of what the follower has on disk, at most `fetch_offset`.  Kafka
            does not have this field.
        max_bytes: the largest size of the records in the answer.
    """

    partition: int
    replica: int
    incarnation: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    flushed_offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """A leader's answer to a fetch.

    Attributes:
        partition: the number of the log partition.
        error: `FetchError.NONE`, or why the fetch was refused.
        leader_epoch: the newest leader epoch that the answering replica knows.
        high_watermark: the leader's W; -1 if there is an error.
        log_start_offset: the start of the leader's log, -1 unless the error is NONE or
            OFFSET_OUT_OF_RANGE.
        log_end_offset: the end of the leader's log; -1 in the same cases as `log_start_offset`.
            Kafka's followers ask for the end with ListOffsets.
        records: whole record batches from the fetch offset on; empty if there are none yet.
        diverging_epoch: where the follower's log diverges from the leader's; None if the two agree.
    """

    partition: int
    error: FetchError
    leader_epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    records: bytes = b""
    diverging_epoch: EpochEnd | None = None


class Member(NamedTuple):
    """A member of a proposed in-sync set.

    Attributes:
        replica: its id.
        incarnation: the incarnation that the leader saw catch up, or -1, which is allowed for a replica that is already
            in the controller's set.
    """

    replica: int
    incarnation: int = UNKNOWN_INCARNATION


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncChange:
    """A leader's proposal to the controller to change the in-sync set (Kafka's AlterPartition).

    Attributes:
        leader_epoch: the epoch of the leader that proposes.
        version: the version of the state that the proposal is based on; the controller refuses a
            proposal that is based on another one.
        members: the proposed set.
    """

    leader_epoch: int
    version: int
    members: tuple[Member, ...]

    @property
    def replicas(self) -> frozenset[int]:
        """The ids of the members."""
        return frozenset(member.replica for member in self.members)


class AlterError(IntEnum):
    """How the controller answers a proposal; the values are Kafka's error codes."""

    NONE = 0
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_UPDATE_VERSION = 95
    INELIGIBLE_REPLICA = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The controller's state of a partition, which it reports to the replicas.

    Attributes:
        leader: the id of the leader, -1 for none.
        leader_epoch: grows with every change of the leader.
        in_sync: the replicas that hold every committed record; never empty.
        version: grows with every change of the state (Kafka's partition epoch).
    """

    leader: int
    leader_epoch: int
    in_sync: frozenset[int]
    version: int
