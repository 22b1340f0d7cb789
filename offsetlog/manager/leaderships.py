"""The leaders of partitions, and the loads that go with a change.

The engine refuses by itself whatever carries an older leader epoch (`offsetlog._native.replica`),
and a load finds only what lies below W, so that its result is right under any leader.  Decided here
is when to load, and who is answered: each change has a token, and work that was begun for an older
one answers nobody (docs/format/loading.md §6.1).
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog.errors import (
    ClosedError,
    CoordinatorLoadingError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    OffsetLogError,
)
from offsetlog.manager.executor import Executor
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.transition import PartitionTransition

_log = logging.getLogger(__name__)


class Role(enum.Enum):
    """Asked of a replica by its host."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(slots=True)
class Slot:
    """One partition.  Guarded by the lock of its Leaderships."""

    role: Role = Role.NONE
    epoch: int = -1
    token: int = 0
    transition: PartitionTransition | None = None
    loads: bool = False


class Leaderships:
    """The roles of all partitions of one manager.  Safe to call from any thread.

    Args:
        count: how many partitions there are.
        executor: runs what takes time.
        replica_of: returns the Replica of a partition, None where it has no directory.
        load: loads a partition.
        alone: whether a leader has no followers.
        keep_table: whether a replica that resigned keeps its table.
        warm: whether a follower loads its table.
        ended: called with a partition whose term may have ended.
        attend: called with a partition whose transition waits for W.
    """

    def __init__(
        self,
        count: int,
        executor: Executor,
        replica_of: Callable[[int], Replica | None],
        load: Callable[[Partition], None],
        *,
        alone: bool,
        keep_table: bool,
        warm: bool,
        ended: Callable[[int], None],
        attend: Callable[[int], None],
    ) -> None:
        self._slots = [Slot() for _ in range(count)]
        self._lock = threading.RLock()
        self._executor = executor
        self._replica_of = replica_of
        self._load = load
        self._alone = alone
        self._keep_table = keep_table
        self._warm = warm
        self._ended = ended
        self._attend = attend
        self._closed = False

    # ---------------------------------------------------------------------------------------- asking

    def role(self, number: int) -> Role:
        """Returns the role that the host gave a partition last."""
        return self._slots[number].role

    def epoch(self, number: int) -> int:
        """Returns the newest leader epoch that is known."""
        replica = self._replica_of(number)
        given = self._slots[number].epoch
        return given if replica is None else max(given, replica.leadership.epoch)

    def state(self, number: int) -> PartitionState:
        """Returns the state of a partition."""
        role = self._slots[number].role
        replica = self._replica_of(number)
        if replica is None:
            return {
                Role.NONE: PartitionState.UNLOADED,
                Role.LEADER: PartitionState.ACTIVE,
                Role.FOLLOWER: PartitionState.FOLLOWER,
            }[role]
        engine = replica.partition.role
        if engine == "failed":
            return PartitionState.FAILED
        if role is Role.LEADER:
            return PartitionState.ACTIVE if engine == "active" else PartitionState.LOADING
        if role is Role.FOLLOWER:
            return PartitionState.FOLLOWER
        return PartitionState.UNLOADED

    def check_leads(self, number: int) -> None:
        """Raises NotCoordinatorError unless the host made this process the leader."""
        if self._slots[number].role is not Role.LEADER:
            raise NotCoordinatorError(f"this process does not lead log partition {number}")

    def check_follows(self, number: int, epoch: int) -> None:
        """Refuses what is not from the leader that a partition without a directory follows."""
        slot = self._slots[number]
        if slot.role is not Role.FOLLOWER or slot.epoch != epoch:
            raise FencedLeaderEpochError(
                f"log partition {number} does not follow leader epoch {epoch} here"
            )

    # -------------------------------------------------------------------------------------- changing

    def become_leader(self, number: int, epoch: int) -> PartitionTransition:
        """See OffsetManager.become_leader."""
        with self._lock:
            slot = self._slots[number]
            if slot.role is Role.LEADER and slot.epoch == epoch and slot.transition is not None:
                return slot.transition
            if epoch <= self.epoch(number):
                raise self._older(number, epoch, "above")
            replica = self._replica_of(number)
            self._check_open()
            if replica is not None:
                replica.become_leader(epoch, alone=self._alone)
            before, transition = self._begin(number, Role.LEADER, epoch)
            if replica is not None:
                self._attend(number)
                if replica.partition.role == "unloaded":
                    self._executor.submit(partial(self._load_for, number, slot.token, replica))
        # Without the lock, since callbacks run here.
        if before is not None:
            before.supersede(epoch)
        if replica is None:
            transition.succeed(0)  # the directory appears with the first commit
        else:
            self.settle(number)
        return transition

    def admit(self, number: int, replica: Replica, use: Callable[[Replica], object]) -> None:
        """Gives a partition that was made the role that its number has, and then to its user.

        A change of leadership comes before that, or finds the replica.
        """
        with self._lock:
            slot = self._slots[number]
            if slot.role is Role.LEADER:
                replica.become_leader(slot.epoch, alone=self._alone)
            else:
                replica.become_follower(slot.epoch)
            use(replica)

    def become_follower(self, number: int, epoch: int) -> PartitionTransition:
        """See OffsetManager.become_follower."""
        return self._step_down(number, epoch, Role.FOLLOWER, keeps=self._warm)

    def resign(self, number: int, epoch: int) -> PartitionTransition:
        """See OffsetManager.resign."""
        return self._step_down(number, epoch, Role.NONE, keeps=self._keep_table)

    def _step_down(
        self, number: int, epoch: int, role: Role, *, keeps: bool
    ) -> PartitionTransition:
        with self._lock:
            slot = self._slots[number]
            if slot.role is role and slot.epoch == epoch and slot.transition is not None:
                return slot.transition
            if epoch < self.epoch(number):
                raise self._older(number, epoch, "below")
            replica = self._replica_of(number)
            self._check_open()
            if replica is not None:
                replica.become_follower(epoch)
            before, transition = self._begin(number, role, epoch)
            works = replica is not None and (role is Role.FOLLOWER or not keeps)
            if works:
                self._executor.submit(partial(self._follow, number, slot.token, keeps))
        # Without the lock, since callbacks run here.
        if before is not None:
            before.supersede(epoch)
        if not works:
            transition.succeed(0 if replica is None else replica.positions().log_end)
        self._ended(number)
        return transition

    def _older(self, number: int, epoch: int, wanted: str) -> FencedLeaderEpochError:
        known = self.epoch(number)
        verb = "is not above" if wanted == "above" else "is below"
        return FencedLeaderEpochError(f"log partition {number}: leader epoch {epoch} {verb} {known}")

    def _check_open(self) -> None:
        # Under the lock.
        if self._closed:
            raise ClosedError("the manager is stopped")

    def _begin(
        self, number: int, role: Role, epoch: int
    ) -> tuple[PartitionTransition | None, PartitionTransition]:
        # Under the lock; returns the transition that gives way, and the one that begins.
        slot = self._slots[number]
        before = slot.transition
        slot.role, slot.epoch = role, epoch
        slot.token += 1
        slot.transition = PartitionTransition(number, epoch, partial(self._measure, number))
        return before, slot.transition

    def _measure(self, number: int) -> float:
        replica = self._replica_of(number)
        if replica is None:
            return 0.0
        try:
            progress = replica.partition.progress()
        except ClosedError:
            return 0.0
        total = max(progress["bytes_total"], progress["bytes"], 1)
        return min(0.99, progress["bytes"] / total)

    # ----------------------------------------------------------------------------------- on the executor

    def _is_current(self, number: int, token: int) -> bool:
        return self._slots[number].token == token and not self._closed

    def _follow(self, number: int, token: int, keeps: bool) -> None:
        replica = self._replica_of(number)
        if replica is None or not self._is_current(number, token):
            return
        if keeps:
            self._load_for(number, token, replica)
            return
        try:
            if replica.partition.role == "follower":
                replica.unload(self._slots[number].epoch)
        except CoordinatorLoadingError:
            pass  # the load that is under way finds another role at its end
        except OffsetLogError as failure:
            self._fail(number, token, failure)
            return
        self.settle(number)

    def reload(self, number: int) -> None:
        """Loads the table of a follower again, which a truncation dropped."""
        with self._lock:
            slot = self._slots[number]
            if slot.role is Role.FOLLOWER and self._warm:
                self._executor.submit(partial(self._follow, number, slot.token, True))

    def _load_for(self, number: int, token: int, replica: Replica) -> None:
        with self._lock:
            slot = self._slots[number]
            if slot.loads or slot.token != token:
                return  # the load under way looks again at its end; or a later change has work of its own
            slot.loads = replica.partition.role == "unloaded"
            loads = slot.loads
        failure: Exception | None = None
        if loads:
            try:
                self._load(replica.partition)
            except Exception as raised:
                failure = raised
        with self._lock:
            if loads:
                slot.loads = False
            is_current = slot.token == token
        if failure is not None:
            self._fail(number, token, failure)
        if is_current:
            self.settle(number)
        else:
            self._resume(number)

    def _resume(self, number: int) -> None:
        # A change that came during the load is still to be carried out; its own work found the load under way, or
        # comes yet and finds nothing to do.
        with self._lock:
            slot = self._slots[number]
            if self._closed:
                return
            keeps = {Role.LEADER: True, Role.FOLLOWER: self._warm, Role.NONE: self._keep_table}
            self._executor.submit(partial(self._follow, number, slot.token, keeps[slot.role]))

    def _fail(self, number: int, token: int, failure: Exception) -> None:
        with self._lock:
            slot = self._slots[number]
            transition = slot.transition if slot.token == token else None
        if transition is not None:
            transition.fail(failure)

    def settle(self, number: int) -> bool:
        """Ends the transition of a partition that has reached its role; returns whether one still waits."""
        with self._lock:
            slot = self._slots[number]
            transition, role = slot.transition, slot.role
        if transition is None or transition.done():
            return False
        replica = self._replica_of(number)
        if replica is None:
            return True
        engine = replica.partition.role
        if role is Role.LEADER:
            reached = engine == "active"
        elif role is Role.FOLLOWER:
            reached = engine == "follower" or not self._warm
        else:
            reached = engine in ("follower", "unloaded")
        if reached:
            transition.succeed(replica.positions().log_end)
        return not reached

    # ------------------------------------------------------------------------------------------- the end

    def close(self) -> list[int]:
        """Ends everything: every replica steps down in its own epoch; returns those that led."""
        with self._lock:
            self._closed = True
            led = [number for number, slot in enumerate(self._slots) if slot.role is Role.LEADER]
            slots = list(self._slots)
            for slot in slots:
                slot.token += 1
                slot.role = Role.NONE
        for number in led:
            replica = self._replica_of(number)
            if replica is None or replica.partition.role == "failed":
                continue
            try:
                replica.become_follower(max(slots[number].epoch, replica.leadership.epoch))
            except OffsetLogError:
                # The others step down, and the manager stops, all the same.
                _log.exception("log partition %d cannot step down", number)
        for slot in slots:
            if slot.transition is not None:
                slot.transition.fail(ClosedError("the manager is stopped"))
        return led
