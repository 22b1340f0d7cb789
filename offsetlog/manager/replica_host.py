"""Runs one replica of a partition: a log manager that follows the rules of `offsetlog.replication`.

The rules decide what the replica does.  The manager carries out these decisions, and the network of
the host carries the messages.  The controller decides which replica leads.  Slow work runs on the
executor.  Network and executor can be replaced, so a simulation runs exactly this code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from offsetlog.errors import (
    ClosedError,
    CoordinatorLoadingError,
    OffsetLogError,
    PartitionFailedError,
    TooLargeError,
)
from offsetlog.manager.executor import Executor, Timer
from offsetlog.manager.interface import PartitionState as ReplicaState
from offsetlog.manager.interface import Transition
from offsetlog.manager.log_manager import LogManager
from offsetlog.replication.follower import (
    Action,
    Advance,
    Append,
    Follower,
    RestartAt,
    Retry,
    Truncate,
)
from offsetlog.replication.in_sync import InSyncConfig, LeaderView
from offsetlog.replication.leader import answer_fetch
from offsetlog.replication.lease import LeaderLease
from offsetlog.replication.messages import (
    NO_LEADER,
    FetchError,
    FetchRequest,
    FetchResponse,
    InSyncChange,
    PartitionState,
)
from offsetlog.types import EpochEnd

Answer = Callable[[FetchResponse], object]
Granted = Callable[[int], object]


class Network(Protocol):
    """Sends messages between replicas and the controller; the host provides this object.

    Messages may be lost, delayed, repeated and reordered.
    """

    def fetch(self, leader: int, request: FetchRequest, answer: Answer) -> None:
        """Sends a follower's fetch to a leader; calls `answer` with the response, if one comes."""

    def propose(self, partition: int, change: InSyncChange) -> None:
        """Sends a leader's proposal to the controller.

        The controller's state comes back through `ReplicaHost.on_state`.
        """

    def renew(self, partition: int, leader_epoch: int, answer: Granted) -> None:
        """Asks the controller for the leader's lease.

        If the controller grants the lease, calls `answer` with the length of the lease in
        milliseconds.
        """

    def failed(self, partition: int, failure: OffsetLogError) -> None:
        """Reports that the replica cannot continue, because its log failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The settings of a replica; times are in seconds.

    Attributes:
        fetch_wait: how long a leader waits for new records before it answers a fetch without records
            (``replica.fetch.wait.max.ms``).
        retry: a follower sends a fetch again `fetch_wait` + `retry` seconds after it sent the fetch, if the fetch
            failed or got no answer.
        tick: the time between checks of the in-sync set.
        fetch_bytes: the largest number of bytes in one answer (``replica.fetch.max.bytes``).
        renew: the time between renewals of a leader's lease.  A leader answers clients' fetches only while it holds a
            lease.  None means that the controller grants no leases; a leader that lost its connections may then answer
            with positions that another leader has replaced.
    """

    fetch_wait: float = 0.5
    retry: float = 1.0
    tick: float = 5.0
    fetch_bytes: int = 1 << 20
    renew: float | None = None


class _Log:
    """Gives the rules of replication access to one partition of a manager."""

    def __init__(self, manager: LogManager, partition: int, most: int, largest: int) -> None:
        self._manager = manager
        self._partition = partition
        self._most = most
        self._largest = largest

    def log_start(self) -> int:
        return self._manager.positions(self._partition).log_start

    def log_end(self) -> int:
        return self._manager.positions(self._partition).log_end

    def flushed(self) -> int:
        return self._manager.positions(self._partition).flushed

    def last_epoch(self) -> int:
        replica = self._manager.replica(self._partition)
        return -1 if replica is None else replica.last_epoch()

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self._manager.end_offset_for_epoch(self._partition, epoch)

    def read(self, offset: int, max_bytes: int) -> bytes:
        # The answer has at most `fetch_bytes`, even if the follower asks for more.
        size = max(1024, min(max_bytes, self._most))
        while True:
            buffer = bytearray(size)
            try:
                read = self._manager.read_into(self._partition, offset, buffer, uncommitted=True)
            except TooLargeError:
                # The first batch is sent whatever its size, so that the follower makes progress.
                if size >= self._largest:
                    raise
                size = min(2 * size, self._largest)
                continue
            return bytes(memoryview(buffer)[:read])


