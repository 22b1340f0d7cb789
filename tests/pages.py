"""The Python examples of the documents' pages."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[int, str]]:
    """The examples of a page, each with the line that it begins after."""
    text = (ROOT / page).read_text()
    return [
        (text.count("\n", 0, found.start()) + 1, textwrap.dedent(found[2]))
        for found in BLOCK.finditer(text)
    ]


def module_of(page: str, name: str) -> str:
    """The example of a page that is a module: its first line is a comment with the name."""
    (found,) = (code for _, code in blocks(page) if code.startswith(f"# {name}.py\n"))
    return found


def run(page: str) -> dict[str, Any]:
    """Runs the examples of a page in one namespace, which it returns.

    A failure names the page and its line.
    """
    session: dict[str, Any] = {"__name__": page}
    for line, code in blocks(page):
        exec(compile("\n" * line + code, str(ROOT / page), "exec"), session)
    return session
