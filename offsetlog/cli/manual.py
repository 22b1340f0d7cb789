"""Generates the man page offsetlog(1) from the commands, so that it agrees with their help.

`python -m offsetlog.cli.manual` prints the man page.  With --write, it writes docs/offsetlog.1, which a wheel installs
as share/man/man1/offsetlog.1.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import offsetlog
from offsetlog.cli.app import DESCRIPTION, application

#: The page in the source tree; an installed package has the page in another directory.
PAGE = Path(__file__).parents[2] / "docs" / "offsetlog.1"

#: The date in the page's header; a release sets it.
DATE = "2026-11-27"
#: (name, meaning) of the environment variables that a user of the commands can set.
VARIABLES = [("COLUMNS", "The width of the terminal, if the terminal itself does not report it.")]
FILES = [
    ("__consumer_offsets-N", "A log partition. It contains the positions of all groups whose names map to its number."),
    ("offsetlog.properties", "How many partitions a log directory of offsetlog has."),
]


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def _filled(text: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), 76, break_long_words=False, break_on_hyphens=False)
    return _escaped("\n".join(lines))


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the page's source for a help text: paragraphs, and blocks whose lines are not joined."""
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        kept = paragraph.strip(" ").startswith("\b\n")
        lines = paragraph.strip(" ").removeprefix("\b\n").split("\n")
        heading = lines.pop(0) if kept and lines[0].endswith(":") else None
        if heading is not None:
            yield f".PP\n{_escaped(heading.strip())}"
        if kept and (heading is not None or len(lines) > 1):
            block = textwrap.dedent("\n".join(line.rstrip() for line in lines))
            yield f".PP\n.RS 2\n.nf\n{_escaped(block)}\n.fi\n.RE"
        else:
            yield f".PP\n{_filled(' '.join(lines))}"


def _tagged(records: list[tuple[str, str]]) -> Iterator[str]:
    for name, about in records:
        yield f".TP\n.B {_escaped(name)}\n{_filled(about)}"


def _records(command: Any, context: Any) -> list[tuple[str, str]]:
    """Returns (syntax, description) of every argument and option, as the help prints them."""
    found = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return [record for record in found if record is not None]


def _usage(command: Any, context: Any) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _commands(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every command with its context; the subcommands of a group follow it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        yield command, inner
        if hasattr(command, "list_commands"):
            yield from _commands(command, inner)


def page() -> str:
    """Returns the source of the page, in the format of man, groff and mandoc."""
    whole = typer.main.get_command(application())
    context = whole.make_context("offsetlog", [], resilient_parsing=True)
    first, _, rest = DESCRIPTION.partition("\n")
    parts = [
        '.\\" Made by: python -m offsetlog.cli.manual --write',
        f'.TH OFFSETLOG 1 {DATE} "offsetlog {offsetlog.__version__}" "User Commands"',
        f".SH NAME\noffsetlog \\- {_escaped(first[0].lower() + first[1:].rstrip('.'))}",
        ".SH SYNOPSIS\n.B offsetlog\n.I command\n.RI [ argument ...]",
        ".SH DESCRIPTION",
        # The macro of a section begins its first paragraph.
        "\n".join(_paragraphs(f"{first}\n{rest}")).removeprefix(".PP\n"),
        ".SH OPTIONS",
        *_tagged(_records(whole, context)),
        ".SH COMMANDS",
    ]
    for command, inner in _commands(whole, context):
        parts += [f".SS {_escaped(inner.command_path)}", f".B {_escaped(_usage(command, inner))}"]
        parts += [*_paragraphs(command.help or ""), *_tagged(_records(command, inner))]
    parts += [".SH ENVIRONMENT", *_tagged(VARIABLES), ".SH FILES", *_tagged(FILES)]
    return "\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Prints or writes the page; returns the exit code."""
    if arguments not in ([], ["--write"]):
        print(f"usage: python -m offsetlog.cli.manual [--write], not {' '.join(arguments)}", file=sys.stderr)
        return 2
    if arguments:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
