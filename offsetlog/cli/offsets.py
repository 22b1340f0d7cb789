"""`offsetlog offsets`: the committed offsets in a log."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog._native.files import format_uuid
from offsetlog.cli.arguments import LogPath, OnlyGroup, OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.group_facts import complain_unknown
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.positions import is_selected, parse_selection
from offsetlog.cli.states import read_states
from offsetlog.cli.stores import open_readable
from offsetlog.cli.text import name_text
from offsetlog.directory.listing import group_rows, offset_rows
from offsetlog.directory.reading import PartitionState
from offsetlog.errors import InvalidArgumentError
from offsetlog.moments import parse_moment
from offsetlog.types import TopicPartition

HELP = """Print the committed offsets, sorted by group, topic and partition.

The command only reads PATH, which may belong to a running broker. It omits the offsets of open transactions.

With --at, it prints the offsets as of a time such as 2026-03-01T02:30 (UTC) or '2h ago'; PATH must then be a log
directory. Each log partition has its own log offsets, so --at takes no log offset here; `offsetlog fetch --at` takes
one.

Exit codes: 0 done, 1 there is no such group, a requested topic has no committed offset, or damage was found, 2 could
not be read.

\b
Examples:
  offsetlog offsets /var/kafka-logs
  offsetlog offsets /var/kafka-logs --group billing --format json
  offsetlog offsets /var/kafka-logs --topic orders --topic invoices:3
  offsetlog offsets /var/kafka-logs --at '2h ago'
  offsetlog offsets /var/kafka-logs/__consumer_offsets-12/00000000000000000000.log
"""


def _rows_at(store: offsetlog.OffsetStore, at: datetime, group: str | None) -> Iterator[dict[str, Any]]:
    for batch in store.to_arrow(at=at).to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            if group is None or row["group"] == group:
                identity = row["topic_id"]
                yield {**row, "topic_id": None if identity is None else format_uuid(identity)}


def _moment(at: str | None) -> datetime | None:
    moment = None if at is None else parse_moment(at, "--at")
    if isinstance(moment, int):
        raise InvalidArgumentError(
            f"--at={at!r}: each log partition has its own log offsets, so this command takes only a time; for one "
            f"group, use offsetlog fetch PATH GROUP --at {at} (with --partitions for a broker's directory)"
        )
    return moment


def command(
    path: LogPath,
    group: OnlyGroup = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:PARTITION]",
            help="Print only the offsets of this topic or partition. Can be given several times.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Print the offsets as of this time.", show_default=False)
    ] = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the committed offsets; returns the exit code."""
    selection = {parse_selection(text): text for text in topics or []}
    wanted = set(selection)
    unseen = wanted.copy()
    moment = _moment(at)

    def selected(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            key = TopicPartition(row["topic"], row["partition"])
            if is_selected(key, wanted):
                unseen.difference_update((key, key.topic))
                yield row

    def show(rows: Iterable[dict[str, Any]]) -> int:
        chosen = selected(rows) if selection else rows
        empty = "" if group is not None or selection else "no committed offsets"
        return Output(form).rows(columns("offsets"), chosen, empty, wide=wide)

    if moment is None:
        states = read_states(path)
        shown, finish = show(offset_rows(states.partitions, group)), states.complain
    else:
        with open_readable(path, None, by_partition=True) as store:
            shown, problems = show(_rows_at(store, moment, group)), store.problems()
        finish = functools.partial(int, bool(problems))
    if group is not None and not shown:
        partitions = read_states(path).partitions if moment is not None else states.partitions
        if not _has_group(partitions, group):
            return max(complain_unknown(group, path), finish())
    verb = "is" if moment is None else "was"
    of_group = "" if group is None else f"group {name_text(group)}: "
    for each in sorted(selection[each] for each in unseen):
        complain(f"{of_group}no offset of {name_text(each)} {verb} committed")
    if group is not None and not shown and not selection:
        complain(f"no offset of group {name_text(group)} {verb} committed")
    return max(finish(), 1 if unseen else 0)


def _has_group(partitions: list[PartitionState], group: str) -> bool:
    return any(row["group"] == group for row in group_rows(partitions))
