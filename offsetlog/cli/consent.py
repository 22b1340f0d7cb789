"""Consent to commands that destroy data: on a terminal, such a command asks first; elsewhere, it needs --yes.

The question and the refusal say on the standard error what the command would do.  The standard output shows what was
done or, with --dry-run, what would be done.  A dry run, and a command with neither --yes nor a terminal, only read PATH
and do not take its lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import offsetlog
from offsetlog.cli.group_facts import complain_unknown, number_of
from offsetlog.cli.layout import Column, Row
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.refusals import damage_of
from offsetlog.cli.stores import look_into, open_readable, open_writable
from offsetlog.errors import StateError

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for consent. Required if there is no terminal to ask on.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Proceed despite a reported risk, such as members of the group.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change; write nothing.")]

#: A paragraph for the help of every command that asks for consent.
ASKS = """On a terminal, the command states the whole effect and asks first. Without a terminal, it needs --yes."""

#: The room in a line, in cells of a terminal, for typer's " [y/N]: " and the answer.
ANSWER = 10
#: How many changes a refusal names.
NAMED_MAX = 5


class RefusedError(StateError):
    """A command that destroys data did not get consent; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Everything that a command is about to do.

    Attributes:
        deed: the action, as a verb with its objects, such as "delete 2 offsets of group billing".
        columns: the columns of `rows`.
        rows: one row per change; if there are very many changes, only the first of them.
        name: returns a row as text for a sentence.
        count: the number of all changes; None if `rows` holds all of them.
        in_use: the reasons why the command needs --force, as sentences.
    """

    deed: str
    columns: Sequence[Column]
    rows: list[Row]
    name: Callable[[Row], str]
    count: int | None = None
    in_use: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The action, followed by the first changes."""
        named = [self.name(row) for row in self.rows[:NAMED_MAX]]
        named += self._rest(len(named))
        return f"{self.deed} ({', '.join(named)})" if named else self.deed

    def show(self, output: Output, *, wide: bool) -> None:
        """Prints the rows; if there are none, prints only the heading, and only in TSV and CSV."""
        if self.rows or not output.is_text:
            output.rows(self.columns, self.rows, "", wide=wide)
            for rest in self._rest(len(self.rows)):
                output.line(f"and {rest}")

    def _rest(self, shown: int) -> list[str]:
        left = (len(self.rows) if self.count is None else self.count) - shown
        return [f"{left:,} more"] if left > 0 else []


def _is_terminal() -> bool:
    # The question is printed to the standard error. A stream that was closed before the start is None.
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


@dataclass(frozen=True, slots=True)
class Consent:
    """The user's consent to a command, given by options or asked for.

    Attributes:
        yes: whether the user agreed in advance, so that the command does not ask.
        force: whether a group that has members may be changed.
        dry_run: whether this is a dry run; None for a command without the option --dry-run.
        wide: whether the question shows every field of a change.
    """

    yes: bool
    force: bool = False
    dry_run: bool | None = None
    wide: bool = False

    @property
    def may_write(self) -> bool:
        """Whether the command may write."""
        return not self.dry_run and (self.yes or _is_terminal())

    def open(
        self, path: Path, partitions: int | None, lock_timeout: float, *, by_partition: bool = False
    ) -> offsetlog.OffsetStore:
        """Opens a store for writing if the command may write, else for reading.  See `open_writable`."""
        if self.may_write:
            return open_writable(
                path, partitions, "disk", create=False, by_partition=by_partition, lock_timeout=lock_timeout
            )
        return open_readable(path, partitions, by_partition=by_partition)

    def look_for(
        self, path: Path, partitions: int | None, group: str, is_known: Callable[[offsetlog.OffsetStore, str], bool]
    ) -> int:
        """Checks that a group exists, before the command opens the store for writing and so changes files.

        Returns 0 if the command may go on, or else the exit code with which it must end.  Raises RefusedError if the
        log partition of the group is damaged.
        """
        if not self.may_write:
            return 0  # the command looks for it
        with look_into(path, partitions, writes=True) as store:
            number = number_of(store, group)
            self.refuse_damaged(damage_of(store, (number,)))
            return 0 if is_known(store, group) else complain_unknown(group, path, number)

    def refuse_damaged(self, damage: str | None) -> None:
        """Raises RefusedError if `damage` names a log partition that accepts no writes; does nothing in a dry run."""
        if damage is not None and not self.dry_run:
            raise RefusedError(f"nothing was done: {damage}")

    def show(self, output: Output, effect: Effect, refusals: Sequence[str] = ()) -> int:
        """Prints what a dry run would change and why the change would be refused; returns the exit code."""
        effect.show(output, wide=self.wide)
        output.line(f"would {effect.deed}")
        reasons = [*refusals]
        if self.force:
            for reason in effect.in_use:
                complain(reason)
        else:
            reasons += [f"{reason}: it takes --force" for reason in effect.in_use]
        for reason in reasons:
            complain(f"would be refused: {reason}")
        return 1 if reasons else 0

    def check(self, effect: Effect) -> None:
        """Checks that the user has agreed to the effect or can be asked.

        Raises:
            RefusedError: the effect needs --force, which was not given; or --yes was not given and there is no terminal
                to ask on.
        """
        can_ask = self.yes or _is_terminal()
        reasons = [] if self.force else [*effect.in_use]
        options = ["--force"] if reasons else []
        if not can_ask:
            reasons.append("there is no terminal to ask on")
            options.insert(0, "--yes")
        if reasons:
            or_show = "" if self.dry_run is None else ", or --dry-run to only show it"
            raise RefusedError(
                f"nothing was done: {'; '.join(reasons)}; the command would {effect.sentence}; add "
                f"{' and '.join(options)} to do it{or_show}"
            )

    def ask(self, effect: Effect) -> None:
        """Asks the user unless consent was given in advance; returns only if the user agrees.

        Raises:
            RefusedError: see `check`.
            typer.Abort: the user answers no.
        """
        self.check(effect)
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
