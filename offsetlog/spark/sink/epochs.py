"""The store's own record of the queries that write to it, as committed positions of reserved groups.

`__offsetlog_spark` holds for each query, as topic, the number of epochs that are published: the next one, as a
position is the next offset.  It is written when all of an epoch is there.  `__offsetlog_spark-N-S` does so for one log
partition of the N that the store has: S is the smallest number with which the name falls into that log partition, so
that this position is written in the same transaction as the epoch's rows of that log partition.  Both survive cleaning,
as any position does, and never expire: their records name a time far away, which counts before every retention.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import xxhash

from offsetlog._native.store_core import StoreCore
from offsetlog.errors import StateError
from offsetlog.spark.sink.staging import RESERVED_PREFIX
from offsetlog.types import OffsetAndMetadata, TopicPartition

#: The group of the finished epochs.
FINISHED = RESERVED_PREFIX
#: The last millisecond of the year 9999.
NEVER_MS = 253_402_300_799_999

# Producer ids of the sink's transactions: 30 bits that say so, and 32 of the query.  Whoever else has the directory
# open for writing there cannot be while the sink has, so that an open transaction of such an id was left by a crash.
_PRODUCER_MARK = 0x2F0F_F5E7


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of a query that is remembered.

    Attributes:
        query: its name.
        number: from 0.
        spark_query: the id in the stream's checkpoint, None in a batch write.
    """

    query: str
    number: int
    spark_query: str | None

    @property
    def key(self) -> TopicPartition:
        """The topic partition under which the reserved groups hold it."""
        return TopicPartition(self.query, 0)

    def position(self) -> OffsetAndMetadata:
        """Returns what is committed when it is published."""
        metadata = json.dumps({"spark": self.spark_query}) if self.spark_query is not None else ""
        return OffsetAndMetadata(self.number + 1, metadata, expire_timestamp=NEVER_MS)


def producer_of(name: str) -> int:
    """Returns the producer id of a query's, or a job's, transactions; the same in every log partition."""
    return _PRODUCER_MARK << 32 | xxhash.xxh32_intdigest(name.encode())


def is_ours(producer_id: int) -> bool:
    """Whether a producer id is one of the sink's."""
    return producer_id >> 32 == _PRODUCER_MARK


class MarkerGroups:
    """The reserved group of each log partition of a store, found when asked for."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._names: dict[int, str] = {}
        self._tried = 0

    def name(self, log_partition: int) -> str:
        """Returns the group that falls into a log partition."""
        while log_partition not in self._names:
            name = f"{RESERVED_PREFIX}-{self._core.count}-{self._tried}"
            self._tried += 1
            self._names.setdefault(self._core.number_of(name), name)
        return self._names[log_partition]


def is_finished(core: StoreCore, epoch: Epoch) -> bool:
    """Whether all of an epoch is published.

    Raises StateError where the query's name was given to another stream, whose epochs are other ones.
    """
    found = core.fetch_one(FINISHED, *epoch.key)
    if found is None:
        return False
    refuse_other_stream(epoch, found)
    return found.offset > epoch.number


def refuse_other_stream(epoch: Epoch, found: OffsetAndMetadata) -> None:
    """Refuses an epoch of a stream that has another checkpoint than the one which published before; StateError."""
    if epoch.spark_query is None or not found.metadata:
        return
    try:
        before = json.loads(found.metadata).get("spark")
    except (ValueError, AttributeError):  # committed by hand
        return
    if before is not None and before != epoch.spark_query:
        raise StateError(
            f"queryId {epoch.query!r} has published {found.offset} epochs from another checkpoint (query {before}, "
            f"this is {epoch.spark_query}); one of this would be taken for published: give this query another queryId"
        )


def published_in(core: StoreCore, markers: MarkerGroups, epoch: Epoch, log_partitions: Iterable[int]) -> set[int]:
    """Returns those log partitions in which an epoch is published already: a crash came between them and the others."""
    found = set()
    for number in log_partitions:
        marker = core.fetch_one(markers.name(number), *epoch.key)
        if marker is not None:
            refuse_other_stream(epoch, marker)
            if marker.offset > epoch.number:
                found.add(number)
    return found
