"""Reads the offsets that consumers of Kafka before 0.9 kept in ZooKeeper, each task those of some groups.

They stand in /consumers/<group>/offsets/<topic>/<partition>, as the bare decimal number in ASCII; nodes above them are
empty.  What others keep there, as Storm, is not looked at.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from offsetlog.errors import ConfigError, InvalidArgumentError, StorageError

FORMAT = "offsetlog-zookeeper"
CONSUMERS = "/consumers"

#: All as text: what is no number is for the caller to refuse.  `moment` is that of the last change, in ms.
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in ("group", "topic", "partition", "offset")), ("moment", pa.int64())]
)
SPARK_SCHEMA = "group string, topic string, partition string, offset string, moment bigint"

#: Rows of a batch for Spark.
_ROWS = 65536

Row = tuple[str, str, str, str | None, int | None]


@contextmanager
def connected(hosts: str, timeout: float) -> Iterator[Any]:
    """Gives a client of ZooKeeper that only reads.

    Raises:
        ConfigError: kazoo is not installed.
        InvalidArgumentError: that is no list of hosts.
        StorageError: nobody answers.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ModuleNotFoundError:
        raise ConfigError("ZooKeeper is read through kazoo, which is not installed: pip install kazoo") from None
    try:
        client = KazooClient(hosts=hosts, read_only=True, timeout=timeout)
    except ValueError as failure:
        raise InvalidArgumentError(f"{hosts!r} is no list of hosts, as in zk1:2181,zk2:2181: {failure}") from None
    try:
        client.start(timeout=timeout)
    except KazooTimeoutError:
        client.close()
        raise StorageError(f"no ZooKeeper answers at {hosts} within {timeout:g} s") from None
    try:
        yield client
    finally:
        client.stop()
        client.close()


def groups_in(client: Any, root: str) -> list[str]:
    """Returns the names below /consumers, sorted.

    Raises:
        InvalidArgumentError: there is no such node, which every Kafka of that time made: the root is another.
        StorageError: ZooKeeper does not give it.
    """
    from kazoo.exceptions import KazooException, NoNodeError

    node = f"{root}{CONSUMERS}"
    try:
        return sorted(client.get_children(node))
    except NoNodeError:
        reason = f"ZooKeeper has no node {node}; the root of a cluster goes behind the hosts"
        raise InvalidArgumentError(reason) from None
    except KazooException as failure:
        raise _not_given(node, failure) from failure


def _not_given(what: str, failure: Exception) -> StorageError:
    return StorageError(f"ZooKeeper does not give {what}: {str(failure) or type(failure).__name__}")


class _Window:
    """Asks for many nodes with a bounded number of answers outstanding; answers come in the order of the questions."""

    def __init__(self, in_flight: int) -> None:
        self._in_flight = in_flight

    def answers(self, questions: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Yields (what for, answer) for each (what for, asynchronous question); None for a node that is not there."""
        from kazoo.exceptions import KazooException, NoNodeError

        waiting: deque[tuple[Any, Any]] = deque()

        def next_answer() -> tuple[Any, Any]:
            name, question = waiting.popleft()
            try:
                return name, question.get()
            except NoNodeError:
                return name, None
            except KazooException as failure:
                raise _not_given(f"the offsets of {name!r}", failure) from failure

        for name, ask in questions:
            if len(waiting) >= self._in_flight:
                yield next_answer()
            waiting.append((name, ask()))
        while waiting:
            yield next_answer()


def offsets_of(client: Any, groups: Sequence[str], root: str, in_flight: int) -> Iterator[Row]:
    """Yields the offsets of groups as they stand in ZooKeeper; what goes meanwhile is left out.

    Args:
        client: connected.
        groups: which.
        root: of the cluster in ZooKeeper, "" for none.
        in_flight: how many questions are outstanding at most.
    """
    window = _Window(in_flight)

    def folder(group: str, *below: str) -> str:
        return "/".join([f"{root}{CONSUMERS}", group, "offsets", *below])

    def topics() -> Iterator[tuple[Any, Any]]:
        for group in groups:
            yield group, lambda group=group: client.get_children_async(folder(group))

    def partitions() -> Iterator[tuple[Any, Any]]:
        for group, names in window.answers(topics()):
            for topic in sorted(names or ()):
                yield (group, topic), lambda group=group, topic=topic: client.get_children_async(folder(group, topic))

    def nodes() -> Iterator[tuple[Any, Any]]:
        for (group, topic), names in window.answers(partitions()):
            for partition in sorted(names or ()):
                place = (group, topic, partition)
                yield place, lambda place=place: client.get_async(folder(*place))

    for (group, topic, partition), found in window.answers(nodes()):
        if found is not None:
            data, status = found
            text = None if data is None else data.decode("utf-8", "replace")
            yield group, topic, partition, text, status.mtime


def batches_of(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Returns rows as Arrow batches of SCHEMA."""
    kept: list[Row] = []
    for row in rows:
        kept.append(row)
        if len(kept) >= _ROWS:
            yield _batch(kept)
            kept = []
    if kept:
        yield _batch(kept)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), each.type) for column, each in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


# --------------------------------------------------------------------------------------------------------- for PySpark


@dataclass
class _Groups(InputPartition):
    names: tuple[str, ...]


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._hosts = options["hosts"]
        self._root = options.get("root", "").rstrip("/")
        self._groups = json.loads(options["groups"]) if "groups" in options else None
        self._tasks = int(options.get("tasks", "4"))
        self._in_flight = int(options.get("inflight", "64"))
        self._timeout = float(options.get("timeout", "15"))

    def partitions(self) -> Sequence[InputPartition]:
        with connected(self._hosts, self._timeout) as client:
            names = groups_in(client, self._root) if self._groups is None else self._groups
        # Dealt like cards: neighbours by name are often alike in size.
        dealt = [names[first :: self._tasks] for first in range(self._tasks)]
        return [_Groups(tuple(each)) for each in dealt if each] or [_Groups(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Groups)
        if partition.names:
            with connected(self._hosts, self._timeout) as client:
                yield from batches_of(offsets_of(client, partition.names, self._root, self._in_flight))


class ZooKeeperOffsets(DataSource):
    """Offsets in ZooKeeper.

    Options: hosts (required), root, groups (a JSON list), tasks, inFlight, timeout (seconds).
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns, all text but the time."""
        return SPARK_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Returns what runs in the tasks."""
        return _Reader({name.lower(): value for name, value in self.options.items()})
