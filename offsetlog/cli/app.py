"""The command `offsetlog`: its commands, their exit codes and their error lines.

Exit codes:

* 0: the command is done, or found no problems;
* 1: the command found problems, was refused, or found no such group, topic or transaction;
* 2: something could not be read, or the usage was wrong;
* 3: a comparison found differences (`spark diff`, and `diff` with --other);
* 130: the command was interrupted;
* 141: the reader of the standard output closed it.

A failure is reported in one line on the standard error, never as a traceback.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

import offsetlog
from offsetlog import errors
from offsetlog.cli import completion
from offsetlog.cli.help import Command, Group
from offsetlog.cli.output import complain, prepare

OK, PROBLEMS, FAILED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141

DESCRIPTION = """The committed positions of consumer groups, in Kafka's own files.

\b
Examples:
  offsetlog offsets /var/kafka-logs                      the committed offsets
  offsetlog offsets /var/kafka-logs --group billing
  offsetlog groups /var/kafka-logs --format json         one object per line
  offsetlog verify /var/kafka-logs                       is everything sound?
  offsetlog commit data billing orders:0=42 orders:1=7
  offsetlog fetch data billing
  offsetlog diff data '2h ago'                           what changed since
  offsetlog serve data                                   a server for Kafka clients
  offsetlog demo                                         see it at work, in half a minute

Exit codes: 0 done; 1 problems found, refused, or there is no such group; 2 could not be read or wrong usage.

