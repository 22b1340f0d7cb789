"""Every citation leads somewhere: a page and a section of docs/, a trap, a file of the repository."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parent.parent
TEXT = {".c", ".h", ".py", ".pyx", ".pxd", ".pyi", ".md", ".java", ".toml", ""}
PARTS = ("csrc", "offsetlog", "tests", "benchmarks", "docs", "examples", ".ci")
DATA = ROOT / "tests" / "data"

#: Documents that stand outside the repository; the words are in pieces, so that this file does not cite them.
OUTSIDE = re.compile(r"\b(?:sp" + r"ec|des" + r"ign),?\s+§", re.IGNORECASE)
NUMBER = r"\d+(?:\.\d+)*"
#: A page, and the sections of it that follow: "docs/format/batches.md §2.1, §2.5" or "§6.3-6.4".
SECTIONS = re.compile(rf"(docs/[\w/-]+\.md)((?:(?:,|\s+and)?\s+§{NUMBER}(?:-{NUMBER})?)+)")
PAGE = re.compile(r"(?<![\w/])docs/[\w/-]+\.md\b")
TRAP = re.compile(r"(?<![A-Za-z])traps?[ _](\d+(?:(?:, | to | and )\d+)*)", re.IGNORECASE)
FILE = re.compile(r"(?<![\w/.])((?:csrc|offsetlog|tests|benchmarks|examples)/[\w./*-]*\w)")


def texts() -> list[Path]:
    inside = [path for part in PARTS for path in sorted((ROOT / part).rglob("*"))]
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "setup.py", "pyproject.toml")]
    return [
        path
        for path in [*inside, *top]
        if path.is_file() and path.suffix in TEXT and not path.is_relative_to(DATA) and "__pycache__" not in path.parts
    ]


@cache
def sections_of(page: str) -> frozenset[str]:
    """The numbers of a page's headings; a heading 2.7 is also a place in chapter 2."""
    headings = re.findall(rf"^#+ ({NUMBER})\.? ", (ROOT / page).read_text(), re.MULTILINE)
    return frozenset({part for number in headings for part in (number, number.split(".")[0])})


@cache
def traps() -> frozenset[int]:
    page = (ROOT / "docs" / "format" / "traps.md").read_text()
    return frozenset(int(number) for number in re.findall(r"^## Trap (\d+):", page, re.MULTILINE))


def unwrapped(text: str) -> str:
    """The text with its comments' line breaks taken out, so that a citation that was wrapped is one."""
    return re.sub(r"\s*\n[ \t]*(?:\*(?!/)|#:?|//)?[ \t]*(?=[\w§(])", " ", text)


def dead_ends(text: str, page: str | None = None) -> list[str]:
    """Citations in `text` that lead nowhere; `page` is the page of docs/ that the text is of."""
    text = unwrapped(text)
    found = [f"{hit[0]!r}: a document outside the repository" for hit in OUTSIDE.finditer(text)]
    found += [f"{hit[0]}: there is no such page" for hit in PAGE.finditer(text) if not (ROOT / hit[0]).is_file()]
    cited = 0
    for hit in SECTIONS.finditer(text):
        cited += hit[2].count("§")
        if (ROOT / hit[1]).is_file():
            numbers = re.findall(NUMBER, hit[2])
            found += [f"{hit[1]} has no section {number}" for number in numbers if number not in sections_of(hit[1])]
    if page is None and text.count("§") != cited:
        found.append(f"{text.count('§') - cited} sections are cited without a page")
    for hit in TRAP.finditer(text):
        numbers = {int(number) for number in re.findall(r"\d+", hit[1])}
        found += [f"docs/format/traps.md has no trap {number}" for number in sorted(numbers - traps())]
    found += [f"{hit[1]}: there is no such file" for hit in FILE.finditer(text) if not is_there(hit[1])]
    return found


def is_there(name: str) -> bool:
    if name.startswith(MADE_BY_USERS):
        return True
    if "*" in name:
        return any(ROOT.glob(name))
    path = ROOT / name
    # A module can be named without its suffix, as "csrc/table/pairs".
    return path.exists() or any(path.parent.glob(f"{path.name}.*"))


#: Paths of examples, and of what a build makes.
MADE_BY_USERS = ("tests/data/",)


@pytest.mark.parametrize("path", texts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_citation_leads_somewhere(path):
    if path == Path(__file__):
        return
    page = str(path.relative_to(ROOT)) if path.suffix == ".md" else None
    assert not dead_ends(path.read_text(), page)


@pytest.mark.parametrize(
    "text",
    [
        "/* As sp" + "ec §2.1 says. */",
        "the des" + "ign, §5",
        "docs/format/no-such-page.md",
        "docs/format/batches.md §2.99",
        "docs/format/batches.md §2.1, §2.99",
        "/* of the batch (docs/format/batches.md\n * §2.99) */",
        "the rule of §2.1",
        "docs/format/traps.md trap 99",
        "traps 1 to 41",
        "def test_tr" + "ap_99_is_not_there():",
        "csrc/log/no_such_file.c",
        "offsetlog/no_such_module.py",
    ],
)
def test_a_dead_end_is_refused(text):
    assert dead_ends(text)


@pytest.mark.parametrize(
    "text",
    [
        "docs/format/batches.md §2.1, §2.5",
        "docs/format/loading.md §6.3-6.4",
        " * (docs/format/traps.md traps 14 and\n * 15)",
        "csrc/log/append.c, csrc/table/pairs and csrc/log/files/*.h",
    ],
)
def test_a_way_is_found(text):
    assert not dead_ends(text)
