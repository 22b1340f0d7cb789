"""The keys of a workload, the order in which they are used, and the digest of the state after a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from offsetlog import TopicPartition

Row = tuple[str, str, int]
#: One call of `commit`: a group and its offsets.
Call = tuple[str, dict[TopicPartition, int]]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class KeySpace:
    """Every key of a table: `groups` groups x `topics` topics x `partitions` partitions, numbered in this order.

    All groups commit for the same topics.  A group name has 20 bytes, and a topic name has 15.
    """

    groups: int
    topics: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.count:,} keys ({self.groups:,} groups x {self.topics:,} topics x {self.partitions:,} partitions)"

    @property
    def count(self) -> int:
        return self.groups * self.topics * self.partitions

    @cached_property
    def group_names(self) -> list[str]:
        return [f"consumer-group-{number:05d}" for number in range(self.groups)]

    @cached_property
    def topic_names(self) -> list[str]:
        return [f"topic-name-{number:04d}" for number in range(self.topics)]

    @property
    def string_bytes(self) -> int:
        """The number of bytes of all distinct names."""
        return sum(len(name) for name in self.group_names) + sum(len(name) for name in self.topic_names)

    def chunks(self, count: int = 500_000) -> Iterator[Numbers]:
        """Yields all numbers of keys in order, `count` at a time."""
        for start in range(0, self.count, count):
            yield np.arange(start, min(start + count, self.count))

    def split(self, indices: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Returns the numbers of the group, the topic and the partition of each key."""
        pairs, partitions = np.divmod(indices, self.partitions)
        groups, topics = np.divmod(pairs, self.topics)
        return groups, topics, partitions

    def rows(self, indices: Numbers) -> list[Row]:
        """Returns the keys as tuples.

        The tuples are created in the order of their use, so that the caller's loop reads memory in order.
        """
        names, topics = self.group_names, self.topic_names
        columns = (column.tolist() for column in self.split(indices))
        return [(names[group], topics[topic], partition) for group, topic, partition in zip(*columns, strict=True)]

    def calls(self, indices: Numbers, offsets: Numbers) -> list[Call]:
        """Returns, for each key, the arguments of a commit of one offset."""
        rows = zip(self.rows(indices), offsets.tolist(), strict=True)
        return [(group, {TopicPartition(topic, partition): offset}) for (group, topic, partition), offset in rows]

    def calls_of_pairs(self, pairs: Numbers, bases: Numbers) -> list[Call]:
        """Returns, for each pair of group and topic, the arguments of a commit of all its partitions.

        The offset of a partition is the base of its pair plus the number of the partition.
        """
        calls = []
        for pair, base in zip(pairs.tolist(), bases.tolist(), strict=True):
            group, topic = divmod(pair, self.topics)
            name = self.topic_names[topic]
            offsets = {TopicPartition(name, partition): base + partition for partition in range(self.partitions)}
            calls.append((self.group_names[group], offsets))
        return calls

    def columns(self, indices: Numbers, offsets: Numbers, *, dictionary: bool) -> pa.RecordBatch:
        """Returns the keys and their offsets as an Arrow record batch, with names as strings or dictionary-coded."""
        groups, topics, partitions = self.split(indices)
        names: list[pa.Array] = [
            pa.DictionaryArray.from_arrays(pa.array(groups, pa.int32()), pa.array(self.group_names)),
            pa.DictionaryArray.from_arrays(pa.array(topics, pa.int32()), pa.array(self.topic_names)),
        ]
        if not dictionary:
            names = [column.dictionary_decode() for column in names]
        numbers = [pa.array(partitions, pa.int32()), pa.array(offsets, pa.int64())]
        return pa.RecordBatch.from_arrays([*names, *numbers], ["group", "topic", "partition", "offset"])

    def offsets_of(self, table: pa.Table) -> Numbers:
        """Returns the offset of each key, indexed by the number of the key; -1 if the table has no offset for it."""
        offsets = np.full(self.count, -1, np.int64)
        for batch in table.to_batches():
            group = self._numbers(batch.column("group"))
            topic = self._numbers(batch.column("topic"))
            partition = batch.column("partition").to_numpy().astype(np.int64)
            offsets[(group * self.topics + topic) * self.partitions + partition] = batch.column("offset").to_numpy()
        return offsets

    @staticmethod
    def _numbers(column: pa.Array) -> Numbers:
        if not isinstance(column, pa.DictionaryArray):
            column = column.dictionary_encode()
        numbers = np.array([int(name.rsplit("-", 1)[1]) for name in column.dictionary.to_pylist()], np.int64)
        taken: Numbers = numbers[column.indices.to_numpy()]
        return taken


def digest_of(offsets: Numbers) -> str:
    """Returns the XXH3-128 of all offsets in the order of key numbers; it is equal for equal results of any store."""
    return xxhash.xxh3_128_hexdigest(np.ascontiguousarray(offsets, "<i8").tobytes())


class Shuffled:
    """An endless sequence of the numbers below `count` in a shuffled order; equal seeds give equal sequences."""

    def __init__(self, count: int, seed: int) -> None:
        self._order: Numbers = np.random.default_rng(seed).permutation(count)
        self._at = 0

    def take(self, count: int) -> Numbers:
        """Returns the next `count` numbers.  No number is repeated before every number was returned."""
        parts = []
        while count > 0:
            part = self._order[self._at : self._at + count]
            self._at = (self._at + len(part)) % len(self._order)
            count -= len(part)
            parts.append(part)
        return np.concatenate(parts)