If the output is not a terminal, rows are printed as with --format tsv: every field, separated by tabs, with plain
numbers and times in UTC. Without a terminal, commands that destroy data do not ask and need --yes.
"""

#: The commands, in the order of the help; each is a module of this package, imported when it is used.
COMMANDS = (
    "offsets",
    "groups",
    "transactions",
    "dump",
    "verify",
    "commit",
    "fetch",
    "delete",
    "history",
    "diff",
    "rewinds",
    "restore",
    "undelete",
    "expire",
    "abort",
    "compact",
    "snapshot",
    "repair",
    "migrate",
    "serve",
    "top",
    "demo",
    "completion",
)
SPARK = "spark"


class PipeClosedError(Exception):
    """The reader of the standard output has closed the pipe."""


def _guarded(command: Callable[..., int]) -> Callable[..., int]:
    # The argument parser turns a closed pipe into exit code 1, which here means that problems were found.
    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> int:
        try:
            code = command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            raise PipeClosedError from None
        return code

    return guarded


def _add(target: typer.Typer, package: str, names: Iterable[str]) -> None:
    for name in names:
        module = import_module(f"{package}.{name}")
        target.command(
            name.replace("_", "-"),
            help=module.HELP,
            short_help=module.HELP.partition("\n")[0].rstrip("."),
            cls=getattr(module, "COMMAND_CLASS", Command),
        )(_guarded(module.command))


def _add_spark(target: typer.Typer) -> None:
    from offsetlog.cli import spark

    jobs = typer.Typer(
        cls=Group,
        help=spark.DESCRIPTION,
        short_help="Run a job over a whole directory on Spark",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    _add(jobs, spark.PACKAGE, spark.COMMANDS)
    target.add_typer(jobs, name=SPARK)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"offsetlog {offsetlog.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@functools.cache
def application(only: str | None = None) -> typer.Typer:
    """Returns the typer application with all commands, or with the command `only` alone, which starts faster."""
    made = typer.Typer(
        name="offsetlog",
        cls=Group,
        help=DESCRIPTION,
        rich_markup_mode=None,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(_options)
    _add(made, __package__, COMMANDS if only is None else [only] if only in COMMANDS else [])
    if only is None or only == SPARK:
        _add_spark(made)
    return made


def application_for(arguments: list[str]) -> typer.Typer:
    """Returns the typer application with the commands that these arguments need."""
    # Help, options before the command and misspelled commands need all commands.
    first = arguments[0] if arguments else None
    return application(first if first == SPARK or first in COMMANDS else None)


def exit_code_of(failure: BaseException) -> int:
    """Returns 1 if the current state of the log or group forbids the command, 2 for every other failure."""
    return PROBLEMS if isinstance(failure, errors.StateError) else FAILED


#: Patterns in typer's usage errors, and the text that replaces each.
_WORDS = [
    (re.compile(r"\S+ is not a valid int(eger)?( range)?\b"), "it must be a whole number"),
    (re.compile(r"\S+ is not a valid float( range)?\b"), "it must be a number"),
    (re.compile(r"\S+ is not in the range x>=(\S+)"), r"it must be at least \1"),
    (re.compile(r"\S+ is not in the range x<=(\S+)"), r"it must be at most \1"),
    (re.compile(r"\S+ is not in the range (\S+)<=x<=(\S+)"), r"it must be from \1 to \2"),
]
#: Errors of the C code begin with the name of a system call.  Each of these names is replaced by the text beside it.
_CALLS = {
    "opendir": "it cannot be listed",
    "open": "it cannot be opened",
    "read": "it cannot be read",
    "pread": "it cannot be read",
    "pwrite": "it cannot be written",
    "write": "it cannot be written",
    "mkdir": "it cannot be created",
    "unlink": "it cannot be removed",
    "rename": "it cannot be renamed",
    "fstat": "its status cannot be read",
    "stat": "its status cannot be read",
    "lstat": "its status cannot be read",
}


def _in_words(usage: str) -> str:
    for pattern, words in _WORDS:
        usage = pattern.sub(words, usage)
    return " ".join(usage.split())


def _storage_text(failure: errors.StorageError) -> str:
    call, colon, reason = str(failure).partition(": ")
    return f"{_CALLS[call]}: {reason}" if colon and call in _CALLS else str(failure)


def _message_of(failure: BaseException) -> str:
    if isinstance(failure, errors.StorageError):
        return _storage_text(failure)
    if isinstance(failure, errors.OffsetLogError):
        return str(failure)
    if isinstance(failure, OSError):
        place = f" ({failure.filename})" if failure.filename else ""
        return f"{failure.strerror or failure}{place}"
    if isinstance(failure, MemoryError):
        return "there is not enough memory"
    return f"this is a bug in offsetlog; please report it: {type(failure).__name__}: {failure}"


def _forget_output() -> None:
    # The reader has closed the standard output: flushing the buffer at exit must not fail.
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())


def _call(arguments: list[str]) -> int:
    result: Any = application_for(arguments)(arguments or ["--help"], prog_name="offsetlog", standalone_mode=False)
    sys.stdout.flush()
    if not arguments:
        return FAILED
    return result if isinstance(result, int) else OK


def _named_in(arguments: list[str]) -> str:
    # The parser has no context for an option that lacks its value, so the command is taken from the arguments.
    words = itertools.takewhile(lambda word: not word.startswith("-"), arguments[: 2 if arguments[0] == SPARK else 1])
    return " ".join(["offsetlog", *words])


class _Complaints(logging.Handler):
    """Prints the library's warnings in the format of the commands' errors."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code; turns every failure into an error line and an exit code."""
    prepare(sys.stdout)
    prepare(sys.stderr)
    if shell := os.environ.get(completion.VARIABLE):
        with contextlib.suppress(Exception):  # a failed completion proposes nothing
            return completion.complete(shell, arguments, [*COMMANDS, SPARK])
        return FAILED
    complaints, library = _Complaints(logging.WARNING), logging.getLogger("offsetlog")
    library.addHandler(complaints)
    try:
        return _call(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, PipeClosedError):
        _forget_output()
        return PIPE_CLOSED
    except SystemExit as ended:
        # The argument parser exits by itself if the reader of its help has closed the pipe.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _forget_output()
        return PIPE_CLOSED
    except Exception as failure:
        # A usage error of the argument parser; its class belongs to click or to typer's copy of click.
        tell = getattr(failure, "format_message", None)
        if type(failure).__name__ == "NoArgsIsHelpError":
            # A group without a command prints its help, as `offsetlog` alone does.
            print(failure.ctx.get_help())  # type: ignore[attr-defined]
            return FAILED
        if tell is not None:
            context = getattr(failure, "ctx", None)
            command = getattr(context, "command_path", _named_in(arguments))
            complain(f"{_in_words(tell().rstrip('.?'))}; see {command} --help")
            return FAILED
        if type(failure).__name__ == "Abort":
            complain("nothing was done")
            return PROBLEMS
        complain(_message_of(failure))
        return exit_code_of(failure)
    finally:
        library.removeHandler(complaints)
