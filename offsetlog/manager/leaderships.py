"""The roles of a manager's partitions, and the work that a change of role requires.

The engine itself refuses calls with an older leader epoch (`offsetlog._native.replica`).  A load reads only the
records below the high watermark (W), so its result is correct whichever replica leads.  This module decides which work
a change of role requires: it may load a table, drop a table, or open a failed log again.  It also decides which calls
may be answered.

A host may change the role again while the work for an earlier change is still running.  At most one thread works for a
partition.  After each step, such as a load, the newest change decides which step comes next.  Each change has a token,
which shows whether a newer change came while a step ran.  An older change is never reported as completed
(docs/format/loading.md §6.1).
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog.errors import (
    FencedLeaderEpochError,
    NotCoordinatorError,
    OffsetLogError,
    OffsetOutOfRangeError,
    PartitionFailedError,
    ReadOnlyError,
    UnknownLeaderEpochError,
)
from offsetlog.manager.executor import Executor
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.refusals import closed, older_epoch
from offsetlog.manager.transition import PartitionTransition


class Role(enum.Enum):
    """The role that the host assigns to a replica."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


class Partitions(Protocol):
    """The calls that Leaderships makes to the manager's partitions.  These calls take no lock of Leaderships."""

    def replica(self, number: int) -> Replica | None:
        """Returns the replica in use, or None if no log is open."""

    def use(self, replica: Replica) -> None:
        """Makes a replica the one in use."""

    def failure_of(self, number: int) -> OffsetLogError | None:
        """Returns the error because of which an existing log is not open, or None."""

    def set_aside(self, number: int) -> None:
        """Takes a failed log out of use.  Calls raise CoordinatorLoadingError until `open_again` has ended.

        Raises OffsetLogError.
        """

    def open_again(self, number: int) -> Replica:
        """Opens a failed log again, but does not put it to use yet; raises OffsetLogError."""

    def load(self, partition: Partition) -> None:
        """Loads a table; raises OffsetLogError."""