@dataclass(slots=True)
class _ParkedFetch:
    request: FetchRequest
    answer: Answer
    watermark: int
    timer: Timer | None = None


class ReplicaHost:
    """Runs one replica, which leads or follows as the controller decides.  Thread-safe.

    Args:
        manager: the started manager, created with the replication factor of the partition.
        partition: the log partition.
        replica: the id of this replica.
        incarnation: a number that is larger at each start of this process.
        assigned: the ids of all replicas of the partition.
        network: carries the messages.
        executor: the manager's executor, which runs slow work.
        rules: the settings of the in-sync set.
        config: the intervals and limits of the replica.
    """

    def __init__(
        self,
        manager: LogManager,
        partition: int,
        replica: int,
        incarnation: int,
        assigned: Sequence[int],
        network: Network,
        executor: Executor,
        rules: InSyncConfig | None = None,
        config: HostConfig | None = None,
    ) -> None:
        self._manager = manager
        self._partition = partition
        self._replica = replica
        self._incarnation = incarnation
        self._assigned = tuple(assigned)
        self._network = network
        self._executor = executor
        self._rules = rules if rules is not None else InSyncConfig()
        self._config = config if config is not None else HostConfig()
        largest = 2 * manager.settings.store.segment_bytes
        self._log = _Log(manager, partition, self._config.fetch_bytes, largest)
        self._lock = threading.RLock()
        self._state = PartitionState(
            leader=NO_LEADER, leader_epoch=-1, in_sync=frozenset(), version=-1
        )
        self._view: LeaderView | None = None
        self._follower: Follower | None = None
        self._lease: LeaderLease | None = None
        self._parked: list[_ParkedFetch] = []
        self._reported: dict[int, int] = {}
        self._fetch_number = 0
        self._flushes = self._is_woken = self._stopped = False
        self._failure: OffsetLogError | None = None
        if self._config.renew is not None:
            # A lease that has already ended is granted before the replica leads for the first time.  The replica
            # therefore answers no fetch until it gets a real lease.
            manager.grant(partition, manager.leader_epoch(partition), 0.0)
        self._ticks()

    # ------------------------------------------------------------------------------------------ state

    @property
    def view(self) -> LeaderView | None:
        """The leader's view of its replicas, or None if this replica does not lead."""
        return self._view

    @property
    def failure(self) -> OffsetLogError | None:
        """Why this replica has failed, or None."""
        return self._failure

    def _now(self) -> int:
        return int(self._executor.now() * 1000)

    def stop(self) -> None:
        """Stops all activity of this replica."""
        with self._lock:
            self._stopped = True
            self._drop_fetches(self._parked)

    def on_state(self, state: PartitionState) -> None:
        """Applies a state of the partition from the controller; ignores a state that is not newer than the known one.

        When this process starts, it registers with the controller.  Pass only states that are newer than this
        registration, because the replica's log may have lost records in the restart.  With an older state, the replica
        could lead in an epoch in which its former process led, without the lost records.
        """
        with self._lock:
            if self._stopped or state.version <= self._state.version:
                return
            is_new_epoch = state.leader_epoch > self._state.leader_epoch
            self._state = state
            try:
                if is_new_epoch:
                    self._change_role(state)
                elif self._view is not None:
                    self._view.on_in_sync(
                        state.leader_epoch, state.in_sync, state.version, self._now()
                    )
                    self._move_watermark()
            except OffsetLogError as failure:
                self._fail(failure)

    def _change_role(self, state: PartitionState) -> None:
        self._drop_fetches(self._parked)
        self._parked, self._reported = [], {}
        self._view = self._follower = self._lease = self._failure = None
        if state.leader == self._replica:
            change = self._manager.become_leader(self._partition, state.leader_epoch)
            self._begin(state, change, self._lead)
        else:
            change = self._manager.become_follower(self._partition, state.leader_epoch)
            if state.leader != NO_LEADER:
                self._begin(state, change, self._follow)

    def _begin(
        self, state: PartitionState, change: Transition, begin: Callable[[PartitionState], None]
    ) -> None:
        # In a new epoch, a failed log is opened again.  Its positions are not known until it is open.
        try:
            begin(state)
        except (CoordinatorLoadingError, PartitionFailedError):
            if change.done():
                change.result(0)  # why it could not be opened
                raise
            self._executor.call_later(
                self._config.fetch_wait, lambda: self._begin_later(state, change, begin)
            )

    def _begin_later(
        self, state: PartitionState, change: Transition, begin: Callable[[PartitionState], None]
    ) -> None:
        with self._lock:
            if self._stopped or state.leader_epoch != self._state.leader_epoch:
                return
            try:
                self._begin(state, change, begin)
            except OffsetLogError as failure:
                self._fail(failure)

    # ---------------------------------------------------------------------------------------- leading

    def _lead(self, state: PartitionState) -> None:
        self._view = LeaderView(
            replica=self._replica,
            leader_epoch=state.leader_epoch,
            log_end=self._manager.elected_end(self._partition),
            assigned=self._assigned,
            in_sync=state.in_sync,
            version=state.version,
            watermark=self._manager.positions(self._partition).watermark,
            now=self._now(),
            config=self._rules,
        )
        self._require_replicas()
        self._flush()
        if self._config.renew is not None:
            self._lease = LeaderLease(state.leader_epoch)
            self._manager.grant(self._partition, state.leader_epoch, 0.0)
            self._renew(self._lease)

    def _renew(self, lease: LeaderLease) -> None:
        with self._lock:
            if self._stopped or lease is not self._lease or self._config.renew is None:
                return
            asked_at = self._now()
            self._network.renew(
                self._partition,
                lease.leader_epoch,
                lambda length_ms: self._on_granted(lease, asked_at, length_ms),
            )
            self._executor.call_later(self._config.renew, lambda: self._renew(lease))

    def _on_granted(self, lease: LeaderLease, asked_at: int, length_ms: int) -> None:
        with self._lock:
            if self._stopped or lease is not self._lease:
                return
            lease.on_granted(lease.leader_epoch, asked_at, length_ms)
            if lease.until is not None:
                self._manager.grant(self._partition, lease.leader_epoch, lease.until / 1000)

    def _require_replicas(self) -> None:
        view = self._view
        if view is not None:
            self._manager.require_replicas(
                self._partition, view.leader_epoch, enough=view.has_enough()
            )

    def on_written(self) -> None:
        """Reports that this leader has appended records.  Any thread may call this method, which does not block."""
        if not self._is_woken:
            self._is_woken = True
            try:
                self._executor.submit(self._after_write)
            except BaseException:
                self._is_woken = False      # the next write tries again
                raise

    def _after_write(self) -> None:
        with self._lock:
            self._is_woken = False
            if self._view is None or self._stopped:
                return
            try:
                self._flush()
                self._answer_parked()
            except OffsetLogError as failure:
                self._fail(failure)

    def on_fetch(self, request: FetchRequest, answer: Answer) -> None:
        """Handles a follower's fetch.

        If there are records, a higher watermark or an error, answers the fetch at once.  Otherwise, answers the fetch
        when one of these appears, or when `fetch_wait` has passed.
        """
        with self._lock:
            if self._stopped:
                return
            try:
                response = self._answer(request)
                self._propose()
                self._move_watermark()
            except OffsetLogError as failure:
                self._fail(failure)
                return
            if self._is_worth(request, response):
                self._send(request, response, answer)
                return
            parked = _ParkedFetch(request, answer, response.high_watermark)
            parked.timer = self._executor.call_later(
                self._config.fetch_wait, lambda: self._answer_one(parked)
            )
            # A follower has one fetch under way, so its latest fetch replaces its earlier ones.
            others = [each for each in self._parked if each.request.replica != request.replica]
            self._drop_fetches([each for each in self._parked if each not in others])
            self._parked = [*others, parked]

    def _answer(self, request: FetchRequest) -> FetchResponse:
        return answer_fetch(
            request,
            leader_epoch=self._state.leader_epoch,
            log=self._log,
            view=self._view,
            now=self._now(),
        )

    def _is_worth(self, request: FetchRequest, response: FetchResponse) -> bool:
        return (
            response.error != FetchError.NONE
            or response.diverging_epoch is not None
            or bool(response.records)
            or response.high_watermark > self._reported.get(request.replica, -1)
        )

    def _send(self, request: FetchRequest, response: FetchResponse, answer: Answer) -> None:
        if response.error == FetchError.NONE:
            self._reported[request.replica] = response.high_watermark
        answer(response)

    def _answer_parked(self) -> None:
        parked, self._parked = self._parked, []
        for fetch in parked:
            response = self._answer(fetch.request)
            if self._is_worth(fetch.request, response):
                self._drop_fetches([fetch])
                self._send(fetch.request, response, fetch.answer)
            else:
                self._parked.append(fetch)

    def _answer_one(self, fetch: _ParkedFetch) -> None:
        with self._lock:
            if fetch not in self._parked or self._stopped:
                return
            self._parked.remove(fetch)
            try:
                self._send(fetch.request, self._answer(fetch.request), fetch.answer)
            except OffsetLogError as failure:
                self._fail(failure)

    @staticmethod
    def _drop_fetches(fetches: Sequence[_ParkedFetch]) -> None:
        for fetch in fetches:
            if fetch.timer is not None:
                fetch.timer.cancel()

    def _move_watermark(self) -> None:
        view = self._view
        if view is None:
            return
        self._require_replicas()
        watermark = view.watermark()
        if watermark > self._manager.positions(self._partition).watermark or self._is_electing():
            self._manager.advance(self._partition, view.leader_epoch, watermark)
            self._answer_parked()

    def _is_electing(self) -> bool:
        return self._manager.is_electing(self._partition)

    def _propose(self) -> None:
        view = self._view
        change = None if view is None else view.propose(self._now())
        if change is not None:
            self._network.propose(self._partition, change)

    # -------------------------------------------------------------------------------------- following

    def _follow(self, state: PartitionState) -> None:
        self._follower = Follower(
            partition=self._partition,
            replica=self._replica,
            incarnation=self._incarnation,
            leader_epoch=state.leader_epoch,
            log=self._log,
            max_bytes=self._config.fetch_bytes,
        )
        self._go_on()

    def _go_on(self) -> None:
        # A fetch reports the flushed end.  A former leader may have written records that are not flushed.
        if self._log.flushed() < self._log.log_end():
            self._flush()
        else:
            self._fetch()

    def _fetch(self) -> None:
        follower = self._follower
        request = None if follower is None else follower.next_fetch()
        if request is None or self._stopped:
            return
        self._fetch_number += 1
        number = self._fetch_number
        sent: FetchRequest = request
        # A request or its answer may be lost.
        self._executor.call_later(
            self._config.fetch_wait + self._config.retry, lambda: self._fetch_again(number)
        )
        self._network.fetch(
            self._state.leader, sent, lambda response: self._on_response(number, sent, response)
        )

    def _fetch_again(self, number: int) -> None:
        with self._lock:
            if number != self._fetch_number:
                return
            try:
                self._fetch()
            except CoordinatorLoadingError:
                pass  # the log is being opened again; `_begin` fetches once it is open
            except OffsetLogError as failure:
                self._fail(failure)

    def _on_response(self, number: int, request: FetchRequest, response: FetchResponse) -> None:
        with self._lock:
            follower = self._follower
            if follower is None or self._stopped:
                return
            try:
                actions = follower.on_response(request, response)
                self._carry_out(follower, actions, number)
            except CoordinatorLoadingError:
                pass  # the table is being loaded or the log opened; the fetch is repeated
            except OffsetLogError as failure:
                self._fail(failure)

    def _carry_out(self, follower: Follower, actions: Sequence[Action], number: int) -> None:
        for action in actions:
            match action:
                case Truncate(offset):
                    self._manager.truncate_to(self._partition, follower.leader_epoch, offset)
                case RestartAt(offset):
                    self._manager.restart_at(self._partition, follower.leader_epoch, offset)
                case Append(records):
                    self._manager.append_as_follower(
                        self._partition, follower.leader_epoch, records
                    )
                case Advance() as advance:
                    end = self._log.log_end()
                    self._manager.advance(
                        self._partition, follower.leader_epoch, advance.within(end)
                    )
                case Retry():
                    return  # the fetch's timer repeats the fetch
                case _:
                    return
        if actions and number == self._fetch_number:
            self._go_on()

    # --------------------------------------------------------------------------------------- the disk

    def _flush(self) -> None:
        if not self._flushes:
            self._flushes = True
            epoch = self._state.leader_epoch
            self._manager.flush(self._partition).add_done_callback(
                lambda flush: self._on_flushed(flush, epoch)
            )

    def _on_flushed(self, flush: Transition, epoch: int) -> None:
        with self._lock:
            self._flushes = False
            if self._stopped:
                return
            try:
                flushed = flush.result(0)
                view = self._view
                if view is not None:
                    end = self._log.log_end()
                    view.on_own_flush(flushed, end, self._now())
                    self._move_watermark()
                    if end > flushed:
                        self._flush()  # more records were written meanwhile
                elif self._follower is not None:
                    self._fetch()
            except ClosedError:
                return
            except OffsetLogError as failure:
                if epoch == self._state.leader_epoch or self._has_failed():
                    self._fail(failure)
                else:
                    self._flush_again()

    def _has_failed(self) -> bool:
        return self._manager.state(self._partition) is ReplicaState.FAILED

    def _flush_again(self) -> None:
        # The failed flush was one of an older epoch, and the log is being opened again or already open.  A role that
        # has begun on the open log waits for a flush.
        try:
            if self._view is not None:
                self._flush()
            elif self._follower is not None:
                self._go_on()
        except CoordinatorLoadingError:
            pass  # the log is not open yet; `_begin` tries again
        except OffsetLogError as failure:
            self._fail(failure)

    def _fail(self, failure: OffsetLogError) -> None:
        if self._failure is None:
            self._failure = failure
            self._network.failed(self._partition, failure)

    # --------------------------------------------------------------------------------------- the time

    def _ticks(self) -> None:
        with self._lock:
            if self._stopped:
                return
            try:
                self._tick()
            except OffsetLogError as failure:
                self._fail(failure)
            self._executor.call_later(self._config.tick, self._ticks)

    def _tick(self) -> None:
        view = self._view
        # Maintenance of the log finds failures, too.  If they were not reported, a leader would keep leading without
        # answering.
        if self._failure is None and self._has_failed():
            raise PartitionFailedError(
                f"log partition {self._partition} has failed; its log will be opened again at the next election"
            )
        if view is None:
            return
        # When an election or a load ends, it may have written the ends of transactions.
        if self._log.flushed() < self._log.log_end():
            self._flush()
        if view.proposed is not None:
            self._network.propose(self._partition, view.proposed)
        else:
            self._propose()
        self._move_watermark()
