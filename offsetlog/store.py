"""The store: the committed positions of consumer groups in one directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsetlog import arguments, transaction
from offsetlog._native import commit_columns, fetch_columns
from offsetlog._native.store_core import StoreCore
from offsetlog._native.tickets import Ticket
from offsetlog.directory.snapshots import SnapshotReport
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.history.restore import Restoration, Restorer, Undeletion
from offsetlog.history.rewinds import Rewinds, find_rewinds
from offsetlog.history.timeline import Timeline
from offsetlog.lifecycle import inspection
from offsetlog.lifecycle.background_load import LoadProgress
from offsetlog.lifecycle.contexts import StoreContext
from offsetlog.lifecycle.open import OpenArguments, StoreParts
from offsetlog.lifecycle.refresh import Refresher
from offsetlog.maintenance import retention as _retention
from offsetlog.maintenance.scheduler import Maintenance, Progress
from offsetlog.moments import Moment
from offsetlog.one_position import OnePosition
from offsetlog.transaction import Transaction
from offsetlog.types import (
    Change,
    CleaningReport,
    Committed,
    Deletion,
    Digest,
    Durability,
    ExpiryReport,
    History,
    Key,
    OffsetAndMetadata,
    OpenTransaction,
    OtherKey,
    PartitionKey,
    Position,
    StoreHealth,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow

    from offsetlog.verify.store import StoreVerification


class OffsetStore(OnePosition, StoreContext):
    """An open directory of committed positions, which `offsetlog.open` returns.  It is a context manager.

    Most programs need two calls.  Both calls accept a key such as ("orders", 0) in place of topic and partition:

        fetch_one(group, topic, partition) -> OffsetAndMetadata, or None
        commit_one(group, topic, partition, offset, metadata="") -> the log offset of the record

    `async with` waits until the store is loaded, and closes it at the end, without blocking the event loop.

    Any thread may call any method.  Commits of groups in different log partitions do not wait for each other.  No call
    holds the GIL while it waits for the disk, and one flush serves all waiting callers.  In a forked child process, the
    store is closed, and the child cannot damage the parent's store.  If a store is garbage collected without `close`,
    it is closed with a ResourceWarning.  A method taken from it (`commit = store.commit_one`) keeps the store alive.

    A read-only store shows the state at the time when it was opened or last refreshed.

    Calls about the past accept moments.  A moment is a datetime with a time zone, a log offset, or text as in commands:
    "2h ago", "2026-03-01T02:30" (UTC if no zone is named), "offset:12345" (offsetlog/moments.py).  A time means the
    longest beginning of the log without a later timestamp.  A log offset means the records below it.  A clock can be
    set back, but a log offset always means the same records.  A time that is more than a minute ahead of both the clock
    and the log raises InvalidArgumentError.
    """

    def __init__(self) -> None:
        raise TypeError("OffsetStore cannot be created directly; use offsetlog.open")

    def _take(self, given: OpenArguments, parts: StoreParts) -> None:
        core = parts.core
        self._core: StoreCore | None = core
        self._config = given.config
        self._read_only = given.read_only
        self._loads_later = not given.wait
        self._directory = parts.directory
        self._open_partitions = parts.partitions
        self._expirer = parts.expirer
        self._maintenance = parts.maintenance
        self._closer = parts.closer
        self._refresher = Refresher(parts.directory, given.config, parts.partitions)
        # The hot methods are attributes of the instance, because an extra Python frame would cost
        # more than the commit.
        vars(self).update(
            commit=core.commit,
            commit_async=core.commit_async,
            commit_one=core.commit_one,
            fetch_one=core.fetch_one,
        )

    # -------------------------------------------------------------------------------------- loading

    def progress(self) -> LoadProgress:
        """Returns the progress of the loading, even after its end: partitions ready, bytes read, seconds."""
        _ = self._open_core  # a closed store is refused
        return self._open_partitions.progress()

    def wait_loaded(self, timeout: float | None = None) -> bool:
        """Waits at most `timeout` seconds until everything is loaded; returns whether it is loaded.

        If a log partition could not be loaded, the call raises its error.  But if bytes are damaged, or if the disk
        cannot read them, the call only issues a warning, as `offsetlog.open` does.
        """
        core = self._open_core
        if not self._open_partitions.wait_loaded(timeout):
            return False
        core.attached(wait=False)
        self._open_partitions.finish_loading()
        self._warn_of_damage()
        return True

    def _load(self) -> None:
        if self._loads_later:
            self.wait_loaded()
            self._loads_later = False

    def _warn_of_damage(self) -> None:
        inspection.warn_of_damage(self._open_core, self._open_partitions, self.path, stacklevel=4)

    # ---------------------------------------------------------------------------------------- facts

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
        """The number of partitions of the offsets topic, which never changes."""
        return self._open_core.count

    @property
    def read_only(self) -> bool:
        """Whether the store was opened read-only."""
        return self._read_only

    @property
    def closed(self) -> bool:
        """Whether the store is closed, or this process is a forked child of the one that opened it."""
        return self._core is None or self._core.closed

    def problems(self) -> list[OffsetLogError]:
        """Returns the problems that opening and loading found, as errors that were not raised.

        A DataLossError, or another CorruptionError, names a log partition that is now read-only, and the log offsets
        that cannot be read.  A PossibleLossError names log offsets that may be missing.  A StorageError names a log
        partition that the disk cannot read; calls about this log partition raise the same error.
        """
        core = self._open_core
        self._open_partitions.wait_loaded()
        return inspection.problems(core, self._open_partitions)

    def health(self) -> StoreHealth:
        """Returns the faults of the log partitions and of the directory.

        The result covers the log partitions that are loaded now.  The call does not wait for the others.
        """
        reports = self._maintenance.status().reports
        left = {number: report.quarantine for number, report in reports.items()}
        return inspection.health(self._open_core, self._open_partitions, left)

    def recoveries(self) -> dict[int, dict[str, Any]]:
        """Returns the results of each log partition's recovery: truncated tails, completed segment swaps, corruption.

        "snapshot" is the log offset of the snapshot that was loaded; None if no snapshot was loaded.
        "snapshot_discarded" is the reason why an existing snapshot could not be used.
        """
        return inspection.recoveries(self._open_core)

    # ----------------------------------------------------------------------------------- committing

    def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, Committed | None] | None = None,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> Position:
        """Commits positions of one group.  A crash leaves either all of them in the log or none, however many they are.

        Args:
            group: the consumer group; "" is a valid name.
            offsets: maps each key to the next offset that the group will read, alone or with metadata and leader epoch.
                A key is a TopicPartition, a tuple (topic, partition), or another client's object with the attributes
                `topic` and `partition`, whose offset is ignored.  For a type checker, all keys must have one type, or
                the mapping must be a `dict[PartitionKey, ...]`.  A topic id is written only as
                `StoreConfig.write_offset_value_v4` allows.
            expected: maps any of these keys to the offset that must be committed now: an int, a position that `fetch`
                returned, or None for no position.  If a committed offset is another one, nothing is written.
            monotonic: if it is true and any offset is lower than the committed offset, nothing is written.
            durability: overrides the store's durability for this call.

        Returns:
            The position of the commit in the log.  (`commit_one` returns only its log offset.)

        Raises:
            InvalidArgumentError: an argument is not valid (GroupError, TopicError, PartitionError, OffsetError,
                MetadataTooLargeError, StringTooLongError, ArgumentTypeError, ConfigError); nothing was written.
            ExpectedOffsetError, RewindError: the condition `expected` or `monotonic` is not met.  The error names the
                partition and both offsets.
            StateError: the store is closed or read-only, or the log partition has failed.
            StorageError, TooLargeError, CapacityError: see `offsetlog.errors`.
        """
        return self._open_core.commit(
            group, offsets, expected=expected, monotonic=monotonic, durability=durability
        )

    def commit_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, Committed | None] | None = None,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> Ticket:
        """Commits without waiting for the disk.  `ticket.result(timeout)` or `await ticket` waits for the disk.

        Until the ticket is done, the commit survives the end of the process, but not a loss of power.  If a caller
        waits for the ticket, the commit is flushed at once.  If no caller waits, it is flushed within
        `StoreConfig.flush_interval_ms`, by default one second.  If that setting is None or 0, it is flushed when the
        store is closed.
        """
        return self._open_core.commit_async(
            group, offsets, expected=expected, monotonic=monotonic, durability=durability
        )

    def commit_arrow(self, batch: Any, *, durability: Durability | None = None) -> int:
        """Commits the rows of an Arrow record batch or table, and returns their number.

        Either all rows of a group are committed or none.

        Required columns: group and topic (string, large_string, or dictionaries of them), partition and offset
        (integers of any width).  Optional columns: leader_epoch (integers; null means -1), commit_timestamp (integers
        in milliseconds, or timestamps of any unit; null means the time of the store's clock), metadata (string; null
        means "").  The columns expire_timestamp, topic_id, log_partition and log_offset, which `to_arrow` returns, are
        ignored.  Any other column is refused.  If several rows have the same key, the last one counts.

        Raises:
            InvalidArgumentError: a column is missing, or has another type or nulls, or has a value that `commit` would
                refuse (`item` is its row); nothing was written.
            StateError, StorageError: a log partition failed.  The rows that were already written to other log
                partitions stay committed.
        """
        return commit_columns.commit_arrow(self._open_core, batch, durability=durability)

    def delete(
        self,
        group: str,
        partitions: Iterable[PartitionKey] | None = None,
        *,
        durability: Durability | None = None,
    ) -> int:
        """Deletes `partitions` of a group, by default the whole group; returns the number of deleted records.

        A store does not know the members of groups, so even a group that has members is deleted.

        Raises:
            TooLargeError: the tombstones do not fit into one batch; several batches would not be atomic.
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        core = self._open_core
        keys = None if partitions is None else arguments.listed_keys(partitions)
        return core.delete(group, keys, durability=durability)

    def expire(
        self,
        *,
        retention_ms: int | None = None,
        retention: Mapping[str, int | None] | None = None,
        dry_run: bool = False,
        trust_clock: bool = False,
        durability: Durability | None = None,
    ) -> ExpiryReport:
        """Deletes expired positions, and the groups that then have nothing left.

        A position does not expire while its group has members, or while an open transaction has a value for it.
        Positions that are committed during the call are kept.  An open store can expire positions by itself
        (`MaintenanceConfig`), but by default it does not.

        Args:
            retention_ms: the retention of every group that `retention` does not name, in milliseconds; None to keep
                positions forever.
            retention: the retention by group or "prefix*", in milliseconds.  If neither argument is passed, the
                settings of the store apply.
            dry_run: whether nothing is deleted; the report then counts the positions that would be deleted.
            trust_clock: whether to use this machine's clock although somebody set it while the store was open, or
                although a record in the log has a later time.
            durability: overrides the store's durability for this call.

        Raises:
            ClockError: the clock cannot be trusted, because the newest record has a later time, or because the clock
                was set far forward or back while the store was open.  Nothing was deleted.
            InvalidArgumentError: an argument is not valid; nothing was deleted.
            StateError, StorageError: a log partition failed, or is read-only because it is damaged.  The expired
                positions of all other log partitions were deleted.
        """
        chosen = _retention.checked_retention(retention_ms, retention)
        return _retention.expire(
            self._open_core,
            self._expirer,
            chosen,
            dry_run=dry_run,
            trust_clock=trust_clock,
            durability=durability,
        )

    def transaction(
        self,
        group: str,
        producer_id: int,
        producer_epoch: int = 0,
        *,
        durability: Durability | None = None,
    ) -> Transaction:
        """Begins a transaction of one group, for use in a `with` statement.  The first commit writes to the log.

        Raises:
            InvalidArgumentError: the producer id or epoch is out of range.
            TransactionError, FencedError (at the first commit): the producer id has an open transaction, or is in the
                range reserved for offsetlog, or its epoch is too old.
        """
        return transaction.begin(self._open_core, group, producer_id, producer_epoch, durability)

    def transactions(self) -> list[OpenTransaction]:
        """Returns the open transactions, sorted by log partition and then by age, the oldest first.

        `abort_transaction` ends a transaction that a crash left open.
        """
        return transaction.open_transactions(self._open_core)

    def abort_transaction(self, producer_id: int) -> int:
        """Aborts the open transactions of a producer.

        Returns the number of log partitions that had such a transaction.  `transactions` lists the open transactions.
        Do not abort the transaction of a running producer, because its next commit would fail.

        Raises:
            TransactionError: the producer has no open transaction in any partition.
            InvalidArgumentError: the producer id is out of range.
            StateError, StorageError: a log partition failed, or is read-only because it is damaged.  The transaction
                was aborted in all other log partitions.
        """
        return transaction.abort_everywhere(self._open_core, producer_id)

    # -------------------------------------------------------------------------------------- reading

    def fetch(
        self,
        group: str,
        partitions: Iterable[PartitionKey] | None = None,
        *,
        at: Moment | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of a group.

        A group that does not exist has no positions.

        Args:
            group: the consumer group.
            partitions: the topic partitions whose positions are returned; by default all.
            at: the moment of the state to read; None for now.

        Raises:
            InvalidArgumentError: an argument is not valid; `partitions` must be a list even for one TopicPartition.
            HistoryError: the records up to that moment were cleaned away, or have no times.
            OffsetOutOfRangeError: `at` is above the end of the log.
            InsideCommitError: `at` is a log offset inside a commit.
            StateError: the store is closed, or the log partition has failed.
        """
        core = self._open_core
        if at is not None:
            return self._timeline.fetch(group, partitions, at)
        if partitions is None:
            return fetch_columns.fetch_group(core, group)
        return fetch_columns.fetch_keys(core, group, arguments.listed_keys(partitions))

    def fetch_arrow(self, groups: Iterable[str]) -> pyarrow.Table:
        """Returns the committed positions of many groups as an Arrow table that has the columns of `to_arrow`."""
        return fetch_columns.fetch_arrow(self._open_core, arguments.listed_groups(groups))

    def to_arrow(self, *, at: Moment | None = None) -> pyarrow.Table:
        """Returns every committed position as an Arrow table; with `at`, the sorted state at that moment.

        Columns: group, topic (dictionaries of string), partition (int32), offset (int64), leader_epoch (int32, -1 if
        unknown), metadata (string), commit_timestamp (int64, ms), expire_timestamp (int64, ms, -1 if the record has
        none), topic_id (fixed_size_binary(16), null if none), log_partition (int32), log_offset (int64).

        Each log partition is read in one consistent state, and commits to it wait during that read.  A log partition
        that does not exist has no rows.
        """
        core = self._open_core
        return fetch_columns.to_arrow(core) if at is None else self._timeline.to_arrow(at)

    def expiring(
        self,
        within: timedelta = timedelta(0),
        *,
        retention_ms: int | None = None,
        retention: Mapping[str, int | None] | None = None,
    ) -> pyarrow.Table:
        """Returns the positions that have expired, or will expire within the time `within` unless committed again.

        Nothing is written.  The table has one row for each position, and one for each group that will have no positions
        left.  Its columns are the fields of `types.Expiring`; `offsetlog.retention.listed` converts the rows to such
        objects.  A commit waits at most while one topic of a group is read.  The other arguments are those of `expire`.
        """
        chosen = _retention.checked_retention(retention_ms, retention)
        return _retention.expiring(
            self._open_core, self._expirer, _retention.checked_within(within), chosen
        )

    def groups(self) -> list[str]:
        """Returns the groups that have a position or a record of their own, sorted; skips missing partitions."""
        return inspection.groups(self._open_core)

    def digest(self, *, physical: bool = False) -> Digest:
        """Returns the digest of the committed state.  Logs that have equal states have equal digests.

        Args:
            physical: whether the digest includes log offsets, so that equal digests also mean equal log offsets.
        """
        return inspection.digest(self._open_core, physical=physical)

    def verify(self) -> StoreVerification:
        """Reads every log again, compares it with the state, and returns a list of the problems, empty if none.

        Commits continue during the call.  `findings` and `ways` of the result have the details (docs/verify.md).
        """
        from offsetlog.verify.store import verify_store  # its imports take long
        core, gone = self._open_core, self._open_partitions.missing().values()
        given = core.attached(), self._directory.fs, self._config, core.count, gone
        return self._maintenance.calls.run(lambda control: verify_store(*given, control))

    def memory(self) -> dict[str, int]:
        """Returns the bytes of memory that each component uses, over all partitions, and their `total`.

        `string_bytes` (the distinct strings) and `free` (allocated but unused bytes) are parts of other components, and
        are not added to `total`.  `snapshot` is an estimate of the memory of a snapshot that is being written.
        """
        return inspection.memory(self._open_core, self._maintenance.snapshot_bytes)

    # ------------------------------------------------------------------------------------- the past

    @property
    def _timeline(self) -> Timeline:
        return Timeline(self._open_core, self._directory)

    @property
    def _restorer(self) -> Restorer:
        return Restorer(self._timeline, self._read_only)

    def group_history(self, group: str) -> dict[TopicPartition, History]:
        """Returns the history of each position of a group, sorted by position.

        Each history has the same number of `problems`: the unreadable batches in the log partition, and the unreadable
        records of the group.  The call raises the errors of `history`.
        """
        return self._timeline.group_history(group)

    def diff(
        self, a: Moment | None, b: Moment | None = None, group: str | None = None
    ) -> list[Change]:
        """Returns the positions that changed between two moments.

        A position has changed if its offset, leader epoch or metadata differs, or if both values have topic ids that
        differ.

        Args:
            a: the moment of `Change.before`; None for now.
            b: the moment of `Change.after`, which may be earlier than `a`; None for now.
            group: the group to compare; by default all.  It is required if a moment is a log offset, because each log
                partition has its own log offsets.

        Raises:
            HistoryError, OffsetOutOfRangeError, InsideCommitError: as in `fetch`, for either moment.
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._timeline.diff(a, b, group)

    def restore(
        self,
        group: str,
        at: Moment,
        partitions: Iterable[PartitionKey] | None = None,
        *,
        dry_run: bool = False,
        delete_all: bool = False,
    ) -> Restoration:
        """Commits again the positions that a group had at a moment.  Returns the changes.

        The restore is one new commit, which is written completely or not at all.  Existing records stay.  If a position
        of the group has changed since the call read the group, the call writes nothing and tries again.  Positions that
        did not exist at the moment `at` are deleted.  The members and the open transactions of the group stay
        unchanged.

        Args:
            group: the consumer group.  Its consumers should be stopped first, because their next commits would override
                the restored positions.
            at: the moment.
            partitions: the topic partitions to restore; by default all.
            dry_run: whether nothing is written; the call then returns the changes that it would make.
            delete_all: whether the restore may delete offsets if it would leave the group without any, or if the group
                had none at that moment.

        Returns:
            The changes; empty if nothing differs, as in a group that never existed.  A restore of the same partitions
            to the moment `undo_at` of the result undoes this restore.

        Raises:
            HistoryError, OffsetOutOfRangeError, InsideCommitError: see `fetch`.
            DeletesGroupError: the restore needs `delete_all`, but that is False.
            ReadOnlyError: the store is read-only, or the log partition is damaged; not raised with `dry_run`.
            ConditionError: in every attempt, the group committed between the read and the write.
            TooLargeError: the changes include deletions, and do not fit into one batch.
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._restorer.restore(
            group, at, partitions, dry_run=dry_run, delete_all=delete_all
        )

    def deletions(self, group: str | None = None, since: datetime | str | None = None) -> list[Deletion]:
        """Returns the deleted positions whose tombstones are still in the log.

        A tombstone does not say whether the position was deleted or expired.

        Args:
            group: the group whose deletions are returned; by default all groups.
            since: a time; only positions that were deleted at this time or later are returned.

        Raises:
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._timeline.deletions(group, since)

    def rewinds(self, since: datetime | str | None = None, group: str | None = None) -> Rewinds:
        """Returns each committed offset that is lower than the committed offset before it, oldest first.

        Offsets of open and aborted transactions are not considered.  `gaps` of the result lists the ranges of the log
        that were cleaned or cannot be read.

        Args:
            since: a time; earlier rewinds are not returned.  Rewinds whose time is unknown are always returned.
            group: the group whose rewinds are returned; by default all groups.

        Raises:
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return find_rewinds(self._timeline, since, group)

    def undelete(
        self,
        group: str,
        partitions: Iterable[PartitionKey] | None = None,
        at: Moment | None = None,
        *,
        since: datetime | str | None = None,
        dry_run: bool = False,
    ) -> Undeletion:
        """Commits deleted positions of a group again, with their last values or with their values at a moment.

        Existing positions stay unchanged.  The deleted positions are written in one commit, as by `restore`.

        Args:
            group: the consumer group.
            partitions: the topic partitions to restore; by default all that were deleted.
            at: the moment whose values are committed; None to commit the last value of each position.
            since: a time; without `at`, only positions that were deleted at this time or later are restored.
            dry_run: whether nothing is written; the call then returns the positions that it would restore.

        Raises:
            OffsetLogError: see `restore`.
        """
        return self._restorer.undelete(group, partitions, at, since, dry_run=dry_run)

    # ---------------------------------------------------------------------------------- maintenance

    @property
    def maintenance(self) -> Maintenance:
        """The maintenance of the store: its settings, decisions and results, and the transactions that block it."""
        return self._maintenance

    def compact(
        self,
        log_partitions: Iterable[int] | None = None,
        *,
        roll: bool = True,
        ratio: float = 0.0,
        again: bool = False,
        delete_retention_ms: int | None = None,
        progress: Progress | None = None,
    ) -> list[CleaningReport]:
        """Cleans logs now, whatever their size.  Commits and reads continue.  An interrupt stops the cleaning.

        Args:
            log_partitions: the numbers of log partitions; None for all.
            roll: whether active segments are closed, so that they can be cleaned.
            ratio: a log is cleaned only if its dirty ratio, the share of it that was written after its last cleaning,
                exceeds this number (0 to 1).
            again: whether segments that were cleaned before are cleaned again, which drops expired tombstones.
            delete_retention_ms: overrides `MaintenanceConfig.delete_retention_ms`.
            progress: a function that is called ten times a second with log partition, bytes read and bytes to read.

        Returns:
            A report for each log, which describes its cleaning or gives the reason why it was not cleaned.

        Raises:
            InvalidArgumentError: a log partition does not exist.
            ReadOnlyError, ClosedError: see `offsetlog.errors`.
            StateError, StorageError, CapacityError: a log failed.  The other logs were cleaned.
        """
        _ = self._open_core  # a closed store is refused before anything else
        return self._maintenance.compact(
            arguments.listed_numbers(log_partitions),
            roll=roll,
            ratio=arguments.checked_ratio(ratio),
            again=again,
            delete_retention_ms=arguments.checked_retention_time(delete_retention_ms),
            progress=arguments.checked_progress(progress),
        )

    # ------------------------------------------------------------------------ refresh, flush, close

    def refresh(self) -> None:
        """Reads the logs of a read-only store again, so that the store also shows later commits.

        A concurrent read sees either the old state or the new one.  The refresh takes as long as an open, and needs
        memory for both states.  If the store is open for writing, it is always up to date, and the call does nothing.

        Raises:
            PartitionCountError: the directory now has another number of partitions.  The store must be opened again.
            ClosedError, StorageError, CorruptionError, CapacityError: the store still shows the old state.

        Warns:
            CorruptionWarning: see `offsetlog.open`.
        """
        core = self._open_core
        if self._read_only:
            self._refresher.refresh(core)
            self._warn_of_damage()

    def snapshot(self, log_partitions: Iterable[int] | None = None) -> list[SnapshotReport]:
        """Writes snapshots of log partitions, which make the next open fast.  Commits continue.

        The call first flushes the logs.  While it runs, it needs memory for one more log partition.  A snapshot is a
        cache, and can be deleted at any time.  The report of a log shows the new snapshot, or the existing snapshot if
        that has the same log offset.

        Raises:
            CorruptionError: a log is damaged or incomplete, which a snapshot would hide.  The other snapshots were
                written.
            InvalidArgumentError, StateError, StorageError, CapacityError: see `offsetlog.errors`.
        """
        _ = self._open_core  # a closed store is refused before anything else
        return self._maintenance.snapshot(arguments.listed_numbers(log_partitions))

    def flush(self) -> None:
        """Waits until all earlier commits are on disk.  Raises PartitionFailedError or StorageError."""
        self._open_core.flush()

    def close(self) -> None:
        """Closes the store cleanly: waits for calls in progress, flushes, writes checkpoints, and releases the lock.

        A second call does nothing.

        Raises:
            OffsetLogError: a file could not be written.  The store is closed nevertheless, and the next open recovers
                it.
        """
        core, self._core = self._core, None
        if core is not None:
            self._closer.close(core)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        problems = ""
        if not self.closed:
            problems = inspection.summary(self._open_core, self._open_partitions)
        return f"<OffsetStore {str(self._directory.path)!r} {state}{problems}>"
