"""Keeps in the store the number of published epochs of each query, as committed positions of reserved groups.

In the group `__offsetlog_spark`, each query is a topic.  The query's position is the number of its published epochs.
This is also the number of its next epoch, just as a position is the next offset.  The position is committed when an
epoch has been published completely.

A group `__offsetlog_spark-N-S` records the same number for one of the N log partitions of the store.  S is the smallest
number for which the group belongs to this log partition.  The position of the group can therefore be written in the
same transaction as the rows of the epoch in this log partition.

Like all positions, these positions survive cleaning.  They never expire: the expire time in their records is far in the
future, and it overrides every retention.
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

#: The group that records finished epochs.
FINISHED = RESERVED_PREFIX
#: The last millisecond of the year 9999.
NEVER_MS = 253_402_300_799_999

# Producer ids of the sink's transactions: 30 bits that identify the sink, and 32 of the query.  While the sink has the
# store open, no other program can write to it, so an open transaction of such an id was left by a crash.
_PRODUCER_MARK = 0x2F0F_F5E7


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of a query, as the store records it.

    Attributes:
        query: the name of the query.
        number: the number of the epoch; the first one is 0.
        spark_query: the query id in the checkpoint of the stream; None for a batch write.
    """

    query: str
    number: int
    spark_query: str | None

    @property
    def key(self) -> TopicPartition:
        """The topic partition of the query's position in the reserved groups."""
        return TopicPartition(self.query, 0)

    def position(self) -> OffsetAndMetadata:
        """Returns the position that is committed when the epoch is published."""
        metadata = json.dumps({"spark": self.spark_query}) if self.spark_query is not None else ""
        return OffsetAndMetadata(self.number + 1, metadata, expire_timestamp=NEVER_MS)


def producer_of(name: str) -> int:
    """Returns the producer id for the transactions of a query or job.  It is the same in every log partition."""
    return _PRODUCER_MARK << 32 | xxhash.xxh32_intdigest(name.encode())


def is_ours(producer_id: int) -> bool:
    """Returns whether a producer id belongs to the sink."""
    return producer_id >> 32 == _PRODUCER_MARK


class MarkerGroups:
    """The reserved group of each log partition of a store.  A name is only computed when it is requested."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._names: dict[int, str] = {}
        self._tried = 0

    def name(self, log_partition: int) -> str:
        """Returns the reserved group whose records are in a log partition."""
        while log_partition not in self._names:
            name = f"{RESERVED_PREFIX}-{self._core.count}-{self._tried}"
            self._tried += 1
            self._names.setdefault(self._core.number_of(name), name)
        return self._names[log_partition]


def is_finished(core: StoreCore, epoch: Epoch) -> bool:
    """Returns whether an epoch has been published completely.

    Raises StateError if epochs of another stream were published under the name of the query.
    """
    found = core.fetch_one(FINISHED, *epoch.key)
    if found is None:
        return False
    refuse_other_stream(epoch, found)
    return found.offset > epoch.number


def refuse_other_stream(epoch: Epoch, found: OffsetAndMetadata) -> None:
    """Raises StateError if a stream with another checkpoint has published epochs under the name of the query."""
    if epoch.spark_query is None or not found.metadata:
        return
    try:
        before = json.loads(found.metadata).get("spark")
    except (ValueError, AttributeError):  # a position that was not committed by the sink
        return
    if before is not None and before != epoch.spark_query:
        raise StateError(
            f"queryId {epoch.query!r} belongs to another stream: query {before}, which has another checkpoint, has "
            f"published {found.offset} epochs with this queryId. Epochs of this query ({epoch.spark_query}) would be "
            "skipped as already published; give this query a queryId of its own"
        )


def published_in(core: StoreCore, markers: MarkerGroups, epoch: Epoch, log_partitions: Iterable[int]) -> set[int]:
    """Returns those of the log partitions that already have an epoch, because a crash interrupted its publication."""
    found = set()
    for number in log_partitions:
        marker = core.fetch_one(markers.name(number), *epoch.key)
        if marker is not None:
            refuse_other_stream(epoch, marker)
            if marker.offset > epoch.number:
                found.add(number)
    return found
