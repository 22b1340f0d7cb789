"""`offsetlog migrate`: moves committed offsets between ZooKeeper and log directories, in any direction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offsetlog.cli.amounts import parse_size
from offsetlog.cli.arguments import OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import ASKS, Consent, DryRun, Effect, Yes
from offsetlog.cli.migration_places import (
    Ensemble,
    PlaceOptions,
    are_the_same,
    checked_access,
    is_there,
    opened_source,
    parse_place,
    target_to_look_at,
    writable_target,
)
from offsetlog.cli.migrations import FIELDS, effect_of, outcome_lines
from offsetlog.cli.output import Format, Output, complain, count_text, progress
from offsetlog.cli.stores import LockTimeout, NewPartitionCount
from offsetlog.cli.text import name_text
from offsetlog.errors import InvalidArgumentError

if TYPE_CHECKING:
    from offsetlog.migration.migration import Migration
    from offsetlog.migration.places import Refused, Source, Target
    from offsetlog.migration.report import Report

HELP = f"""Move committed offsets out of ZooKeeper, into ZooKeeper, or from one log directory to another.

A place is the address zookeeper://HOST:PORT,.../ROOT of a ZooKeeper, or the path of a log directory. Consumers before
Kafka 0.9 kept their offsets in ZooKeeper, below /consumers. The log directory can be that of a stopped broker or of
offsetlog. The command only reads the source. In the target, each group is written completely or not at all, and no
position moves back without --overwrite. If a run was stopped or killed, run the command again: it skips positions that
the target already has. {ASKS}

With --dry-run, the command prints all differences between the source and the target; otherwise, it prints those that
remain after the migration. Each position is written with the present time as its commit time. ZooKeeper stores neither
metadata nor leader epochs; the report counts the values that were dropped. If a ZooKeeper node holds no offset, its
path is reported, and the other nodes are migrated. Stop a group's consumers before the last run, because positions that
they commit later are not migrated.

Exit codes: 0 done; 1 something was refused, a pattern matched no group, or with --permissive something is missing;
2 the source or the target could not be read or written.

\b
Examples:
  offsetlog migrate --from zookeeper://zk1:2181,zk2:2181/kafka --to data --dry-run
  offsetlog migrate --from zookeeper://zk1:2181/kafka --to data --groups billing --groups 'audit-*'
  offsetlog migrate --from data --to zookeeper://zk1:2181/kafka
  offsetlog migrate --from /var/kafka-logs --to data --partitions 50
