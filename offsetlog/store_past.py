"""What a store can tell of its past, and bring back from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime

from offsetlog._native.store_core import StoreCore
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.history.restore import Restorer
from offsetlog.history.timeline import Timeline
from offsetlog.types import Change, Deletion, History, TopicPartition, Undeletion


class StorePast(ABC):
    """The part of an OffsetStore that looks back.

    A moment is a datetime with its time zone, for the longest prefix of the log whose timestamps are all <= it, or a
    log offset, for the records below it.  Timestamps come from clocks, and those go back: a log offset always means the
    same.
    """

    _directory: LogDirectory
    _read_only: bool

    @property
    @abstractmethod
    def _open_core(self) -> StoreCore: ...

    @property
    def _timeline(self) -> Timeline:
        return Timeline(self._open_core, self._directory)

    @property
    def _restorer(self) -> Restorer:
        return Restorer(self._timeline, self._read_only)

    def history(self, group: str, topic: str, partition: int) -> History:
        """Returns every record of one position that the log still holds, oldest first, and from where on that is all.

        Raises:
            InvalidArgumentError, StateError, StorageError.
        """
        return self._timeline.history(group, topic, partition)

    def diff(self, a: datetime | int | None, b: datetime | int | None = None, group: str | None = None) -> list[Change]:
        """Returns what changed between two moments.

        A position that was only committed again, with the same offset, leader epoch and metadata, has not changed.

        Args:
            a: the moment of `Change.before`; None for now.
            b: that of `Change.after`; None for now.  It may be the earlier one.
            group: only this group.  Log offsets need it, since each log partition has its own.

        Raises:
            HistoryError: what was committed at one of them was cleaned away.
            OffsetOutOfRangeError: one of them is above the end of the log.
            InvalidArgumentError, StateError, StorageError.
        """
        return self._timeline.diff(a, b, group)

    def restore(
        self,
        group: str,
        at: datetime | int,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        dry_run: bool = False,
    ) -> list[Change]:
        """Makes the committed positions of a group again what they were at a moment; returns what changed.

        It is one new commit, all of it or nothing, written only while the group is as it was looked at; nothing in the
        log is changed.  What was not there then is deleted.  The group's members and open transactions stay as they
        are.

        Args:
            group: the consumer group.  Its consumers had better be stopped: what they commit next comes on top.
            at: the moment.
            partitions: only these.
            dry_run: write nothing; returns what would change.

        Raises:
            HistoryError: what was committed then was cleaned away.
            OffsetOutOfRangeError: the moment is above the end of the log.
            ConditionError: the group went on committing, faster than it could be read.
            TooLargeError: there are deletions among the changes, and not all of them fit one batch.
            InvalidArgumentError, StateError, StorageError.
        """
        return self._restorer.restore(group, at, partitions, dry_run=dry_run)

    def deletions(self, group: str | None = None, since: datetime | None = None) -> list[Deletion]:
        """Returns the positions that are not there now and whose tombstones the log still holds.

        Whether somebody deleted a position or it expired, its record does not tell.

        Args:
            group: only this group.
            since: only what was deleted at this time or later.

        Raises:
            InvalidArgumentError, StateError, StorageError.
        """
        return self._timeline.deletions(group, since)

    def undelete(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        at: datetime | int | None = None,
        *,
        since: datetime | None = None,
        dry_run: bool = False,
    ) -> Undeletion:
        """Commits deleted positions of a group again, with their last values or with those of a moment.

        What is there now stays as it is.  It is one commit, as that of `restore`.

        Args:
            group: the consumer group.
            partitions: only these.
            at: a moment at which they were there; None for the last value of each.
            since: without `at`, only what was deleted at this time or later.
            dry_run: write nothing; returns what would come back.

        Raises:
            As `restore`.
        """
        return self._restorer.undelete(group, partitions, at, since, dry_run=dry_run)
