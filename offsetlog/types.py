"""The values that callers hand in and get back."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class TopicPartition(NamedTuple):
    """One partition of one topic: what a position is committed for."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """A committed position; the first three fields stand in kafka-python's order.

    Attributes:
        offset: the next offset that the group will read.
        metadata: free text of the committer, at most 4096 UTF-16 units by default.
        leader_epoch: the epoch of the last record read, -1 for unknown.
        commit_timestamp: when it was committed, in milliseconds since 1970; -1 lets the store take its clock.
        expire_timestamp: when it expires, in milliseconds since 1970; -1 where the record carries none.
        topic_id: Kafka's id of the topic, or None.  Committing one writes it only where values of version 4 are
            written: with `StoreConfig(write_offset_value_v4="always")`, and with "auto", the default, where the
            partition already holds such values; else it is left out without a word.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    commit_timestamp: int = -1
    expire_timestamp: int = -1
    topic_id: UUID | None = None


class Position(NamedTuple):
    """Where a commit stands in the log: what comes back from a commit, and what can be waited for.

    Attributes:
        partition: the partition of the offsets topic, chosen by the group's name.
        log_offset: the offset of the commit's last record in that partition.
    """

    partition: int
    log_offset: int


class OpenTransaction(NamedTuple):
    """A transaction that has not ended; what is committed in it takes no effect until it does.

    Attributes:
        producer_id: who writes it; what `OffsetStore.abort_transaction` takes.
        producer_epoch: the producer's epoch.
        partition: the partition of the offsets topic.
        start_offset: the log offset of its first record.
        last_timestamp: of its last batch, in milliseconds since 1970: how long nothing was heard of it.
        groups: the groups of its positions.
        positions: how many positions a COMMIT would install now.
        own: whether it is part of one large commit of offsetlog, which ends it by itself.
    """

    producer_id: int
    producer_epoch: int
    partition: int
    start_offset: int
    last_timestamp: int
    groups: tuple[str, ...]
    positions: int
    own: bool


class Digest(NamedTuple):
    """What is committed, as sums modulo 2**128 over the canonical bytes of each record (docs/digest.md).

    Attributes:
        positions: over all committed positions.
        group_records: over the records of groups.
        pending: over the values of open transactions.
    """

    positions: int
    group_records: int
    pending: int

    def __str__(self) -> str:
        return "-".join(f"{part:032x}" for part in self)
