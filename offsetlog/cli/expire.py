"""`offsetlog expire`: deletes the offsets that have expired, or lists those that will expire."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog.cli.amounts import parse_times
from offsetlog.cli.arguments import OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns, shown_as
from offsetlog.cli.consent import ASKS, Consent, Effect, Yes
from offsetlog.cli.moments import aged_text
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.stores import CheckedPartitionCount, LockTimeout, open_readable
from offsetlog.cli.text import name_text, time_text
from offsetlog.clock import wall_ms
from offsetlog.errors import ClockError, InvalidArgumentError, OffsetLogError
from offsetlog.moments import duration_text, parse_duration
from offsetlog.retention import listed
from offsetlog.types import ExpiryReport

HELP = f"""Delete the offsets that have expired.

An offset expires when its group has had no members for the retention time. This time begins when the group becomes
empty or, if that moment is unknown, at the commit. If the record of an offset has its own expiry time, the offset
expires at that time instead. No offset expires while its group has members, or while an open transaction has a value
for its position. A group that has nothing left is deleted, too.

With --dry-run or --within, the command only reads PATH, and lists which offsets expire, when and why. {ASKS}
A deletion writes tombstones. The offsets disappear from the log when it is compacted.

Exit codes: 0 done, or nothing to do; 1 refused, or damage was found; 2 could not be done.

\b
Examples:
  offsetlog expire data --retention 7d --dry-run                what has expired
  offsetlog expire data --retention 7d --within 24h             what has, or will have by tomorrow
  offsetlog expire data --retention 7d --retention 'audit-*=never' --retention billing=90d
  offsetlog expire data --retention 7d --yes                    without a question
  offsetlog expire /var/kafka-logs --retention 7d               the directory of a stopped broker
"""

#: The longest --within, in ms: longer than the calendar, since a later time has no date.
WITHIN_MS_MAX = parse_duration("400000w")

COLUMNS = shown_as(columns("expire --dry-run"), "retention_ms", show=duration_text)


def parse_retention(texts: list[str]) -> tuple[int | None, dict[str, int | None]]:
    """Parses retentions such as 7d, never, g=7d or g-*=never; returns the default, and the retentions by group.

    A retention is a number of ms, or None for `never`.

    Raises:
        InvalidArgumentError: an argument is not a retention, two arguments are for the same groups, or no argument
            gives a time, so that nothing would expire.
    """
    default, groups = parse_times(
        texts, "retentions", lambda time: None if time.strip() == "never" else parse_duration(time)
    )
    if all(value is None for value in (default, *groups.values())):
        raise InvalidArgumentError("nothing expires without a retention; give one, e.g. --retention 7d")
    return default, groups


def _tell(
    output: Output,
    path: Path,
    partitions: int | None,
    within_ms: int,
    default: int | None,
    groups: dict[str, int | None],
    wide: bool,
    trust_clock: bool,
) -> int:
    with open_readable(path, partitions, by_partition=True) as store:
        table = store.expiring(timedelta(milliseconds=within_ms), retention_ms=default, retention=groups)
        nothing = "nothing expires in this time" if within_ms else "nothing has expired"
        output.rows(COLUMNS, (row._asdict() for row in listed(table)), nothing, wide=wide)
        if not trust_clock:
            _warn_of_clock(store, default, groups)
        return 1 if store.problems() else 0


def _warn_of_clock(store: offsetlog.OffsetStore, default: int | None, groups: dict[str, int | None]) -> None:
    refusal = store.maintenance.clock_refusal(default, groups)
    if refusal is not None:
        complain(f"without --trust-clock nothing would be deleted: {refusal}")


def _what(report: ExpiryReport) -> str:
    text = count_text(report.positions_expired, "expired offset")
    if report.groups_removed:
        text += f", and with them {count_text(report.groups_removed, 'group')}"
    return text


def _refuse_clock(store: offsetlog.OffsetStore, default: int | None, groups: dict[str, int | None]) -> None:
    # The command refuses before it asks, because the deletion would be refused after the answer.
    refusal = store.maintenance.clock_refusal(default, groups)
    if refusal is not None:
        raise ClockError(
            f"{refusal.message}; if the clock is right, add --trust-clock", now=refusal.now, newest=refusal.newest
        )


def _name(row: dict[str, Any]) -> str:
    group = name_text(row["group"])
    if row["topic"] is None:
        return f"the group {group}"
    return f"{group} {name_text(row['topic'])}:{row['partition']} {row['offset']}"


def _effect(store: offsetlog.OffsetStore, default: int | None, groups: dict[str, int | None]) -> Effect:
    rows = [row._asdict() for row in listed(store.expiring(retention_ms=default, retention=groups))]
    offsets = [row for row in rows if row["topic"] is not None]
    parts = []
    if offsets:
        owners = count_text(len({row["group"] for row in offsets}), "group")
        parts.append(f"{count_text(len(offsets), 'expired offset')} of {owners}")
    if len(rows) > len(offsets):
        parts.append(f"{count_text(len(rows) - len(offsets), 'group')} with nothing left")
    deed = f"delete {' and '.join(parts)}"
    if offsets:
        deed += f", the first expired {aged_text(offsets[0]['expires_at'])}"
    return Effect(f"{deed}, by this machine's clock ({time_text(wall_ms())} UTC)", COLUMNS, rows, _name)


def command(
    path: StorePath,
    retention: Annotated[
        list[str] | None,
        typer.Option(
            "--retention",
            metavar="[GROUP=]TIME",
            help="How long unused offsets are kept, e.g. 7d, 12h or 'never'. GROUP is a group's name or 'PREFIX*'; "
            "without it, the time applies to all groups. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the offsets that have expired.")] = False,
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            metavar="TIME",
            help="Only list the offsets that have expired or will expire within this time, e.g. 24h.",
        ),
    ] = None,
    yes: Yes = False,
    trust_clock: Annotated[
        bool,
        typer.Option(
            "--trust-clock", help="Trust this machine's clock even if the log has records with later times."
        ),
    ] = False,
    partitions: CheckedPartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Deletes or lists the expired offsets; returns the exit code."""
    output = Output(form)
    default, groups = parse_retention(retention or [])
    if dry_run or within is not None:
        within_ms = parse_duration(within) if within is not None else 0
        if within_ms > WITHIN_MS_MAX:
            raise InvalidArgumentError(f"--within {within} is too long: it ends after the last date of the calendar")
        return _tell(output, path, partitions, within_ms, default, groups, wide, trust_clock)
    consent = Consent(yes, dry_run=False, wide=wide)
    with consent.open(path, partitions, lock_timeout, by_partition=True) as store:
        if not trust_clock:
            _refuse_clock(store, default, groups)
        if not yes:
            effect = _effect(store, default, groups)
            if effect.rows:
                consent.ask(effect)
        try:
            report = store.expire(
                retention_ms=default, retention=groups, dry_run=not consent.may_write, trust_clock=trust_clock
            )
        except OffsetLogError as failure:
            for note in getattr(failure, "__notes__", ()):
                complain(note)
            raise
    result = {**report._asdict(), "log_partitions": report.partitions, "elapsed_ms": round(report.seconds * 1000)}
    output.result(columns("expire"), result)
    nothing = not report.positions_expired and not report.groups_removed
    output.line("nothing has expired" if nothing else f"deleted {_what(report)}")
    return 0
