"""`offsetlog repair`: shows what a log directory has lost, or accepts the losses."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from offsetlog.cli.arguments import OutputFormat, StorePath, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.consent import ASKS, Consent, Effect, Yes
from offsetlog.cli.output import Format, Output, complain, count_text
from offsetlog.cli.stores import LOCKED_ADVICE, LockTimeout
from offsetlog.errors import CorruptionError, InvalidArgumentError, LockedError, OffsetLogError
from offsetlog.lifecycle.accept_loss import accept_loss, describe, find_losses

HELP = f"""Show which data is missing in a log; with --accept-loss, continue without it.

A log partition that lost acknowledged commits is read-only until the loss is accepted. Accepting a loss restores
nothing. The command removes the unreadable bytes from the log, and keeps a copy of every changed file beside the file.
It writes the lost positions that are in a snapshot to offsetlog-loss-TIME.json in PATH. {ASKS}

Exit codes: 0 nothing is missing, or the loss was accepted; 1 something is missing, or the command was refused; 2 could
not be done.

\b
Examples:
  offsetlog repair data
  offsetlog repair data --format json
  offsetlog repair data --accept-loss
  offsetlog repair data --accept-loss --yes      without a question
"""


#: How many keys of a loss are named in text; JSON has all that are known.
KEYS_NAMED = 20


def _range_text(row: dict[str, Any]) -> str:
    if row["lost_from"] is None:
        return "-"
    return f"{row['lost_from']} to {'?' if row['lost_below'] is None else row['lost_below'] - 1}"


def row_of(loss: OffsetLogError) -> dict[str, Any]:
    """Returns a loss as a row with the fields of `describe`, and with those of the affected keys that are known."""
    row = describe(loss)
    known = loss.keys if isinstance(loss, CorruptionError) else ()
    keys = [{"group": group, "topic": topic, "partition": partition} for group, topic, partition in known]
    return {**row, "keys": keys}


def _complain_of_unreadable(rows: list[dict[str, Any]]) -> None:
    if rows:
        count = count_text(len(rows), "log partition", "log partitions")
        complain(f"the disk cannot read {count}: check the disk, or continue with a copy of the readable part")


def _name(row: dict[str, Any]) -> str:
    if row["log_partition"] is None:
        return f"the directory: {row['reason']}"
    known = "".join(f"; {_key_text(key)}" for key in row["keys"][:KEYS_NAMED])
    more = f"; {count_text(len(row['keys']) - KEYS_NAMED, 'more key')}" if len(row["keys"]) > KEYS_NAMED else ""
    return f"log partition {row['log_partition']}, log offsets {_range_text(row)}: {row['reason']}{known}{more}"


def _key_text(key: dict[str, Any]) -> str:
    return f"group {key['group']!r}, topic {key['topic']!r}, partition {key['partition']}"


def _print(output: Output, rows: list[dict[str, Any]], *, wide: bool) -> None:
    output.rows(columns("repair"), rows, "", wide=wide)
    if output.is_text:
        for row in rows:
            for key in row["keys"][:KEYS_NAMED]:
                output.line(f"  log partition {row['log_partition']} lacks {_key_text(key)}")


def _what_next(rows: list[dict[str, Any]]) -> str:
    if all(row["kind"] == "checkpoint" for row in rows):
        count = count_text(len(rows), "finding")
        advice = "to rewrite the checkpoint, add --accept-loss or open the directory for writing"
        return f"{count}, but no commit is missing; {advice}"
    count = count_text(len(rows), "loss", "losses")
    return f"{count}: restore the missing files from a copy, or give up the missing records with --accept-loss"


def command(
    path: StorePath,
    accept: Annotated[
        bool, typer.Option("--accept-loss", help="Accept that the missing data is lost, and continue without it.")
    ] = False,
    yes: Yes = False,
    lock_timeout: LockTimeout = 0.0,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Shows the losses, or accepts them; returns the exit code."""
    output = Output(form)
    if yes and not accept:
        raise InvalidArgumentError("nothing was done: --yes has an effect only with --accept-loss; give both options")
    losses = find_losses(path)
    rows = [row_of(loss) for loss in losses]
    if not rows:
        if not output.is_text:
            output.rows(columns("repair"), [], "")
        output.line("nothing is missing")
        return 0
    unreadable = [row for row in rows if row["kind"] == "unreadable"]
    if not accept or rows == unreadable:
        _print(output, rows, wide=wide)
        _complain_of_unreadable(unreadable)
        if rows == unreadable:
            return 2 if accept else 1
        complain(_what_next([row for row in rows if row not in unreadable]))
        return 1
    rows = [row for row in rows if row not in unreadable]
    concerned = {row["log_partition"] for row in rows if row["log_partition"] is not None}
    deed = f"give up the missing records in {count_text(len(concerned), 'log partition')} of {path}"
    if not concerned:
        deed = f"rewrite the checkpoint files, and offsetlog's records of them, in {path}"
    Consent(yes, wide=wide).ask(Effect(deed, columns("repair"), rows, _name))
    try:
        accepted = accept_loss(path, shown=losses, lock_timeout=lock_timeout)
    except LockedError as failure:
        raise failure.advise(LOCKED_ADVICE) from None
    done = {"report": str(accepted.report), "copies": [str(copy) for copy in accepted.copies]}
    output.result(columns("repair --accept-loss"), done)
    output.line(
        f"accepted {count_text(len(accepted.losses), 'loss', 'losses')} and kept "
        f"{count_text(len(accepted.copies), 'copy', 'copies')} of changed files; the report is {accepted.report}"
    )
    if any(row["keys"] for row in rows):
        output.line("the report lists the lost positions that a snapshot knew; `offsetlog commit` commits them again")
    unreadable = [row_of(failure) for failure in accepted.unreadable]
    _complain_of_unreadable(unreadable)
    return 1 if unreadable else 0
