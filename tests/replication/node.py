"""A replica of the model cluster, and the messages that are for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from offsetlog.replication.follower import Follower
from offsetlog.replication.in_sync import LeaderView
from offsetlog.replication.lease import LeaderLease
from offsetlog.replication.messages import (
    FetchRequest,
    FetchResponse,
    InSyncChange,
    PartitionState,
)
from tests.replication.memory_log import MemoryLog


@dataclass
class Node:
    """One replica: its disk, and the process on it.  `skew`: its clock shows another time."""

    replica: int
    skew: int = 0
    log: MemoryLog = field(default_factory=MemoryLog)
    incarnation: int = 0
    is_alive: bool = False
    state: PartitionState | None = None
    view: LeaderView | None = None
    follower: Follower | None = None
    lease: LeaderLease | None = None
    watermark: int = 0

    def stop(self) -> None:
        self.is_alive = False
        self.state = self.view = self.follower = self.lease = None
        self.watermark = 0


@dataclass(frozen=True)
class Fetch:
    to: int
    request: FetchRequest


@dataclass(frozen=True)
class Answer:
    to: int
    request: FetchRequest
    response: FetchResponse


@dataclass(frozen=True)
class News:
    to: int
    state: PartitionState


@dataclass(frozen=True)
class Proposal:
    """For the controller."""

    replica: int
    change: InSyncChange


@dataclass(frozen=True)
class Renewal:
    """For the controller: a leader asks for its lease."""

    replica: int
    incarnation: int
    leader_epoch: int
    asked_at: int


@dataclass(frozen=True)
class Grant:
    to: int
    renewal: Renewal
    length_ms: int


Message: TypeAlias = Fetch | Answer | News | Proposal | Renewal | Grant
