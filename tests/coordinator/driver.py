"""A coordinator whose time, ids, log and answers are those of a test."""

from __future__ import annotations

import itertools
from typing import Any

from offsetlog.coordinator.call import Call
from offsetlog.coordinator.coordinator import Coordinator, CoordinatorConfig
from offsetlog.coordinator.group_record import Expiry, Fence, GroupRecord
from offsetlog.error_codes import ErrorCode
from offsetlog.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

PARTITION = 0

HANDLERS = {
    JoinGroupRequest: "join",
    SyncGroupRequest: "sync",
    HeartbeatRequest: "heartbeat",
    LeaveGroupRequest: "leave",
}


def logged(record: GroupRecord | Expiry | Fence | None) -> GroupRecord | Expiry | None:
    """The record of a group in the log after a write."""
    return record.record if isinstance(record, Fence) else record


class Driver:
    """One log partition, whose records pass W when the test says so.

    Args:
        config: of the coordinator.
        at_once: whether records pass W as they are appended.
    """

    def __init__(self, config: CoordinatorConfig | None = None, *, at_once: bool = True) -> None:
        self.config = config or CoordinatorConfig(initial_rebalance_delay=0)
        self.at_once = at_once
        self.now = 1000.0
        self.numbers = itertools.count(1)
        self.answers: dict[Call, Any] = {}
        #: The contents of the log: groups with their records, oldest first.
        self.log: list[tuple[str, GroupRecord | Expiry | None]] = []
        #: Records that are not below W yet.
        self.above: list[tuple[str, GroupRecord | Expiry | Fence | None]] = []
        #: By which the coordinator knows these.
        self.tokens: list[object] = []
        self.offsets: set[str] = set()
        #: When records passed W last.
        self.settled_at = 0.0
        #: The groups of which an expiry leaves nothing.
        self.gone: set[str] = set()
        #: The admissions of the front: by group, and when it was asked last.
        self.admitted: dict[str, dict[tuple[int, str, str | None], float | None]] = {}
        self.coordinator = self.restarted()

    def restarted(self, kept: int | None = None) -> Coordinator:
        """A new coordinator that loads the log; of the records above W the first `kept`, or all."""
        self.admitted.clear()
        self.log += [(name, logged(record)) for name, record in self.above[:kept]]
        self.above = []
        self.tokens = []
        coordinator = Coordinator(self.config, self, lambda group_id: PARTITION)
        coordinator.begin_load(PARTITION)
        newest = {name: record for name, record in self.log if record is not None}
        gone = {name for name, record in dict(self.log).items() if record is None}
        records = [(name, record) for name, record in newest.items() if name not in gone]
        coordinator.loaded(PARTITION, records, self.now)
        self.coordinator = coordinator
        return coordinator

    # ----------------------------------------------------------------------------------------- ports

    def answer(self, call: Call, message: Any) -> None:
        assert call not in self.answers
        self.answers[call] = message

    def append(
        self,
        partition: int,
        group_id: str,
        record: GroupRecord | Expiry | Fence | None,
        token: object,
    ) -> None:
        assert partition == PARTITION
        group = logged(record)
        assert not isinstance(group, GroupRecord) or GroupRecord.from_value(group.to_value()) == group
        self.above.append((group_id, record))
        self.tokens.append(token)

    def admit(self, group_id: str, generation: int, member_id: str, group_instance_id: str | None) -> None:
        key = (generation, member_id, group_instance_id)
        self.admitted.setdefault(group_id, {}).setdefault(key, None)

    def revoke(self, group_id: str) -> list[tuple[str, float]]:
        revoked = self.admitted.pop(group_id, {})
        return [(member_id, at) for (_, member_id, _), at in revoked.items() if at is not None]

    def answers_itself(self, group_id: str, generation: int, member_id: str, instance: str | None) -> bool:
        """Whether the front answers such a commit or heartbeat; it hears of the member then."""
        admitted = self.admitted.get(group_id, {})
        if (generation, member_id, instance) not in admitted:
            return False
        admitted[generation, member_id, instance] = self.now
        return True

    def set_led(self, partition: int, is_led: bool) -> None:
        if not is_led:
            self.admitted.clear()

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self.now * 1000)

    def new_id(self) -> str:
        return f"{next(self.numbers):08}"

    def has_offsets(self, group_id: str) -> bool:
        return group_id in self.offsets

    # ------------------------------------------------------------------------------------------ steps

    def settle(self, error: ErrorCode | None = None) -> None:
        """Lets the records above W pass it, or fail."""
        if self.above:
            self.settled_at = self.now
        while self.above:
            group_id, record = self.above.pop(0)
            token = self.tokens.pop(0)
            is_expiry = isinstance(record, Expiry)
            is_gone = is_expiry and group_id in self.gone
            if error is None and (is_gone or not is_expiry):
                self.log.append((group_id, None if is_gone else logged(record)))
            self.coordinator.written(
                PARTITION, group_id, error, self.now, token=token, is_gone=is_gone
            )

    def _go_on(self) -> None:
        if self.at_once:
            self.settle()
        self.coordinator.tick(self.now)
        while self.at_once and self.above:
            self.settle()
            self.coordinator.tick(self.now)

    def send(self, request: Any, version: int, client_id: str = "c") -> Call:
        """Sends a request; its answer is in `answers` when it has come."""
        call = Call(version, client_id)
        getattr(self.coordinator, HANDLERS[type(request)])(request, call, self.now)
        self._go_on()
        return call

    def ask(self, request: Any, version: int) -> Any:
        """Sends a request that is answered at once."""
        return self.answers[self.send(request, version)]

    def advance(self, seconds: float) -> None:
        """Lets time pass, deadline by deadline."""
        end = self.now + seconds
        while (deadline := self.coordinator.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self._go_on()
        self.now = end
        self._go_on()
