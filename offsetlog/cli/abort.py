"""`offsetlog abort`: ends an open transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog.cli.arguments import OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import ASKS, Consent, DryRun, Effect, Force, Yes
from offsetlog.cli.group_facts import facts_in, read_partition
from offsetlog.cli.moments import aged_text
from offsetlog.cli.output import Format, Output, count_text
from offsetlog.cli.refusals import refusals_of
from offsetlog.cli.stores import CheckedPartitionCount, LockTimeout
from offsetlog.cli.text import name_text
from offsetlog.directory.listing import decode_text
from offsetlog.directory.reading import PartitionState
from offsetlog.errors import TransactionError
from offsetlog.types import OpenTransaction

HELP = f"""Abort an open transaction: drop its pending offsets. Committed offsets stay.

Use it for a transaction that an ended program left open. If a broker's coordinator is going to end the transaction,
leave the transaction to the coordinator. {ASKS}
If a group in the transaction has members, one of them may still be writing the transaction, so the command needs
--force.

Exit codes: 0 done; 1 refused, or there is no such transaction; 2 could not be done.

\b
Examples:
  offsetlog transactions data           lists the open ones
  offsetlog abort data 11 --dry-run     what would be dropped
  offsetlog abort data 11
  offsetlog abort data 11 --yes         without a question
  offsetlog abort /var/kafka-logs 11    in a broker's directory, while the broker is stopped
"""


def _rows(state: PartitionState, producer_id: int) -> Iterator[dict[str, Any]]:
    committed: dict[bytes, dict[tuple[str, int], int]] = {}
    for name, topic, partition, offset, _, metadata, timestamp, _, _, log_offset in state.replay.pending(producer_id):
        if name not in committed:
            committed[name] = {(each[0], each[1]): each[2] for each in state.replay.positions(name)}
        yield {
            "group": decode_text(name),
            "topic": topic,
            "partition": partition,
            "committed_offset": committed[name].get((topic, partition)),
            "pending_offset": offset,
            "metadata": metadata,
            "commit_timestamp": timestamp,
            "log_partition": state.number,
            "log_offset": log_offset,
        }


def _name(row: dict[str, Any]) -> str:
    return f"{name_text(row['group'])} {name_text(row['topic'])}:{row['partition']} {row['pending_offset']}"


def _what(producer_id: int, pending: list[OpenTransaction]) -> str:
    offsets = count_text(sum(each.positions for each in pending), "pending offset")
    return f"the transaction of producer {producer_id} with {offsets}"


def _effect(store: offsetlog.OffsetStore, producer_id: int, pending: list[OpenTransaction]) -> Effect:
    rows: list[dict[str, Any]] = []
    in_use: list[str] = []
    for transaction in pending:
        state = read_partition(store.path, transaction.log_partition)
        if state is not None:
            rows += _rows(state, producer_id)
            facts = [facts_in(state, group) for group in sorted(set(transaction.groups))]
            in_use += [each.in_use for each in facts if each.in_use is not None]
    groups = count_text(len({row["group"] for row in rows}), "group")
    partitions = count_text(len(pending), "log partition")
    heard = aged_text(max(each.last_timestamp for each in pending))
    deed = f"abort {_what(producer_id, pending)} of {groups} in {partitions}, last write at {heard}"
    return Effect(deed, columns("abort --dry-run"), rows, _name, in_use=tuple(in_use))


def command(
    path: StorePath,
    producer_id: Annotated[
        int,
        typer.Argument(
            metavar="PRODUCER_ID",
            min=0,
            help="The id of the producer whose open transaction is aborted.",
            show_default=False,
        ),
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    partitions: CheckedPartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Aborts the transaction; returns the exit code."""
    output = Output(form)
    consent = Consent(yes, force=force, dry_run=dry_run, wide=wide)
    with consent.open(path, partitions, lock_timeout, by_partition=True) as store:
        pending = [known for known in store.transactions() if known.producer_id == producer_id]
        if not pending:
            raise TransactionError(f"producer {producer_id} has no open transaction")
        effect = _effect(store, producer_id, pending)
        if dry_run:
            numbers = {known.log_partition for known in pending}
            return consent.show(output, effect, refusals_of(store, path, partitions, numbers, by_partition=True))
        consent.ask(effect)
        ended = store.abort_transaction(producer_id)
    dropped = sum(each.positions for each in pending)
    done = {"producer_id": producer_id, "log_partitions": ended, "dropped_offsets": dropped}
    output.result(columns("abort"), done)
    output.line(f"aborted {_what(producer_id, pending)} in {count_text(ended, 'log partition')}")
    return 0
