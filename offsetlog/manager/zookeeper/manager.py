"""The manager that keeps positions in ZooKeeper; the entry point "zookeeper" of `offsetlog.managers`."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from offsetlog import arguments
from offsetlog._native.codec import partition_for
from offsetlog.clock import wall_ms
from offsetlog.errors import (
    ClosedError,
    CommitTimeoutError,
    NotCoordinatorError,
    OffsetLogError,
    UnknownOutcomeError,
    ZooKeeperUnavailableError,
)
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.manager.checked_offsets import checked_expected, checked_group, checked_key, checked_timeout
from offsetlog.manager.executor import ThreadExecutor, Timer
from offsetlog.manager.interface import Capability, Durability, PartitionState, Pending, PendingCommit
from offsetlog.manager.properties import Setting
from offsetlog.manager.refusals import closed
from offsetlog.manager.transition import PartitionTransition
from offsetlog.manager.turns import Turns
from offsetlog.manager.work import Steps, Work
from offsetlog.manager.zookeeper.committing import Commit, commit
from offsetlog.manager.zookeeper.groups import group_names, kept_value, owners, value_in
from offsetlog.manager.zookeeper.reading import PASSES_ALONE, PASSES_BESIDE, read_group, read_positions
from offsetlog.manager.zookeeper.removal import (
    delete_group,
    delete_positions,
    delete_topics,
    expire_group,
    ids_node,
)
from offsetlog.manager.zookeeper.session import Session
from offsetlog.manager.zookeeper.settings import ZooKeeperSettings, from_properties
from offsetlog.types import (
    Committed,
    Key,
    OffsetAndMetadata,
    OtherKey,
    PartitionKey,
    Position,
    TopicPartition,
)
from offsetlog.zookeeper.consumer_offsets import check_group, check_topic, offset_node
from offsetlog.zookeeper.missing_nodes import ensure_root

T = TypeVar("T")
#: A group, and the positions that work touches; None for all positions of the group.
_Turn = tuple[str, Iterable[TopicPartition] | None]
_Read = tuple[dict[TopicPartition, OffsetAndMetadata], bool]
_log = logging.getLogger(__name__)


def create(properties: Mapping[str, Setting]) -> ZooKeeperManager:
    """Creates a ZooKeeper manager from a broker's properties; the entry point "zookeeper" of `offsetlog.managers`."""
    return ZooKeeperManager(from_properties(properties))


def _executor() -> ThreadExecutor:
    return ThreadExecutor(1, "offsetlog-zookeeper")


class _PendingCommit(Work[Position]):
    """A commit in progress; see PendingCommit."""

    def __init__(self, position: Position, *given: Any) -> None:
        self.position = position
        super().__init__(*given)