@dataclass(slots=True)
class Slot:
    """The state of one partition, which its lock protects.

    An election writes to disk while it holds the lock, so a slow disk delays calls to this partition alone.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    role: Role = Role.NONE
    epoch: int = -1
    token: int = 0
    transition: PartitionTransition | None = None
    #: Whether the log failed and the current change opens it again.
    opens: bool = False
    #: Whether a thread is doing the work that the partition needs.
    works: bool = False
    #: The token of the last change whose work failed: no more work is begun for this change.
    failed_token: int = -1


class Leaderships:
    """The roles of all partitions of one manager.  Thread-safe.

    No lock is held when a transition ends or when `ended` is called, so callbacks may make any call.

    Args:
        count: the number of partitions.
        executor: runs slow work.
        partitions: the manager's partitions.
        alone: whether each partition has only one replica, so that a leader has no followers.
        keep_table: whether a replica that resigned keeps its table.
        warm: whether a follower loads its table.
        ended: called with the number of a partition when this process may have stopped leading it.
        attend: called with the number of a partition whose transition now waits for the high watermark (W).
    """

    def __init__(
        self,
        count: int,
        executor: Executor,
        partitions: Partitions,
        *,
        alone: bool,
        keep_table: bool,
        warm: bool,
        ended: Callable[[int], None],
        attend: Callable[[int], None],
    ) -> None:
        self._slots = [Slot() for _ in range(count)]
        self._executor = executor
        self._partitions = partitions
        self._alone = alone
        self._keep_table = keep_table
        self._warm = warm
        self._ended = ended
        self._attend = attend
        self._closed = False

    # ---------------------------------------------------------------------------------------- asking

    def role(self, number: int) -> Role:
        """Returns the role that the host assigned to a partition last."""
        return self._slots[number].role

    def epoch(self, number: int) -> int:
        """Returns the newest known leader epoch."""
        replica = self._partitions.replica(number)
        given = self._slots[number].epoch
        if replica is None or replica.partition.retired:
            return given
        try:
            return max(given, replica.leadership.epoch)
        except OffsetLogError:
            return given  # it has just been retired by a change, which knew its epoch

    def state(self, number: int) -> PartitionState:
        """Returns the state of a partition."""
        slot = self._slots[number]
        replica = self._partitions.replica(number)
        if slot.opens:
            return PartitionState.LOADING
        if slot.failed_token == slot.token or self._has_failed(number, replica):
            return PartitionState.FAILED
        if slot.role is Role.LEADER:
            is_active = replica is None or replica.partition.role == "active"
            return PartitionState.ACTIVE if is_active else PartitionState.LOADING
        return PartitionState.FOLLOWER if slot.role is Role.FOLLOWER else PartitionState.UNLOADED

    def _has_failed(self, number: int, replica: Replica | None) -> bool:
        if replica is None:
            return self._partitions.failure_of(number) is not None
        return replica.partition.role == "failed"

    def _must_open(self, number: int, replica: Replica | None) -> bool:
        # The caller holds the lock.  If a load found damage, the cause may have been a failure of the disk that has
        # passed.
        if self._slots[number].opens or self._has_failed(number, replica):
            return True
        return replica is not None and replica.partition.read_only

    def check_leads(self, number: int) -> None:
        """Raises NotCoordinatorError unless the host made this process the leader of the partition."""
        if self._slots[number].role is not Role.LEADER:
            raise NotCoordinatorError(f"this process does not lead log partition {number}")

    def check_epoch(self, number: int, epoch: int) -> None:
        """Checks the leader epoch of a call to a partition that has no log yet; the engine checks it in other calls.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one that the host assigned.
            UnknownLeaderEpochError: the epoch is newer.
        """
        known = self._slots[number].epoch
        if epoch < known:
            raise FencedLeaderEpochError(
                f"log partition {number}: leader epoch {epoch} is older than {known}"
            )
        if epoch > known:
            raise UnknownLeaderEpochError(
                f"log partition {number}: leader epoch {epoch} is newer than {known}, the newest "
                f"leader epoch that this replica knows"
            )

    def check_read(self, number: int, epoch: int, offset: int) -> None:
        """Checks a read from a partition that has no log yet, as the engine checks one from an empty log.

        Raises:
            OffsetOutOfRangeError: the offset is not 0.
            The errors of `check_epoch`, if the epoch is not -1.
        """
        if epoch >= 0:
            self.check_epoch(number, epoch)
        if offset != 0:
            raise OffsetOutOfRangeError(
                f"log partition {number} has no log yet, so the only offset to read from is 0, not {offset}"
            )

    def check_follows(self, number: int, epoch: int) -> None:
        """Raises the errors of `check_epoch`, and FencedLeaderEpochError if this process does not follow."""
        self.check_epoch(number, epoch)
        if self._slots[number].role is not Role.FOLLOWER:
            raise FencedLeaderEpochError(
                f"this process does not follow log partition {number} in leader epoch {epoch}"
            )

    # -------------------------------------------------------------------------------------- changing

    def become_leader(self, number: int, epoch: int) -> PartitionTransition:
        """See OffsetManager.become_leader."""
        with self._slots[number].lock:
            slot = self._open_slot(number)
            if slot.role is Role.LEADER and slot.epoch == epoch and slot.transition is not None:
                self._order(number)  # the executor may have refused the work before
                return slot.transition
            if epoch <= self.epoch(number):
                raise older_epoch(number, epoch, self.epoch(number), must_be_above=True)
            replica = self._partitions.replica(number)
            fails = self._must_open(number, replica)
            if fails and not slot.opens:
                self._partitions.set_aside(number)
            failure = None if replica is None or fails else self._elect(number, replica, epoch)
            role, known = (Role.LEADER, epoch) if failure is None else (Role.NONE, slot.epoch)
            former, transition = self._begin(number, role, known, opens=fails)
        _supersede(former, epoch)
        if failure is not None:
            self._ended(number)
        elif replica is None and not fails:
            transition.succeed(0)  # the directory appears with the first commit
        self.order(number)
        self.settle(number)
        if failure is not None:
            raise failure
        return transition

    def _elect(self, number: int, replica: Replica, epoch: int) -> OffsetLogError | None:
        # The caller holds the lock.  Even an election that fails ends the earlier leadership.
        try:
            replica.become_leader(epoch, alone=self._alone)
        except OffsetLogError as failure:
            if replica.leadership.leads:
                raise
            return failure
        self._attend(number)
        return None

    def become_follower(self, number: int, epoch: int) -> PartitionTransition:
        """See OffsetManager.become_follower."""
        return self._step_down(number, epoch, Role.FOLLOWER)

    def resign(self, number: int, epoch: int) -> PartitionTransition:
        """See OffsetManager.resign."""
        return self._step_down(number, epoch, Role.NONE)

    def _step_down(self, number: int, epoch: int, role: Role) -> PartitionTransition:
        with self._slots[number].lock:
            slot = self._open_slot(number)
            if slot.role is role and slot.epoch == epoch and slot.transition is not None:
                self._order(number)
                return slot.transition
            known = self.epoch(number)
            if epoch < known:
                raise older_epoch(number, epoch, known, must_be_above=False)
            replica = self._partitions.replica(number)
            fails = slot.opens or self._has_failed(number, replica)
            # A failed log is opened again only in a newer epoch, as in Kafka at the next election.
            is_newer = role is Role.FOLLOWER and epoch > known
            opens = slot.opens or (is_newer and self._must_open(number, replica))
            if fails and role is Role.FOLLOWER and not opens:
                raise PartitionFailedError(
                    f"log partition {number} failed; it will be opened again in the next leader epoch"
                )
            if opens and not slot.opens:
                self._partitions.set_aside(number)
            elif not opens and replica is not None and not fails:
                replica.become_follower(epoch)
            former, transition = self._begin(number, role, epoch, opens=opens)
        _supersede(former, epoch)
        self._ended(number)
        self.order(number)
        self.settle(number)
        return transition

    def _open_slot(self, number: int) -> Slot:
        # The caller holds the lock.
        if self._closed:
            raise closed(stopped=True)
        return self._slots[number]

    def _begin(
        self, number: int, role: Role, epoch: int, *, opens: bool
    ) -> tuple[PartitionTransition | None, PartitionTransition]:
        # The caller holds the lock.
        slot = self._slots[number]
        former = slot.transition
        slot.role, slot.epoch, slot.opens = role, epoch, opens
        slot.token += 1
        slot.transition = PartitionTransition(number, epoch, partial(self._measure, number))
        return former, slot.transition

    def _measure(self, number: int) -> float:
        replica = self._partitions.replica(number)
        if replica is None:
            return 0.0
        try:
            progress = replica.partition.progress()
        except OffsetLogError:
            return 0.0
        total = max(progress["bytes_total"], progress["bytes"], 1)
        return min(0.99, progress["bytes"] / total)

    def introduce(self, partition: Partition) -> None:
        """Gives a partition whose directory was just created the role that the host has assigned to it.

        Raises:
            StateError, StorageError: the role could not be set, so the partition is not put to use.
        """
        number = partition.number
        with self._slots[number].lock:
            self._open_slot(number)
            if self._partitions.replica(number) is None:
                self._assume(number, Replica(partition))
                self._order(number)

    def _assume(self, number: int, replica: Replica) -> None:
        # The caller holds the lock, so that no other thread can use the replica in an old epoch.
        slot = self._slots[number]
        if slot.role is Role.LEADER:
            replica.become_leader(slot.epoch, alone=self._alone)
            self._attend(number)
        else:
            replica.become_follower(max(slot.epoch, replica.leadership.epoch))
        self._partitions.use(replica)

    # ----------------------------------------------------------------------------------- on the executor

    def _order(self, number: int) -> None:
        # The caller holds the lock.  If a thread works for the partition, it checks for more work before it ends.
        slot = self._slots[number]
        if not slot.works and self._next_step(number) is not None:
            self._executor.submit(partial(self._work, number))

    def order(self, number: int) -> None:
        """Starts the work that a partition requires; for example, loads the table that a truncation has dropped.

        Raises:
            CapacityError: the executor cannot run the work; the call can be repeated.
        """
        with self._slots[number].lock:
            self._order(number)

    def _next_step(self, number: int) -> Callable[[int], None] | None:
        # The caller holds the lock.  Returns the next step that a partition needs for its role.
        slot = self._slots[number]
        if self._closed:
            return None
        if slot.opens:
            return self._open_again
        if slot.failed_token == slot.token:
            return None
        replica = self._partitions.replica(number)
        engine = None if replica is None else replica.partition.role
        leads, follows = slot.role is Role.LEADER, slot.role is Role.FOLLOWER
        if engine == "unloaded" and (leads or (follows and self._warm)):
            return self._load
        keeps = self._warm if follows else self._keep_table
        if engine == "follower" and not leads and not keeps:
            return self._drop
        return None

    def _work(self, number: int) -> None:
        with self._slots[number].lock:
            slot = self._slots[number]
            if slot.works:
                return
            slot.works = True
        while True:
            with self._slots[number].lock:
                step = self._next_step(number)
                if step is None:
                    slot.works = False
                    break
            try:
                step(number)
            except BaseException as failure:
                self._give_up(number, failure)
                raise
        self.settle(number)

    def _give_up(self, number: int, failure: BaseException) -> None:
        # Whatever a step raises, `works` must be False at the next change.
        slot = self._slots[number]
        with slot.lock:
            slot.works = False
            slot.failed_token, transition = slot.token, slot.transition
        if transition is not None and isinstance(failure, Exception):
            transition.fail(failure)

    def _load(self, number: int) -> None:
        with self._slots[number].lock:
            slot = self._slots[number]
            replica, token = self._partitions.replica(number), slot.token
        if replica is None:
            return
        failure: Exception | None = None
        try:
            self._partitions.load(replica.partition)
            if replica.partition.read_only:
                failure = _damage_of(replica.partition)
        except Exception as raised:
            failure = raised
        if failure is None:
            return
        with self._slots[number].lock:
            # A change that came during the load fails, too, with two exceptions.  If the change opens the log again, it
            # does not fail.  If the load had not begun, the change begins it.
            began = replica.partition.role != "unloaded"
            concerns = not slot.opens and (slot.token == token or began)
            transition = slot.transition if concerns else None
            if concerns:
                slot.failed_token = slot.token
                _depose(replica, self.epoch(number))
        if concerns:
            self._ended(number)
        if transition is not None:
            transition.fail(failure)

    def _drop(self, number: int) -> None:
        with self._slots[number].lock:
            # The lock is held, so that no change that needs the table comes in between.
            replica = self._partitions.replica(number)
            if replica is None or self._next_step(number) != self._drop:
                return
            try:
                replica.unload(replica.leadership.epoch)
                return
            except OffsetLogError as raised:
                failure = raised
            slot = self._slots[number]
            slot.failed_token = slot.token
            transition = slot.transition
        if transition is not None:
            transition.fail(failure)

    def _open_again(self, number: int) -> None:
        failure: Exception | None = None
        replica: Replica | None = None
        try:
            replica = self._partitions.open_again(number)
        except Exception as raised:
            failure = raised
        with self._slots[number].lock:
            slot = self._slots[number]
            slot.opens = False
            transition = slot.transition
            if replica is not None:
                failure = self._assume_or_follow(number, replica)
            if failure is not None:
                slot.failed_token = slot.token
        if failure is not None and transition is not None:
            transition.fail(failure)

    def _assume_or_follow(self, number: int, replica: Replica) -> OffsetLogError | None:
        # The caller holds the lock.  If an open log cannot serve a leader, it serves a follower.
        slot = self._slots[number]
        try:
            self._assume(number, replica)
        except OffsetLogError as failure:
            slot.role = Role.NONE
            try:
                self._assume(number, replica)
            except OffsetLogError:
                with contextlib.suppress(OffsetLogError):
                    self._partitions.use(replica)  # it failed again, and reports that itself
            return failure
        return None

    def settle(self, number: int) -> bool:
        """Ends the transition of a partition if the partition has reached its role.

        Returns whether the transition must still wait.
        """
        with self._slots[number].lock:
            slot = self._slots[number]
            transition, replica = slot.transition, self._partitions.replica(number)
            if transition is None or transition.done():
                return False
            if not self._is_reached(slot, replica):
                return True
            end = _log_end(replica)
        transition.succeed(end)
        return False

    def _is_reached(self, slot: Slot, replica: Replica | None) -> bool:
        if slot.opens:
            return False
        engine = None if replica is None else replica.partition.role
        if slot.role is Role.NONE:
            return self._keep_table or engine in (None, "unloaded", "failed")
        if engine is None:
            return slot.role is Role.FOLLOWER
        if slot.role is Role.LEADER:
            return engine == "active"
        return engine == "follower" if self._warm else engine != "failed"

    # ------------------------------------------------------------------------------------------- the end

    def close(self) -> list[int]:
        """Ends the leadership of all partitions; returns the partitions that this process led.

        Each leader steps down in its own epoch.
        """
        return self._end_all(self._step_down_at_last)

    def abandon(self) -> None:
        """Ends all transitions, so that waiting callers get an answer; does not change the replicas."""
        self._end_all(lambda number: None)

    def _step_down_at_last(self, number: int) -> None:
        replica = self._partitions.replica(number)
        if replica is not None:
            _depose(replica, self.epoch(number))

    def _end_all(self, end: Callable[[int], object]) -> list[int]:
        # If a caller holds the lock of a slot now, the loop waits for it.  A caller that takes the lock later finds
        # that `_closed` is set.
        self._closed = True
        led: list[int] = []
        transitions: list[PartitionTransition | None] = []
        for number, slot in enumerate(self._slots):
            with slot.lock:
                if slot.role is Role.LEADER:
                    led.append(number)
                    end(number)
                transitions.append(slot.transition)
                slot.token += 1
                slot.role, slot.opens = Role.NONE, False
        _refuse_all(transitions)
        return led


def _damage_of(partition: Partition) -> OffsetLogError:
    problems = partition.problems()
    return problems[0] if problems else ReadOnlyError("the log is damaged", path=partition.path)


def _refuse_all(transitions: list[PartitionTransition | None]) -> None:
    for transition in transitions:
        if transition is not None:
            transition.fail(closed(stopped=True))


def _supersede(former: PartitionTransition | None, epoch: int) -> None:
    if former is not None:
        former.supersede(epoch)


def _log_end(replica: Replica | None) -> int:
    try:
        return 0 if replica is None else replica.positions().log_end
    except OffsetLogError:
        return 0  # the log has been closed


def _depose(replica: Replica, epoch: int) -> None:
    # A failed partition refuses every call.
    with contextlib.suppress(OffsetLogError):
        replica.become_follower(epoch)
