"""`offsetlog rewinds`: the commits that moved an offset back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from offsetlog._native.codec import partition_for
from offsetlog.cli.arguments import OnlyGroup, OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.group_facts import complain_unknown, is_listed
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.stores import CheckedPartitionCount, open_readable
from offsetlog.history.rewinds import Rewind
from offsetlog.moments import parse_time

HELP = """List every committed offset that is lower than the one before it, oldest first.

Use it to find resets of offsets. It shows which groups went back, in which partitions, and when. The command only reads
PATH, in one pass over the log. Offsets of open and aborted transactions do not count. If a position was deleted and
committed again, its offset is compared with the one before the deletion. `undelete --list` shows what was deleted.

To restore the state before a reset, run `restore GROUP --at offset:N`, where N is the lowest restore_at in the rows of
the reset. --by-group shows the lowest restore_at of each group. Choose --since so that only the reset is listed.

Records that were cleaned away are gone. The command reports on standard error where the log is not complete.

Exit codes: 0 done; 1 there is no such group, or damage was found; 2 could not be read.

\b
Examples:
  offsetlog rewinds data
  offsetlog rewinds data --since -2h
  offsetlog rewinds data --since -2h --by-group            one row for each group
  offsetlog rewinds /var/kafka-logs --group billing --format json
"""


def rewind_rows(rewinds: Iterable[Rewind]) -> Iterator[dict[str, Any]]:
    """Yields rewinds as rows of the table."""
    for each in rewinds:
        yield {
            "group": each.group,
            "topic": each.topic,
            "partition": each.partition,
            "timestamp": each.timestamp,
            "offset_before": each.before.offset,
            "offset_after": each.after.offset,
            "step": each.after.offset - each.before.offset,
            "log_partition": each.log_partition,
            "log_offset": each.log_offset,
            "effective_at": each.effective_at,
            "restore_at": each.restore_at,
        }


def rows_by_group(rewinds: Iterable[Rewind]) -> Iterator[dict[str, Any]]:
    """Yields one row for each group, in the order of their first rewinds."""
    of_groups: dict[str, list[Rewind]] = {}
    for each in rewinds:
        of_groups.setdefault(each.group, []).append(each)
    for group, found in of_groups.items():
        moments = [each.restore_at for each in found if each.restore_at is not None]
        yield {
            "group": group,
            "rewound_offsets": len({(each.topic, each.partition) for each in found}),
            "first_timestamp": found[0].timestamp,
            "last_timestamp": found[-1].timestamp,
            "log_partition": found[0].log_partition,
            # If a rewind has no moment before it, no moment lies before all rewinds.
            "restore_at": min(moments) if len(moments) == len(found) else None,
        }


def command(
    path: StorePath,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Print only offsets that went back since this time.",
            show_default=False,
        ),
    ] = None,
    group: OnlyGroup = None,
    by_group: Annotated[
        bool, typer.Option("--by-group", help="Print one row for each group, with the group's lowest restore_at.")
    ] = False,
    partitions: CheckedPartitionCount = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the rewinds; returns the exit code."""
    younger = None if since is None else parse_time(since)
    with open_readable(path, partitions, by_partition=True) as store:
        found = store.rewinds(younger, group)
        is_damaged = bool(store.problems())
        is_unknown = group is not None and not found and not is_listed(path, group)
    output = Output(form)
    if not is_unknown or not output.is_text:
        table, shown = ("rewinds --by-group", rows_by_group(found)) if by_group else ("rewinds", rewind_rows(found))
        output.rows(columns(table), shown, "no committed offset went back", wide=wide)
    if is_unknown and group is not None:
        complain_unknown(group, path, partitions and partition_for(group.encode(), partitions))
    for gap in found.gaps:
        if gap.reason == "cleaned":
            complain(
                f"log partition {gap.log_partition} was cleaned below log offset {gap.end}; "
                "earlier commits that moved an offset back may be missing"
            )
        else:
            complain(f"log partition {gap.log_partition} cannot be read from log offset {gap.start} to {gap.end}")
    return 1 if is_unknown or is_damaged or any(gap.reason == "damaged" for gap in found.gaps) else 0