class ZooKeeperManager(BaseOffsetManager):
    """Keeps positions where consumers before Kafka 0.9 kept them; see OffsetManager for every call.

    A commit is one transaction of ZooKeeper.  It is answered once a majority of the servers has it on disk, whatever
    durability was requested.  The commit timestamp of a position is the time at which ZooKeeper wrote it.  Several
    processes may commit to the same group, and the conditions of a commit see the commits of all processes.

    All calls are safe from any thread, and many calls can be in progress at a time.  If calls for one group touch the
    same positions, they are carried out in the order in which they were made.  If a `commit` or a `delete` raises
    UnknownOutcomeError, it was applied as a whole or not at all, but the manager does not know which of the two.

    When this process gives up a partition, the transition ends once each write that was sent for the partition has been
    answered or has lost its connection.

    Args:
        settings: the manager's settings.
        clock: returns the time of day in milliseconds, which decides whether a position has expired.
    """

    capabilities = frozenset({Capability.CONDITIONS})
    fetch_waits = True

    def __init__(self, settings: ZooKeeperSettings, *, clock: Callable[[], int] = wall_ms) -> None:
        super().__init__(partitions=settings.partitions)
        self.settings = settings
        self._clock = clock
        self._executor = _executor()
        self._session = Session(settings.connection, self._submit, self._call_later)
        self._turns = Turns()
        self._under_way: dict[Work[Any], Timer | None] = {}
        self._under_way_lock = threading.Lock()
        #: The transitions that give up a partition, each with the work whose writes are still being sent.
        self._given_up: dict[PartitionTransition, set[Work[Any]]] = {}
        self._closed = self._leaves_expiry = False

    # ---------------------------------------------------------------------------------------------------------- life

    def open(self) -> None:
        """Starts the session, and creates the root of `zookeeper.connect` if it does not exist, as Kafka does.

        If the start fails, nothing stays open, and the start can be tried again.

        Raises:
            ZooKeeperUnavailableError: no server answers.
            ZooKeeperError: ZooKeeper refuses the credentials, or they lack a permission.
        """
        try:
            self._session.start()
            ensure_root(self._session.connection)
            self._expire_later()
        except BaseException:
            try:
                self._session.close()
            finally:
                self._executor.stop()
                self._executor = _executor()
            raise

    def stop(self) -> None:
        """Resigns all partitions, answers the calls in progress, and ends the session; see OffsetManager.stop.

        A callback may call this method.  In that case, the session ends on another thread, after the callback.
        """
        with self._lock:
            is_open = self._started and not self._stopped
            self._stopped = True
        # The lock is not held here, because `close` waits for threads of the client, and these may ask who leads.
        if is_open:
            self._hooked(self.close)

    def close(self) -> None:
        """Answers the calls in progress, and ends the session.  If one step fails, the other steps still run."""
        with self._under_way_lock:
            self._closed = True
            unanswered = list(self._under_way)
        for work in unanswered:
            work.fail(NotCoordinatorError("the manager was stopped before it answered; the call may still take effect"))
        try:
            self._session.close()
        finally:
            self._executor.stop()
            with self._under_way_lock:
                given_up = list(self._given_up)
                self._given_up.clear()
            for transition in given_up:
                transition.fail(closed(stopped=True))

    def _settle(self, transition: PartitionTransition) -> None:
        """Ends a transition; one that gives up a partition ends once no write of the partition is being sent."""
        number = transition.partition
        writing: set[Work[Any]] = set()
        with self._under_way_lock:
            if self._states[number] is not PartitionState.ACTIVE:
                groups = {work: work.group for work in self._under_way if work.is_writing}
                writing = {work for work, group in groups.items() if group and self.partition_for(group) == number}
            if writing:
                self._given_up[transition] = writing
        if not writing:
            transition.succeed(0)

    # ---------------------------------------------------------------------------------------------------------- work

    def _submit(self, call: Callable[[], object]) -> None:
        # The executor is looked up at each call, because a start that fails replaces the executor.
        self._executor.submit(call)

    def _call_later(self, seconds: float, call: Callable[[], object]) -> None:
        self._executor.call_later(seconds, call)

    def _begin(self, work: Work[T], turn: _Turn | None, late: Any) -> Work[T]:
        """Adds work; the work starts when its turn comes.

        Args:
            work: the work.
            turn: the group of the work, and the positions that it touches (None: all positions).  None instead of the
                pair means that the work starts at once.
            late: the timeout in seconds, and a function that returns the error of work that has timed out; None means
                that the work has no timeout.
        """
        try:
            with self._under_way_lock:
                if self._closed:
                    raise closed(stopped=True)
                self._under_way[work] = None
                work.group = None if turn is None else turn[0]
                is_first = turn is None or self._turns.add(*turn, work)
                # The timer is set once the work is in the queue for its turn, because the timer removes the work from
                # that queue.
                if late is not None:
                    timeout, failure = late
                    self._under_way[work] = self._executor.call_later(
                        timeout, lambda: self._end_overdue(work, failure(work))
                    )
        except BaseException:
            self._ended(work)  # even after an interrupt, later work must not wait for this work
            raise
        if is_first:
            work.go_on()
        return work

    def _ended(self, work: Work[Any]) -> None:
        with self._under_way_lock:
            timer = self._under_way.pop(work, None)
            for writing in self._given_up.values():
                writing.discard(work)
            settled = [transition for transition, writing in self._given_up.items() if not writing]
            for transition in settled:
                del self._given_up[transition]
        if timer is not None:
            timer.cancel()
        for transition in settled:
            transition.succeed(0)
        self._turns.pass_on(work)

    def _end_overdue(self, work: Work[Any], failure: OffsetLogError) -> None:
        """Answers work whose timeout has passed; removes it from the queues for its turn and for a server."""
        following = self._turns.leave(work)
        if following is not None:
            self._turns.begin(following)
            self._ended(work)
        work.fail(failure)
        self._session.leave(work)

    def _late(self, timeout: float | None) -> tuple[float, Callable[[Work[Any]], OffsetLogError]]:
        seconds = self.settings.commit_timeout if timeout is None else timeout

        def failure(work: Work[Any]) -> OffsetLogError:
            text = f"ZooKeeper did not answer within {seconds:g} s"
            if work.is_sent:
                text = f"{text} after a write to {work.node} was sent; the write may or may not have been applied"
                return UnknownOutcomeError(text, node=work.node)
            return CommitTimeoutError(f"{text}; nothing was written, and nothing will be written later")

        return seconds, failure

    def _unread(self) -> tuple[float, Callable[[Work[Any]], OffsetLogError]]:
        seconds = self.settings.commit_timeout
        return seconds, lambda _: ZooKeeperUnavailableError(f"ZooKeeper did not answer within {seconds:g} s", node="/")

    def _check_led(self, group: str) -> None:
        with self._running():
            self._led(group)

    def _kept_group(self, group: str) -> None:
        self._led(group)
        check_group(group)

    def _kept_keys(self, keys: Iterable[Any]) -> list[TopicPartition]:
        checked = [checked_key(key) for key in keys]
        for topic in {key[0] for key in checked}:
            check_topic(topic)
        return list(dict.fromkeys(checked))

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
        """Commits positions of a group; see OffsetManager.commit.

        The Position that is returned has the log offset -1.

        Raises:
            UnknownOutcomeError: after the commit was sent, the connection broke, or no answer came in time.  A plain
                commit is not sent again, because another client may have committed since.
            TooLargeError: the commit does not fit into a request of `jute.maxbuffer` bytes.
            GroupError, TopicError: no node can have the name.
        """
        return self.commit_async(
            group,
            offsets,
            expected=expected,
            monotonic=monotonic,
            generation=generation,
            timeout=timeout,
            durability=durability,
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
        """Sends a commit without waiting; see OffsetManager.commit_async and `commit`.

        When the call returns, the commit has been sent.  There are two exceptions: no server is connected, or an
        earlier call for the same positions of the group has not been answered yet.
        """
        with self._running():
            if generation is not None:
                self._lacks(Capability.GENERATIONS)
            values = self._checked_commit(group, offsets, timeout, durability)
            self._kept_group(group)
            self._kept_keys(values)
            given = {key: value.offset for key, value in values.items()}
            forward_only = arguments.checked_flag("monotonic", monotonic)
            checked = Commit(group, given, checked_expected(expected, values), forward_only)
            position = Position(partition_for(group, self._count), -1)

        def steps(work: Work[Position]) -> Steps[Position]:
            yield from commit(self._session, checked, work)
            return position

        work = _PendingCommit(position, steps, self._ended, partial(self._check_led, group))
        self._begin(work, (group, given), self._late(timeout))
        return work

    # ------------------------------------------------------------------------------------------------------- fetches

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed positions as a snapshot of one moment; see OffsetManager.fetch.

        The call waits for ZooKeeper.  It sees every write of any client that was answered before the call.  If other
        clients change the group during every attempt to read it, the positions may be from different moments of the
        call.

        Raises:
            CorruptionError: a node does not contain an offset, or its name is not a number; `path` names the node.
                The other positions can be fetched by their keys.  If the node does not contain an offset, a commit of
                its position repairs it.
            ZooKeeperUnavailableError: no server answered within the commit timeout.
        """
        keys = None if partitions is None else arguments.listed_keys(partitions)
        with self._running():
            self._kept_group(group)
            asked = None if keys is None else self._kept_keys(keys)

        if asked == []:
            return {}
        found, is_settled = self._read(group, asked, None, PASSES_BESIDE)
        if not is_settled:
            found, _ = self._read(group, asked, (group, asked), PASSES_ALONE)
        return found

    def _read(
        self, group: str, keys: list[TopicPartition] | None, turn: _Turn | None, passes: int
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], bool]:
        """Reads positions (None: all of the group).

        Also returns whether they are a snapshot of one moment.
        """

        def steps(work: Work[_Read]) -> Steps[_Read]:
            if keys is None:
                nodes, is_settled = yield from read_group(self._session, work, group, passes)
                return {each.key(): kept_value(each.offset(), each.stat) for each in nodes}, is_settled
            asked, is_settled = yield from read_positions(self._session, work, group, keys, passes)
            named = zip(keys, asked, strict=True)
            return {key: value_in(node, offset_node(group, key)) for key, node in named}, is_settled

        work = Work[_Read](steps, self._ended, partial(self._check_led, group))
        found: _Read = self._begin(work, turn, self._unread()).result()
        return found

    def groups(self) -> list[str]:
        """Returns all groups in ZooKeeper, sorted, even groups without positions and groups that other processes lead.

        Raises:
            ZooKeeperUnavailableError, ClosedError.
        """
        return self._ask(lambda work: group_names(self._session, work))

    def consumers(self, group: str) -> list[str]:
        """Returns the ids of the live consumers of a group (`/consumers/GROUP/ids`), sorted.

        Raises:
            GroupError: no node can have such a name.
            ZooKeeperUnavailableError, ClosedError.
        """
        check_group(checked_group(group))

        def steps(work: Work[list[str]]) -> Steps[list[str]]:
            yield from self._session.sync(work)
            connection = self._session.connection
            (names,) = yield from self._session.read(work, lambda: [connection.children_async(ids_node(group))])
            return names or []

        return self._ask(steps)

    def owners(self, group: str) -> dict[TopicPartition, str]:
        """Returns, for each partition, the consumer thread that reads it now (`/consumers/GROUP/owners`).

        Raises:
            CorruptionError: the name of a node is not a partition number, or its bytes are not text.
            GroupError: no node can have such a name.
            ZooKeeperUnavailableError, ClosedError.
        """
        check_group(checked_group(group))
        return self._ask(lambda work: owners(self._session, work, group))

    def _ask(self, steps: Callable[[Work[T]], Steps[T]]) -> T:
        with self._running():
            work = Work[T](steps, self._ended)
        found: T = self._begin(work, None, self._unread()).result()
        return found

    # ------------------------------------------------------------------------------------------------------- deletes

    def delete(self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None) -> int:
        """Deletes positions of a group, all or none; see OffsetManager.delete.

        Raises:
            GroupNotEmptyError: after one of the positions was read, another process committed it; nothing was deleted.
            NodeNotEmptyError: the node of a position has child nodes; nothing was deleted.
            Also the errors of `commit`.
        """
        return self.delete_async(group, partitions, timeout=timeout).result()

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes without waiting; see OffsetManager.delete_async."""
        keys = arguments.listed_keys(partitions)
        with self._running():
            checked_timeout(timeout)
            self._kept_group(group)
            asked = self._kept_keys(keys)
        work = Work[int](
            lambda work: delete_positions(self._session, work, group, asked),
            self._ended,
            partial(self._check_led, group),
        )
        return self._begin(work, (group, asked), self._late(timeout))

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Removes a group and all its nodes; see OffsetManager.delete_group.

        If all nodes of the group fit into one request, one transaction removes them.  If the call fails, repeat it to
        remove the remaining nodes.

        Raises:
            GroupNotEmptyError: the group has a live consumer, or another process committed during the removal.
        """
        return self.delete_group_async(group, timeout=timeout).result()

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Removes a group without waiting; see OffsetManager.delete_group_async."""
        with self._running():
            checked_timeout(timeout)
            self._kept_group(group)
        return self._begin_group(group, lambda work: delete_group(self._session, work, group), timeout)

    def _begin_group(
        self, group: str, steps: Callable[[Work[int]], Steps[int]], timeout: float | None = None
    ) -> Work[int]:
        work = Work(steps, self._ended, partial(self._check_led, group))
        return self._begin(work, (group, None), self._late(timeout))

    # ------------------------------------------------------------------------------------ what goes through all groups

    def expire(self, *, timeout: float | None = None) -> int:
        """Deletes the positions that have not changed for longer than the retention time; see OffsetManager.expire.

        A group with live consumers keeps all its positions.  If no retention time is set, nothing expires.

        Args:
            timeout: the seconds to wait for the list of groups, and then again for each group; None for the commit
                timeout.

        Raises:
            CommitTimeoutError: no server answered in time.  The positions that were deleted before stay deleted.
            ClockError: a position was changed more than an hour after the present time of the clock, so the clock must
                be wrong.  The group of the position keeps all its positions.
        """
        return self.expire_async(timeout=timeout).result()

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Expires positions without blocking; see OffsetManager.expire_async."""
        checked_timeout(timeout)
        retention_ms = self.settings.retention_ms

        return self._sweep(None if retention_ms is None else self._expiry_of_group, timeout)

    def expire_group(self, group: str, *, timeout: float | None = None) -> int:
        """Expires the positions of one group; see `expire`.

        A caller that must prepare each group before its positions expire calls this instead of `expire`.

        Raises:
            NotCoordinatorError: another process leads the group's partition.
            Also the errors of `expire`.
        """
        with self._running():
            checked_timeout(timeout)
            self._kept_group(group)
        if self.settings.retention_ms is None:
            return 0
        return self._begin_group(group, partial(self._expiry_of_group, group), timeout).result()

    def _expiry_of_group(self, group: str, work: Work[int]) -> Steps[int]:
        assert self.settings.retention_ms is not None
        return expire_group(self._session, work, group, self.settings.retention_ms, self._clock)

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes the positions of deleted topics; see OffsetManager.on_topic_deleted.

        The timeout is that of `expire`.

        Raises:
            GroupNotEmptyError: after a position was read, another process committed it.  The other positions are
                deleted; repeat the call to delete this one.
            NodeNotEmptyError: the node of a position has child nodes.
        """
        return self.on_topic_deleted_async(topics, timeout=timeout).result()

    def on_topic_deleted_async(self, topics: Sequence[str], *, timeout: float | None = None) -> Pending[int]:
        """Deletes the positions without blocking; see OffsetManager.on_topic_deleted_async."""
        gone = sorted(set(arguments.listed_topics(topics)))
        checked_timeout(timeout)
        for topic in gone:
            check_topic(topic)
        return self._sweep(lambda group, work: delete_topics(self._session, work, group, gone), timeout)

    def _sweep(self, of_group: Callable[[str, Work[int]], Steps[int]] | None, timeout: float | None) -> Pending[int]:
        """Runs work for each group that this process leads, one group after the other.

        The timeout applies to the list of groups and to the work of each group.  If no server answers one of them in
        time, the sweep ends.
        """

        def steps(work: Work[int]) -> Steps[int]:
            groups: list[str] = []
            if of_group is not None:
                listing = self._begin(Work(partial(group_names, self._session), self._ended), None, self._late(timeout))
                yield [listing]
                groups = listing.result(0)
            total, first = 0, None
            for group in groups:
                if of_group is None or not self._leads(group):
                    continue
                each = self._begin_group(group, partial(of_group, group), timeout)
                yield [each]
                try:
                    total += each.result(0)
                except OffsetLogError as failure:
                    first = first or failure
                    if _is_silence(failure):
                        break
            if first is not None:
                raise first
            return total

        with self._running():
            work = Work(steps, self._ended)
        return self._begin(work, None, None)

    def _leads(self, group: str) -> bool:
        try:
            self._check_led(group)
        except NotCoordinatorError:
            return False
        return True

    def leave_expiry(self) -> None:
        """Turns off automatic expiry, so that the caller must call `expire`; call this method before `start`."""
        self._leaves_expiry = True

    def _expire_later(self) -> None:
        if self.settings.retention_ms is not None and not self._leaves_expiry:
            self._executor.call_later(self.settings.retention_check_interval_ms / 1000, self._expire_now)

    def _expire_now(self) -> None:
        def done(swept: Pending[int]) -> None:
            try:
                swept.result(0)
            except OffsetLogError as failure:
                _log.warning("the check for expired positions in ZooKeeper failed: %s", failure)
            self._expire_later()

        with contextlib.suppress(ClosedError):  # the manager is being stopped
            self.expire_async().add_done_callback(done)


def _is_silence(failure: OffsetLogError) -> bool:
    """Whether work failed because no server answered, so that the work of the next group would fail, too."""
    return isinstance(failure, CommitTimeoutError) and not isinstance(failure, UnknownOutcomeError)
