"""`offsetlog dump`: every record of a log, decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from offsetlog.cli.arguments import LogPath, OutputFormat
from offsetlog.cli.output import Column, Format, Output, complain, plain, time_text
from offsetlog.errors import CorruptionError
from offsetlog.reading import Tail, dump_rows, find_partitions

HELP = """Print every record as it stands in the files, keys and values decoded.

In log order, partition by partition, with the fields of its batch; a batch without records is a row of kind "empty".
Bytes that cannot be read are told on the standard error and passed over.

\b
Examples:
  offsetlog dump /var/kafka-logs/__consumer_offsets-12
  offsetlog dump /var/kafka-logs --format json | grep '"marker"'
"""


def _key_text(key: dict[str, Any] | None) -> str:
    if key is None:
        return "-"
    data = key.get("data", key)
    return " ".join(f"{name}={plain(value)}" for name, value in data.items())


def _value_text(value: dict[str, Any] | None) -> str:
    return "-" if value is None else _key_text(value)


COLUMNS = [
    Column("log_partition", "partition", right=True),
    Column("segment", narrow=False),
    Column("position", right=True, narrow=False),
    Column("base_offset", right=True, narrow=False),
    Column("last_offset", right=True, narrow=False),
    Column("batch_size", right=True, narrow=False),
    Column("magic", right=True, narrow=False),
    Column("codec", narrow=False),
    Column("crc", right=True, narrow=False),
    Column("leader_epoch", right=True, narrow=False),
    Column("producer_id", right=True, narrow=False),
    Column("producer_epoch", right=True, narrow=False),
    Column("base_sequence", right=True, narrow=False),
    Column("transactional", narrow=False),
    Column("control", narrow=False),
    Column("delete_horizon", narrow=False, show=time_text),
    Column("log_offset", "offset", right=True),
    Column("timestamp", "time (UTC)", time_text),
    Column("timestamp_type", narrow=False),
    Column("headers", narrow=False, show=lambda names: ",".join(plain(name) for name in names) or "-"),
    Column("kind"),
    Column("key", show=_key_text, wide=True),
    Column("value", show=_value_text, wide=True),
]


class _Told:
    """What was reported while the rows were printed."""

    def __init__(self) -> None:
        self.damages = 0
        self.undecodable = 0

    def report(self, found: CorruptionError | Tail) -> None:
        if isinstance(found, CorruptionError):
            self.damages += 1
            complain(str(found))
        elif not found.zeros:
            complain(f"an unfinished tail of {found.size} bytes: {found.damage}")


def _rows(path: Path, told: _Told) -> Iterator[dict[str, Any]]:
    partitions = find_partitions(path)
    for files in partitions:
        for row in dump_rows(files, told.report):
            told.undecodable += row["kind"] == "undecodable"
            yield row


def command(path: LogPath, form: OutputFormat = Format.TEXT) -> int:
    """Prints every record; returns the exit code."""
    told = _Told()
    Output(form).rows(COLUMNS, _rows(path, told), "no records")
    if told.undecodable:
        complain(f'{told.undecodable} records cannot be decoded; their kind is "undecodable"')
    return 1 if told.damages or told.undecodable else 0
