"""`offsetlog compact`: compacts a log now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

import offsetlog
from offsetlog import opening
from offsetlog.cli.amounts import parse_size, parse_times
from offsetlog.cli.arguments import LogPartitions, OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import Consent, Effect, Yes
from offsetlog.cli.output import Format, Output, bytes_text, complain, count_text, progress
from offsetlog.cli.positions import parse_log_partitions
from offsetlog.cli.stores import CheckedPartitionCount, LockTimeout, open_writable
from offsetlog.cli.text import escape
from offsetlog.config import MaintenanceConfig
from offsetlog.directory.log_directory import TOPIC
from offsetlog.directory.reading import age_text
from offsetlog.directory.surveying import FileState, are_replaced, states_of
from offsetlog.errors import ChangedFileError, MissingFileError, OffsetLogError
from offsetlog.moments import parse_duration
from offsetlog.types import CleaningReport, CleanSurvey

if TYPE_CHECKING:
    from offsetlog.maintenance.policy import Plan, StuckTransaction

HELP = """Drop superseded records from a log: only the last record of each key stays.

PATH can be the directory of a stopped broker. The command takes the lock of PATH. Offsets, groups and open transactions
do not change. A tombstone stays for --delete-retention after the first pass that finds no other record of the
tombstone's key. A damaged segment is reported and left as it is. The command can be interrupted at any time; the next
run continues.

The superseded records are the history. The command drops the history, as an open store does, unless --min-history keeps
it. If an earlier cleaning kept the history of some groups and this command would drop it, the command asks first or,
without a terminal, needs --yes. It does not ask if --min-history for all groups is long enough to keep this history. It
does not ask about a group that --min-history names, not even for GROUP=0, which drops the history of this group.

\b
Examples:
  offsetlog compact data
  offsetlog compact data --dry-run                            what would be done; takes no lock
  offsetlog compact /var/kafka-logs                           the directory of a stopped broker
  offsetlog compact data --min-history 7d --rate-limit 50M
  offsetlog compact data --min-history 7d --min-history billing=90d --min-history 'audit-*=365d'
  offsetlog compact data --ratio 0.5                          only logs that are more than half dirty

Exit codes: 0 done, 1 a log is damaged or could not be cleaned, or the command was refused, 2 could not be done.
"""


#: How often a dry run tries to read a log whose files a writer keeps replacing.
TRIES = 5
#: How many groups a warning names; further groups are only counted.
NAMED_MAX = 5


#: The fields of a survey that count records to be dropped.
GOES = ("superseded", "aborted", "expired_tombstones", "expired_markers", "keyless")
ACTIONS = {"none": "leave", "clean": "clean", "roll": "close and clean", "again": "clean once more"}


def _plan_row(plan: Plan, survey: CleanSurvey | None) -> dict[str, Any]:
    fields = plan._asdict()
    share = None if survey is None else survey.share
    goes = {name: None if share is None else getattr(share, name) for name in GOES}
    damaged = () if survey is None else survey.quarantine
    left = f"; {count_text(len(damaged), 'damaged segment')} would be left unchanged" if damaged else ""
    return {
        "log_partition": plan.number,
        "action": ACTIONS[plan.action],
        "bytes": plan.size,
        **{name: fields[name] for name in ("clean_bytes", "cleanable_bytes")},
        "ratio": round(plan.ratio, 4),
        **{name: fields[name] for name in ("live_bytes", "first_dirty", "uncleanable")},
        "records": None if share is None else share.records,
        "freed_records": None if share is None else sum(getattr(share, name) for name in GOES),
        "freed_bytes": None if share is None else round(share.freed_bytes),
        **goes,
        "damaged": [segment._asdict() for segment in damaged],
        "reason": plan.reason + left,
    }


def _report_row(report: CleaningReport) -> dict[str, Any]:
    fields = report._asdict()
    del fields["quarantine"], fields["seconds"]
    damaged = [segment._asdict() for segment in report.quarantine]
    return {**fields, "elapsed_ms": round(report.seconds * 1000), "damaged": damaged}


def _stuck_row(stuck: StuckTransaction) -> dict[str, Any]:
    return {
        "log_partition": stuck.log_partition,
        "producer_id": stuck.producer_id,
        "producer_epoch": stuck.producer_epoch,
        "first_log_offset": stuck.start_offset,
        "age_ms": stuck.age_ms,
        "group_names": list(stuck.groups),
        "pinned_bytes": stuck.pinned_bytes,
    }


class _Asked(TypedDict):
    """The arguments with which the command both plans and cleans."""

    roll: bool
    ratio: float
    again: bool


class Compaction:
    """One run of the command over the log partitions of a store, with its results."""

    def __init__(self, store: offsetlog.OffsetStore, numbers: list[int] | None, *, ratio: float, again: bool) -> None:
        self.store = store
        self.asked = _Asked(roll=True, ratio=ratio, again=again)
        self.plans = store.maintenance.plans(numbers, **self.asked)
        self.reports: list[CleaningReport] = []
        self.failed = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Cleans one log after another; yields a row for each, and reports failures on the standard error."""
        total = sum(plan.size for plan in self.plans if plan.action != "none")
        with progress("compacting", total) as advance:
            for plan in self.plans:
                report = self._one(plan, Meter(advance, plan.size))
                if report is not None:
                    self.reports.append(report)
                    yield _report_row(report)

    def _one(self, plan: Plan, meter: Meter) -> CleaningReport | None:
        try:
            (report,) = self.store.compact([plan.number], **self.asked, progress=meter)
        except OffsetLogError as failure:
            self.failed += 1
            complain(f"{TOPIC}-{plan.number}: {failure}")
            return None
        if report.cleaned:
            meter.finish()
        for segment in report.quarantine:
            complain(
                f"a damaged segment was left as it is: {segment.reason} ({escape(segment.path)}, byte "
                f"{segment.position})"
            )
        return report

    def summary(self) -> dict[str, Any]:
        """Returns the totals of the run, and the transactions that block cleaning."""
        names = ("bytes_before", "bytes_after", "segments_before", "segments_after", "records_read", "records_kept")
        sums = {name: sum(getattr(report, name) for report in self.reports) for name in names}
        return {
            "kind": "summary",
            "log_partitions": len(self.plans),
            "cleaned_partitions": sum(report.cleaned for report in self.reports),
            "failed_partitions": self.failed,
            **sums,
            "quarantined": sum(report.quarantined for report in self.reports),
            "stuck_transactions": [_stuck_row(stuck) for stuck in self.stuck()],
        }

    def stuck(self) -> list[StuckTransaction]:
        """Returns the open transactions that keep a log from being cleaned."""
        return self.store.maintenance.status().stuck


