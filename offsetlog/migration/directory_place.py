"""A log directory as the source or the target of a migration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from offsetlog.directory.completeness import is_witness_missing
from offsetlog.errors import (
    CorruptionError,
    InternalError,
    InvalidArgumentError,
    OffsetLogError,
    PossibleLossError,
    TooLargeError,
)
from offsetlog.migration import rules
from offsetlog.migration.places import Fate, GroupOffsets, GroupWrite, Held, Refused, Written
from offsetlog.store import OffsetStore
from offsetlog.types import TopicPartition

_SURROGATES = re.compile("[\ud800-\udfff]")
#: The number of rows in one commit, for which one flush is enough, and of rows that are Python objects at a time.
BATCH_ROWS = 16384
_COLUMNS = ("group", "topic", "partition", "offset", "leader_epoch", "metadata", "expire_timestamp")
_KINDS = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
    ]
)


def losses_of(store: OffsetStore, *, permissive: bool) -> list[OffsetLogError]:
    """Returns the losses and the damage that were found when the store was opened.

    Unless `permissive` is True, raises the first loss or damage instead of returning the list.

    A witness is a file beside the log that records how far the log reached.  If only a witness is missing or damaged,
    this does not count as a loss.

    Raises:
        CorruptionError, DataLossError, PossibleLossError: the first loss or damage, unless `permissive`.
    """
    found = [each for each in store.problems() if not (isinstance(each, CorruptionError) and is_witness_missing(each))]
    if found and not permissive:
        raise found[0]
    return found


def lost_partitions(losses: Iterable[OffsetLogError]) -> frozenset[int | None]:
    """Returns the log partitions that accept no commits because they lost data."""
    damaged = [each for each in losses if isinstance(each, CorruptionError) and not isinstance(each, PossibleLossError)]
    return frozenset(each.log_partition for each in damaged)


class _Positions:
    """All positions of a store, in columns sorted by group; only a few groups at a time become Python objects."""

    def __init__(self, table: pa.Table) -> None:
        table = table.select(list(_COLUMNS))
        table = table.set_column(0, "group", table["group"].cast(pa.string()))
        table = table.set_column(1, "topic", table["topic"].cast(pa.string()))
        self._table = table.sort_by([(name, "ascending") for name in ("group", "topic", "partition")]).combine_chunks()
        self._rows: dict[str, tuple[int, int]] = {}
        if table.num_rows:
            runs = pc.run_end_encode(self._table["group"].chunk(0))
            first = 0
            for name, end in zip(_texts(runs.values), runs.run_ends.to_pylist(), strict=True):
                self._rows[name] = (first, end)
                first = end

    def groups(self) -> list[str]:
        """Returns the groups that have a position, sorted."""
        return sorted(self._rows)

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order."""
        names: list[str] = []
        first = end = 0
        for group in groups:
            begin, after = self._rows.get(group, (end, end))
            # Groups whose rows are adjacent are read together.
            if names and (begin != end or after - first > BATCH_ROWS):
                yield from self._groups(names, first, end)
                names = []
            if not names:
                first = begin
            names.append(group)
            end = after
        yield from self._groups(names, first, end)

    def _groups(self, names: list[str], first: int, end: int) -> Iterator[GroupOffsets]:
        part = self._table.slice(first, end - first)
        topics, metadata = (_texts(_chunk(part[name])) for name in ("topic", "metadata"))
        partitions, offsets, epochs, expiries = (
            part[name].to_pylist() for name in ("partition", "offset", "leader_epoch", "expire_timestamp")
        )
        are_unicode = all(_is_unicode("".join(texts)) for texts in (names, topics, metadata))
        for name in names:
            group = GroupOffsets(name)
            begin, after = self._rows.get(name, (first, first))
            for row in range(begin - first, after - first):
                if are_unicode or all(map(_is_unicode, (name, topics[row], metadata[row]))):
                    key = TopicPartition(topics[row], partitions[row])
                    group.offsets[key] = Held(offsets[row], epochs[row], metadata[row], expiries[row])
                else:
                    place = (name, topics[row], str(partitions[row]), str(offsets[row]))
                    group.refused.append(Refused("", *place, "a name or the metadata is not UTF-8"))
            yield group


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _texts(column: pa.Array) -> list[str]:
    # A log can hold bytes that are not UTF-8.
    return [value.decode("utf-8", "surrogateescape") for value in column.cast(pa.binary()).to_pylist()]


