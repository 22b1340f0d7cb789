"""The store: committed positions of consumer groups in one directory."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

from offsetlog import arguments
from offsetlog._native import commit_columns
from offsetlog._native import fetch_columns
from offsetlog._native.store_core import StoreCore, check_durability
from offsetlog._native.files import FileSystem
from offsetlog._native.partition import Partition
from offsetlog._native.tickets import Ticket
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.directory.snapshots import SnapshotReport
from offsetlog.errors import ClosedError, CorruptionWarning, OffsetLogError, ReadOnlyError
from offsetlog.lifecycle.awaitable_tickets import TicketWaiter
from offsetlog.lifecycle.background_load import LoadProgress
from offsetlog.lifecycle.close import StoreCloser
from offsetlog.lifecycle.open import open_read_only, open_writable
from offsetlog.maintenance import retention as _retention
from offsetlog.maintenance.scheduler import Maintenance, Progress
from offsetlog.store_past import StorePast
from offsetlog.transaction import Transaction, abort_everywhere, open_transactions
from offsetlog.types import (
    CleaningReport,
    Digest,
    ExpiryReport,
    OffsetAndMetadata,
    OpenTransaction,
    Position,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow

    from offsetlog.verify.store import StoreVerification

Durability = Literal["process", "disk"]

_DIGEST_MASK = (1 << 128) - 1


def open(  # noqa: A001  (offsetlog.open, like gzip.open)
    path: str | os.PathLike[str],
    partitions: int | None = None,
    durability: Durability = "disk",
    *,
    read_only: bool = False,
    config: StoreConfig | None = None,
    maintenance: MaintenanceConfig | None = None,
    topic_id: UUID | None = None,
    cluster_id: str | None = None,
    node_id: int = 1,
    wait: bool = True,
    _fs: FileSystem | None = None,
    _background: bool = True,
) -> OffsetStore:
    """Opens the store in a directory, which is made when it is not there.

    Args:
        path: a log directory: ours, or a Kafka broker's.
        partitions: partitions of the offsets topic.  Fixed by the directory once it is ours: None takes what it has
            (50 for a new one), another number is refused.  A Kafka directory has to be told at its first writable open.
        durability: what a commit survives when it returns: "disk" the loss of power, "process" the end of the process.
        read_only: changes nothing, takes no lock, and can read what a running broker holds.  The store shows what was
            in the log when it was opened; `OffsetStore.refresh` reads it again.
        config: the settings; None for Kafka's defaults.
        maintenance: what the store does by itself to stay small; None for the defaults.
        topic_id: the topic's id in the cluster that the directory shall join.
        cluster_id: that cluster's id; `meta.properties` is written where it is missing.
        node_id: the broker's number in that file.
        wait: until everything is loaded.  With False the logs are opened and loaded in the background: a call about one
            group waits for its log partition only, which is loaded before the others; see `OffsetStore.progress` and
            `OffsetStore.wait_loaded`.

    Raises:
        LockedError: another process, or this one, has the directory open for writing.
        PartitionCountError: the directory has another number of partitions; nothing was changed.
        MissingFileError: read-only, and there is no such directory, or none of the offsets topic in it.
        InvalidArgumentError: one of its kinds (ArgumentTypeError, ConfigError); no directory was made.
        StorageError, CorruptionError, CapacityError.

    Warns:
        CorruptionWarning: once, when a log is damaged: what is sound in it is served, but what is missing is not known,
            and commits to that partition are refused.  `OffsetStore.problems` tells it all.
    """
    # Whatever is wrong with the arguments is told before a directory is made.
    check_durability(durability)
    store = OffsetStore.__new__(OffsetStore)
    store._open(
        arguments.checked_path(path),
        arguments.checked_partitions(partitions),
        durability,
        read_only=read_only,
        config=arguments.checked_config(config),
        maintenance=arguments.checked_maintenance(maintenance),
        topic_id=arguments.checked_topic_id(topic_id),
        cluster=arguments.checked_cluster(cluster_id, node_id),
        wait=wait,
        fs=_fs if _fs is not None else FileSystem(),
        background=_background,
    )
    try:
        if wait:
            store._tell_damage(stacklevel=3)
    except CorruptionWarning:  # made an error by a filter
        store.close()
        raise
    return store


class OffsetStore(StorePast):
    """An open directory of committed positions; from `offsetlog.open`.  A context manager.

    Every method can be called from any thread.  Commits of groups in different partitions do not wait for each other;
    waiting for the disk never holds the GIL, and one flush serves all who wait.  A child made by fork finds the store
    closed and cannot damage the parent's.  A store that was not closed is, with a ResourceWarning, once neither it nor
    a method taken from it (`commit = store.commit_one`) can be reached.

    A read-only store is a view of the moment in which it was opened, or last refreshed: nothing that another process
    commits meanwhile is seen.
    """

    def __init__(self) -> None:
        raise TypeError("a store comes from offsetlog.open")

    # ------------------------------------------------------------------------------------------------ opening

    def _open(
        self,
        path: Path,
        partitions: int | None,
        durability: Durability,
        *,
        read_only: bool,
        config: StoreConfig,
        maintenance: MaintenanceConfig,
        topic_id: bytes | None,
        cluster: tuple[str, int] | None,
        wait: bool,
        fs: FileSystem,
        background: bool,
    ) -> None:
        self._core: StoreCore | None = None
        self._directory = LogDirectory(path, fs)
        self._config = config
        self._fs = fs
        self._read_only = read_only
        self._waiter = TicketWaiter()
        self._expirer = _retention.Expirer(_retention.Retention.of(maintenance))
        self._refreshing = threading.Lock()
        try:
            if read_only:
                count, opener, opened = open_read_only(self._directory, config, partitions, wait=wait)
            else:
                count, opener, opened = open_writable(self._directory, config, partitions, topic_id, cluster, wait=wait)
            try:
                # Not before the path is known to be a log directory, and the lock keeps others from cleaning it: the
                # cleaner's checkpoints are read here.
                self._maintenance = Maintenance(self._directory, maintenance, self._expirer, read_only=read_only)
                core = StoreCore(
                    count,
                    opener,
                    self._waiter,
                    durability,
                    config.metadata_max_units,
                    read_only=read_only,
                    background=background,
                )
                for partition in opened if wait else ():
                    core.attach(partition)
            except BaseException:
                opener.end()
                for partition in opened:
                    partition.abandon()
                raise
        except BaseException:
            self._directory.unlock()
            raise
        self._core = core
        self._opener = opener
        self._maintenance.attach(core, opened)
        self._closer = core.closer = StoreCloser(
            self._directory, opener, self._waiter, self._maintenance, read_only=read_only
        )
        self._closer.watch(core)
        # The hot methods are bound to the instance: a Python frame between would cost more than the commit.
        vars(self).update(
            commit=core.commit, commit_async=core.commit_async, commit_one=core.commit_one, fetch_one=core.fetch_one
        )
        if background and not read_only:
            try:
                self._closer.keep_checkpoints(core)
                self._maintenance.start()
            except BaseException:  # no thread can be started
                self.close()
                raise

    def _damaged(self) -> list[Partition]:
        known = self._open_core.attached(wait=False)
        return [partition for partition in known if partition.progress()["problems"]]

    def _tell_damage(self, *, stacklevel: int) -> None:
        damaged = self._damaged()
        if not damaged:
            return
        are = "is" if len(damaged) == 1 else "are"
        text = (
            f"{len(damaged)} of {self.partitions} partitions in {self.path} {are} damaged: {damaged[0].problems()[0]}; "
            f"what is missing is not answered for. See store.problems(), or `offsetlog verify {self.path}`"
        )
        warnings.warn(text, CorruptionWarning, stacklevel=stacklevel)

    def progress(self) -> LoadProgress:
        """Returns how far loading is: partitions ready, bytes read, seconds; also once it is over."""
        _ = self._open_core  # a closed store is refused
        return self._opener.progress()

    def wait_loaded(self, timeout: float | None = None) -> bool:
        """Waits until everything is loaded, or for so many seconds; returns whether it is.

        Raises StorageError or CapacityError of the first log partition that could not be loaded, as do calls about its
        groups, and warns as `offsetlog.open`.
        """
        core = self._open_core
        if not self._opener.wait_loaded(timeout):
            return False
        core.attached()
        self._opener.forget()
        self._tell_damage(stacklevel=3)
        return True

    # ------------------------------------------------------------------------------------------------ facts

    @property
    def _open_core(self) -> StoreCore:
        core = self._core
        if core is None:
            raise ClosedError("the store is closed")
        return core

    @property
    def path(self) -> Path:
        """The log directory."""
        return self._directory.path

    @property
    def partitions(self) -> int:
        """The number of partitions, which the directory fixes."""
        return self._open_core.count

    @property
    def read_only(self) -> bool:
        """Whether the store was opened read-only."""
        return self._read_only

    @property
    def closed(self) -> bool:
        """Whether the store is closed, or belongs to the parent of this process."""
        return self._core is None or self._core.closed

    def problems(self) -> list[OffsetLogError]:
        """Returns what loading found damaged, as errors with file and position; such partitions are read-only."""
        return [problem for partition in self._open_core.attached() for problem in partition.problems()]

    def recoveries(self) -> dict[int, dict[str, Any]]:
        """Returns by partition number what opening found and did: torn tails cut, swaps finished, corruption.

        "snapshot" is the offset of the snapshot that the load went on from, or None; "snapshot_discarded" why one that
        was there was of no use.
        """
        return {partition.number: dict(partition.recovery) for partition in self._open_core.attached()}

    # ------------------------------------------------------------------------------------------------ committing

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        expected: Mapping[TopicPartition, int | None] | None = None,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> Position:
        """Commits positions of one group, all of them or none, also after a crash and however many they are.

        Args:
            group: the consumer group.
            offsets: what is committed: the next offset that the group will read, alone or with metadata and epoch.  A
                topic id is written only as `StoreConfig.write_offset_value_v4` allows.
            expected: for any of the keys the offset that must be committed now, None for none; otherwise nothing is
                written.
            monotonic: nothing is written if any offset would go back.
            durability: overrides the store's for this call.

        Returns:
            Where the commit stands in the log (`commit_one` returns the log offset alone).

        Raises:
            InvalidArgumentError: one of its kinds (GroupError, TopicError, PartitionError, OffsetError,
                MetadataTooLargeError, StringTooLongError, ArgumentTypeError, ConfigError); nothing was written.
            ExpectedOffsetError, RewindError: a condition does not hold; names the partition and both values.
            ClosedError, ReadOnlyError, PartitionFailedError, StorageError, TooLargeError, CapacityError.
        """
        return self._open_core.commit(group, offsets, expected=expected, monotonic=monotonic, durability=durability)

    def commit_one(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        metadata: str = "",
        leader_epoch: int = -1,
        *,
        durability: Durability | None = None,
    ) -> int:
        """Commits one position, the fast path: no containers; raises as `commit`.

        Args:
            group: the consumer group.
            topic: the topic, not empty.
            partition: its partition, from 0.
            offset: the next offset that the group will read, from 0.
            metadata: free text, at most 4096 UTF-16 units unless the store was configured otherwise.
            leader_epoch: epoch of the last record read, -1 for unknown.
            durability: overrides the store's for this call.

        Returns:
            The log offset of its record, an int: `commit` returns a Position, of which this is the `log_offset`.
        """
        return self._open_core.commit_one(
            group, topic, partition, offset, metadata, leader_epoch, durability=durability
        )

    def commit_async(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        expected: Mapping[TopicPartition, int | None] | None = None,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> Ticket:
        """Like `commit`, but does not wait for the disk: `ticket.result(timeout)` does, and `await ticket`.

        Nobody flushes for a ticket that nobody waits for: keep the tickets and wait for them, or call `flush`.  Until
        then the commit survives the end of the process, and not the loss of power.
        """
        return self._open_core.commit_async(
            group, offsets, expected=expected, monotonic=monotonic, durability=durability
        )

    def commit_arrow(self, batch: Any, *, durability: Durability | None = None) -> int:
        """Commits the rows of an Arrow record batch or table; all or none of each group.  Returns the number of rows.

        Columns: group and topic (string, large_string, or dictionaries of them), partition and offset (integers of any
        width), and if there: leader_epoch (integers; null is -1), commit_timestamp (integers, in milliseconds, or
        timestamps of any unit; null is the store's clock), metadata (string; null is "").  expire_timestamp, topic_id,
        log_partition and log_offset, which `to_arrow` gives, may be there and are not used.  Any other column is
        refused.  Of rows with the same key the last wins.

        Raises:
            InvalidArgumentError: a column is missing, of another type, has nulls, or holds a value that `commit` would
                refuse (`item` is its row); nothing was written.
            StateError, StorageError: groups of partitions that were written before it stay written.
        """
        return commit_columns.commit_arrow(self._open_core, batch, durability=durability)

    def delete(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        durability: Durability | None = None,
    ) -> int:
        """Deletes positions of a group, or without `partitions` the whole group; returns how many records were deleted.

        Raises:
            TooLargeError: the tombstones do not fit one batch, and in several they could not be atomic.
            InvalidArgumentError, StateError, StorageError.
        """
        core = self._open_core
        if partitions is not None:
            return core.delete(group, arguments.listed_keys(partitions), durability=durability)
        if self._read_only:
            raise ReadOnlyError("the store is open read-only")
        check_durability(durability)
        partition = core.partition(core.number_of(group))
        if partition is None:
            return 0
        end_offset, written = partition.delete_group(group)
        core.wait_durable(partition.number, end_offset, durability)
        return written

    def expire(
        self,
        *,
        retention_ms: int | None = None,
        retention: Mapping[str, int | None] | None = None,
        dry_run: bool = False,
        trust_clock: bool = False,
        durability: Durability | None = None,
    ) -> ExpiryReport:
        """Deletes the positions that have expired, and the groups of which nothing is left (docs/retention.md).

        Nothing of a group with members expires, and nothing that an open transaction has a value for.  What is
        committed meanwhile survives.  `MaintenanceConfig` has an open store do so by itself; by default it does not.

        Args:
            retention_ms: milliseconds for every group that `retention` does not name, None for never.
            retention: the same by group or "prefix*".  Without both it is what the store was opened with.
            dry_run: deletes nothing; the report says what would have been.
            trust_clock: the clock is right, although it was set or the log has a record of the future.
            durability: overrides the store's for this call.

        Raises:
            ClockError: the clock cannot be right: it is before the newest record, or was set while the store was open;
                nothing was deleted.
            InvalidArgumentError, StateError, StorageError: a partition refused (a damaged one is read-only); what has
                expired in all the others is deleted.
        """
        chosen = _retention.checked_retention(retention_ms, retention)
        return _retention.expire(
            self._open_core, self._expirer, chosen, dry_run=dry_run, trust_clock=trust_clock, durability=durability
        )

    def transaction(
        self, group: str, producer_id: int, producer_epoch: int = 0, *, durability: Durability | None = None
    ) -> Transaction:
        """Begins a transaction of one group, for a `with` statement; nothing is written until its first commit.

        Raises:
            InvalidArgumentError: an id or epoch out of range.
            TransactionError, FencedError (at the first commit): the id is open already or of the range that is ours, or
                its epoch is older than known.
        """
        core = self._open_core
        arguments.checked_producer_id(producer_id)
        arguments.checked_number("producer_epoch", producer_epoch, 0, 2**15 - 1)
        if self._read_only:
            raise ReadOnlyError("the store is open read-only")
        core.number_of(group)
        check_durability(durability)
        return Transaction(core, group, producer_id, producer_epoch, durability)

    def transactions(self) -> list[OpenTransaction]:
        """Returns the transactions that have not ended, by partition and then oldest first.

        One that a crash left open is ended by `abort_transaction`, or by its producer, which goes on with the same id.
        """
        return open_transactions(self._open_core)

    def abort_transaction(self, producer_id: int) -> int:
        """Ends with ABORT what a crash left open of a producer; returns in how many partitions.

        `transactions` tells which are open.  A producer that lives is not to be aborted: its next commit fails.

        Raises:
            TransactionError: no partition knows an open transaction of it.
            InvalidArgumentError: an id out of range.
            StateError, StorageError: a partition refused (a damaged one is read-only); it has ended in all the others.
        """
        core = self._open_core
        arguments.checked_producer_id(producer_id)
        if self._read_only:
            raise ReadOnlyError("the store is open read-only")
        return abort_everywhere(core, producer_id)

    # ------------------------------------------------------------------------------------------------ reading

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, at: datetime | int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of a group, or of those `partitions` that have one.

        Args:
            group: the consumer group.
            partitions: only these.
            at: the moment whose state is wanted (`StorePast` says what one is); None for now.

        Raises:
            InvalidArgumentError: one of its kinds; `partitions` is a list, of one TopicPartition also.
            HistoryError: what was committed then was cleaned away.
            OffsetOutOfRangeError: `at` is above the end of the log.
            StateError.
        """
        core = self._open_core
        if at is not None:
            return self._timeline.fetch(group, partitions, at)
        if partitions is None:
            return fetch_columns.fetch_group(core, group)
        found = {}
        for key in arguments.listed_keys(partitions):
            topic, partition = key
            value = core.fetch_one(group, topic, partition)
            if value is not None:
                found[TopicPartition(topic, partition)] = value
        return found

    def fetch_one(self, group: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """Returns one committed position, None where there is none."""
        return self._open_core.fetch_one(group, topic, partition)

    def fetch_arrow(self, groups: Iterable[str]) -> pyarrow.Table:
        """Returns the committed positions of many groups as an Arrow table; columns as `to_arrow`."""
        return fetch_columns.fetch_arrow(self._open_core, arguments.listed_groups(groups))

    def to_arrow(self) -> pyarrow.Table:
        """Returns every committed position as an Arrow table.

        Columns: group, topic (dictionary of string), partition int32, offset int64, leader_epoch int32 (-1 none),
        metadata string, commit_timestamp int64 (ms), expire_timestamp int64 (ms, -1 none), topic_id
        fixed_size_binary(16) or null, log_partition int32, log_offset int64.  Each partition is a consistent state of
        itself; commits to it wait meanwhile.
        """
        return fetch_columns.to_arrow(self._open_core)

    def expiring(
        self,
        within: timedelta = timedelta(0),
        *,
        retention_ms: int | None = None,
        retention: Mapping[str, int | None] | None = None,
    ) -> pyarrow.Table:
        """Returns what has expired, and what will within some time if nothing is committed; nothing is written.

        One row for each position, and one for each group of which nothing is left then; columns as the fields of
        `types.Expiring`, which `offsetlog.retention.listed` makes of them.  Commits wait for no more than a topic of a
        group.  Arguments as `expire`.
        """
        chosen = _retention.checked_retention(retention_ms, retention)
        return _retention.expiring(self._open_core, self._expirer, _retention.checked_within(within), chosen)

    def groups(self) -> list[str]:
        """Returns the groups that have a committed position or a record of their own, sorted."""
        return sorted({group for partition in self._open_core.attached() for group in partition.groups()})

    def digest(self, *, physical: bool = False) -> Digest:
        """Returns the digest of what is committed; equal states have equal digests, whatever log they came from.

        Args:
            physical: take the log offsets in, so that it also tells whether the logs are the same.
        """
        sums = [partition.digest(physical) for partition in self._open_core.attached()]
        return Digest(*(sum(part[field] for part in sums) & _DIGEST_MASK for field in range(3)))

    def verify(self) -> StoreVerification:
        """Reads every log again and compares; returns a list of what is wrong, empty when all is sound.

        Checked: each batch and record, each group's place, and that every way to the state leads to the one in memory,
        as of one log offset a partition, while commits go on; its `findings` and `ways` tell more (docs/verify.md).
        """
        from offsetlog.verify.store import verify_store

        given = self._open_core.attached(), self._fs, self._config, self._open_core.count
        return self._maintenance.calls.run(lambda control: verify_store(*given, control))

    def memory(self) -> dict[str, int]:
        """Returns the bytes of memory by component, over all partitions, and their `total`.

        `string_bytes` and `free` are parts of the others: the distinct strings themselves, and what is allocated
        unused.
        """
        core = self._open_core
        total: dict[str, int] = {}
        for partition in core.attached():
            for component, size in partition.memory().items():
                total[component] = total.get(component, 0) + size
        total["scratch"] = total.get("scratch", 0) + core.scratch_bytes()
        total["total"] = sum(size for component, size in total.items() if component not in ("string_bytes", "free"))
        return total

    # ------------------------------------------------------------------------------------------------ maintenance

    @property
    def maintenance(self) -> Maintenance:
        """What the store does by itself: its settings, what it decided, what it did, what is stuck."""
        return self._maintenance

    def compact(
        self,
        partitions: Iterable[int] | None = None,
        *,
        roll: bool = True,
        ratio: float = 0.0,
        again: bool = False,
        delete_retention_ms: int | None = None,
        progress: Progress | None = None,
    ) -> list[CleaningReport]:
        """Cleans logs now, whatever their size; commits and reads go on meanwhile.  An interrupt stops it soon.

        Args:
            partitions: numbers of log partitions, None for all.
            roll: whether active segments are closed for it.
            ratio: cleaned is only a log of which more than this part, from 0 to 1, was written since its last cleaning.
            again: take what was cleaned before for dirty, too: it drops tombstones that are past their time.
            delete_retention_ms: overrides the setting.
            progress: called ten times a second with the log partition, the bytes read and those that will be.

        Returns:
            What was done, or why nothing was, for each log.

        Raises:
            InvalidArgumentError: there is no such log partition.
            ReadOnlyError, ClosedError.
            StateError, StorageError, CapacityError: one log failed; the others were cleaned.
        """
        _ = self._open_core  # a closed store is refused before anything else
        return self._maintenance.compact(
            arguments.listed_numbers(partitions),
            roll=roll,
            ratio=arguments.checked_ratio(ratio),
            again=again,
            delete_retention_ms=arguments.checked_retention_time(delete_retention_ms),
            progress=arguments.checked_progress(progress),
        )

    # ------------------------------------------------------------------------------------------------ the end

    def refresh(self) -> None:
        """Reads the logs of a read-only store again, so that it shows what was committed since.

        Whoever reads meanwhile sees what was before, or all that is there now.  It takes as long as opening, and the
        memory of both.  Does nothing in a store that is open for writing, which is always up to date.

        Raises:
            PartitionCountError: the directory has another number of partitions by now; open it anew.
            ClosedError, StorageError, CorruptionError, CapacityError: it shows what it did before.

        Warns:
            CorruptionWarning: as `offsetlog.open`.
        """
        core = self._open_core
        if not self._read_only:
            return
        core.attached()  # refused in a child, whose lock nobody may ever let go
        # Of two at once the later one would show what the earlier one read.
        with self._refreshing:
            _, _, fresh = open_read_only(self._directory, self._config, core.count)
            core.replace_all(fresh)
            self._opener.forget()
        self._tell_damage(stacklevel=3)

    def snapshot(self, partitions: Iterable[int] | None = None) -> list[SnapshotReport]:
        """Writes snapshots of some log partitions or all, from which the next open goes on, while commits do.

        Flushes first.  For as long as it takes it needs the memory of one more log partition.  What is written is a
        cache: it can be deleted at any time.

        Raises:
            CorruptionError: a log is damaged; a snapshot would hide it.  The others are written all the same.
            ReadOnlyError, InvalidArgumentError, StateError, StorageError, CapacityError.
        """
        _ = self._open_core  # a closed store is refused before anything else
        return self._maintenance.snapshot(arguments.listed_numbers(partitions))

    def flush(self) -> None:
        """Waits until everything committed before the call is on disk; raises PartitionFailedError, StorageError."""
        self._open_core.flush()

    def close(self) -> None:
        """Closes cleanly: waits for calls under way, flushes, writes checkpoints, lets the lock go.  Once is enough.

        Raises:
            OffsetLogError: something could not be written; the store is closed all the same, and recovers at its next
                open.
        """
        core, self._core = self._core, None
        if core is not None:
            self._expirer.end()
            self._closer.close(core)

    def __enter__(self) -> Self:
        _ = self._open_core  # a closed store is refused here, not at the first commit
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        damaged = 0 if self.closed else len(self._damaged())
        problems = f", {damaged} of {self.partitions} partitions damaged" if damaged else ""
        return f"<OffsetStore {str(self._directory.path)!r} {state}{problems}>"
