"""The layout of help: no word is broken, and no line is wider than the terminal."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# The parser of arguments may be click or a copy of it within typer: its classes are taken from what typer exports.
_Formatter: Any = typer.Context.formatter_class

#: A hyphen at which the parser's text wrapper does not break a line; it replaces "-" until the help is complete.
_HYPHEN = "\u2011"
#: How an example and its comment are separated.
_COMMENT = re.compile(r"(?P<command>\s*\S.*?)\s{2,}(?P<comment>\S.*)")
#: How the parser marks a paragraph whose lines stay as they are.
_AS_IS = "\b\n"


class HelpFormatter(_Formatter):  # type: ignore[misc]
    """Wraps text only between words; if an example and its comment do not fit in a line, moves the comment below."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Writes the usage as the parser's formatter does, but breaks no line at a hyphen."""
        super().write_usage(prog, args.replace("-", _HYPHEN), prefix)

    def write_text(self, text: str) -> None:
        """Writes paragraphs of text."""
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write("\n")
            if not paragraph.startswith(_AS_IS):
                super().write_text(paragraph.replace("-", _HYPHEN))
                continue
            for line in example_lines(paragraph.removeprefix(_AS_IS).splitlines(), self.width - self.current_indent):
                self.write(f"{' ' * self.current_indent}{line}\n")

    def write_dl(self, rows: Any, *arguments: Any, **options: Any) -> None:
        """Writes a list of options or commands with their descriptions."""
        super().write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows], *arguments, **options)

    def getvalue(self) -> str:
        """Returns the help."""
        return str(super().getvalue()).replace(_HYPHEN, "-")


def example_lines(lines: list[str], width: int) -> list[str]:
    """Returns examples with their comments, in lines of at most `width` unless a single word is longer.

    If an example does not fit, all comments move closer to the commands.  If that is not enough, they move below their
    commands.  A command that is too long continues on the next line, after a backslash.
    """
    if all(len(line) <= width for line in lines):
        return lines
    split = [_COMMENT.fullmatch(line) for line in lines]
    pairs = [
        (line, "") if found is None else (found["command"], found["comment"])
        for line, found in zip(lines, split, strict=True)
    ]
    room = max((len(command) for command, comment in pairs if comment), default=0) + 2
    closer = all(room + len(comment) <= width for _, comment in pairs if comment)
    result = []
    for command, comment in pairs:
        indent = command[: len(command) - len(command.lstrip())]
        if comment and closer:
            result.append(f"{command.ljust(room)}{comment}")
            continue
        # A quoted argument is one word.
        words = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+", command)
        result += _wrapped(words, indent, f"{indent}  ", width, " \\")
        if comment:
            result += _wrapped(comment.split(), f"{indent}    ", f"{indent}    ", width, "")
    return result


def _wrapped(words: list[str], first: str, later: str, width: int, mark: str) -> list[str]:
    lines = [first + "".join(words[:1])]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) + len(mark) <= width:
            lines[-1] += f" {word}"
        else:
            lines[-1] += mark
            lines.append(later + word)
    return lines


class Context(typer.Context):
    """The context of one call of a command; its help is laid out by `HelpFormatter`."""

    formatter_class = HelpFormatter


class Command(TyperCommand):
    """A command."""

    context_class = Context


class Group(TyperGroup):
    """A command with subcommands."""

    context_class = Context


#: An argument such as -2h, for 2 hours ago: it begins with a dash and is not an option.
_AGO = re.compile(r"-\d+(?:\.\d+)?\s*(?:ms|[smhdw])", re.IGNORECASE)


class MomentsCommand(Command):
    """A command whose arguments are moments: the argument -2h is a moment, but -h is the option for help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments; a moment that begins with a dash is not taken for an option."""
        valued = {name for each in self.params for name in each.opts if not getattr(each, "is_flag", True)}
        before = ["", *args]
        kept = [
            f" {each}" if _AGO.fullmatch(each) and previous not in valued else each
            for previous, each in zip(before, args, strict=False)
        ]
        return super().parse_args(ctx, kept)
