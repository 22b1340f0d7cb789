"""Publishes on the driver: staged rows become commits, exactly once, and for each group either all of them or none.

All rows of one log partition, and the position that records the epoch in this log partition, are written in one
transaction of the store.  While the publisher reads the staged files, piece by piece, it has a transaction open in
every log partition that has rows.  Then it commits the transactions, one after another.  If a crash happens before the
first of these commits, only open transactions are left, and the next publisher aborts them.  If a crash happens between
two commits, some log partitions have the epoch and others do not.  The others get the epoch when it is tried again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs as arrow_fs

from offsetlog._native.commit_columns import write_in_transaction
from offsetlog._native.store_core import StoreCore
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import CorruptionError, LockedError, MissingFileError, OffsetLogError, TransactionError
from offsetlog.spark.held_stores import Opening, use_store
from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.sink import epochs
from offsetlog.spark.sink.epochs import FINISHED, Epoch, MarkerGroups
from offsetlog.spark.sink.options import SinkOptions
from offsetlog.spark.sink.report import Refusals, read_refusals, refusal_error
from offsetlog.spark.sink.staging import StagedFile, StagedMessage, checksum_of, read_staged
from offsetlog.store import OffsetStore

_log = logging.getLogger("offsetlog.spark.sink")

_WAIT_SECONDS_MAX = 1.0

#: No maintenance runs in the background between two epochs.  The work that is due is done after a publication.
MAINTENANCE = MaintenanceConfig(enabled=False)


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication.

    Attributes:
        rows: how many rows were written, not counting those that an earlier try of the epoch had written.
        refused_rows: how many rows were refused.
        refused_groups: how many groups were left out because of refused rows.
        skipped: whether nothing was written because the whole epoch had been published before.
        report: the path of the report; None if no row was refused.
    """

    rows: int
    refused_rows: int = 0
    refused_groups: int = 0
    skipped: bool = False
    report: Path | None = None


def reached(step: str) -> None:
    """Called between any two steps of a publication, so that a test can stop it there."""


def publish(options: SinkOptions, messages: Sequence[StagedMessage], name: str, epoch: Epoch | None) -> Published:
    """Commits the rows that the tasks of one write staged.

    Args:
        options: the options of the write.
        messages: the messages that the tasks of the write sent to the driver.
        name: the name of the write in the report: that of the job, or that of the query with the epoch.
        epoch: the epoch; None for a write that is not recorded.

    Raises:
        InvalidArgumentError: rows were refused, with mode "failfast".  Nothing was committed.
        LockedError: another process still has the store open after `options.lock_timeout_seconds`.
        CorruptionError, MissingFileError: a staged file was changed or is missing.  Nothing was committed.
        StateError: the query's name belongs to another stream.  Nothing was committed.
        StorageError, CapacityError: some log partitions may have the rows and others not.  Each group has all of its
            rows or none.  If the epoch is tried again, the other log partitions get their rows.
    """
    messages = sorted(messages, key=lambda message: message.task)
    if all(message.folder is None for message in messages):
        return Published(0)
    file_system, _ = file_system_of(options.staging_location, options.hadoop)
    failure = refusal_error(messages) if options.mode == "failfast" else None
    if failure is not None:
        if options.report is not None:
            written = read_refusals(file_system, messages).write(Path(options.report), name, options.mode, rows=0)
            failure.add_note(f"the report: {written}")
        raise failure
    with opened_store(options) as store:
        core = store._open_core
        # This is checked before the files are read, since a publisher that outlived its driver may have finished the
        # epoch meanwhile.
        if epoch is not None and epochs.is_finished(core, epoch):
            # Spark repeats the epoch, or another query has the same name.  In both cases the rows are left out.
            _log.warning("%s is published already: its rows are not committed again", name)
            return Published(0, skipped=True)
        reached("opened")
        _check_files(file_system, messages)
        refusals = read_refusals(file_system, messages)
        abort_left_open(store)
        publication = _Publication(core, epochs.producer_of(epoch.query if epoch is not None else name), epoch)
        try:
            with ThreadPoolExecutor(os.cpu_count() or 1, "offsetlog-publish") as pool:
                for message in messages:
                    if message.rows is not None:
                        publication.write(read_staged(file_system, message.rows), refusals, pool)
            report = _report(options, refusals, name, publication.rows_in_all)
            publication.end(options)
        except BaseException as stopped:
            publication.abort(stopped)
            raise
        if epoch is not None:
            core.commit(FINISHED, {epoch.key: epoch.position()}, durability=options.durability)
            reached("finished")
        # A store that was opened by a listener of this process does its maintenance by itself.
        if options.clean and not store.maintenance.config.enabled:
            store.maintenance.look_after(core.attached())
            reached("cleaned")
    return Published(publication.rows, refusals.rows, len(refusals.groups), report=report)


