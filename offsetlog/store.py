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
from offsetlog.history.restore import Restorer
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
    Undeletion,
)

if TYPE_CHECKING:
    import pyarrow

    from offsetlog.verify.store import StoreVerification


class OffsetStore(OnePosition, StoreContext):
    """An open directory of committed positions; from `offsetlog.open`.  A context manager.

    `async with` waits for the load, and closes, without blocking the event loop.

    Every method can be called from any thread.  Commits of groups in different partitions do not
    wait for each other; waiting for the disk never holds the GIL, and one flush serves all who
    wait.  A child made by fork finds the store closed and cannot damage the parent's.  A store that
    was not closed is, with a ResourceWarning, once neither it nor a method taken from it (`commit =
    store.commit_one`) can be reached.

    A read-only store is a view of the moment in which it was opened, or last refreshed.

    Calls about the past take moments.  A moment is a datetime with its time zone, for the longest
    prefix of the log whose timestamps are all <= it, or a log offset, for the records below it, or
    text as in a command: "2h ago", "2026-03-01T02:30" (UTC without a zone), "offset:12345"
    (offsetlog/moments.py).  Clocks go back: a log offset always means the same.  A time more than
    a minute in the future is an InvalidArgumentError, unless the log has a record that is as young.
    """

    def __init__(self) -> None:
        raise TypeError("a store comes from offsetlog.open")

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
        # The hot methods are bound to the instance: a Python frame between would cost more than the
        # commit.
        vars(self).update(
            commit=core.commit,
            commit_async=core.commit_async,
            commit_one=core.commit_one,
            fetch_one=core.fetch_one,
        )

    # -------------------------------------------------------------------------------------- loading

    def progress(self) -> LoadProgress:
        """Returns how far loading is, also after its end: partitions ready, bytes read, seconds."""
        _ = self._open_core  # a closed store is refused
        return self._open_partitions.progress()

    def wait_loaded(self, timeout: float | None = None) -> bool:
        """Waits until everything is loaded, or for so many seconds; returns whether it is.

        Raises StorageError or CapacityError of the first log partition that could not be loaded, as
        do calls about its groups, and warns as `offsetlog.open`, also of what the disk cannot read.
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
        """Returns what opening and loading found, as errors that were not raised.

        DataLossError and other CorruptionErrors name a log partition that is read-only since, and
        the log offsets that cannot be read; PossibleLossError those that nobody can prove to be
        there.  If a partition cannot be read at all, every call about it raises this error.
        """
        core = self._open_core
        self._open_partitions.wait_loaded()
        return inspection.problems(core, self._open_partitions)

    def health(self) -> StoreHealth:
        """Returns in one place what is not as it should be: of log partitions, and of the directory.

        Counts loaded partitions; it waits for nothing.
        """
        reports = self._maintenance.status().reports
        left = {number: report.quarantine for number, report in reports.items()}
        return inspection.health(self._open_core, self._open_partitions, left)

    def recoveries(self) -> dict[int, dict[str, Any]]:
        """Returns by partition what opening found and did: tails cut, swaps finished, corruption.

        "snapshot" is the offset of the snapshot that the load went on from, or None;
        "snapshot_discarded" why one that was there was of no use.
        """
        return inspection.recoveries(self._open_core)

    # ----------------------------------------------------------------------------------- committing

    def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> Position:
        """Commits positions of one group: all of them or none, however many, also after a crash.

        Args:
            group: the consumer group.
            offsets: by key what is committed: the next offset that the group will read, alone or
                with metadata and epoch.  A key is a TopicPartition, a tuple (topic, partition), or
                another client's object with both, whose own offset is not read.  A topic id is
                written only as `StoreConfig.write_offset_value_v4` allows.
            expected: for any of the keys the offset that must be committed now, None for none;
                otherwise nothing is written.
            monotonic: nothing is written if any offset would go back.
            durability: overrides the store's for this call.

        Returns:
            Where the commit stands in the log (`commit_one` returns the log offset alone).

        Raises:
            InvalidArgumentError: one of its kinds (GroupError, TopicError, PartitionError,
                OffsetError, MetadataTooLargeError, StringTooLongError, ArgumentTypeError,
                ConfigError); nothing was written.
            ExpectedOffsetError, RewindError: a condition does not hold; names the partition and
                both values.
            StateError: closed, read-only, or the log partition has failed.
            StorageError, TooLargeError, CapacityError: as `offsetlog.errors` says.
        """
        return self._open_core.commit(
            group, offsets, expected=expected, monotonic=monotonic, durability=durability
        )

    def commit_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> Ticket:
        """Commits without waiting for the disk: `ticket.result(timeout)` and `await ticket` wait.

        Until the ticket is done the commit survives the end of the process, and not the loss of
        power.  A wait for the ticket, and `flush`, have it flushed now; without them it is flushed
        within `StoreConfig.flush_interval_ms`, one second, and with None there not before the close.
        """
        return self._open_core.commit_async(
            group, offsets, expected=expected, monotonic=monotonic, durability=durability
        )

    def commit_arrow(self, batch: Any, *, durability: Durability | None = None) -> int:
        """Commits the rows of an Arrow record batch or table, and returns their number.

        All rows of a group are committed, or none.

        Columns: group and topic (string, large_string, or dictionaries of them), partition and
        offset (integers of any width), and if there: leader_epoch (integers; null is -1),
        commit_timestamp (integers, in milliseconds, or timestamps of any unit; null is the store's
        clock), metadata (string; null is "").  expire_timestamp, topic_id, log_partition and
        log_offset, which `to_arrow` gives, may be there and are not used.  Any other column is
        refused.  Among rows with the same key the last wins.

        Raises:
            InvalidArgumentError: a column is missing, of another type, has nulls, or holds a value
                that `commit` would refuse (`item` is its row); nothing was written.
            StateError, StorageError: groups of partitions that were written before it stay written.
        """
        return commit_columns.commit_arrow(self._open_core, batch, durability=durability)

    def delete(
        self,
        group: str,
        partitions: Iterable[PartitionKey] | None = None,
        *,
        durability: Durability | None = None,
    ) -> int:
        """Deletes `partitions` of a group, or by default all of it; returns how many records.

        A group that has members is deleted, too: the store does not know them.

        Raises:
            TooLargeError: the tombstones do not fit one batch, and in several they could not be
                atomic.
            InvalidArgumentError, StateError, StorageError: as `offsetlog.errors` says.
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
        """Deletes the positions that have expired, and groups with nothing left.

        Nothing of a group with members expires, and nothing that an open transaction has a value
        for.  Positions committed meanwhile survive.  `MaintenanceConfig` has an open store do so by
        itself; by default it does not.

        Args:
            retention_ms: milliseconds for every group that `retention` does not name, None for
                never.
            retention: the same by group or "prefix*".  Without both it is what the store was opened
                with.
            dry_run: deletes nothing; the report says what would have been.
            trust_clock: the clock is right, although it was set or the log has a record of the
                future.
            durability: overrides the store's for this call.

        Raises:
            ClockError: the clock cannot be right: it is before the newest record, or was set while
                the store was open; nothing was deleted.
            InvalidArgumentError, StateError, StorageError: a partition refused (a damaged one is
                read-only); what has expired in all the others is deleted.
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
        """Begins a transaction of one group, for a `with` statement; its first commit writes.

        Raises:
            InvalidArgumentError: an id or epoch out of range.
            TransactionError, FencedError (at the first commit): the id is open already or of the
                range that is ours, or its epoch is older than known.
        """
        return transaction.begin(self._open_core, group, producer_id, producer_epoch, durability)

    def transactions(self) -> list[OpenTransaction]:
        """Returns the transactions that have not ended, by partition and then oldest first.

        One that a crash left open is ended by `abort_transaction`, or by its producer, which goes
        on with the same id.
        """
        return transaction.open_transactions(self._open_core)

    def abort_transaction(self, producer_id: int) -> int:
        """Ends with ABORT what a crash left open of a producer; returns in how many partitions.

        `transactions` lists those that are open.  A producer that lives is not to be aborted: its
        next commit fails.

        Raises:
            TransactionError: no partition knows an open transaction of it.
            InvalidArgumentError: an id out of range.
            StateError, StorageError: a partition refused (a damaged one is read-only); it has ended
                in all the others.
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
        """Returns the committed positions of a group, or of those `partitions` that have one.

        Args:
            group: the consumer group.
            partitions: only these.
            at: the moment whose state is wanted; None for now.

        Raises:
            InvalidArgumentError: one of its kinds; `partitions` is a list, of one TopicPartition
                also.
            HistoryError: the commits of that moment were cleaned away.
            OffsetOutOfRangeError: `at` is above the end of the log.
            StateError: the store is closed, or the log partition has failed.
        """
        core = self._open_core
        if at is not None:
            return self._timeline.fetch(group, partitions, at)
        if partitions is None:
            return fetch_columns.fetch_group(core, group)
        return fetch_columns.fetch_keys(core, group, arguments.listed_keys(partitions))

    def fetch_arrow(self, groups: Iterable[str]) -> pyarrow.Table:
        """Returns the committed positions of many groups as an Arrow table, as `to_arrow` does."""
        return fetch_columns.fetch_arrow(self._open_core, arguments.listed_groups(groups))

    def to_arrow(self, *, at: Moment | None = None) -> pyarrow.Table:
        """Returns every committed position, or sorted those at a time, as an Arrow table.

        Columns: group, topic (dictionary of string), partition int32, offset int64, leader_epoch
        int32 (-1 none), metadata string, commit_timestamp int64 (ms), expire_timestamp int64 (ms,
        -1 none), topic_id fixed_size_binary(16) or null, log_partition int32, log_offset int64.
        Each partition is a consistent state of itself; commits to it wait meanwhile.  Missing ones have no rows.
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
        """Returns what has expired, and what will within some time if nothing is committed.

        Nothing is written.  The table has one row for each position, and one for each group of
        which nothing is left then; columns as the fields of `types.Expiring`, which
        `offsetlog.retention.listed` makes of them.  Commits wait for no more than a topic of a
        group.  Arguments as `expire`.
        """
        chosen = _retention.checked_retention(retention_ms, retention)
        return _retention.expiring(
            self._open_core, self._expirer, _retention.checked_within(within), chosen
        )

    def groups(self) -> list[str]:
        """Returns the groups with a committed position or a record of their own, sorted; of missing partitions none."""
        return inspection.groups(self._open_core)

    def digest(self, *, physical: bool = False) -> Digest:
        """Returns the digest of what is committed; equal states of any logs have equal digests.

        Args:
            physical: includes the log offsets: equal digests then also mean equal logs.
        """
        return inspection.digest(self._open_core, physical=physical)

    def verify(self) -> StoreVerification:
        """Reads every log again, compares, and returns a list of the problems, empty if sound.

        Commits go on meanwhile.  Its `findings` and `ways` say more (docs/verify.md).
        """
        from offsetlog.verify.store import verify_store  # its imports take long
        core, gone = self._open_core, self._open_partitions.missing().values()
        given = core.attached(), self._directory.fs, self._config, core.count, gone
        return self._maintenance.calls.run(lambda control: verify_store(*given, control))

    def memory(self) -> dict[str, int]:
        """Returns the bytes of memory by component, over all partitions, and their `total`.

        `string_bytes` and `free` are parts of the others: the distinct strings themselves, and what
        is allocated unused.  `snapshot` is about what the snapshot takes that is written just now.
        """
        return inspection.memory(self._open_core, self._maintenance.snapshot_bytes)

    # ------------------------------------------------------------------------------------- the past

    @property
    def _timeline(self) -> Timeline:
        return Timeline(self._open_core, self._directory)

    @property
    def _restorer(self) -> Restorer:
        return Restorer(self._timeline, self._read_only)

    def history(self, group: str, topic: str, partition: int) -> History:
        """Returns the records of one position, oldest first, and from where on they are all there.

        Raises:
            InvalidArgumentError, StateError, StorageError: as `offsetlog.errors` says.
        """
        return self._timeline.history(group, topic, partition)

    def diff(
        self, a: Moment | None, b: Moment | None = None, group: str | None = None
    ) -> list[Change]:
        """Returns what changed between two moments.

        A position that was only committed again, with the same offset, leader epoch and metadata,
        has not changed.

        Args:
            a: the moment of `Change.before`; None for now.
            b: that of `Change.after`; None for now.  It may be the earlier one.
            group: only this group.  Log offsets need it, since each log partition has its own.

        Raises:
            HistoryError: the commits of one of them were cleaned away.
            OffsetOutOfRangeError: one of them is above the end of the log.
            InvalidArgumentError, StateError, StorageError: as `offsetlog.errors` says.
        """
        return self._timeline.diff(a, b, group)

    def restore(
        self,
        group: str,
        at: Moment,
        partitions: Iterable[PartitionKey] | None = None,
        *,
        dry_run: bool = False,
    ) -> list[Change]:
        """Commits again what a group had at a moment; returns what changed.

        It is one new commit, all of it or nothing, written only while the group is as it was looked
        at; nothing in the log is changed.  Positions that were not there then are deleted.  The group's members
        and open transactions stay as they are.

        Args:
            group: the consumer group.  Its consumers had better be stopped: their next commits
                comes on top.
            at: the moment.
            partitions: only these.
            dry_run: write nothing; returns what would change.

        Raises:
            HistoryError: the commits of that moment were cleaned away.
            OffsetOutOfRangeError: the moment is above the end of the log.
            ConditionError: the group went on committing, faster than it could be read.
            TooLargeError: there are deletions among the changes, and not all of them fit one batch.
            InvalidArgumentError, StateError, StorageError: as `offsetlog.errors` says.
        """
        return self._restorer.restore(group, at, partitions, dry_run=dry_run)

    def deletions(self, group: str | None = None, since: datetime | str | None = None) -> list[Deletion]:
        """Returns the positions that are not there now and whose tombstones the log still holds.

        The record does not say whether somebody deleted a position or it expired.

        Args:
            group: only this group.
            since: only what was deleted at this time or later.

        Raises:
            InvalidArgumentError, StateError, StorageError: as `offsetlog.errors` says.
        """
        return self._timeline.deletions(group, since)

    def rewinds(self, since: datetime | str | None = None, group: str | None = None) -> Rewinds:
        """Returns the committed offsets that are lower than the ones committed before them, oldest first.

        Offsets of open and aborted transactions do not count. A deletion in between hides nothing. `gaps` of the
        result names where the log does not show them any more. The log is read once; safe from any thread.

        Args:
            since: only those of this time or later; one without a time is never left out.
            group: only this group.

        Raises:
            InvalidArgumentError, StateError, StorageError: as `offsetlog.errors` says.
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

        Existing positions stay as they are. It is one commit, as that of `restore`.

        Args:
            group: the consumer group.
            partitions: only these.
            at: a moment at which they were there; None for the last value of each.
            since: without `at`, only what was deleted at this time or later.
            dry_run: write nothing; returns what would come back.

        Raises:
            OffsetLogError: as by `restore`.
        """
        return self._restorer.undelete(group, partitions, at, since, dry_run=dry_run)

    # ---------------------------------------------------------------------------------- maintenance

    @property
    def maintenance(self) -> Maintenance:
        """The work that the store does by itself: settings, decisions, results, what is stuck."""
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
        """Cleans logs now, whatever their size; commits and reads go on.  An interrupt stops it.

        Args:
            log_partitions: numbers of log partitions, None for all.
            roll: whether active segments are closed for it.
            ratio: cleaned is only a log of which more than this part was written since its last
                cleaning.
            again: clean what was cleaned before, too: it drops tombstones that are past their time.
            delete_retention_ms: overrides the setting.
            progress: called ten times a second with log partition, bytes read and to be read.

        Returns:
            For each log the snapshot made, or why none was.

        Raises:
            InvalidArgumentError: there is no such log partition.
            ReadOnlyError, ClosedError: as `offsetlog.errors` says.
            StateError, StorageError, CapacityError: one log failed; the others were cleaned.
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

    # -------------------------------------------------------------------------------------- the end

    def refresh(self) -> None:
        """Reads the logs of a read-only store again, so that it shows what was committed since.

        A read meanwhile sees the state before, or all that is there now.  It takes as long as
        opening, and the memory of both.  Does nothing in a store that is open for writing, which is
        always up to date.

        Raises:
            PartitionCountError: the directory has another number of partitions by now; open it
                again.
            ClosedError, StorageError, CorruptionError, CapacityError: it shows what it did before.

        Warns:
            CorruptionWarning: as `offsetlog.open`.
        """
        core = self._open_core
        if self._read_only:
            self._refresher.refresh(core)
            self._warn_of_damage()

    def snapshot(self, log_partitions: Iterable[int] | None = None) -> list[SnapshotReport]:
        """Writes snapshots of log partitions, from which the next open goes on; commits go on.

        Flushes first.  For as long as it takes it needs the memory of one more log partition.  The
        file is a cache: it can be deleted at any time.

        Raises:
            CorruptionError: a log is damaged, or lacks something: a snapshot would hide it.  Others are written.
            InvalidArgumentError, StateError, StorageError, CapacityError: as `offsetlog.errors` says.
        """
        _ = self._open_core  # a closed store is refused before anything else
        return self._maintenance.snapshot(arguments.listed_numbers(log_partitions))

    def flush(self) -> None:
        """Waits until everything committed before the call is on disk; PartitionFailedError, StorageError."""
        self._open_core.flush()

    def close(self) -> None:
        """Closes cleanly: waits for calls, flushes, writes checkpoints, releases the lock.

        A second call does nothing.

        Raises:
            OffsetLogError: something could not be written; the store is closed all the same, and
                recovers at its next open.
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