"""

#: How many changes a question shows, and how many groups a warning names.
SHOWN_MAX, NAMED_MAX = 20, 20


@dataclass(frozen=True, slots=True)
class _Moves:
    """One run of the command, with its source, groups and output."""

    source: Source
    groups: list[str]
    overwrite: bool
    output: Output
    wide: bool

    def _to(self, target: Target, advance: Callable[[int], object], *, dry_run: bool) -> Migration:
        from offsetlog.migration.migration import Migration

        return Migration(self.source, target, self.groups, overwrite=self.overwrite, dry_run=dry_run, advance=advance)

    def make(self, target: Target, *, dry_run: bool) -> Report:
        """Migrates, and prints differences between the source and the target.

        A dry run prints all differences.  Otherwise those that remain after the migration are printed.
        """
        with progress("groups", len(self.groups), in_bytes=False) as advance:
            migration = self._to(target, advance, dry_run=dry_run)
            rows = (each._asdict() for each in migration.run())
            self.output.rows(columns("migrate"), rows, "nothing differs", wide=self.wide)
        return migration.report

    def effect(self, target: Target, name: str) -> Effect | None:
        """Returns the effect of a migration, with the positions that move back first; None if it writes nothing."""
        from offsetlog.migration.rules import BACK, WRITTEN

        back: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        with progress("groups read", len(self.groups), in_bytes=False) as advance:
            migration = self._to(target, advance, dry_run=True)
            for each in migration.run():
                rows = back if each.action == BACK else others
                if each.action in WRITTEN and len(rows) < SHOWN_MAX:
                    rows.append(each._asdict())
        committed = migration.report.committed
        shown = [*back, *others][:SHOWN_MAX]
        count, refused = sum(committed.values()), migration.report.refused
        return effect_of(name, committed, shown, count, refused) if committed else None


def _migrated(moves: _Moves, place: Ensemble | Path, options: PlaceOptions, consent: Consent) -> Report:
    """Migrates what the user consents to."""
    with contextlib.ExitStack() as opened:
        if consent.yes and not consent.dry_run:
            return moves.make(opened.enter_context(writable_target(place, options)), dry_run=False)
        look = opened.enter_context(target_to_look_at(place, options, lock=consent.may_write))
        if consent.dry_run:
            return moves.make(look, dry_run=True)
        effect = moves.effect(look, str(place))
        if effect is None:
            return moves.make(look, dry_run=True)
        consent.ask(effect)
        target = look if is_there(look) else opened.enter_context(writable_target(place, options))
        return moves.make(target, dry_run=False)


def _place_text(refused: Refused) -> str:
    if refused.place:
        return refused.place
    place = f"group {name_text(refused.group)}"
    return f"{place}, {name_text(refused.topic)}:{refused.partition}" if refused.topic else place


def _print(output: Output, report: Report) -> None:
    """Prints the totals, the groups with live consumers and the refused positions."""
    summary = {**asdict(report), "examples": [each._asdict() for each in report.examples]}
    output.summary(columns("migrate summary"), summary)
    if output.is_text:
        for line in outcome_lines(report.committed, report.kept, dry_run=report.dry_run):
            output.line(line)
        for field, count in report.dropped.items():
            output.line(f"the target keeps no {FIELDS[field]}: dropped from {count_text(count, 'position')}")
        if not (report.committed or report.kept or report.refused):
            output.line("the source has no positions")
        if report.dry_run:
            output.line("nothing was written")
    for group in report.consumers[:NAMED_MAX]:
        complain(
            f"group {name_text(group)} has live consumers, which may go on committing; stop them and migrate again"
        )
    if len(report.consumers) > NAMED_MAX:
        complain(f"{len(report.consumers) - NAMED_MAX:,} more groups have live consumers")
    if report.refused:
        complain(f"{count_text(report.refused, 'position')} refused")
        for each in report.examples:
            holder = "it holds" if each.place else "the source has"
            held = "" if each.offset is None else f" ({holder} {each.offset!r})"
            complain(f"  {_place_text(each)}: {each.reason}{held}")
        if report.refused > len(report.examples):
            complain(f"  and {report.refused - len(report.examples):,} more")


def command(
    source: Annotated[str, typer.Option("--from", metavar="PLACE", help="The place to read.", show_default=False)],
    target: Annotated[
        str,
        typer.Option(
            "--to", metavar="PLACE", help="The place to write; a missing directory is created.", show_default=False
        ),
    ],
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--groups",
            metavar="PATTERN",
            help="Migrate only the groups with this name, or with names that match a pattern such as 'audit-*'. Can be "
            "given several times.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also write offsets that are lower than the target's.")
    ] = False,
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            help="Use several ZooKeeper requests for a group that is too large for one; a failure can then leave the "
            "group partly written.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    lock_timeout: LockTimeout = 0.0,
    partitions: NewPartitionCount = None,
    permissive: Annotated[
        bool,
        typer.Option("--permissive", help="Go on if something in a directory is missing or damaged, and report it."),
    ] = False,
    in_flight: Annotated[
        int,
        typer.Option(
            "--in-flight", min=1, max=4096, help="How many requests to ZooKeeper may be unanswered at the same time."
        ),
    ] = 64,
    jute_maxbuffer: Annotated[
        str | None,
        typer.Option(
            "--jute-maxbuffer",
            metavar="SIZE",
            help="The setting jute.maxbuffer of the ZooKeeper servers, if it is not the default of 1 MiB.",
            show_default=False,
        ),
    ] = None,
    source_auth: Annotated[
        Path | None,
        typer.Option(
            "--from-auth-file",
            metavar="FILE",
            help="A file with the credentials for the source's ZooKeeper, in lines such as digest:USER:PASSWORD.",
            show_default=False,
        ),
    ] = None,
    target_auth: Annotated[
        Path | None,
        typer.Option(
            "--to-auth-file",
            metavar="FILE",
            help="A file with the credentials for the target's ZooKeeper, in the same form as --from-auth-file.",
            show_default=False,
        ),
    ] = None,
    acl: Annotated[
        list[str] | None,
        typer.Option(
            "--acl",
            metavar="SCHEME:IDENTITY:PERMISSIONS",
            help="Permissions of new ZooKeeper nodes, e.g. auth::cdrwa or world:anyone:r; by default anyone may do "
            "anything. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Migrates the positions; returns the exit code."""
    output = Output(form)
    source_place, target_place = parse_place(source), parse_place(target)
    if are_the_same(source_place, target_place):
        raise InvalidArgumentError(f"the source and the target are the same place, {source_place}")
    most = None if jute_maxbuffer is None else parse_size(jute_maxbuffer)
    access = (source_auth, target_auth, tuple(acl or ()))
    typed = PlaceOptions(partitions, permissive, in_flight, most, split, *access, lock_timeout=lock_timeout)
    options = checked_access(source_place, target_place, typed)
    consent = Consent(yes, dry_run=dry_run, wide=wide)
    with opened_source(source_place, options) as opened:
        from offsetlog.migration.patterns import matching, unmatched

        names = opened.groups()
        missing = unmatched(names, groups or [])
        moves = _Moves(opened, matching(names, groups or []), overwrite, output, wide)
        report = _migrated(moves, target_place, options, consent)
    _print(output, report)
    for pattern in missing:
        complain(f"no group of {source_place} matches {pattern!r}")
    return 1 if report.refused or missing or report.incomplete else 0
