"""`offsetlog history`: the commits of one position, or of all positions of a group."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

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
from offsetlog.moments import parse_time
from offsetlog.types import History, TopicPartition

HELP = """Print every record of one position, a topic or a whole group that the log still holds, oldest first.

The command only reads PATH. Commits that have no effect are listed, too. These are the commits of an aborted or open
transaction, and the commits of a transaction that ended after a newer commit. A deletion and an expiry leave the same
record, a tombstone. Records that were cleaned away are gone. The command reports on standard error from which log
offset the history is complete.

Exit codes: 0 done; 1 there is no such group, it has no record (since the time of --since), or damage was found; 2 could
not be read.

\b
Examples:
  offsetlog history data billing                         all positions of the group
  offsetlog history data billing --since -2h             shows a reset to a later offset, unlike rewinds
  offsetlog history data billing orders 0
  offsetlog history data billing orders:0 --format json
  offsetlog history /var/kafka-logs billing orders 0 --partitions 50
"""


#: The table of one position, and that of several.
ONE, SEVERAL = "history", "history GROUP"


def history_rows(histories: Mapping[TopicPartition, History], since: int | None = None) -> Iterator[dict[str, Any]]:
    """Yields the entries of the histories as rows, in log order.

    If `since` (in ms since 1970) is given, entries with an earlier time are omitted; entries without a time are not.
    """
    places = [zip(history, itertools.repeat(key)) for key, history in histories.items()]
    for entry, key in heapq.merge(*places, key=lambda place: place[0].log_offset):
        # Records of Kafka before 0.10 have no time, and may be younger.
        if since is not None and 0 <= entry.timestamp < since:
            continue
        value = entry.value
        yield {
            "topic": key.topic,
            "partition": key.partition,
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
            "log_partition": histories[key].log_partition,
        }


class _Asked(NamedTuple):
    """The positions that the arguments name."""

    topic: str | None
    partition: int | None

    @classmethod
    def parse(cls, topic: str | None, partition: int | None) -> _Asked:
        if topic is None or partition is not None or ":" not in topic:
            return cls(topic, partition)
        return cls(*parse_partition(topic))

    def histories(self, store: offsetlog.OffsetStore, group: str) -> dict[TopicPartition, History]:
        if self.topic is not None and self.partition is not None:
            key = TopicPartition(self.topic, self.partition)
            return {key: store.history(group, *key)}
        found = store.group_history(group)
        if chosen := {key: each for key, each in found.items() if self.topic in (None, key.topic)}:
            return chosen
        # The history of any position says where the log is not complete.
        none = TopicPartition(self.topic or "-", 0)
        return {none: store.history(group, none)}

    def __str__(self) -> str:
        if self.topic is None:
            return "a position"
        name = name_text(self.topic)
        return f"topic {name}" if self.partition is None else f"{name}:{self.partition}"


def _time_text(moment: datetime) -> str:
    return utc_text(round(moment.timestamp() * 1000))


def _report_gaps(histories: Iterable[History]) -> None:
    """Reports the log offset from which a group's histories are complete, and how much could not be read.

    Only the first history is used, because these two facts are the same in every history of a group.
    """
    for history in itertools.islice(histories, 1):
        if history.complete_from > 0:
            since = "" if history.complete_since is None else f", {_time_text(history.complete_since)}"
            complain(
                f"the history is complete from log offset {history.complete_from}{since}; older records may have been "
                "cleaned away"
            )
        if history.problems:
            complain(f"{count_text(history.problems, 'batch or record', 'batches and records')} could not be read")


def command(
    path: StorePath,
    group: GroupName,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="Print only the records of this topic, or of TOPIC:PARTITION.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Argument(
            metavar="PARTITION",
            min=0,
            help="Print only the records of this partition of the topic.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Print only records since this time.", show_default=False),
    ] = None,
    partitions: PartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the records; returns the exit code."""
    asked = _Asked.parse(topic, partition)
    first = None if since is None else round(parse_time(since, "--since").timestamp() * 1000)
    with offsetlog.open(path, partitions, read_only=True) as store:
        histories = asked.histories(store, group)
        problems = store.problems()
        number = number_of(store, group)
        is_unknown = not any(histories.values()) and not is_known(store, group)
    rows = history_rows(histories, first)
    oldest = next(rows, None)
    is_empty = oldest is None
    output = Output(form)
    if not is_empty or not output.is_text:
        table = columns(SEVERAL if asked.partition is None else ONE)
        shown = rows if oldest is None else itertools.chain([oldest], rows)
        output.rows(table, shown, "", wide=wide)
    if is_unknown:
        complain_unknown(group, path, number)
    elif is_empty:
        is_double = topic is not None and partition is not None and topic.rpartition(":")[2].isdecimal()
        hint = "; give the partition once: TOPIC PARTITION or TOPIC:PARTITION" if is_double else ""
        younger = "" if since is None else f" since {since}"
        complain(f"the log holds no record of {asked} for group {name_text(group)}{younger}{hint}")
    _report_gaps(histories.values())
    for problem in problems:
        complain(str(problem))
    has_damage = bool(problems) or any(each.problems for each in histories.values())
    return 1 if has_damage or is_empty else 0
