"""`offsetlog completion`: completes commands, options, paths and groups in a shell.

The shell's script sets the environment variable `_OFFSETLOG_COMPLETE` to the name of the shell, and calls `offsetlog`
with the words up to the cursor; the last word is unfinished.  The output has one proposal per line: "plain", a tab, the
text, a tab, a description.  The line "file" asks the shell to complete paths itself.  To complete an argument, this
module loads only the command that takes the argument.  To complete the name of a command, it loads no command.
"""

from __future__ import annotations

import enum
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from offsetlog.cli.text import escape
from offsetlog.errors import OffsetLogError

HELP = """Print the script that completes commands, options, paths and groups in a shell.

Exit codes: 0 done, 2 there is no script for that shell.

\b
Examples:
  source <(offsetlog completion bash)                          in this shell; add it to ~/.bashrc for every shell
  offsetlog completion bash > /etc/bash_completion.d/offsetlog
  offsetlog completion zsh > ~/.zfunc/_offsetlog               a folder of $fpath, before compinit
  offsetlog completion fish > ~/.config/fish/completions/offsetlog.fish

Groups are completed if PATH is known and its log is at most 32 MiB. Completion writes nothing.
"""

#: The environment variable that the scripts set to the name of the shell.
VARIABLE = "_OFFSETLOG_COMPLETE"

_BASH = """\
_offsetlog_completion() {
    local kind value about
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value about; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default ;;
        esac
    done < <(VARIABLE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _offsetlog_completion offsetlog
"""
_ZSH = """\
#compdef offsetlog
_offsetlog() {
    local kind value about paths=
    local -a values texts
    while IFS=$'\\t' read -r kind value about; do
        case $kind in
            plain) values+=("$value"); texts+=("$value${about:+  -- $about}") ;;
            file) paths=1 ;;
        esac
    done < <(VARIABLE=zsh "${words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( $#values )); then compadd -l -d texts -- "${values[@]}"; fi
    if [[ -n $paths ]]; then _files; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _offsetlog "$@"
else
    compdef _offsetlog offsetlog
fi
"""
_FISH = """\
function __offsetlog_completion
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (env VARIABLE=fish $words $current 2>/dev/null)
        set -l parts (string split -m 2 \\t -- $line)
        switch $parts[1]
            case plain
                printf '%s\\t%s\\n' $parts[2] $parts[3]
            case file
                __fish_complete_path $current
        end
    end
end
complete --command offsetlog --no-files --arguments '(__offsetlog_completion)'
"""
SCRIPTS: dict[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class Shell(enum.StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


#: A log of more bytes is not read for the names of its groups, because the user waits for the key press.
BYTES_MAX = 32 << 20
GROUPS_MAX = 1000


def command(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> int:
    """Prints the script; returns the exit code."""
    sys.stdout.write(SCRIPTS[shell].replace("VARIABLE", VARIABLE))
    return 0


def group_names(path: Path) -> list[str]:
    """Returns the names of the groups of a log, sorted; at most GROUPS_MAX names.

    Returns no names if the log is too large or cannot be read.
    """
    from offsetlog.directory.listing import decode_text
    from offsetlog.directory.reading import find_partitions, read_state, whole_size

    try:
        partitions = find_partitions(path)
        if whole_size(partitions) > BYTES_MAX:
            return []
        names = {decode_text(name) for each in partitions for name in read_state(each).replay.groups()}
    except (OffsetLogError, OSError):
        return []
    return sorted(names)[:GROUPS_MAX]


# ------------------------------------------------------------------------------------------------------- proposals


def _joined(words: list[str]) -> list[str]:
    # bash cuts words at colons and equals signs: --group=a:b arrives as five words.
    joined: list[str] = []
    goes_on = False
    for word in words:
        is_break = re.fullmatch(r"[:=]+", word) is not None
        if joined and (goes_on or is_break):
            joined[-1] += word
        else:
            joined.append(word)
        goes_on = is_break
    return joined


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:  # a quote is still open
        return word.lstrip("'\"")


def _as_bash_takes_it(value: str, before: str) -> str:
    # bash replaces only the part after the last colon or equals sign.
    kept = re.match(r".*[:=]", before)
    left = value[len(kept[0]) :] if kept is not None and value.startswith(kept[0]) else value
    return re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", left)


def _proposals(words: list[str], incomplete: str, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    from typer._completion_classes import BashComplete

    from offsetlog.cli.app import application_for

    if not words and not incomplete.startswith("-"):
        yield from (("plain", name, "") for name in names if name.startswith(incomplete))
        return
    command = typer.main.get_command(application_for(words))
    option, equals, _ = incomplete.partition("=")
    prefix = option + equals if incomplete.startswith("--") and equals else ""
    if words[-1:] and words[-1].startswith("--") and "=" not in words[-1] and not incomplete.startswith("-"):
        # If an option lacks its value, the parser stops, and does not find the path that the proposals depend on.
        *words, incomplete = [*words[:-1], f"{words[-1]}={incomplete}"]
    found = BashComplete(command, {}, "offsetlog", VARIABLE).get_completions(words, incomplete)
    for item in found:
        yield item.type, prefix + str(item.value), (item.help or "").strip().partition("\n")[0]
    if not found and not incomplete.startswith("-"):
        # typer proposes no paths, so the shell is asked to propose them.
        yield "file", "", ""


def complete(shell: str, arguments: list[str], names: Iterable[str]) -> int:
    """Prints the proposals for the last argument; returns the exit code.

    Args:
        shell: one of SCRIPTS.
        arguments: the words of the command line up to the cursor, without the program's name.
        names: the names of the commands.
    """
    *words, incomplete = arguments or [""]
    if shell == "bash":
        *words, incomplete = [_unquoted(word) for word in _joined([*words, incomplete])]
    for kind, value, about in _proposals(words, incomplete, names):
        # A name with a control character cannot be typed.
        if kind != "plain":
            print("file\t\t")
        elif escape(value) == value:
            print(f"plain\t{_as_bash_takes_it(value, incomplete) if shell == 'bash' else value}\t{about}")
    return 0
