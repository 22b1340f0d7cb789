"""The store: committed positions of consumer groups in one directory."""

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
    """An open directory of committed positions, from `offsetlog.open`.  A context manager.

    Most programs need two calls; both take a key such as ("orders", 0) in place of topic and partition:

        fetch_one(group, topic, partition) -> OffsetAndMetadata, or None
        commit_one(group, topic, partition, offset, metadata="") -> the log offset of the record

    `async with` waits until the store is loaded and later closes it, without blocking the event loop.

    Any thread may call any method.  Commits of groups in different log partitions do not wait for each other.  No call
    holds the GIL while it waits for the disk, and one flush serves all waiting callers.  In a child process made by
    fork the store is closed, and the child cannot damage the parent's store.  A store that is garbage collected without
    `close` is closed with a ResourceWarning; a method taken from it (`commit = store.commit_one`) keeps it alive.

    A read-only store shows the state at the time when it was opened or last refreshed.

    Calls about the past take moments.  A moment is a datetime with its time zone, a log offset, or text as in a
    command: "2h ago", "2026-03-01T02:30" (UTC without a zone), "offset:12345" (offsetlog/moments.py).  A time means the
    longest prefix of the log without a later timestamp; a log offset means the records below it.  A clock can be set
    back, but a log offset always means the same records.  A time more than a minute ahead of both the clock and the log
    is an InvalidArgumentError.
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
        """Returns the progress of loading, also after its end: partitions ready, bytes read, seconds."""
        _ = self._open_core  # a closed store is refused
        return self._open_partitions.progress()

    def wait_loaded(self, timeout: float | None = None) -> bool:
        """Waits up to `timeout` seconds until everything is loaded; returns whether it is.

        If a log partition could not be loaded, raises its error, as calls about its groups do.  Bytes that the disk
        cannot read raise nothing here: the call warns of them and of damage, as `offsetlog.open` does.
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
        """The number of partitions of the directory, which never changes."""
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
        """Returns the problems that opening and loading found, as errors that were not raised.

        DataLossError and other CorruptionErrors name a log partition that is now read-only and the
        log offsets that cannot be read.  PossibleLossError names log offsets that may be missing.
        StorageError names a log partition that the disk cannot read; calls about it raise the same.
        """
        core = self._open_core
        self._open_partitions.wait_loaded()
        return inspection.problems(core, self._open_partitions)

    def health(self) -> StoreHealth:
        """Returns the faults of the log partitions and of the directory.

        The result covers the log partitions that are loaded now; the call does not wait for the others.
        """
        reports = self._maintenance.status().reports
        left = {number: report.quarantine for number, report in reports.items()}
        return inspection.health(self._open_core, self._open_partitions, left)

    def recoveries(self) -> dict[int, dict[str, Any]]:
        """Returns by log partition the results of its recovery: truncated tails, completed segment swaps, corruption.

        "snapshot" is the log offset of the snapshot that was loaded, or None; "snapshot_discarded" is the reason why an
        existing snapshot could not be used.
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
        """Commits positions of one group: all or none of them, however many, also after a crash.

        Args:
            group: the consumer group; "" is a valid name.
            offsets: maps each key to the next offset that the group will read, alone or with metadata and epoch.  A key
                is a TopicPartition, a tuple (topic, partition), or another client's object with the attributes `topic`
                and `partition`, whose offset is ignored.  For a type checker, all keys have one type, or the mapping is
                a `dict[PartitionKey, ...]`.  A topic id is written only as `StoreConfig.write_offset_value_v4` allows.
            expected: maps any of the keys to the offset that must be committed now: an int, a position as `fetch`
                returns it, or None for no position.  If a committed offset differs, nothing is written.
            monotonic: if any offset is lower than the committed one, nothing is written.
            durability: overrides the store's durability for this call.

        Returns:
            The position of the commit in the log (`commit_one` returns only the log offset).

        Raises:
            InvalidArgumentError: an argument is not valid (GroupError, TopicError, PartitionError, OffsetError,
                MetadataTooLargeError, StringTooLongError, ArgumentTypeError, ConfigError); nothing was written.
            ExpectedOffsetError, RewindError: a condition does not hold; the error names the
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
        """Commits without waiting for the disk; `ticket.result(timeout)` or `await ticket` waits.

        Until the ticket is done, the commit survives the end of the process but not a loss of power.  A wait for the
        ticket flushes the commit at once, as `flush` does.  Otherwise it is flushed within
        `StoreConfig.flush_interval_ms`, by default one second; if that is None or 0, when the store is closed.
        """
        return self._open_core.commit_async(
            group, offsets, expected=expected, monotonic=monotonic, durability=durability
        )

    def commit_arrow(self, batch: Any, *, durability: Durability | None = None) -> int:
        """Commits the rows of an Arrow record batch or table, and returns their number.

        All rows of a group are committed, or none.

        Required columns: group and topic (string, large_string, or dictionaries of them), partition and offset
        (integers of any width).  Optional columns: leader_epoch (integers; null is -1), commit_timestamp (integers in
        milliseconds, or timestamps of any unit; null is the store's clock), metadata (string; null is "").
        expire_timestamp, topic_id, log_partition and log_offset, which `to_arrow` returns, are ignored.  Any other
        column is refused.  If several rows have the same key, the last one counts.

        Raises:
            InvalidArgumentError: a column is missing, has another type or nulls, or holds a value
                that `commit` would refuse (`item` is its row); nothing was written.
            StateError, StorageError: a log partition failed; the rows already written to other log partitions stay
                committed.
        """
        return commit_columns.commit_arrow(self._open_core, batch, durability=durability)

    def delete(
        self,
        group: str,
        partitions: Iterable[PartitionKey] | None = None,
        *,
        durability: Durability | None = None,
    ) -> int:
        """Deletes `partitions` of a group, or by default the whole group; returns the number of deleted records.

        The store does not know members, so a group with members is deleted too.

        Raises:
            TooLargeError: the tombstones do not fit one batch; several batches would not be atomic.
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
        """Deletes expired positions, and groups that have nothing left.

        A position does not expire while its group has members or an open transaction has a value for it.  Positions
        committed during the call survive.  An open store can expire positions by itself (`MaintenanceConfig`); by
        default it does not.

        Args:
            retention_ms: milliseconds for every group that `retention` does not name, None for
                never.
            retention: milliseconds by group or "prefix*".  If neither argument is given, the settings of the store
                apply.
            dry_run: deletes nothing; the report counts the positions that would be deleted.
            trust_clock: uses this machine's clock even if it was set while the store was open, or the log has a record
                with a later time.
            durability: overrides the store's durability for this call.

        Raises:
            ClockError: the clock cannot be trusted, because the newest record has a later time or the clock was set far
                forward or back while the store was open; nothing was deleted.
            InvalidArgumentError: an argument is not valid; nothing was deleted.
            StateError, StorageError: a log partition failed or is read-only because it is damaged; the expired
                positions of all others were deleted.
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
        """Begins a transaction of one group, for a `with` statement; the first commit writes to it.

        Raises:
            InvalidArgumentError: the producer id or epoch is out of range.
            TransactionError, FencedError (at the first commit): the producer id has an open
                transaction or is in the range reserved for offsetlog, or its epoch is out of date.
        """
        return transaction.begin(self._open_core, group, producer_id, producer_epoch, durability)

    def transactions(self) -> list[OpenTransaction]:
        """Returns the open transactions, sorted by log partition and then by age, oldest first.

        To end a transaction that a crash left open, call `abort_transaction`.
        """
        return transaction.open_transactions(self._open_core)

    def abort_transaction(self, producer_id: int) -> int:
        """Aborts the transactions that a producer left open; returns the number of log partitions that had one.

        `transactions` lists the open transactions.  Do not abort those of a running producer, because its next commit
        would fail.

        Raises:
            TransactionError: the producer has no open transaction in any partition.
            InvalidArgumentError: the producer id is out of range.
            StateError, StorageError: a log partition failed or is read-only because it is damaged;
                the transaction was aborted in all others.
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
            partitions: the partitions to return; all by default.
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
        """Returns the committed positions of many groups as an Arrow table with `to_arrow`'s columns."""
        return fetch_columns.fetch_arrow(self._open_core, arguments.listed_groups(groups))

    def to_arrow(self, *, at: Moment | None = None) -> pyarrow.Table:
        """Returns every committed position as an Arrow table; with `at`, sorted and as of that moment.

        Columns: group, topic (dictionary of string), partition int32, offset int64, leader_epoch
        int32 (-1 if unknown), metadata string, commit_timestamp int64 (ms), expire_timestamp int64
        (ms, -1 if the record has none), topic_id fixed_size_binary(16) or null, log_partition
        int32, log_offset int64.  Each log partition is read as one consistent state; commits to it
        wait meanwhile.  A missing log partition has no rows.
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
        """Returns the positions that have expired, or will expire before `within` has passed unless committed again.

        Nothing is written.  The table has one row for each position, and one for each group that will have no positions
        left; its columns are the fields of `types.Expiring`, and `offsetlog.retention.listed` turns the rows into such
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
        """Returns the digest of the committed state; logs with equal states have equal digests.

        Args:
            physical: includes log offsets, so that equal digests also mean equal log offsets.
        """
        return inspection.digest(self._open_core, physical=physical)

    def verify(self) -> StoreVerification:
        """Reads every log again, compares it with the state, and returns a list of the problems, empty if sound.

        Commits continue during the call.  `findings` and `ways` of the result hold the details (docs/verify.md).
        """
        from offsetlog.verify.store import verify_store  # its imports take long
        core, gone = self._open_core, self._open_partitions.missing().values()
        given = core.attached(), self._directory.fs, self._config, core.count, gone
        return self._maintenance.calls.run(lambda control: verify_store(*given, control))

    def memory(self) -> dict[str, int]:
        """Returns the bytes of memory by component, over all partitions, and their `total`.

        `string_bytes` (the distinct strings) and `free` (allocated but unused) are included in other components.
        `snapshot` estimates the memory of a snapshot that is being written.
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

        `problems` is the same in each of them: the number of unreadable batches in the log partition and of unreadable
        records of the group.  Raises the errors of `history`.
        """
        return self._timeline.group_history(group)

    def diff(
        self, a: Moment | None, b: Moment | None = None, group: str | None = None
    ) -> list[Change]:
        """Returns what changed between two moments.

        A position that was committed again with the same offset, leader epoch and metadata has not
        changed, unless it has another topic id.

        Args:
            a: the moment of `Change.before`; None for now.
            b: the moment of `Change.after`, which may be earlier than `a`; None for now.
            group: the group to compare; all by default.  Required with log offsets, because each log partition has its
                own.

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
        """Commits again the positions that a group had at a moment; returns the changes.

        The restore is one new commit, all or nothing; existing records stay.  The commit is written only if no position
        of the group has changed since the call read the group; otherwise the call tries again.  Positions that did not
        exist at that moment are deleted.  The group's members and open transactions stay unchanged.

        Args:
            group: the consumer group.  Stop its consumers first: their next commits would override
                the restored positions.
            at: the moment.
            partitions: the partitions to restore; all by default.
            dry_run: writes nothing; returns the changes that would be made.
            delete_all: permits a restore that deletes all offsets of the group, or to a moment at which it had none.

        Returns:
            The changes; empty if nothing differs, as for a group that never existed.  Their `undo_at` is the moment
            that undoes the restore.

        Raises:
            HistoryError, OffsetOutOfRangeError, InsideCommitError: see `fetch`.
            DeletesGroupError: the restore needs `delete_all`, which is False.
            ReadOnlyError: the store is read-only, or the log partition is damaged (not with `dry_run`).
            ConditionError: the group committed between the read and the write of every attempt.
            TooLargeError: the changes include deletions and do not fit one batch.
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._restorer.restore(
            group, at, partitions, dry_run=dry_run, delete_all=delete_all
        )

    def deletions(self, group: str | None = None, since: datetime | str | None = None) -> list[Deletion]:
        """Returns the deleted positions whose tombstones the log still holds.

        A tombstone does not say whether the position was deleted or expired.

        Args:
            group: only this group.
            since: only those deleted at this time or later.

        Raises:
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._timeline.deletions(group, since)

    def rewinds(self, since: datetime | str | None = None, group: str | None = None) -> Rewinds:
        """Returns each committed offset that is lower than the one committed before it, oldest first.

        Offsets of open and aborted transactions do not count.  `gaps` of the result lists the ranges of the log that
        were cleaned or cannot be read.

        Args:
            since: returns only rewinds at this time or later, and those whose time is unknown.
            group: only this group.

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
        """Commits deleted positions of a group again, with their last values or those of a moment.

        Existing positions stay unchanged.  The deleted positions are written in one commit, as in `restore`.

        Args:
            group: the consumer group.
            partitions: the partitions to restore; all deleted ones by default.
            at: a moment at which the positions existed; None for the last value of each.
            since: without `at`, only those deleted at this time or later.
            dry_run: writes nothing; returns the positions that would be restored.

        Raises:
            OffsetLogError: see `restore`.
        """
        return self._restorer.undelete(group, partitions, at, since, dry_run=dry_run)

    # ---------------------------------------------------------------------------------- maintenance

    @property
    def maintenance(self) -> Maintenance:
        """The store's own maintenance: its settings, decisions and results, and the transactions that block it."""
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
        """Cleans logs now, whatever their size; commits and reads continue.  An interrupt stops the cleaning.

        Args:
            log_partitions: numbers of log partitions, None for all.
            roll: whether to close active segments so that they can be cleaned.
            ratio: cleans only logs with more than this share written after their last cleaning.
            again: also cleans segments that were cleaned before, which drops tombstones past their retention.
            delete_retention_ms: overrides `MaintenanceConfig.delete_retention_ms`.
            progress: called ten times a second with log partition, bytes read and bytes to read.

        Returns:
            A report for each log: its cleaning, or the reason why it was not cleaned.

        Raises:
            InvalidArgumentError: a log partition does not exist.
            ReadOnlyError, ClosedError: see `offsetlog.errors`.
            StateError, StorageError, CapacityError: a log failed; the others were cleaned.
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
        """Reads the logs of a read-only store again, so that it shows later commits too.

        A concurrent read sees either the old state or the new one.  The refresh takes as long as opening, and needs
        memory for both states.  In a store that is open for writing, which is always up to date, it does nothing.

        Raises:
            PartitionCountError: the directory now has another number of partitions; open it again.
            ClosedError, StorageError, CorruptionError, CapacityError: the store still shows the old
                state.

        Warns:
            CorruptionWarning: see `offsetlog.open`.
        """
        core = self._open_core
        if self._read_only:
            self._refresher.refresh(core)
            self._warn_of_damage()

    def snapshot(self, log_partitions: Iterable[int] | None = None) -> list[SnapshotReport]:
        """Writes snapshots of log partitions, which make the next open fast; commits continue.

        The call flushes first, and needs memory for one more log partition while it runs.  A snapshot is a cache and
        can be deleted at any time.  The report of a log shows its new snapshot, or the existing one if that has the
        same log offset.

        Raises:
            CorruptionError: a log is damaged or incomplete, which a snapshot would hide; the other
                snapshots were written.
            InvalidArgumentError, StateError, StorageError, CapacityError: see `offsetlog.errors`.
        """
        _ = self._open_core  # a closed store is refused before anything else
        return self._maintenance.snapshot(arguments.listed_numbers(log_partitions))

    def flush(self) -> None:
        """Waits until all earlier commits are on disk; raises PartitionFailedError or StorageError."""
        self._open_core.flush()

    def close(self) -> None:
        """Closes cleanly: waits for calls, flushes, writes checkpoints, releases the lock.

        A second call does nothing.

        Raises:
            OffsetLogError: a file could not be written; the store is closed nevertheless, and the next open recovers
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
