"""`offsetlog history`: the commits of one position."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog._native.files import format_uuid
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns, utc_text
from offsetlog.cli.group_facts import complain_unknown, is_known, number_of
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.positions import parse_partition
from offsetlog.cli.stores import PartitionCount
from offsetlog.cli.text import name_text
from offsetlog.errors import InvalidArgumentError
from offsetlog.types import History, TopicPartition

HELP = """Print every record of one position that the log still holds, oldest first.

PATH is only read. Commits without effect are listed, too: those of an aborted or open transaction, and those of a
transaction that ended after a newer commit. A deletion and an expiry leave the same record, a tombstone. Records that
were cleaned away are gone; standard error says from which log offset the history is complete.

Exit codes: 0 done, 1 there is no such group or no record of it, or damage was found, 2 could not be read.

\b
Examples:
  offsetlog history data billing orders 0
  offsetlog history data billing orders:0 --format json
  offsetlog history /var/kafka-logs billing orders 0 --partitions 50
"""


def history_rows(history: History) -> Iterator[dict[str, Any]]:
    """Yields the entries as rows of the table."""
    for entry in history:
        value = entry.value
        yield {
            "log_offset": entry.log_offset,
            "timestamp": entry.timestamp,
            "kind": entry.kind,
            "offset": None if value is None else value.offset,
            "metadata": None if value is None else value.metadata,
            "leader_epoch": None if value is None else value.leader_epoch,
            "commit_timestamp": None if value is None else value.commit_timestamp,
            "expire_timestamp": None if value is None else value.expire_timestamp,
            "topic_id": None if value is None or value.topic_id is None else format_uuid(value.topic_id.bytes),
            "outcome": entry.outcome,
            "effective_at": entry.effective_at,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "marker_offset": entry.marker_offset,
            "log_partition": history.log_partition,
        }


def _place(topic: str, partition: int | None) -> TopicPartition:
    if partition is not None:
        return TopicPartition(topic, partition)
    if ":" not in topic:
        raise InvalidArgumentError("the partition is missing; give TOPIC PARTITION or TOPIC:PARTITION")
    return parse_partition(topic)


def _time_text(moment: datetime) -> str:
    return utc_text(round(moment.timestamp() * 1000))


def command(
    path: StorePath,
    group: GroupName,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    partition: Annotated[
        int | None,
        typer.Argument(
            metavar="PARTITION",
            min=0,
            help="The partition; omitted if TOPIC is TOPIC:PARTITION.",
            show_default=False,
        ),
    ] = None,
    partitions: PartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the records; returns the exit code."""
    key = _place(topic, partition)
    with offsetlog.open(path, partitions, read_only=True) as store:
        history = store.history(group, *key)
        problems = store.problems()
        number = number_of(store, group)
        is_unknown = not history and not is_known(store, group)
    output = Output(form)
    if history or not output.is_text:
        output.rows(columns("history"), history_rows(history), "", wide=wide)
    if is_unknown:
        complain_unknown(group, path, number)
    elif not history:
        complain(f"the log holds no record of {name_text(key.topic)}:{key.partition} of group {name_text(group)}")
    if history.complete_from > 0:
        since = "" if history.complete_since is None else f", {_time_text(history.complete_since)}"
        complain(
            f"the history is complete from log offset {history.complete_from}{since}; older records may have been "
            "cleaned away"
        )
    if history.problems:
        complain(f"{count_text(history.problems, 'batch or record', 'batches and records')} could not be read")
    for problem in problems:
        complain(str(problem))
    return 1 if problems or history.problems or not history else 0
