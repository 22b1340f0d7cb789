"""Reads the offsets that consumers before Kafka 0.9 kept in ZooKeeper.  Each task reads the offsets of some groups.

Nodes of other programs, such as Storm, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import groups_in, read_offsets, text_of

FORMAT = "offsetlog-zookeeper"

#: All fields are text; the caller refuses texts that are not numbers.  `moment` is the time of the last change, in ms.
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in ("group", "topic", "partition", "offset")), ("moment", pa.int64())]
)
SPARK_SCHEMA = "group string, topic string, partition string, offset string, moment bigint"

#: How many rows a batch for Spark has.
_ROWS = 65536

Row = tuple[str, str, str, str | None, int | None]


def rows_of(connection: ZooKeeperConnection, groups: Sequence[str], in_flight: int) -> Iterator[Row]:
    """Yields the offsets of groups in ZooKeeper.  Leaves out nodes that are removed meanwhile.

    Raises:
        ZooKeeperError: ZooKeeper refuses to return a node.
    """
    connection.sync_async()
    for node in read_offsets(connection, groups, in_flight):
        yield node.group, node.topic, node.partition, text_of(node.data), node.stat.modified_ms


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
        timeout = float(options.get("timeout", "15"))
        self._settings = ConnectionSettings(
            hosts=options["hosts"] + options.get("root", "").rstrip("/"),
            session_timeout=timeout,
            connection_timeout=timeout,
        )
        self._groups = json.loads(options["groups"]) if "groups" in options else None
        self._tasks = int(options.get("tasks", "4"))
        self._in_flight = int(options.get("inflight", "64"))

    def partitions(self) -> Sequence[InputPartition]:
        with ZooKeeperConnection(self._settings) as connection:
            names = groups_in(connection) if self._groups is None else self._groups
        # Groups are dealt round-robin, since neighbours by name are often of similar size.
        dealt = [names[first :: self._tasks] for first in range(self._tasks)]
        return [_Groups(tuple(each)) for each in dealt if each] or [_Groups(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Groups)
        if partition.names:
            with ZooKeeperConnection(self._settings) as connection:
                yield from batches_of(rows_of(connection, partition.names, self._in_flight))


class ZooKeeperOffsets(DataSource):
    """Offsets in ZooKeeper.

    Options: hosts (required), root, groups (a JSON list of names), tasks, inFlight, timeout (in seconds).
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns; all are text except `moment`."""
        return SPARK_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Returns the reader that runs in the tasks."""
        return _Reader({name.lower(): value for name, value in self.options.items()})
