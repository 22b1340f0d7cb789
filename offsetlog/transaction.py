"""A transaction of one group, in which several commits take effect together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from offsetlog import arguments
from offsetlog._native.store_core import StoreCore
from offsetlog._native.tickets import check_durability
from offsetlog.errors import DiskFullError, OffsetLogError, ReadOnlyError, TransactionError
from offsetlog.on_thread import on_thread
from offsetlog.types import Committed, Key, OpenTransaction, Position

if TYPE_CHECKING:
    from offsetlog._native.partition import Partition


class Transaction:
    """A transaction as a context manager.  The end of the block commits it; an exception aborts it.

    Positions that were written in the transaction are invisible until it is committed.  Only one thread at a time may
    use the transaction.
    """

    def __init__(
        self,
        core: StoreCore,
        group: str,
        producer_id: int,
        producer_epoch: int,
        durability: str | None,
    ) -> None:
        self._core = core
        self._group = group
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._durability = durability
        self._written = False
        self._ended = False

    def commit(self, offsets: Mapping[Key, Committed]) -> Position:
        """Writes positions into the transaction.  They take effect when the transaction is committed.

        Raises:
            InvalidArgumentError: an argument is not valid; nothing was written.
            TransactionError: the transaction has ended.
            DiskFullError: this call wrote nothing, unless it was larger than a segment.  A transaction begins only
                after the space for its end has been reserved.
            StateError, StorageError: this call wrote nothing, or the partition has failed.
        """
        if self._ended:
            raise TransactionError("the transaction has ended")
        if not self._written:
            # Invalid arguments are refused before anything is written, so that nothing has to be undone.
            partition = self._core.ready(self._core.number_of(self._group))
            partition.check_producer(self._producer_id, self._producer_epoch)
        try:
            position = self._core.commit_transactional(
                self._group, offsets, self._producer_id, self._producer_epoch
            )
        except DiskFullError:
            # The first batches of a very large commit may have been written; the end of the transaction is then needed
            # too.
            self._written = self._written or self._is_open()
            raise
        self._written = True
        return position

    def _is_open(self) -> bool:
        return any(known[0] == self._producer_id for known in self._partition().transactions())

    def _partition(self) -> Partition:
        partition = self._core.partition(self._core.number_of(self._group))
        assert partition is not None  # it was written to
        return partition

    def _end(self, *, commit: bool) -> None:
        if self._ended:
            return
        self._ended = True
        if not self._written:
            return
        partition = self._partition()
        try:
            end_offset, term = partition.end_transaction(
                self._producer_id, self._producer_epoch, commit
            )
        except DiskFullError:
            self._ended = False  # nothing was changed, and a later try may find space
            raise
        if commit:
            self._core.wait_durable(partition.number, end_offset, term, self._durability)

    def abort(self) -> None:
        """Aborts the transaction, so that its positions never take effect.

        The end of the `with` block then does nothing.

        Raises:
            DiskFullError: the end of the transaction could not be written, because the disk was full when the store was
                opened, or because too many transactions are open.  The transaction stays open, and can be ended later.
            StateError, StorageError: the partition failed.
        """
        self._end(commit=False)

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open" if self._written else "nothing written yet"
        return (
            f"<Transaction of {self._group!r} producer_id={self._producer_id} "
            f"producer_epoch={self._producer_epoch} {state}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(commit=kind is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the transaction on a thread.  A cancelled task still waits until the transaction has ended."""
        await on_thread(lambda: self._end(commit=kind is None))


def begin(
    core: StoreCore, group: str, producer_id: int, producer_epoch: int, durability: str | None
) -> Transaction:
    """Begins a transaction of one group; see OffsetStore.transaction."""
    arguments.checked_producer_id(producer_id)
    arguments.checked_number("producer_epoch", producer_epoch, 0, 2**15 - 1)
    if core.read_only:
        raise ReadOnlyError("the store is open read-only")
    core.number_of(group)
    check_durability(durability)
    return Transaction(core, group, producer_id, producer_epoch, durability)


def open_transactions(core: StoreCore) -> list[OpenTransaction]:
    """Returns the open transactions, sorted by log partition and then by age, the oldest first."""
    return [
        OpenTransaction(known[0], known[1], partition.number, *known[2:])
        for partition in core.attached()
        for known in partition.transactions()
    ]


def abort_everywhere(core: StoreCore, producer_id: int) -> int:
    """Aborts the open transactions of a producer; see OffsetStore.abort_transaction."""
    arguments.checked_producer_id(producer_id)
    if core.read_only:
        raise ReadOnlyError("the store is open read-only")
    waits: list[tuple[int, int, int]] = []
    failures: list[OffsetLogError] = []
    for partition in core.attached():
        try:
            if any(known[0] == producer_id for known in partition.transactions()):
                end_offset, term = partition.end_transaction(producer_id, -1, False)
                waits.append((partition.number, end_offset, term))
        except TransactionError:  # its producer has just ended it
            continue
        except OffsetLogError as failure:
            failures.append(failure)
    core.wait_durable_all(waits, None)
    if failures:
        if waits:
            failures[0].add_note("the transaction was aborted in the log partitions that did not fail")
        raise failures[0]
    if not waits:
        raise TransactionError(f"producer {producer_id} has no open transaction")
    return len(waits)
