"""`offsetlog commit`: commits offsets of a group."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

import offsetlog
from offsetlog._native.codec import partition_for
from offsetlog._native.files import FileSystem
from offsetlog.cli.arguments import GroupName, OutputFormat, StorePath
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import RefusedError
from offsetlog.cli.group_facts import facts_of
from offsetlog.cli.output import Format, Output, count_text
from offsetlog.cli.positions import parse_expected, parse_offsets
from offsetlog.cli.stores import LockTimeout, NewPartitionCount, open_writable
from offsetlog.cli.text import name_text
from offsetlog.config import PARTITIONS_MAX
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import InvalidArgumentError
from offsetlog.lifecycle.inspection import log_end
from offsetlog.types import OffsetAndMetadata, TopicPartition

HELP = """Commit offsets of a group: all of them, or none.

The command takes the lock of PATH, so PATH must not be open in a broker or another program. In the argument
TOPIC:PARTITION=OFFSET, the topic ends at the last colon.

If the group has members, an offset moves back only with --force. If PATH is the directory of a broker and lacks the log
partition of the group, the command creates this log partition only with --force.

Exit codes: 0 done; 1 refused because of --expected or --monotonic, because --force is missing, or because the log is
damaged; 2 could not be done.

\b
Examples:
  offsetlog commit data billing orders:0=42 orders:1=7                     creates data if it does not exist
  offsetlog commit data billing orders:0=43 --expected orders:0=42         only if 42 is committed now
  offsetlog commit data billing orders:2=0 --expected orders:2=none        only if nothing is committed
  offsetlog commit data billing orders:0=44 --metadata "by hand"
  offsetlog commit data -- -group orders:0=1                               a name that begins with a dash
"""


class Durability(enum.StrEnum):
    """The failure that a commit survives once the command has ended: the end of the process, or a loss of power."""

    DISK = "disk"
    PROCESS = "process"


def _refuse_going_back(
    store: offsetlog.OffsetStore, group: str, values: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    now = store.fetch(group)
    back = [
        f"{key.topic}:{key.partition} {now[key].offset} -> {value.offset}"
        for key, value in values.items()
        if key in now and value.offset < now[key].offset
    ]
    reason = facts_of(store, group).in_use if back else None
    if reason is not None:
        raise RefusedError(
            f"nothing was done: {reason}, and the commit would move offsets back ({back[0]}"
            f"{' and others' if len(back) > 1 else ''}); to commit anyway, add --force"
        )


def _refuse_absent(path: Path, partitions: int | None, group: str) -> None:
    directory = LogDirectory(path, FileSystem())
    if not directory.holds_log() or not directory.is_from_broker():
        return
    properties = directory.known_properties()
    count = partitions if properties is None else properties.partitions
    # A wrong number and a name that cannot be written are refused by the open and by the commit, and so is a lost
    # log partition.
    if count is None or not 1 <= count <= PARTITIONS_MAX or partitions not in (None, count):
        return
    number = partition_for(group.encode(errors="surrogateescape"), count)
    if properties is not None and number in (properties.existing or ()):
        return
    if number not in directory.partition_numbers():
        check = "check --partitions, and " if properties is None else ""
        raise RefusedError(
            f"nothing was done: {path} has no log partition {number} for group {name_text(group)}, perhaps because "
            f"this broker does not replicate the log partition; {check}add --force to create the log partition here"
        )


def command(
    path: StorePath,
    group: GroupName,
    offsets: Annotated[
        list[str], typer.Argument(metavar="TOPIC:PARTITION=OFFSET", help="The offsets to commit.", show_default=False)
    ],
    metadata: Annotated[
        str, typer.Option("--metadata", metavar="TEXT", help="Free text stored with each offset.", show_default=False)
    ] = "",
    leader_epoch: Annotated[
        int,
        typer.Option("--leader-epoch", metavar="N", min=-1, help="Leader epoch of the last record read; -1: unknown."),
    ] = -1,
    expected: Annotated[
        list[str] | None,
        typer.Option(
            "--expected",
            metavar="TOPIC:PARTITION=OFFSET",
            help="Commit only if this is the partition's committed offset now; `none` means no committed offset. "
            "Can be given several times.",
        ),
    ] = None,
    monotonic: Annotated[bool, typer.Option("--monotonic", help="Refuse if any offset would move back.")] = False,
    partitions: NewPartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Move offsets back even if the group has members, and create the log partition of the group if a "
            "broker's directory lacks it.",
        ),
    ] = False,
    durability: Annotated[
        Durability,
        typer.Option(
            help="With `disk`, the commit survives a loss of power; with `process`, the commit survives only the end "
            "of the process."
        ),
    ] = Durability.DISK,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Commits the offsets; returns the exit code."""
    values = parse_offsets(offsets, metadata, leader_epoch)
    conditions = parse_expected(expected or [])
    for key in conditions:
        if key not in values:
            raise InvalidArgumentError(
                f"--expected names {key.topic}:{key.partition}, which this command does not commit"
            )
    output = Output(form)
    kind: Literal["process", "disk"] = "disk" if durability is Durability.DISK else "process"
    if not force:
        _refuse_absent(path, partitions, group)
    with open_writable(path, partitions, kind, create=True, lock_timeout=lock_timeout) as store:
        if not force:
            _refuse_going_back(store, group, values)
        # Nothing else can write under the lock, so the commit begins here.  A large commit ends with a marker.
        undo_at = log_end(store._open_core, group)
        position = store.commit(group, values, expected=conditions or None, monotonic=monotonic)
    done = {
        "group": group,
        "committed_offsets": len(values),
        "log_partition": position.log_partition,
        "log_offset": position.log_offset,
        "undo_at": undo_at,
        "durability": durability.value,
    }
    output.result(columns("commit"), done)
    is_one = undo_at == position.log_offset
    span = f"log offset {undo_at}" if is_one else f"log offsets {undo_at} to {position.log_offset}"
    place = f"log partition {position.log_partition}, {span}"
    output.line(f"committed {count_text(len(values), 'offset')} of {name_text(group)} ({place})")
    return 0
