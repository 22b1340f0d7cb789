"""The manager that keeps positions in a log and in ZooKeeper; the entry point "dual" of `offsetlog.managers`.

A fetch returns the larger of the two positions.  Every change takes effect as a whole when it is written to the log:

* A commit that lowers no position is written to the log, and then to ZooKeeper.  The turn of the commit ends once the
  commit is in the log, so that a slow ZooKeeper does not delay commits to the log.  `zookeeper_queue` then sends the
  commit to ZooKeeper.  The commit is answered once ZooKeeper has it, once its timeout has passed, or once ZooKeeper is
  known not to answer.
* A commit that lowers a position (a rewind), or a delete, changes ZooKeeper first.  Meanwhile the log still has the
  value that fetches return, so a crash between the two writes changes nothing for fetches.  A rewind or a delete
  removes its positions from the queue, and keeps its turn until both storages have the change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from offsetlog import arguments
from offsetlog.errors import (
    CapacityError,
    ClosedError,
    CommitTimeoutError,
    ConfigError,
    CoordinatorLoadingError,
    NotCoordinatorError,
    OffsetLogError,
    PartitionFailedError,
    ZooKeeperUnavailableError,
)
from offsetlog.manager import log_manager
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.manager.checked_offsets import checked_group, checked_key, checked_timeout
from offsetlog.manager.dual.both import Both
from offsetlog.manager.dual.calls import Calls
from offsetlog.manager.dual.catching_up import CaughtUp, Leadership, catch_up_groups
from offsetlog.manager.dual.differences import Counters, Difference, Differences
from offsetlog.manager.dual.expiry import Expiry
from offsetlog.manager.dual.hand_over import Transitions
from offsetlog.manager.dual.storage import Storage
from offsetlog.manager.dual.timed_work import PendingCommit as _PendingCommit
from offsetlog.manager.dual.timed_work import TimedWork
from offsetlog.manager.dual.topics import TopicDeletion
from offsetlog.manager.dual.zookeeper_queue import ZooKeeperQueue
from offsetlog.manager.interface import (
    Capability,
    Durability,
    PartitionState,
    Pending,
    PendingCommit,
    Transition,
)
from offsetlog.manager.properties import Setting, flag
from offsetlog.manager.turns import Turns
from offsetlog.manager.work import Awaited, Steps, Work
from offsetlog.manager.zookeeper import manager as zookeeper_manager
from offsetlog.types import (
    Committed,
    Key,
    OffsetAndMetadata,
    OtherKey,
    PartitionKey,
    Position,
    TopicPartition,
)

T = TypeVar("T")


def _no_steps(_: Work[None]) -> Steps[None]:
    yield from ()


_log = logging.getLogger(__name__)
_NOTHING = OffsetAndMetadata(-1)
#: The largest number of fetches that wait for ZooKeeper at a time while it is known not to answer.
FETCHES_AWAY_MAX = 64
#: The capabilities of the log that a dual manager keeps.
_KEPT = frozenset({Capability.METADATA, Capability.EPOCHS, Capability.TIMESTAMPS, Capability.HISTORY})


def create(properties: Mapping[str, Setting]) -> DualManager:
    """Creates a dual manager from a broker's properties: those of the log manager and of the ZooKeeper manager.

    Raises:
        ConfigError: a value is not allowed, or `dual.commit.enabled` is false.
    """
    if not flag("dual.commit.enabled", properties.get("dual.commit.enabled", True)):
        text = "dual.commit.enabled=false contradicts offset.storage=dual"
        raise ConfigError(f"{text}; set offset.storage to log or zookeeper")
    log = log_manager.create(properties)
    units = log.settings.store.metadata_max_units
    return DualManager(
        log,
        zookeeper_manager.create(properties),
        metadata_max_units=units,
        commit_timeout=log.settings.commit_timeout,
    )


class DualManager(BaseOffsetManager):
    """Keeps positions in ZooKeeper and in a log, for a migration to the log; see OffsetManager for every call.

    The log decides who leads.  All calls are safe from any thread.

    Most commits wait without a thread.  Threads of the manager carry out deletes, commits that lower a position, and
    commits of positions whose values in ZooKeeper are not known yet.

    If the timeout of a call passes before the call has begun, the call is not made.  Once a call that changes ZooKeeper
    first has begun, each storage gets the whole timeout for its part.

    Args:
        log: the manager of the log, not started.
        zookeeper: the manager of the positions in ZooKeeper, not started.
        metadata_max_units: the largest number of UTF-16 units in the metadata of a commit; must be that of the log
            manager.
        commit_timeout: the seconds that a call without a timeout waits; must be those of the log manager.

    Attributes:
        log: the manager of the log.  Only this dual manager may write to the log.
        zookeeper: the manager of the positions in ZooKeeper.  Other clients may write to ZooKeeper, too.
    """

    fetch_waits = True

    def __init__(
        self, log: Storage, zookeeper: Storage, *, metadata_max_units: int = 4096, commit_timeout: float = 5.0
    ) -> None:
        super().__init__(metadata_max_units=metadata_max_units)
        self.log = log
        self.zookeeper = zookeeper
        self.capabilities = log.capabilities & _KEPT
        self._differences = Differences()
        self._commit_timeout = commit_timeout
        self._calls = Calls()
        # Sweeps have their own thread: while they wait for a storage that does not answer, other calls still find
        # threads.
        self._sweeps = Calls(1, "offsetlog-dual-sweeps")
        self._turns = Turns()
        self._queue = ZooKeeperQueue(log, zookeeper, self._differences, self._calls.call_later)
        self._both = Both(log, zookeeper, self._differences, self._queue, commit_timeout)
        self._transitions_of_both = Transitions()
        self._expiry = Expiry(log, zookeeper, self._level)
        self._topics = TopicDeletion(log, zookeeper, self._both, self._groups, self._in_turn, self._look)

    # ---------------------------------------------------------------------------------------------------------- life

    def open(self) -> None:
        """Starts both.

        Raises:
            ConfigError: the two managers have different numbers of partitions.
            Also the errors of both managers.
        """
        self.zookeeper.start()
        self.log.start()
        self._count = self.log.partitions
        if self.zookeeper.partitions != self._count:
            text = (
                f"the log manager has {self._count} partitions, "
                f"but the ZooKeeper manager has {self.zookeeper.partitions}"
            )
            self.close()
            raise ConfigError(f"{text}; give both the same offsets.topic.num.partitions")
        self._expiry.attach(lambda timeout: self.expire_async(timeout=timeout))
        self._expire_later()

    def stop(self) -> None:
        """Stops both; see OffsetManager.stop."""
        with self._lock:
            is_first = not self._stopped
            self._stopped = True
        # The lock is not held here, because work in progress may ask who leads before it ends.  Even a failed start may
        # have started one of the two managers.
        if is_first:
            self._hooked(self.close)

    def close(self) -> None:
        """Stops both managers.  Calls in progress get an answer."""
        try:
            self.log.stop()
        finally:
            self.zookeeper.stop()
            self._calls.stop()
            self._sweeps.stop()

    # ---------------------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition; the transition completes once the log is loaded.  See OffsetManager.become_leader."""
        return self._change_both(partition, epoch, self.log.become_leader, self.zookeeper.become_leader)

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Leaves a partition to another process; see OffsetManager.become_follower.

        The transition completes once no write of the partition is being sent to either storage.
        """
        change_log, change_zookeeper = self.log.become_follower, self.zookeeper.become_follower
        return self._change_both(partition, epoch, change_log, change_zookeeper, waits=True)

    def resign(self, partition: int, epoch: int) -> Transition:
        """Stops leading; see OffsetManager.resign.  The transition completes like that of `become_follower`."""
        return self._change_both(partition, epoch, self.log.resign, self.zookeeper.resign, waits=True)

    def _change_both(
        self,
        partition: int,
        epoch: int,
        change_log: Callable[[int, int], Transition],
        change_zookeeper: Callable[[int, int], Transition],
        *,
        waits: bool = False,
    ) -> Transition:
        with self._running():
            # The log changes first: offsets that it refuses never reach ZooKeeper.
            of_log, of_zookeeper = change_log(partition, epoch), change_zookeeper(partition, epoch)

        def is_of(group: str) -> bool:
            return self.log.partition_for(group) == partition

        for forget in (self._queue.forget, self._both.looks.disturb_all, self._differences.forget):
            forget(is_of)
        return self._transitions_of_both.of(of_log, of_zookeeper, self._begun(is_of) if waits else ())

    def _begun(self, is_of: Callable[[str], bool]) -> list[Awaited]:
        """Returns work that completes once every earlier call for these groups has ended, even in the queue."""
        groups = filter(is_of, self._turns.groups())
        ends = [self._begin(group, None, Work(_no_steps, self._ended)) for group in groups]
        return [*ends, *self._queue.landings(is_of)]

    def state(self, partition: int) -> PartitionState:
        """Returns the state of the partition in the log; see OffsetManager.state."""
        with self._running():
            return self.log.state(partition)

    def leader_epoch(self, partition: int) -> int:
        """Returns the newest leader epoch that the log knows; see OffsetManager.leader_epoch."""
        with self._running():
            return self.log.leader_epoch(partition)

    def flush(self, partition: int) -> Transition:
        """Makes the log durable; see OffsetManager.flush."""
        with self._running():
            return self.log.flush(partition)

    def _led(self, group: str) -> None:
        self._check_led(self.log.partition_for(checked_group(group)))

    def _check_led(self, number: int) -> None:
        state = self.log.state(number)
        if state is PartitionState.LOADING:
            raise CoordinatorLoadingError(f"log partition {number} is being loaded")
        if state is PartitionState.FAILED:
            raise PartitionFailedError(
                f"log partition {number} failed; it will be opened again in the next leader epoch"
            )
        if state is not PartitionState.ACTIVE:
            raise NotCoordinatorError(f"this process does not lead log partition {number}")

    def _look(self) -> list[Leadership]:
        """Returns the present leadership of each log partition."""
        return [self._leadership(number) for number in range(self.partitions)]

    def _leadership(self, number: int) -> Leadership:
        failure: OffsetLogError | None = None
        epoch = self.log.leader_epoch(number)
        try:
            self._check_led(number)
        except (CoordinatorLoadingError, PartitionFailedError, NotCoordinatorError) as raised:
            failure = raised
        return Leadership((epoch, self.log.leader_epoch(number)), failure)

    # ---------------------------------------------------------------------------------------------------------- work

    def _begin(self, group: str, keys: Iterable[TopicPartition] | None, work: Work[T]) -> Work[T]:
        try:
            is_first = self._turns.add(group, keys, work)
            if not is_first and isinstance(work, TimedWork):
                self._order_end(work)
        except BaseException:
            self._ended(work)  # even after an interrupt, later work must not wait for this work
            raise
        if is_first:
            work.go_on()
        return work

    def _order_end(self, work: TimedWork[Any]) -> None:
        """Makes sure that work that still waits at its deadline ends then."""
        if work.timer is None:
            with suppress(CapacityError):  # without a timer the work waits longer
                work.timer = self._calls.call_later(work.left, partial(self._end_overdue, work))

    def _end_overdue(self, work: TimedWork[Any]) -> None:
        following = self._turns.leave(work)
        if following is not None:
            self._turns.begin(following)
        if isinstance(work, _PendingCommit) and work.followed is not None:
            # The log has the commit.
            self._queue.note_overdue(work.followed)
            work.succeed(work.position)
        else:
            work.give_up()

    def _ended(self, work: Work[Any]) -> None:
        if isinstance(work, TimedWork) and work.timer is not None:
            work.timer.cancel()
        self._turns.pass_on(work)

    def _called(
        self,
        group: str,
        keys: Iterable[TopicPartition] | None,
        call: Callable[[], T],
        timeout: float | None = None,
    ) -> Work[T]:
        """Waits for the turn of a call, then runs the call on a thread of the manager."""

        def steps(work: TimedWork[T]) -> Steps[T]:
            return (yield from self._on_a_thread(work, call))

        return self._begin(group, keys, TimedWork(self._seconds(timeout), steps, self._ended))

    def _seconds(self, timeout: float | None) -> float:
        return self._commit_timeout if timeout is None else timeout

    def _on_a_thread(self, work: TimedWork[Any], call: Callable[[], T]) -> Steps[T]:
        def made() -> T:
            work.take()
            return call()

        if self._calls.are_busy:
            self._order_end(work)
        answer = self._calls.begin(made)
        yield [answer]
        result: T = answer.result(0)
        return result

    # ------------------------------------------------------------------------------------------------------- commits

    def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: Durability | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> Position:
        """Commits to both storages; see OffsetManager.commit.  The result is the position of the commit in the log.

        A commit that lowers no position succeeds once the log has it, even if ZooKeeper does not have it, because
        fetches return the larger offset.  Until ZooKeeper has the same offsets, the positions are listed by
        `differences`.  The call waits for ZooKeeper until the timeout has passed.  While ZooKeeper is known not to
        answer, the call does not wait.

        Raises:
            CommitTimeoutError: earlier calls for the same positions took too long, and nothing was written; or the log
                did not confirm the commit in time.  In the second case, the log may have the commit, and `differences`
                lists its positions.
            DifferenceError: a commit that lowers a position is in ZooKeeper, but not in the log, or it is unknown
                whether it is in the log.  If the log does not have it, fetches return the same values as before.
                Repeat the call to complete it.
            ZooKeeperUnavailableError: the commit lowers a position, or may lower one whose value in ZooKeeper is not
                known, but ZooKeeper did not answer.  Nothing was written.
        """
        return self.commit_async(
            group,
            offsets,
            expected=expected,
            monotonic=monotonic,
            generation=generation,
            timeout=timeout,
            durability=durability,
            client=client,
            principal=principal,
        ).result()

    def commit_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: Durability | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> PendingCommit:
        """Commits without waiting; see `commit` and OffsetManager.commit_async.

        The commit is written to the log once the earlier commits of the same positions are in the log.
        """
        with self._running():
            if expected is not None or monotonic:
                self._lacks(Capability.CONDITIONS)
            if generation is not None:
                self._lacks(Capability.GENERATIONS)
            values = self._checked_commit(group, offsets, timeout, durability)
            position = Position(self.log.partition_for(group), -1)
        given: dict[str, Any] = {"timeout": timeout, "durability": durability, "client": client, "principal": principal}

        def steps(work: _PendingCommit) -> Steps[Position]:
            if self._both.may_go_back(group, values):
                call = partial(self._both.commit, group, values, given)
                work.position, forward = yield from self._on_a_thread(work, call)
            else:
                forward = yield from self._commit_forward(work, group, values, given)
            if forward:
                yield from self._follow(work, group, forward)
            return work.position

        work = _PendingCommit(position, self._seconds(timeout), steps, self._ended)
        self._begin(group, values, work)
        return work

    def _commit_forward(
        self,
        work: _PendingCommit,
        group: str,
        values: Mapping[TopicPartition, OffsetAndMetadata],
        given: dict[str, Any],
    ) -> Steps[dict[TopicPartition, int]]:
        """Commits to the log; returns the offsets that ZooKeeper should get next."""
        work.take()
        self._both.looks.disturb(group)
        if work.timer is not None:  # the work has waited for its turn
            given = {**given, "timeout": work.left}
        offsets = {key: value.offset for key, value in values.items()}
        pending = self.log.commit_async(group, values, **given)
        work.position = pending.position
        yield [pending]
        try:
            pending.result(0)
        except CommitTimeoutError:
            self._queue.add_unsure(group, offsets)
            raise
        self._differences.count(commits=1)
        return offsets

    def _follow(self, work: _PendingCommit, group: str, offsets: Mapping[TopicPartition, int]) -> Steps[None]:
        """Passes a commit that is in the log to the queue for ZooKeeper, and ends its turn.

        From then on, the queue keeps the order of the writes.
        """
        work.followed = self._queue.add(group, offsets)
        self._turns.pass_on(work)
        if work.followed.done():
            return
        if work.left > 0:
            # An earlier timer may have fired without effect, because the work had begun.
            if work.timer is not None:
                work.timer.cancel()
                work.timer = None
            self._order_end(work)
            yield [work.followed]
        else:
            self._queue.note_overdue(work.followed)

    # ------------------------------------------------------------------------------------------------------- fetches

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns, for each key, the larger position of the two storages; see OffsetManager.fetch.

        If the larger position is that of ZooKeeper, it has no metadata and no leader epoch.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer, and may have the larger position.  While ZooKeeper is
                known not to answer, at most `FETCHES_AWAY_MAX` fetches wait for it at a time; a further fetch raises
                the error at once.
            CommitTimeoutError: a rewind or a delete of the same positions took too long.
            CorruptionError: see `ZooKeeperManager.fetch`.
        """
        keys = None if partitions is None else arguments.listed_keys(partitions)
        with self._running():
            self._led(group)
            asked = None if keys is None else list(dict.fromkeys(checked_key(key) for key in keys))
        if self._queue.is_away and self._both.looks.count >= FETCHES_AWAY_MAX:
            text = f"ZooKeeper does not answer, and {FETCHES_AWAY_MAX} fetches already wait; try again when it answers"
            raise ZooKeeperUnavailableError(text, node="/")
        found = self._both.fetch_beside(group, asked, lambda: self._turns.is_busy(group) or self._queue.is_busy(group))
        if found is None:
            # A position may be lowered meanwhile, and this read may have seen that in one storage only.
            found = self._called(group, asked, lambda: self._both.fetch(group, asked)).result()
        return found if asked is None else {key: found.get(key, _NOTHING) for key in asked}

    # ------------------------------------------------------------------------------------------------------- deletes

    def delete(self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None) -> int:
        """Deletes positions in ZooKeeper, then in the log; see OffsetManager.delete.

        Raises:
            DifferenceError: the positions are deleted in ZooKeeper, but the log did not change, or it is unknown
                whether it changed.  Repeat the call.
        """
        return self.delete_async(group, partitions, timeout=timeout).result()

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes positions on a thread of the manager; see `delete` and OffsetManager.delete_async."""
        keys = arguments.listed_keys(partitions)
        with self._running():
            checked_timeout(timeout)
            self._led(group)
            asked = list(dict.fromkeys(checked_key(key) for key in keys))
        return self._called(group, asked, lambda: self._both.delete(group, asked, timeout), timeout)

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Removes a group in ZooKeeper, then in the log; see OffsetManager.delete_group.

        Raises:
            GroupNotEmptyError: the group has consumers in ZooKeeper.
            DifferenceError: the group is removed in ZooKeeper, but the log did not change, or it is unknown whether it
                changed.
        """
        return self.delete_group_async(group, timeout=timeout).result()

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Removes a group on a thread of the manager; see `delete_group`."""
        with self._running():
            checked_timeout(timeout)
            self._led(group)
        return self._called(group, None, lambda: self._both.delete_group(group, timeout), timeout)

    def expire(self, *, timeout: float | None = None) -> int:
        """Expires positions in each storage by its own retention; see OffsetManager.expire.

        No position is lowered, because a fetch returns a position until it has expired in both storages.  If a group
        cannot be levelled (`offsetlog.manager.dual.expiry`), for example while ZooKeeper does not answer, the group
        keeps its positions.

        Returns:
            The number of expired positions in the log or in ZooKeeper, whichever is larger.
        """
        with self._running():
            checked_timeout(timeout)
        return self._expiry.expire(timeout)

    def _level(self, group: str, call: Callable[[], int]) -> Pending[int]:
        """Raises the positions of a group to the same offsets in both storages, then makes a call in the same turn."""

        def levelled() -> int:
            self._both.level(group)
            return call()

        return self._in_turn(group, levelled)

    def _in_turn(self, group: str, call: Callable[[], int], timeout: float | None = None) -> Pending[int]:
        """Runs a call in the turn of a whole group that this process leads."""
        with self._running():
            self._led(group)
        return self._called(group, None, call, timeout)

    def _expire_later(self) -> None:
        if (interval_ms := self._expiry.interval_ms) is not None:
            self._calls.call_later(interval_ms / 1000, self._expire_now)

    def _expire_now(self) -> None:
        def done(expired: Pending[int]) -> None:
            try:
                expired.result(0)
            except OffsetLogError as failure:
                _log.warning("the check for expired positions failed: %s", failure)
            with suppress(ClosedError):
                self._expire_later()

        with suppress(ClosedError):  # the manager is being stopped
            self.expire_async().add_done_callback(done)

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Expires positions on a thread of the manager; see `expire`."""
        with self._running():
            checked_timeout(timeout)
        return self._sweeps.begin(lambda: self.expire(timeout=timeout))

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes the positions of deleted topics in both storages; see OffsetManager.on_topic_deleted.

        The deletion in a group waits for its turn among the group's writes, so a concurrent commit is deleted in both
        storages or in neither.

        Args:
            topics: the names of the deleted topics.
            timeout: the seconds to wait for each group and for each storage.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer; the remaining groups were not tried.
            CoordinatorLoadingError: a log partition is being loaded, or this process did not lead it during the whole
                call.  Some groups of the partition may have been skipped; repeat the call.
            DifferenceError: positions are deleted in ZooKeeper, but the log did not change, or it is unknown whether it
                changed.  Repeat the call.
        """
        gone = list(arguments.listed_topics(topics))
        with self._running():
            checked_timeout(timeout)
        return self._topics.delete(gone, timeout)

    def on_topic_deleted_async(self, topics: Sequence[str], *, timeout: float | None = None) -> Pending[int]:
        """Deletes the positions on a thread of the manager; see `on_topic_deleted`."""
        gone = list(arguments.listed_topics(topics))
        with self._running():
            checked_timeout(timeout)
        return self._sweeps.begin(lambda: self.on_topic_deleted(gone, timeout=timeout))

    def throttle(self, group: str, client: str | None = None, principal: str | None = None) -> float:
        """Returns the answer of the log manager; see OffsetManager.throttle."""
        with self._running():
            return self.log.throttle(group, client, principal)

    # --------------------------------------------------------------------------------------------------- differences

    def differences(self) -> list[Difference]:
        """Returns, sorted, the positions that differed when a fetch, a commit or `compare` last read them.

        The list has only positions that were read while this process led their partition.  After a start or a change
        of leadership it is therefore empty, even if positions differ; `catch_up_all` reads all positions.  The list
        has at most `LISTED_MAX` differences (`offsetlog.manager.dual.differences`); `counters().unlisted` counts the
        others.
        """
        return self._differences.listed()

    def counters(self) -> Counters:
        """Returns the numbers of events since the start, for metrics."""
        return self._differences.counters()

    def compare(self, group: str) -> list[Difference]:
        """Reads all positions of a group in both storages, and returns those that differ, sorted.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, ZooKeeperUnavailableError, CorruptionError, ClosedError.
        """
        with self._running():
            self._led(group)
        return self._called(group, None, lambda: self._both.compare(group)).result()

    def catch_up(self, group: str) -> int:
        """Raises each position of a group to the larger of its two values; returns the number of raised positions.

        Call this method before ZooKeeper is shut down.  It copies to the log even those positions that no consumer
        commits any more.

        Raises:
            RewindError: another client of ZooKeeper commits the same positions again and again.
            Also the errors of `commit` and `compare`.
        """
        return self._catch_up(group)[0]

    def _catch_up(self, group: str) -> tuple[int, list[Difference]]:
        with self._running():
            self._led(group)
        return self._called(group, None, lambda: self._both.catch_up(group)).result()

    def catch_up_all(self) -> CaughtUp:
        """Raises each position of every group, in the log and in ZooKeeper, to the larger of its two values.

        The groups are handled one after the other, and the call waits for both storages.  If a group fails, the call
        continues with the next one.  A group fails, for example, if another process leads it (NotCoordinatorError), if
        a node contains no offset (CorruptionError), or if another client of ZooKeeper changes it again and again
        (RewindError).  If ZooKeeper does not answer for three groups in a row, the remaining groups are not tried.
        The call can be repeated.

        The log knows only the groups of those log partitions that this process leads and has loaded.  The attribute
        `partitions` of the result lists each other partition with the reason, which is an error:

        * CoordinatorLoadingError: the partition is still being loaded, for example after a start, or this process did
          not lead it during the whole call.
        * PartitionFailedError: the partition failed.
        * NotCoordinatorError: another process leads the partition.  Make the same call in that process.

        Make this call in every process.  A log partition has been handled if the result of at least one process does
        not list it in `partitions`.

        Returns:
            The positions that still differ, and the groups and log partitions that could not be handled, each with the
            reason.  If all of these are empty, and no client has committed since, both storages have the same
            positions.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper did not return its list of groups; nothing was done.
            ClosedError: the manager was stopped.
        """
        with self._running():
            pass
        return catch_up_groups(self._groups, self._catch_up, self._look)

    def _groups(self) -> set[str]:
        """Returns the groups in ZooKeeper, those in the logs that this process leads, and those that differ."""
        return {*self.zookeeper.groups(), *self.log.groups(), *self._differences.groups()}
