"""Commands that destroy ask first: on a terminal with a question, elsewhere they refuse without --yes.

The question and the refusal state the whole effect, on the standard error, so that the standard output holds only what
was done.  Where nothing may be written, PATH is only read and its lock is not taken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import offsetlog
from offsetlog.cli.layout import Column, Row
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.stores import open_readable, open_writable
from offsetlog.errors import StateError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; off a terminal nothing is done without it.")]
Force = Annotated[bool, typer.Option("--force", help="Even if the group has members.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change; PATH is only read.")]

#: For the help of the commands that ask.
ASKS = """On a terminal it acts only after a question that states the whole effect; elsewhere only with --yes."""

#: The cells of a terminal that typer's " [y/N]: " and the answer take.
ANSWER = 10
#: Changes that a refusal names.
NAMED_MAX = 5


class RefusedError(StateError):
    """A command that destroys was not allowed to; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Effect:
    """All that a command is about to do.

    Attributes:
        deed: in the infinitive, as "delete 2 offsets of group billing".
        columns: of the rows.
        rows: one for each change, or for the first of very many.
        name: returns a row as text for a sentence.
        count: of all changes; None: `rows` are all.
        in_use: why it takes --force, as sentences.
    """

    deed: str
    columns: Sequence[Column]
    rows: list[Row]
    name: Callable[[Row], str]
    count: int | None = None
    in_use: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The deed with the first changes."""
        named = [self.name(row) for row in self.rows[:NAMED_MAX]]
        named += self._rest(len(named))
        return f"{self.deed} ({', '.join(named)})" if named else self.deed

    def show(self, output: Output, *, wide: bool) -> None:
        """Prints each row; of none the heading alone, in TSV and CSV."""
        if self.rows or not output.is_text:
            output.rows(self.columns, self.rows, "", wide=wide)
            for rest in self._rest(len(self.rows)):
                output.line(f"and {rest}")

    def _rest(self, shown: int) -> list[str]:
        left = (len(self.rows) if self.count is None else self.count) - shown
        return [f"{left:,} more"] if left > 0 else []


def _is_terminal() -> bool:
    # The question stands on the standard error. A stream that was closed before the start is None.
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


@dataclass(frozen=True, slots=True)
class Consent:
    """The agreement of a command's user: given by options, or asked for.

    Attributes:
        yes: whether everything was agreed to, so that nobody is asked.
        force: whether a group that has members may be changed.
        dry_run: whether nothing is to be done; None for a command without this option.
        wide: whether the question shows every field of a change.
    """

    yes: bool
    force: bool = False
    dry_run: bool | None = None
    wide: bool = False

    @property
    def may_write(self) -> bool:
        """Whether the command can come to write anything."""
        return not self.dry_run and (self.yes or _is_terminal())

    def open(
        self, path: Path, partitions: int | None, lock_timeout: float, *, by_partition: bool = False
    ) -> offsetlog.OffsetStore:
        """Opens a store, for writing only where something may be written; see `open_writable`."""
        if self.may_write:
            return open_writable(
                path, partitions, "disk", create=False, by_partition=by_partition, lock_timeout=lock_timeout
            )
        return open_readable(path, partitions, by_partition=by_partition)

    def show(self, output: Output, effect: Effect) -> None:
        """Prints what would change, for a dry run."""
        effect.show(output, wide=self.wide)
        for reason in effect.in_use:
            complain(f"{reason}: it takes --force")
        output.line(f"would {effect.deed}")

    def ask(self, effect: Effect) -> None:
        """Returns if the effect was agreed to.

        Raises:
            RefusedError: a group is in use, and --force was not given; nobody can be asked, and --yes was not given.
            typer.Abort: the answer is no.
        """
        can_ask = self.yes or _is_terminal()
        reasons = [] if self.force else [*effect.in_use]
        options = ["--force"] if reasons else []
        if not can_ask:
            reasons.append("there is no terminal to ask on")
            options.insert(0, "--yes")
        if reasons:
            or_shown = "" if self.dry_run is None else ", with --dry-run only shown"
            raise RefusedError(
                f"nothing was done: {'; '.join(reasons)}; this would {effect.sentence}; with "
                f"{' and '.join(options)} it is done{or_shown}"
            )
        for reason in effect.in_use:
            complain(reason)
        if self.yes:
            return
        output = Output(Format.TEXT, sys.stderr)
        effect.show(output, wide=self.wide)
        question = f"{effect.deed[0].upper()}{effect.deed[1:]}?"
        try:
            agreed = typer.confirm("\n".join(output.fitted(question, room=ANSWER)), err=True)
        except typer.Abort as ended:  # Ctrl-C or Ctrl-D leaves the cursor in the line of the question
            print(file=sys.stderr)
            if not isinstance(ended.__context__, KeyboardInterrupt):
                raise
            complain("nothing was done")
            raise KeyboardInterrupt from None
        if not agreed:
            raise typer.Abort