class Meter:
    """Turns the progress reports of one cleaning into steps of a progress bar."""

    def __init__(self, advance: Any, size: int) -> None:
        self._advance = advance
        self._size = size
        self._done = 0

    def __call__(self, number: int, bytes_read: int, bytes_total: int) -> None:
        """Takes a progress report: the bytes read so far, and the total bytes to read."""
        if bytes_total > 0:
            self._go_to(self._size * min(bytes_read, bytes_total) // bytes_total)

    def finish(self) -> None:
        """Fills the rest of this log's share of the bar."""
        self._go_to(self._size)

    def _go_to(self, done: int) -> None:
        if done > self._done:
            self._advance(done - self._done)
            self._done = done


def print_summary(output: Output, summary: dict[str, Any], stuck: list[StuckTransaction]) -> None:
    """Prints the totals, and the transactions that block cleaning."""
    output.summary(columns("compact summary"), summary)
    before, after = summary["bytes_before"], summary["bytes_after"]
    output.title(f"{count_text(summary['cleaned_partitions'], 'log partition')} of {summary['log_partitions']} cleaned")
    facts = [
        ("bytes", f"{bytes_text(before)} before, {bytes_text(after)} now"),
        ("records", f"{summary['records_kept']:,} of {summary['records_read']:,} kept"),
        ("segments", f"{summary['segments_before']:,} before, {summary['segments_after']:,} now"),
        ("damaged", count_text(summary["quarantined"], "segment")),
        ("transactions that block cleaning", f"{len(stuck):,}"),
    ]
    output.facts(facts)
    for found in stuck:
        output.line(
            f"  producer {found.producer_id} in log partition {found.log_partition}, open for "
            f"{age_text(found.age_ms / 1000)}, keeps {bytes_text(found.pinned_bytes)} from being cleaned"
        )


def _lost_past(store: offsetlog.OffsetStore, plans: list[Plan]) -> Effect | None:
    """Returns the effect of dropping history that an earlier cleaning kept, and reports it; None if there is none."""
    groups = store.maintenance.unheld([plan.number for plan in plans if plan.action != "none"])
    if not groups:
        return None
    named = ", ".join(groups[:NAMED_MAX]) + (f" and {len(groups) - NAMED_MAX} more" * (len(groups) > NAMED_MAX))
    complain(
        f"an earlier cleaning kept the history of {named}, and this command would drop this history; to keep it, add "
        f"--min-history '{groups[0]}=TIME'"
    )
    return Effect(f"drop the history of {named}, so that earlier positions cannot be restored", [], [], str)


def _states_in(path: Path) -> dict[Path, list[FileState]]:
    return {directory: states_of(directory) for directory in sorted(path.glob(f"{TOPIC}-*")) if directory.is_dir()}


def _planned(path: Path, partitions: int | None, numbers: list[int] | None, settings: MaintenanceConfig, ratio: float,
             again: bool) -> list[dict[str, Any]]:  # fmt: skip
    """Returns the rows of a dry run.

    Raises:
        ChangedFileError, MissingFileError: a writer replaced files during the read, so nothing that was read is valid.
    """
    before = _states_in(path)
    with opening.open_with(path, partitions, read_only=True, maintenance=settings, by_partition=True) as store:
        plans = store.maintenance.plans(numbers, ratio=ratio, again=again)
        surveys = [None if plan.action == "none" else store.maintenance.survey(plan) for plan in plans]
        is_damaged = store.problems() or any(survey is not None and survey.quarantine for survey in surveys)
        if is_damaged:
            after = _states_in(path)
            if any(are_replaced(states, after.get(directory, [])) for directory, states in before.items()):
                raise ChangedFileError(
                    "a cleaner replaced segments while they were read; run the command again later", path=path
                )
        _lost_past(store, plans)
    return [_plan_row(plan, survey) for plan, survey in zip(plans, surveys, strict=True)]


def _dry_run(path: Path, partitions: int | None, numbers: list[int] | None, settings: MaintenanceConfig, ratio: float,
             again: bool, output: Output, wide: bool) -> int:  # fmt: skip
    for left in reversed(range(TRIES)):
        try:
            rows = _planned(path, partitions, numbers, settings, ratio, again)
            break
        except (ChangedFileError, MissingFileError):
            if left == 0:
                raise
    output.rows(columns("compact --dry-run"), rows, "there is no log partition yet", wide=wide)
    return 0


def command(
    path: StorePath,
    log_partitions: LogPartitions = None,
    ratio: Annotated[
        float,
        typer.Option(
            "--ratio",
            metavar="R",
            min=0.0,
            max=1.0,
            help="Clean a log only if its dirty ratio exceeds this number from 0 to 1. The dirty ratio is the share of "
            "the log's bytes that was written since the last cleaning.",
        ),
    ] = 0.0,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Also clean the segments that are already clean, to drop tombstones that are older than "
            "--delete-retention.",
        ),
    ] = False,
    delete_retention: Annotated[
        str,
        typer.Option(
            "--delete-retention", metavar="TIME", help="How long tombstones are kept, e.g. 90s, 15m, 24h, 7d."
        ),
    ] = "24h",
    min_history: Annotated[
        list[str] | None,
        typer.Option(
            "--min-history",
            metavar="[GROUP=]TIME",
            help="Keep at least this much history, so that it can be queried. GROUP is a group's name or 'PREFIX*'; "
            "without it, the time applies to all groups. If several times apply to a group, the longest is used. Can "
            "be given several times.",
            show_default=False,
        ),
    ] = None,
    rate_limit: Annotated[
        str,
        typer.Option(
            "--rate-limit",
            metavar="SIZE",
            help="Read and write at most this many bytes per second; 0 means no limit.",
        ),
    ] = "0",
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="The memory for the keys of one log. If the keys do not fit, the log is read several times.",
        ),
    ] = "64M",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done. Takes no lock.")] = False,
    yes: Yes = False,
    partitions: CheckedPartitionCount = None,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Compacts the log; returns the exit code."""
    output = Output(form)
    numbers = parse_log_partitions(log_partitions)
    history_ms, histories = parse_times(min_history or [], "minimum histories", parse_duration)
    settings = MaintenanceConfig(
        enabled=False,
        delete_retention_ms=parse_duration(delete_retention),
        min_history_ms=history_ms if history_ms is not None else 0,
        min_history=histories,
        cleaner_bytes_per_second=parse_size(rate_limit),
        cleaner_map_bytes=parse_size(memory),
    )
    if dry_run:
        return _dry_run(path, partitions, numbers, settings, ratio, again, output, wide)
    with open_writable(
        path,
        partitions,
        "disk",
        create=False,
        maintenance=settings,
        by_partition=True,
        lock_timeout=lock_timeout,
    ) as store:
        run = Compaction(store, numbers, ratio=ratio, again=again)
        lost = _lost_past(store, run.plans)
        if lost is not None:
            Consent(yes, dry_run=False).ask(lost)
        output.rows(columns("compact"), run.rows(), "there is no log partition yet", wide=wide)
        summary, stuck = run.summary(), run.stuck()
    print_summary(output, summary, stuck)
    return 1 if summary["failed_partitions"] or summary["quarantined"] else 0
