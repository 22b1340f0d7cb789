"""The blocks of the documents' pages: what they are, how they run, and what they print.

    python -m tests.pages --write PAGE...       runs pages, and writes what their blocks print into them
    python -m tests.pages --check PAGE...       runs pages, and ends with 1 where a block prints something else

A page is one session in a directory of its own. Blocks that run, by their language:

* `python` is executed, in one namespace for the page; with a title that ends in .py it is written to that file.
* `console` holds commands, each after `$ `, and below each what it prints on a terminal of 100 columns.
* `text title="Output"` is what the `python` block before it prints.

Output is compared line by line. Times, durations and digests differ from run to run and are compared by their form;
`...` stands for any text of a line, and on a line of its own for any lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^`\n]*)\n(?P<code>.*?)^ *(?P=ticks)$", re.MULTILINE | re.DOTALL
)
OUTPUT = 'text title="Output"'
COLUMNS = 100
#: How long a command is waited for; far more than one of Spark takes beside other tests.
COMMAND_SECONDS = 480


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        page: its path in the repository.
        line: the line of its fence, from 1.
        info: what follows the fence: the language, and perhaps a title.
        code: its lines, without the indentation of the fence.
        indent: that indentation.
    """

    page: str
    line: int
    info: str
    code: str
    indent: str

    @property
    def language(self) -> str:
        """The first word after the fence; empty where there is none."""
        return self.info.partition(" ")[0]

    @property
    def file(self) -> str | None:
        """The file that the block is, by its title."""
        title = re.search(r'title="(\S+\.py)"', self.info)
        return title[1] if title else None

    @property
    def place(self) -> str:
        """The page and the line, for messages."""
        return f"{self.page}:{self.line}"


def fences(page: str) -> list[Block]:
    """Returns the fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            page, text.count("\n", 0, hit.start()) + 1, hit["info"].strip(), textwrap.dedent(hit["code"]), hit["indent"]
        )
        for hit in FENCE.finditer(text)
    ]


def blocks(page: str) -> list[tuple[int, str]]:
    """The Python examples of a page, each with the line that it begins after."""
    return [(block.line, block.code) for block in fences(page) if block.language == "python"]


def module_of(page: str, name: str) -> str:
    """The example of a page that is a module: its first line is a comment with the name."""
    (found,) = (code for _, code in blocks(page) if code.startswith(f"# {name}.py\n"))
    return found


# ------------------------------------------------------------------------------------------------------------- running


class Printed(NamedTuple):
    """A block that shows output, and the code of it as this run made it."""

    block: Block
    expected: str
    actual: str


def run(page: str, **names: Any) -> dict[str, Any]:
    """Runs the Python examples of a page in one namespace, which it returns; `names` are there before.

    A failure names the page and its line.
    """
    session: dict[str, Any] = {"__name__": page, **names}
    for block in fences(page):
        if block.language == "python":
            execute(block, session)
    return session


def play(
    page: str, replaced: Mapping[str, str] | None = None, session: dict[str, Any] | None = None
) -> Iterator[Printed]:
    """Runs all blocks of a page, in the working directory; yields those that show output.

    Args:
        page: its path in the repository.
        replaced: texts of the page that stand for something of this run, such as an address.
        session: the namespace of the Python blocks; None for a new one.
    """
    session = {} if session is None else session
    session["__name__"] = page
    there = dict(replaced or {})
    output = ""
    for block in fences(page):
        code = translated(block.code, there)
        if block.language == "python":
            output = execute(block._replace(code=code), session)
        elif block.language == "console":
            yield Printed(block, block.code, translated(typed(code), there, back=True))
        elif block.info == OUTPUT:
            yield Printed(block, block.code, translated(output, there, back=True))


def translated(text: str, replaced: Mapping[str, str], *, back: bool = False) -> str:
    """Returns a text with the page's words replaced by those of this run, or the other way round."""
    for page, here in replaced.items():
        text = text.replace(here, page) if back else text.replace(page, here)
    return text


def execute(block: Block, session: dict[str, Any]) -> str:
    """Executes a Python block, or writes its file; returns what it printed."""
    if block.file is not None:
        Path(block.file).write_text(block.code, encoding="utf-8")
        return ""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.code, str(ROOT / block.page), "exec"), session)
    return printed.getvalue()


def typed(code: str) -> str:
    """Runs the commands of a console block; returns the block as it would be with what they print."""
    return "".join(f"$ {command}\n{shell(command)}" for command in commands(code))


def commands(code: str) -> list[str]:
    """Returns the commands of a console block; one that goes on in the next line ends with a backslash there."""
    return [hit[1] for hit in re.finditer(r"^\$ ((?:.*\\\n)*.*)$", code, re.MULTILINE)]


