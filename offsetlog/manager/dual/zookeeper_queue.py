"""The queue from the log to ZooKeeper.  For each position, it keeps the newest offset that ZooKeeper should get.

A commit that lowers no position is final once the log has it.  The queue then brings the commit to ZooKeeper, so a
slow write to ZooKeeper delays no commit to the log.  Each position in the queue is prompt or late, and
ZooKeeper counts as present or as away:

* **Prompt.**  While ZooKeeper answers, the positions of a commit are sent at once, in one plain write.  At most one
  write of a position is being sent at a time; the next write waits for it.  If a newer commit has a position of a
  waiting write, the position moves from the waiting write to the newer one.  If a waiting write has no position left,
  it is not sent, and its commit is answered.
* **Late.**  If a prompt write gets no certain answer, its positions become late.  The queue keeps only the names of
  late positions, and reads their newest values from the log when it sends them.  Other clients may have committed to
  ZooKeeper meanwhile, so a late write never lowers a position there (`monotonic`, which compares the versions of the
  nodes).
* **Away.**  If no server answers within the commit timeout, ZooKeeper counts as away.  The queue then sends no prompt
  writes; the positions of each new commit become late at once.  After `PROBE_SECONDS`, the queue tries one late write,
  and tries again after each failure.  The first late write that gets an answer ends the outage.  The queue then sends
  the other late positions, one group at a time.

A rewind (a commit that lowers a position) or a delete holds its positions (`held`), so that no earlier commit reaches
ZooKeeper later and undoes the rewind or delete.  The queue withdraws waiting writes of these positions, and waits for
writes that are being sent.  No commit adds such a write meanwhile, because the rewind or delete has the turn of its
positions.  If the rewind or delete fails before the log is written, the positions become late: ZooKeeper may have the
lower value, so it must get the value of the log again.

A crash loses only the knowledge of which positions are late.  The log has the offsets of late
positions, and fetches return the larger value of log and ZooKeeper.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from offsetlog._native.completion import Completion
from offsetlog.errors import (
    ClosedError,
    CommitTimeoutError,
    CorruptionError,
    DifferenceError,
    NotCoordinatorError,
    OffsetLogError,
    RewindError,
    StorageError,
    TooLargeError,
    UnknownOutcomeError,
    ZooKeeperUnavailableError,
)
from offsetlog.manager.dual.differences import Differences
from offsetlog.manager.executor import Timer
from offsetlog.manager.interface import Capability, OffsetManager, Pending
from offsetlog.manager.work import Steps, Work
from offsetlog.types import Position, TopicPartition

#: The seconds from the last failure to the next try while ZooKeeper does not answer.
PROBE_SECONDS = 1.0
#: The largest number of late positions that are kept; `catch_up` finds further ones.
LATE_MAX = 100_000
#: After one of these errors, a late write is sent again position by position, so that only the position that causes the
#: error fails.
_OF_ONE_POSITION = (RewindError, CorruptionError, TooLargeError)

_log = logging.getLogger(__name__)


def _unsent(failure: BaseException) -> StorageError:
    return StorageError(f"{type(failure).__name__} while the commit was being sent to ZooKeeper: {failure}")


def is_outage(failure: OffsetLogError) -> bool:
    """Whether an error means that ZooKeeper did not answer this request, but may answer another one."""
    return isinstance(failure, (CommitTimeoutError, ZooKeeperUnavailableError))


class Write(Completion[None]):
    """A write of positions to ZooKeeper.

    A write is answered once ZooKeeper has the positions, or once the commit need not wait for
    ZooKeeper any longer.

    Attributes:
        group: the consumer group.
        offsets: the offsets to write.  While this write waits, newer commits remove their positions from it.
        keys: the positions of this write while it is being sent.  No other write may send them meanwhile.
        landed: completes once this write is no longer being sent.
        waiting: the writes of other commits, which are answered together with this one.
        is_counted: whether this write has been counted as a failure.
        is_dropped: whether the queue ignores the outcome, because another process may lead the group.
        has_answer: whether ZooKeeper itself answered this write, if the write did not fail.
    """

    def __init__(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        super().__init__()
        self.group = group
        self.offsets = dict(offsets)
        self.keys: tuple[TopicPartition, ...] = ()
        self.landed: Completion[None] = Completion()
        self.waiting: list[Write] = []
        self.is_counted = False
        self.is_dropped = False
        self.has_answer = True


class _Late:
    """The late positions of a group, in their order, and the writes whose commits wait for these positions."""

    def __init__(self) -> None:
        self.keys: dict[TopicPartition, None] = {}
        self.waiting: list[Write] = []


class ZooKeeperQueue:
    """Brings to ZooKeeper what the log has, as the module describes.  Thread-safe.  Only `held` and `settle` block.

    Args:
        log: the manager that has the newest offsets.
        zookeeper: the manager that follows the log.
        differences: records the positions that ZooKeeper does not have.
        call_later: schedules a short call after a number of seconds.
        late_max: the largest number of late positions that are kept.
        probe_seconds: the seconds between a failure and the next try.
    """

    def __init__(
        self,
        log: OffsetManager,
        zookeeper: OffsetManager,
        differences: Differences,
        call_later: Callable[[float, Callable[[], object]], Timer],
        *,
        late_max: int = LATE_MAX,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self._log, self._zookeeper, self._differences = log, zookeeper, differences
        self._call_later = call_later
        self._late_max, self._probe_seconds = late_max, probe_seconds
        self._lock = threading.Lock()
        # By group and position.  A write appears once for each of its positions.
        self._waiting: dict[str, dict[TopicPartition, Write]] = {}
        self._flying: dict[str, dict[TopicPartition, Write]] = {}
        self._late: OrderedDict[str, _Late] = OrderedDict()
        self._late_count = 0
        self._is_away = self._is_sending_late = self._is_probe_ordered = False

    @property
    def is_away(self) -> bool:
        """Whether ZooKeeper counts as away, as the module describes."""
        return self._is_away

    def is_busy(self, group: str) -> bool:
        """Whether any position of a group must still be sent to ZooKeeper."""
        return group in self._waiting or group in self._flying or group in self._late

    def keys(self, group: str) -> list[TopicPartition]:
        """Returns the positions of a group that must still be sent to ZooKeeper."""
        with self._lock:
            waiting, flying = self._waiting.get(group, {}), self._flying.get(group, {})
            return list(dict.fromkeys((*waiting, *flying, *self._late_keys(group))))

    def landings(self, is_meant: Callable[[str], bool]) -> list[Completion[None]]:
        """Returns a completion for each write of these groups that is being sent; it completes when the write ends."""
        with self._lock:
            return [each.landed for group in self._flying if is_meant(group) for each in self._on_its_way(group, None)]

    # ----------------------------------------------------------------------------------------------------- to the queue

    def add(self, group: str, offsets: Mapping[TopicPartition, int]) -> Write:
        """Sends a commit that is in the log to ZooKeeper; returns the write.  Call this in the commit's turn."""
        write = Write(group, offsets)
        with self._lock:
            if self._is_away:
                self._note_failure(write)
                answered, ready = [write, *self._keep_late(group, offsets)], []
            else:
                answered, may_go = self._replace(write)
                ready = self._ready(group, may_go)
        self._answer(answered)
        self._send(ready)
        return write

    def add_unsure(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Makes positions late, because it is unknown whether the log or ZooKeeper has these offsets."""
        with self._lock:
            self._differences.note_lagging(group, offsets, is_failure=False)
            answered = self._keep_late(group, offsets)
        self._answer(answered)
        self._send_late()

    def note_overdue(self, write: Write) -> None:
        """Records the positions of a commit as differences, because the commit no longer waits for ZooKeeper."""
        with self._lock:
            if not write.done():
                self._note_failure(write)

    def _replace(self, write: Write) -> tuple[list[Write], list[Write]]:
        """Adds a new write, and removes its positions from the writes that are waiting.

        Returns:
            The writes that have no position left; and the writes that can be sent unless one of their positions is
            being sent.
        """
        waiting = self._waiting.setdefault(write.group, {})
        late = self._withdraw_late(write.group, write.offsets)[1]
        replaced, rest = self._taken_out([key for key in write.offsets if key in waiting], waiting)
        waiting.update(dict.fromkeys(write.offsets, write))
        return [*replaced, *late], [*rest, write]

    @staticmethod
    def _taken_out(
        keys: Iterable[TopicPartition], waiting: dict[TopicPartition, Write]
    ) -> tuple[list[Write], list[Write]]:
        """Removes positions from waiting writes.

        Returns the writes that have no position left, and the other writes that had one of these positions.
        """
        touched = {}
        for key in keys:
            write = waiting.pop(key)
            del write.offsets[key]
            touched[id(write)] = write
        emptied = [each for each in touched.values() if not each.offsets]
        return emptied, [each for each in touched.values() if each.offsets]

    def _ready(self, group: str, writes: Iterable[Write]) -> list[Write]:
        """Takes from the queue the given writes of which no position is being sent; returns these writes."""
        waiting, flying = self._waiting.get(group, {}), self._flying.get(group, {})
        ready = []
        for write in writes:
            if flying.keys().isdisjoint(write.offsets):
                ready.append(write)
                flying = self._fly(write, write.offsets)
                for key in write.offsets:
                    waiting.pop(key, None)
        if not waiting:
            self._waiting.pop(group, None)
        return ready

    def _fly(self, write: Write, keys: Iterable[TopicPartition]) -> dict[TopicPartition, Write]:
        write.keys = tuple(keys)
        flying = self._flying.setdefault(write.group, {})
        flying.update(dict.fromkeys(write.keys, write))
        return flying

    def _note_failure(self, write: Write) -> None:
        if not write.is_dropped:
            # If a newer value of a position is late, that newer value is the difference.
            late = self._late_keys(write.group) if write.keys else ()
            offsets = {key: offset for key, offset in write.offsets.items() if key not in late}
            self._differences.note_lagging(write.group, offsets, is_failure=False)
        self._count_failures([write, *write.waiting])

    def _count_failures(self, writes: Iterable[Write]) -> None:
        for each in writes:
            self._differences.count(zookeeper_failures=not each.is_counted and not each.is_dropped)
            each.is_counted = True

    @staticmethod
    def _answer(writes: Iterable[Write]) -> None:
        for each in writes:
            each.succeed(None)

    # ----------------------------------------------------------------------------------------------------------- prompt

    def _send(self, writes: Iterable[Write]) -> None:
        left = list(writes)
        try:
            while left:
                self._send_one(left[0])
                del left[0]
        except BaseException as failure:
            # If these writes did not end, other writes would wait for their positions for ever.
            for write in (each for each in left if not each.landed.done()):
                self._end(write, _unsent(failure))
            raise

    def _send_one(self, write: Write) -> None:
        try:
            pending = self._zookeeper.commit_async(write.group, dict(write.offsets))
        except OffsetLogError as failure:
            self._end(write, failure)
        else:
            pending.add_done_callback(lambda pending: self._answered(write, pending))

    def _answered(self, write: Write, pending: Pending[Position]) -> None:
        failure: OffsetLogError | None = None
        try:
            pending.result(0)
        except OffsetLogError as raised:
            failure = raised
        self._end(write, failure)

    def _end(self, write: Write, failure: OffsetLogError | None, *, was_late: bool = False) -> None:
        """Ends a write that was being sent, and starts the writes that waited for its positions."""
        with self._lock:
            freed = self._land(write)
            if failure is None:
                self._is_away = self._is_away and not write.has_answer
                self._note_success(write)
                answered = [write, *write.waiting]
            elif isinstance(failure, UnknownOutcomeError) and not (was_late or self._is_away or write.is_dropped):
                # It is unknown whether the write was applied.  The late write will find out, and the commit waits for
                # it.
                self._differences.note_lagging(write.group, write.offsets, is_failure=False)
                answered = self._keep_late(write.group, write.offsets, [write])
            else:
                answered = [write, *write.waiting, *self._fail(write, failure, was_late=was_late)]
            waiting = self._waiting.get(write.group, {})
            again = {id(each): each for key in freed if (each := waiting.get(key)) is not None}
            ready = self._ready(write.group, again.values())
        write.landed.succeed(None)
        self._answer(answered)
        self._send(ready)
        if not was_late:
            self._send_late()

    def _land(self, write: Write) -> list[TopicPartition]:
        flying = self._flying.get(write.group, {})
        freed = [key for key in write.keys if flying.get(key) is write]
        for key in freed:
            del flying[key]
        if not flying:
            self._flying.pop(write.group, None)
        return freed

    def _note_success(self, write: Write) -> None:
        if not write.is_dropped:
            self._differences.note_equal(write.group, write.offsets, self._late_keys(write.group))

    def _fail(self, write: Write, failure: OffsetLogError, *, was_late: bool) -> list[Write]:
        """Records a write that failed; returns the other writes whose commits need not wait any longer."""
        self._note_failure(write)
        if is_outage(failure):
            # If the connection broke after a commit was sent, that does not prove that no server answers.
            is_proof = was_late or not isinstance(failure, UnknownOutcomeError)
            kept = [] if write.is_dropped else self._keep_late(write.group, write.offsets)
            return [*kept, *(self._go_away() if is_proof else [])]
        if not isinstance(failure, (NotCoordinatorError, ClosedError)):
            _log.warning("group %r: a commit could not be copied from the log to ZooKeeper: %s", write.group, failure)
        return []

    # ------------------------------------------------------------------------------------------------------------- away

    def _go_away(self) -> list[Write]:
        """Marks ZooKeeper as away; returns the writes whose commits no longer wait."""
        was_away, self._is_away = self._is_away, True
        answered = [] if was_away else self._give_up_waiting()
        self._order_probe()
        return answered

    def _give_up_waiting(self) -> list[Write]:
        """Makes all waiting writes late; returns them, because their commits no longer wait."""
        answered = list({id(each): each for of_group in self._waiting.values() for each in of_group.values()}.values())
        self._waiting.clear()
        for write in answered.copy():
            self._note_failure(write)
            answered += self._keep_late(write.group, write.offsets)
        for late in self._late.values():
            answered += late.waiting
            self._count_failures(late.waiting)
            late.waiting = []
        return answered

    def _order_probe(self) -> None:
        if self._is_probe_ordered:
            return
        self._is_probe_ordered = True
        try:
            self._call_later(self._probe_seconds, self._probe)
        except OffsetLogError:  # the system cannot start a thread: the next commit is the try
            self._is_probe_ordered = self._is_away = False

    def _probe(self) -> None:
        with self._lock:
            self._is_probe_ordered = False
            if not self._late:
                self._is_away = False  # without a late position to send, the next commit is the try
        self._send_late(is_probe=True)

    # ------------------------------------------------------------------------------------------------------------- late

    def _keep_late(self, group: str, keys: Iterable[TopicPartition], waiting: Iterable[Write] = ()) -> list[Write]:
        """Makes positions late; returns the writes whose commits cannot wait, because too many positions are late."""
        late = self._late.setdefault(group, _Late())
        for key in keys:
            if key not in late.keys and self._late_count < self._late_max:
                late.keys[key] = None
                self._late_count += 1
        late.waiting += waiting
        if late.keys:
            return []
        del self._late[group]
        return late.waiting

    def _withdraw_late(
        self, group: str, keys: Collection[TopicPartition] | None
    ) -> tuple[list[TopicPartition], list[Write]]:
        """Removes late positions.

        Returns these positions.  If the group has no late position left, also returns the writes that waited for them.
        """
        late = self._late.get(group)
        if late is None:
            return [], []
        found = list(late.keys) if keys is None else [key for key in keys if key in late.keys]
        for key in found:
            del late.keys[key]
        self._late_count -= len(found)
        if late.keys:
            return found, []
        del self._late[group]
        return found, late.waiting

    def _send_late(self, *, is_probe: bool = False) -> None:
        """Begins to send late positions, unless they are being sent already."""
        with self._lock:
            if self._is_sending_late or not self._late or (self._is_away and not is_probe):
                return
            self._is_sending_late = True
        Work[None](self._late_steps, lambda _: None).go_on()

    def _late_steps(self, _: Work[None]) -> Steps[None]:
        while (write := self._next_late()) is not None:
            failure: OffsetLogError | None = None
            try:
                yield from self._bring(write)
            except OffsetLogError as raised:
                failure = raised
            except BaseException as raised:
                self._stop_late()
                self._end(write, _unsent(raised), was_late=True)
                raise
            self._end(write, failure, was_late=True)
            if failure is not None and is_outage(failure):
                self._stop_late()
                break

    def _stop_late(self) -> None:
        with self._lock:
            self._is_sending_late = False
            if self._is_away:
                self._order_probe()

    def _next_late(self) -> Write | None:
        """Takes the late positions of one group, except those that are being sent; returns them as a write."""
        with self._lock:
            for group, late in self._late.items():
                flying = self._flying.get(group, {})
                if free := [key for key in late.keys if key not in flying]:
                    break
            else:
                # The lock has been held since the search, so that a write that ends from now on starts the late writes
                # again.
                self._is_sending_late = False
                if self._is_away:
                    self._order_probe()
                return None
            write = Write(group, {})
            write.is_counted, write.has_answer = True, False
            write.waiting, late.waiting = late.waiting, []
            self._withdraw_late(group, free)
            self._fly(write, free)
            return write

    def _bring(self, write: Write) -> Steps[None]:
        """Sends to ZooKeeper the values that the log has for late positions; records positions that are refused.

        If the log no longer has a position, the position was deleted or has expired, and it is not sent.
        """
        found = self._log.fetch(write.group, list(write.keys))
        write.offsets = {key: value.offset for key, value in found.items() if value.offset >= 0}
        self._differences.forget_positions(write.group, [key for key in write.keys if key not in write.offsets])
        parts = [dict(write.offsets)] if write.offsets else []
        monotonic = Capability.CONDITIONS in self._zookeeper.capabilities
        while parts:
            part = parts.pop()
            try:
                pending = self._zookeeper.commit_async(write.group, part, monotonic=monotonic)
                yield [pending]
                pending.result(0)
                write.has_answer = True
            except _OF_ONE_POSITION as failure:
                write.has_answer = write.has_answer or isinstance(failure, RewindError)
                if len(part) > 1:
                    parts += [{key: offset} for key, offset in part.items()]
                else:
                    self._refuse(write, next(iter(part)), failure)

    def _refuse(self, write: Write, key: TopicPartition, failure: OffsetLogError) -> None:
        offset = write.offsets.pop(key)
        if isinstance(failure, RewindError) and failure.actual is not None and not write.is_dropped:
            self._differences.note_seen(write.group, key, offset, failure.actual)
        elif not write.is_dropped:
            self._differences.note_lagging(write.group, {key: offset}, is_failure=False)

    # ------------------------------------------------------------------------------------------- what must not come now

    @contextmanager
    def held(
        self, group: str, keys: Collection[TopicPartition] | None, timeout: float
    ) -> Iterator[set[TopicPartition]]:
        """Keeps positions of a group (None: all) from being sent while the `with` block lowers some of them.

        The caller must have the turn of these positions.  The block gets a set, to which the caller
        adds the positions that it has lowered or deleted in ZooKeeper.  If the block ends with
        DifferenceError, the positions in the set do not become late (to be sent from the log)
        again, because the log may still get the same change.

        Args:
            group: the consumer group.
            keys: the positions; None for all positions of the group.
            timeout: the seconds to wait for the writes that are being sent.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer; nothing was written.
        """
        deadline = time.monotonic() + timeout
        withdrawn: dict[TopicPartition, int | None] = {}
        lowered: set[TopicPartition] = set()
        try:
            # `_withdraw` removes positions and looks for writes that are being sent under one lock.  Otherwise a write
            # that ended in between could become late, and could be sent while a position is lowered.
            while flying := self._withdraw(group, keys, withdrawn):
                self._wait(flying, deadline, timeout)
            yield lowered
        except NotCoordinatorError:
            raise  # ZooKeeper does not follow a log that another process leads
        except DifferenceError:
            self._late_again(group, withdrawn.keys() - lowered, withdrawn)
            raise
        except UnknownOutcomeError:
            # ZooKeeper may have the lower value, and the log does not.
            self._late_again(group, self._in_log(group) if keys is None else keys, withdrawn)
            raise
        except BaseException:
            self._late_again(group, withdrawn, withdrawn)
            raise

    def _late_again(
        self, group: str, keys: Iterable[TopicPartition], withdrawn: Mapping[TopicPartition, int | None]
    ) -> None:
        """Makes withdrawn positions late.

        The positions that were taken from waiting writes are recorded as differences, because their commits were
        answered.
        """
        again = list(keys)
        waited = {key: offset for key in again if (offset := withdrawn.get(key)) is not None}
        with self._lock:
            self._differences.note_lagging(group, waited, is_failure=False)
            answered = self._keep_late(group, again)
        self._answer(answered)
        self._send_late()

    def _in_log(self, group: str) -> Collection[TopicPartition]:
        try:
            return self._log.fetch(group).keys()
        except OffsetLogError:  # this process does not lead the group any more
            return ()

    def _withdraw(
        self, group: str, keys: Collection[TopicPartition] | None, withdrawn: dict[TopicPartition, int | None]
    ) -> list[Write]:
        """Removes positions from waiting writes and from the late positions; returns the writes that are being sent.

        Args:
            group: the consumer group.
            keys: the positions; None for all positions of the group.
            withdrawn: gets each position that was removed.  Its value is the offset if the position waited, and None
                if the position was late, because late positions are already recorded as differences.
        """
        with self._lock:
            late, answered = self._withdraw_late(group, keys)
            waiting = self._waiting.get(group, {})
            taken = [key for key in waiting if keys is None or key in keys]
            withdrawn |= dict.fromkeys(late) | {key: waiting[key].offsets[key] for key in taken}
            emptied, rest = self._taken_out(taken, waiting)
            ready = self._ready(group, rest)
            flying = self._on_its_way(group, keys)
        self._answer([*answered, *emptied])
        self._send(ready)
        return flying

    def _flying_of(self, group: str, keys: Collection[TopicPartition] | None) -> list[Write]:
        with self._lock:
            return self._on_its_way(group, keys)

    def _on_its_way(self, group: str, keys: Collection[TopicPartition] | None) -> list[Write]:
        flying = self._flying.get(group, {})
        return list({id(each): each for key, each in flying.items() if keys is None or key in keys}.values())

    @staticmethod
    def _wait(writes: Iterable[Write], deadline: float, timeout: float) -> None:
        for each in writes:
            try:
                each.landed.result(max(0.0, deadline - time.monotonic()))
            except CommitTimeoutError:
                text = f"group {each.group!r}: this call waited {timeout:g} s for an earlier commit"
                advice = "which ZooKeeper did not answer; try again"
                raise ZooKeeperUnavailableError(f"{text}, {advice}", node="/") from None

    def settle(self, group: str, timeout: float) -> None:
        """Waits until no write of a group is being sent; late positions stay late.

        Call this method in the turn of the group.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer.
        """
        deadline = time.monotonic() + timeout
        while flying := self._flying_of(group, None):
            self._wait(flying, deadline, timeout)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Drops all positions of these groups from the queue; another process may lead the groups from now on."""
        with self._lock:
            groups = {group for group in (*self._waiting, *self._flying, *self._late) if is_meant(group)}
            for group in groups:
                for write in self._flying.get(group, {}).values():
                    write.is_dropped = True
        for group in groups:
            self._withdraw(group, None, {})

    def _late_keys(self, group: str) -> Collection[TopicPartition]:
        late = self._late.get(group)
        return () if late is None else late.keys
