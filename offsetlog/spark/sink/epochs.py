"""The store's own record of the queries that write to it, as committed positions of reserved groups.

In the group `__offsetlog_spark` each query is a topic.  Its position is the number of published epochs, which is also
the number of the next epoch, as a position is the next offset.  This position is committed when an epoch is published
completely.  A group `__offsetlog_spark-N-S` holds the same number for one of the store's N log partitions.  S is the
smallest number with which the name belongs to that log partition, so that the position is written in the same
transaction as the epoch's rows there.  Like all positions, these survive cleaning.  They never expire: their records
have a distant expire time, which overrides every retention.
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
    """An epoch of a query that the store records.

    Attributes:
        query: the name of the query.
        number: the number of the epoch, from 0.
        spark_query: the query id in the stream's checkpoint, None in a batch write.
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
    """Returns the producer id of the transactions of a query or job, the same in every log partition."""
    return _PRODUCER_MARK << 32 | xxhash.xxh32_intdigest(name.encode())


def is_ours(producer_id: int) -> bool:
    """Returns whether a producer id is one of the sink's."""
    return producer_id >> 32 == _PRODUCER_MARK


class MarkerGroups:
    """The reserved group of each log partition of a store, computed on request."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._names: dict[int, str] = {}
        self._tried = 0

    def name(self, log_partition: int) -> str:
        """Returns the reserved group that belongs to a log partition."""
        while log_partition not in self._names:
            name = f"{RESERVED_PREFIX}-{self._core.count}-{self._tried}"
            self._tried += 1
            self._names.setdefault(self._core.number_of(name), name)
        return self._names[log_partition]


def is_finished(core: StoreCore, epoch: Epoch) -> bool:
    """Returns whether an epoch is published completely.

    Raises StateError if another stream, with epochs of its own, uses the name of the query.
    """
    found = core.fetch_one(FINISHED, *epoch.key)
    if found is None:
        return False
    refuse_other_stream(epoch, found)
    return found.offset > epoch.number


def refuse_other_stream(epoch: Epoch, found: OffsetAndMetadata) -> None:
    """Raises StateError if epochs of another stream, with another checkpoint, were published under the query's name."""
    if epoch.spark_query is None or not found.metadata:
        return
    try:
        before = json.loads(found.metadata).get("spark")
    except (ValueError, AttributeError):  # a position that was not committed by the sink
        return
    if before is not None and before != epoch.spark_query:
        raise StateError(
            f"queryId {epoch.query!r} belongs to another stream: query {before} has published {found.offset} epochs "
            f"under it from another checkpoint. Epochs of this query ({epoch.spark_query}) would be skipped as "
            "already published; give it a queryId of its own"
        )


def published_in(core: StoreCore, markers: MarkerGroups, epoch: Epoch, log_partitions: Iterable[int]) -> set[int]:
    """Returns the log partitions that already have an epoch, after a crash before the others got it."""
    found = set()
    for number in log_partitions:
        marker = core.fetch_one(markers.name(number), *epoch.key)
        if marker is not None:
            refuse_other_stream(epoch, marker)
            if marker.offset > epoch.number:
                found.add(number)
    return found