def shell(command: str) -> str:
    """Runs one command, ours in this process unless the shell is needed for it; returns what it prints."""
    # A backslash joins lines in a shell; shlex would make a word of the line's end.
    words = shlex.split(command.replace("\\\n", ""), comments=True)
    if words[0] == "offsetlog" and not re.search(r"[|&;<>$`]", command):
        return ours(words[1:])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    made = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PATH": path, "COLUMNS": str(COLUMNS)},
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return made.stdout


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Returns True."""
        return True


class Beside(io.StringIO):
    """A stream that is no terminal and writes where another one does, so that the order of lines stays."""

    encoding = "utf-8"

    def __init__(self, target: io.StringIO) -> None:
        super().__init__()
        self._target = target

    def write(self, text: str) -> int:
        """Writes to the other stream."""
        return self._target.write(text)


def ours(arguments: list[str]) -> str:
    """Runs a command of offsetlog on a terminal without colours; returns what it shows, without spaces at line ends."""
    from offsetlog.cli.app import run as run_command

    shown = Terminal()
    # Bars of progress are drawn on a terminal only.
    complaints = Beside(shown)
    before = {name: os.environ.get(name) for name in ("COLUMNS", "LINES", "TERM", "NO_COLOR")}
    os.environ.update(COLUMNS=str(COLUMNS), LINES="50", TERM="xterm", NO_COLOR="1")
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(complaints):
            run_command(arguments)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    return "".join(f"{line.rstrip()}\n" for line in plain.splitlines())


# ----------------------------------------------------------------------------------------------------------- comparing

#: Words that differ from run to run, by their form; each keeps its width in a table.
VARIABLE = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00|Z)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<digest>"),
    (re.compile(r"\b\d{13}\b"), "<milliseconds>"),
    (re.compile(r"\b(?:\d+ (?:d|h|min|s) )+ago\b"), "<age>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:us|ms|s)\b"), "<duration>"),
]


def form_of(text: str) -> list[str]:
    """Returns the lines of an output without what differs from run to run."""
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    lines = [re.sub(r"[ \t]+", " ", re.sub(r"[─━═-]{3,}", "---", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def is_like(expected: str, actual: str) -> bool:
    """Returns whether an output is what a page shows."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + "\n"
        for line in form_of(expected)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in form_of(actual))) is not None


DIGEST = re.compile(r"\b[0-9a-f]{32}\b")


def digests_agree(printed: Iterable[Printed]) -> bool:
    """Returns whether digests that are equal on a page are equal in a run of it, and others are not."""
    pairs = {
        pair
        for each in printed
        for pair in zip(DIGEST.findall(each.expected), DIGEST.findall(each.actual), strict=False)
    }
    return len(pairs) == len({shown for shown, _ in pairs}) == len({made for _, made in pairs})


def rewrite(page: str, play_it: Callable[[str], Iterator[Printed]]) -> bool:
    """Runs a page and writes what its blocks print into it, where that is not like it; returns whether it changed."""
    text = (ROOT / page).read_text(encoding="utf-8")
    printed = list(play_it(page))
    # Parts of two runs have two digests of one state.
    whole = not digests_agree(printed)
    made = {each.block.line: each.actual for each in printed if whole or not is_like(each.expected, each.actual)}

    def written(hit: re.Match[str]) -> str:
        line = text.count("\n", 0, hit.start()) + 1
        if line not in made:
            return hit[0]
        indent, ticks = hit["indent"], hit["ticks"]
        return f"{indent}{ticks}{hit['info']}\n{textwrap.indent(made[line], indent)}{indent}{ticks}"

    (ROOT / page).write_text(FENCE.sub(written, text), encoding="utf-8")
    return bool(made)


def differences(
    page: str, play_it: Callable[..., Iterator[Printed]], session: dict[str, Any] | None = None
) -> list[str]:
    """Runs a page; returns what its blocks print where that is not what it shows, each with its place."""
    shown = []
    found = []
    for printed in play_it(page, session=session):
        shown.append(printed)
        if not is_like(printed.expected, printed.actual):
            found.append(
                f"{printed.block.place} shows another output than this run made; if this one is right, "
                f"python -m tests.pages --write {page} writes it:\n{printed.actual}"
            )
    if not digests_agree(shown):
        found.append(f"python -m tests.pages --write {page} writes digests of one run")
    return found


def main(arguments: list[str]) -> int:
    """Runs the pages that a command line names; returns the exit code."""
    from tests.page_hosts import host_of

    # As pytest does, by its setting `pythonpath`.
    sys.path.insert(0, str(ROOT / "tests"))
    mode, *names = arguments
    code = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), host_of(name) as play_page:
            if mode == "--write":
                print(name, "written" if rewrite(name, play_page) else "as it is")
                continue
            for difference in differences(name, play_page):
                print(difference, file=sys.stderr)
                code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