def _is_unicode(text: str) -> bool:
    return text.isascii() or not _SURROGATES.search(text)


class DirectoryPlace:
    """The positions of a store as they were when this object was created.

    Args:
        store: the store.  If it is a target, it must be open for writing.  No other process may write to it.
        permissive: whether to continue if data is missing.  Missing positions then count as positions that do not
            exist.

    Attributes:
        incomplete: the losses and the damage that were accepted; empty unless `permissive`.

    Raises:
        CorruptionError, DataLossError, PossibleLossError: see `losses_of`.
    """

    has = frozenset({"leader_epoch", "metadata", "expire_timestamp"})
    keeps = frozenset({"leader_epoch", "metadata"})

    def __init__(self, store: OffsetStore, *, permissive: bool = False) -> None:
        losses = losses_of(store, permissive=permissive)
        self.incomplete = tuple(str(each) for each in losses)
        self._store = store
        self._lost = lost_partitions(losses)
        self._positions = _Positions(store.to_arrow())

    def groups(self) -> list[str]:
        """Returns the groups with a committed position, sorted."""
        return self._positions.groups()

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order; a group that does not exist has no positions."""
        for group in self._positions.read(groups):
            if self._lost:
                group.is_lost = self._store._open_core.number_of(group.group) in self._lost
            yield group

    def prepare(self, *, dry_run: bool) -> None:
        """Does nothing, because a store needs no preparation."""

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns the reason why a commit would refuse these names, or None."""
        return None if topic else rules.NO_TOPIC

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Commits many groups at a time, each of them as a whole or not at all, and waits for the disk; see `Target`.

        Raises:
            StateError, StorageError: the store failed to write.  Some of the groups may have been written.
        """
        batch: list[GroupWrite] = []
        rows = 0
        for write in writes:
            batch.append(write)
            rows += len(write.changes)
            if rows >= BATCH_ROWS:
                yield from self._commit(batch)
                batch, rows = [], 0
        yield from self._commit(batch)

    def _commit(self, batch: Sequence[GroupWrite]) -> Iterator[Written]:
        try:
            self._commit_rows(batch)
        except (InvalidArgumentError, TooLargeError) as refused:
            if len(batch) == 1:
                yield Written(batch[0], Fate.REFUSED, refused.message)
                return
            # Commits the other groups without the refused one.
            half = len(batch) // 2
            yield from self._commit(batch[:half])
            yield from self._commit(batch[half:])
            return
        for write in batch:
            yield Written(write, Fate.MADE)

    def _commit_rows(self, batch: Sequence[GroupWrite]) -> None:
        columns: list[list[Any]] = [[] for _ in _KINDS]
        groups, topics, partitions, offsets, epochs, metadata = columns
        for write in batch:
            for (topic, partition), held, _ in write.changes:
                groups.append(write.group)
                topics.append(topic)
                partitions.append(partition)
                offsets.append(held.offset)
                epochs.append(held.leader_epoch)
                metadata.append(held.metadata)
        if groups:
            self._store.commit_arrow(pa.table(columns, schema=_KINDS), durability="disk")


class NewDirectory:
    """A directory that does not exist yet, as the target of a dry run."""

    keeps = DirectoryPlace.keeps
    incomplete: tuple[str, ...] = ()

    def read(self, groups: Iterable[str]) -> Iterator[GroupOffsets]:
        """Yields the groups in the given order, each without positions."""
        return map(GroupOffsets, groups)

    def prepare(self, *, dry_run: bool) -> None:
        """Does nothing, because a store needs no preparation."""

    def refusal_of(self, group: str, topic: str) -> str | None:
        """Returns the reason why a commit would refuse these names, or None."""
        return None if topic else rules.NO_TOPIC

    def write(self, writes: Iterable[GroupWrite]) -> Iterator[Written]:
        """Raises InternalError, because a dry run must not write."""
        raise InternalError("internal error: a dry run of a migration tried to write")