@contextlib.contextmanager
def opened_store(options: SinkOptions) -> Iterator[OffsetStore]:
    """Yields the store of a write, which stays open for the next write.  Waits while another process has it open.

    Raises LockedError if the wait takes longer than `options.lock_timeout_seconds`.
    """
    opening = Opening(Path(options.path), options.partitions, options.durability, MAINTENANCE)
    end = time.monotonic() + options.lock_timeout_seconds
    pause = 0.05
    with contextlib.ExitStack() as use:
        while True:
            try:
                left = max(end - time.monotonic(), 0.0)
                store = use.enter_context(use_store(opening, options.keep_open_seconds, left))
                break
            except LockedError as failure:
                left = end - time.monotonic()
                if left <= 0:
                    raise LockedError(
                        f"another process still has the store open after {options.lock_timeout_seconds:g} s "
                        "(lockTimeoutSeconds); nothing was committed",
                        path=options.path,
                    ) from failure
                time.sleep(min(pause, left))
                pause = min(2 * pause, _WAIT_SECONDS_MAX)
        yield store


def abort_left_open(store: OffsetStore) -> None:
    """Aborts transactions that crashed publications left open.

    The caller has the store open, so no other publisher can be running.
    """
    left = {found.producer_id for found in store.transactions() if epochs.is_ours(found.producer_id)}
    for producer_id in sorted(left):
        store.abort_transaction(producer_id)
        reached("aborted")


def _check_files(file_system: arrow_fs.FileSystem, messages: Iterable[StagedMessage]) -> None:
    for message in messages:
        for staged in (message.rows, message.refused):
            if staged is not None:
                _check_file(file_system, staged)


def _check_file(file_system: arrow_fs.FileSystem, staged: StagedFile) -> None:
    try:
        found = checksum_of(file_system, staged.path)
    except FileNotFoundError as failure:
        raise MissingFileError(
            "a staged file is missing: driver and executors must share the staging directory (option stagingLocation)",
            path=staged.path,
        ) from failure
    if found != (staged.size, staged.checksum):
        raise CorruptionError(
            "a staged file was changed after its task wrote it; nothing was committed", path=staged.path
        )


def _report(options: SinkOptions, refusals: Refusals, name: str, rows: int) -> Path | None:
    # The report is written before the transactions are committed.  After that, the epoch is not tried again, and a
    # crash would lose the report.
    if not refusals.rows:
        return None
    report = refusals.write(Path(options.report or options.path), name, options.mode, rows=rows)
    refusals.tell(report)
    return report


class _Publication:
    """The transactions of one publication: one in each log partition that has rows and does not yet have the epoch."""

    def __init__(self, core: StoreCore, producer_id: int, epoch: Epoch | None) -> None:
        #: `rows` counts the rows that this try wrote.  `rows_in_all` also counts those that an earlier try wrote.
        self.rows = 0
        self.rows_in_all = 0
        self._core = core
        self._producer_id = producer_id
        self._epoch = epoch
        self._markers = MarkerGroups(core)
        self._open: list[int] = []
        self._ended: list[tuple[int, int, int]] = []
        self._done: dict[int, bool] = {}

    def write(self, batches: Iterable[pa.RecordBatch], refusals: Refusals, pool: Executor) -> None:
        """Writes rows in the transactions, on the threads of a pool.  Leaves out the groups with a refused row."""
        for batch in refusals.left_in(batches):
            self.rows_in_all += batch.num_rows
            self.rows += write_in_transaction(self._core, batch, self._producer_id, 0, self._lacks, pool=pool)
            reached("written")

    def _lacks(self, number: int) -> bool:
        done = self._done.get(number)
        if done is None:
            done = self._done[number] = self._is_done(number)
        return not done

    def _is_done(self, number: int) -> bool:
        if self._epoch is not None and epochs.published_in(self._core, self._markers, self._epoch, [number]):
            return True
        self._core.ready(number).check_producer(self._producer_id, 0)
        self._open.append(number)
        return False

    def end(self, options: SinkOptions) -> None:
        """Commits the transactions, each with the position that records the epoch.  Waits for `options.durability`."""
        for number in sorted(self._open):
            if self._epoch is not None:
                marker = {self._epoch.key: self._epoch.position()}
                self._core.commit_transactional(self._markers.name(number), marker, self._producer_id, 0)
            reached("marked")
            end_offset, term = self._core.ready(number).end_transaction(self._producer_id, 0, True)
            self._open.remove(number)
            self._ended.append((number, end_offset, term))
            reached("ended")
        self._core.wait_durable_all(self._ended, options.durability)
        reached("durable")

    def abort(self, stopped: BaseException) -> None:
        """Aborts the open transactions.  Adds a note to `stopped` if some log partitions are committed already."""
        for number in self._open:
            try:
                self._core.ready(number).end_transaction(self._producer_id, 0, False)
            except TransactionError:  # nothing was written to it
                continue
            except OffsetLogError as failure:  # the next publication aborts it
                _log.warning(
                    "a transaction stays open in log partition %d; the next write aborts it: %s", number, failure
                )
        if self._ended:
            again = "try the epoch again" if self._epoch is not None else "each group has all or none of its rows"
            done, left = len(self._ended), len(self._open)
            stopped.add_note(f"the write is committed in {done} log partitions, but not in {left} others; {again}")
