"""The manager that keeps positions in a log and in ZooKeeper; the entry point "dual" of `offsetlog.managers`.

A fetch answers the larger of both, and every change takes effect at once, when the log is written:

* A commit that goes forward is written to the log, then to ZooKeeper.  Its turn ends once the log has it, so that a
  slow ZooKeeper does not delay commits to the log.  `zookeeper_queue` sends it to ZooKeeper, and the commit is answered
  once ZooKeeper has it, its timeout is over, or ZooKeeper is known not to answer.
* A commit that lowers a position, and a delete, change ZooKeeper first, while the log still has the value that fetches
  return, so that a crash between the two changes nothing for fetches.  They take the positions out of the queue, and
  keep their turns until both storages have the change.
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
#: Most fetches that wait for ZooKeeper at a time while it is known not to answer.
FETCHES_AWAY_MAX = 64
#: Capabilities of the log that it has here too.
_KEPT = frozenset({Capability.METADATA, Capability.EPOCHS, Capability.TIMESTAMPS, Capability.HISTORY})


def create(properties: Mapping[str, Setting]) -> DualManager:
    """Makes a dual manager from a broker's properties: those of the log manager, and of the ZooKeeper manager.

    Raises:
        ConfigError: a value is not allowed, or `dual.commit.enabled` is false.
    """
    if not flag("dual.commit.enabled", properties.get("dual.commit.enabled", True)):
        raise ConfigError("dual.commit.enabled=false contradicts offset.storage=dual; choose log or zookeeper")
    log = log_manager.create(properties)
    units = log.settings.store.metadata_max_units
    return DualManager(
        log,
        zookeeper_manager.create(properties),
        metadata_max_units=units,
        commit_timeout=log.settings.commit_timeout,
    )


class DualManager(BaseOffsetManager):
    """Keeps positions in ZooKeeper and in a log, for moving to the log; see OffsetManager for every call.

    The log decides who leads.  All calls are safe from any thread.  A commit that goes forward waits on no thread; one
    that goes back, the first one of a position that was not fetched here, and deletes, are made by threads of the
    manager.  A call that has not begun when its timeout is over is not made.  One that changes ZooKeeper first, and has
    begun, gives each storage the whole timeout.

    Args:
        log: the manager whose log it is, not started.
        zookeeper: the other one, not started.
        metadata_max_units: the UTF-16 units that the metadata of a commit may have; those of the log.
        commit_timeout: seconds that a call waits which names no timeout; those of the log.

    Attributes:
        log: as given; nothing may be written to it but through this manager.
        zookeeper: as given; others write to ZooKeeper as well.
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
        # Apart, so that those who wait for a storage without an answer leave the others their threads.
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
            ConfigError: they have different numbers of partitions.
            Also the errors of both.
        """
        self.zookeeper.start()
        self.log.start()
        self._count = self.log.partitions
        if self.zookeeper.partitions != self._count:
            text = f"the log manager has {self._count} partitions, the ZooKeeper manager {self.zookeeper.partitions}"
            self.close()
            raise ConfigError(f"{text}; give both the same offsets.topic.num.partitions")
        self._expiry.attach(lambda timeout: self.expire_async(timeout=timeout))
        self._expire_later()

    def stop(self) -> None:
        """Stops both; see OffsetManager.stop."""
        with self._lock:
            is_first = not self._stopped
            self._stopped = True
        # Without the lock: work under way may ask who leads before it ends.  Also after a start that failed, which may
        # have started one of them.
        if is_first:
            self._hooked(self.close)

    def close(self) -> None:
        """Stops both, which answers calls under way."""
        try:
            self.log.stop()
        finally:
            self.zookeeper.stop()
            self._calls.stop()
            self._sweeps.stop()

    # ---------------------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition once its log is loaded; see OffsetManager.become_leader."""
        return self._change_both(partition, epoch, self.log.become_leader, self.zookeeper.become_leader)

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Leaves a partition to another process; see OffsetManager.become_follower.

        The transition ends once no write is on its way to either storage.
        """
        change_log, change_zookeeper = self.log.become_follower, self.zookeeper.become_follower
        return self._change_both(partition, epoch, change_log, change_zookeeper, waits=True)

    def resign(self, partition: int, epoch: int) -> Transition:
        """Leads no more; see OffsetManager.resign, and `become_follower`."""
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
            # The log first: offsets that it refuses never come to ZooKeeper.
            of_log, of_zookeeper = change_log(partition, epoch), change_zookeeper(partition, epoch)

        def is_of(group: str) -> bool:
            return self.log.partition_for(group) == partition

        for forget in (self._queue.forget, self._both.looks.disturb_all, self._differences.forget):
            forget(is_of)
        return self._transitions_of_both.of(of_log, of_zookeeper, self._begun(is_of) if waits else ())

    def _begun(self, is_of: Callable[[str], bool]) -> list[Awaited]:
        """Returns work that ends once no earlier call for these groups is under way, nor in the queue."""
        groups = filter(is_of, self._turns.groups())
        ends = [self._begin(group, None, Work(_no_steps, self._ended)) for group in groups]
        return [*ends, *self._queue.landings(is_of)]

    def state(self, partition: int) -> PartitionState:
        """Returns the state of the log's partition; see OffsetManager.state."""
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
            raise PartitionFailedError(f"log partition {number} failed")
        if state is not PartitionState.ACTIVE:
            raise NotCoordinatorError(f"this process does not lead log partition {number}")

    def _look(self) -> list[Leadership]:
        """Returns the leadership of each log partition now."""
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
            self._ended(work)  # an interrupt of the caller, too, must not leave others waiting for it
            raise
        if is_first:
            work.go_on()
        return work

    def _order_end(self, work: TimedWork[Any]) -> None:
        """Schedules the end of work at its deadline, if it is still waiting then."""
        if work.timer is None:
            with suppress(CapacityError):  # it waits longer then
                work.timer = self._calls.call_later(work.left, partial(self._end_overdue, work))

    def _end_overdue(self, work: TimedWork[Any]) -> None:
        following = self._turns.leave(work)
        if following is not None:
            self._turns.begin(following)
        if isinstance(work, _PendingCommit) and work.followed is not None:
            # The log has it.
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
        """Runs a call on a thread of the manager, in its turn."""

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
        """Commits to both; see OffsetManager.commit, whose Position is that in the log.

        A commit that goes forward, and that the log took and ZooKeeper did not, has succeeded: fetches answer it.  It
        is among `differences` until ZooKeeper has the same.  ZooKeeper is waited for as long as the timeout goes, and
        not at all while it is known not to answer.

        Raises:
            CommitTimeoutError: its turn did not come, and nothing was written; or the log did not answer, and may have
                it, which is a difference then.
            DifferenceError: a commit that goes back was made in ZooKeeper, and the log did not take it, or not
                surely.  Fetches answer as before where it did not; the same call again makes it.
            ZooKeeperUnavailableError: ZooKeeper did not answer, and has to be asked whether the commit goes back;
                nothing was written.
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

        The log is written once it has the commits before it that touch the same positions.
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
        """Commits to the log; returns the offsets that ZooKeeper should get."""
        work.take()
        self._both.looks.disturb(group)
        if work.timer is not None:  # it has waited
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
        """Passes a commit that the log has to the queue for ZooKeeper, which keeps the order; ends its turn."""
        work.followed = self._queue.add(group, offsets)
        self._turns.pass_on(work)
        if work.followed.done():
            return
        if work.left > 0:
            # A timer that was ordered before may have found nothing to end, as it had begun.
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
        """Returns the larger position of the two storages; see OffsetManager.fetch.

        A position that is larger in ZooKeeper has no metadata and no leader epoch.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer, and may have the larger one.  While it is known not
                to, `FETCHES_AWAY_MAX` fetches wait for it at a time, and others are refused at once.
            CommitTimeoutError: a rewind or a delete of the same positions took too long.
            CorruptionError: as the ZooKeeper manager.
        """
        keys = None if partitions is None else arguments.listed_keys(partitions)
        with self._running():
            self._led(group)
            asked = None if keys is None else list(dict.fromkeys(checked_key(key) for key in keys))
        if self._queue.is_away and self._both.looks.count >= FETCHES_AWAY_MAX:
            text = f"ZooKeeper does not answer, and {FETCHES_AWAY_MAX} fetches already wait; try again once it does"
            raise ZooKeeperUnavailableError(text, node="/")
        found = self._both.fetch_beside(group, asked, lambda: self._turns.is_busy(group) or self._queue.is_busy(group))
        if found is None:
            # Something goes back meanwhile, and would be seen in one storage and not in the other.
            found = self._called(group, asked, lambda: self._both.fetch(group, asked)).result()
        return found if asked is None else {key: found.get(key, _NOTHING) for key in asked}

    # ------------------------------------------------------------------------------------------------------- deletes

    def delete(self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None) -> int:
        """Deletes positions in ZooKeeper, then in the log; see OffsetManager.delete.

        Raises:
            DifferenceError: they are deleted in ZooKeeper, but not, or not certainly, in the log; repeat the call.
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
            DifferenceError: it is removed in ZooKeeper, but not, or not certainly, in the log.
        """
        return self.delete_group_async(group, timeout=timeout).result()

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Removes a group on a thread of the manager; see `delete_group`."""
        with self._running():
            checked_timeout(timeout)
            self._led(group)
        return self._called(group, None, lambda: self._both.delete_group(group, timeout), timeout)

    def expire(self, *, timeout: float | None = None) -> int:
        """Expires positions in each storage by its own retention, lowering none; see OffsetManager.expire.

        A fetch returns a position until it has expired in both.  A group that cannot be levelled, for example while
        ZooKeeper does not answer, keeps its positions.

        Returns:
            The larger of the two numbers of expired positions.
        """
        with self._running():
            checked_timeout(timeout)
        return self._expiry.expire(timeout)

    def _level(self, group: str, call: Callable[[], int]) -> Pending[int]:
        """Levels a group, and runs a call in the same turn."""

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

        with suppress(ClosedError):  # it is being stopped
            self.expire_async().add_done_callback(done)

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Expires positions on a thread of the manager; see `expire`."""
        with self._running():
            checked_timeout(timeout)
        return self._sweeps.begin(lambda: self.expire(timeout=timeout))

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes the positions of deleted topics in both; see OffsetManager.on_topic_deleted.

        Each group is handled in its turn.  A concurrent commit is deleted in both or in neither.

        Args:
            topics: their names.
            timeout: seconds to wait for each group and for each storage.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer; the rest was not tried.
            DifferenceError: positions are deleted in ZooKeeper, but not, or not certainly, in the log; repeat it.
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
        """Returns the log manager's answer; see OffsetManager.throttle."""
        with self._running():
            return self.log.throttle(group, client, principal)

    # --------------------------------------------------------------------------------------------------- differences

    def differences(self) -> list[Difference]:
        """Returns the positions that were last seen to differ, sorted: by fetches, commits and `compare`.

        They are those seen since this process leads: none after a start and after a change of leadership, whatever
        differs; `catch_up_all` reads everything.  At most `LISTED_MAX` of `offsetlog.manager.dual.differences` are
        listed; `counters().unlisted` counts the others.
        """
        return self._differences.listed()

    def counters(self) -> Counters:
        """Returns counts of events since the start, for metrics."""
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
        """Raises each position of a group to the larger of both; returns the number raised.

        Use it before ZooKeeper is shut down: it copies positions to the log that no consumer commits any more.

        Raises:
            RewindError: another client of ZooKeeper commits the same positions again and again.
            Also as `commit` and `compare`.
        """
        return self._catch_up(group)[0]

    def _catch_up(self, group: str) -> tuple[int, list[Difference]]:
        with self._running():
            self._led(group)
        return self._called(group, None, lambda: self._both.catch_up(group)).result()

    def catch_up_all(self) -> CaughtUp:
        """Raises the positions of every group of the log and of ZooKeeper to the larger of both.

        It takes one group after the other, waits for both storages, and goes on after a group that fails: one that
        another process leads (NotCoordinatorError), that has a node without an offset (CorruptionError), that another
        client of ZooKeeper moves (RewindError).  Once no ZooKeeper has answered for three groups in a row the rest are
        not tried.  It can be repeated.

        A log names the groups of the partitions that this process leads and has loaded.  The others are among
        `partitions` of the result: those that are being loaded (CoordinatorLoadingError), as after a start, that failed
        (PartitionFailedError), that another process leads (NotCoordinatorError), where the same call does them, or that
        were not led here all the time (CoordinatorLoadingError).  A call of each process has done all groups once each
        partition is missing in `partitions` of one of them.

        Returns:
            The positions that still differ, and the groups and log partitions that were not done and why.  Where all of
            them are empty, and nobody has committed since, both storages have the same.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not say which groups there are; nothing was done.
            ClosedError: the manager was stopped.
        """
        with self._running():
            pass
        return catch_up_groups(self._groups, self._catch_up, self._look)

    def _groups(self) -> set[str]:
        """Returns the groups of ZooKeeper, of the log partitions that are led and loaded here, and with differences."""
        return {*self.zookeeper.groups(), *self.log.groups(), *self._differences.groups()}
