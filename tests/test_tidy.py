"""The promises of the tree to its readers: sizes, banned words, a test and a stub for everything, true documents."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

import offsetlog
from offsetlog._native.row_blocks import VIEWS

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parent.parent
PARTS = ["csrc", "offsetlog", "tests", "benchmarks", "docs", "examples", ".ci"]
CODE = {".c", ".h", ".py", ".pyx", ".pxd", ".pyi"}
TEXT = {*CODE, ".md", ".toml", ".txt", ".cfg", ".java", ".xml", ".in", ".lock", ""}

LINES_MAX = 700
# Lists, which do not become two subjects by being long.
LONGER = {
    "offsetlog/_native/csrc.pxd": 2000,  # every declaration of the engine, and nothing else
    "offsetlog/protocol/messages.pyi": 2000,  # every class of a message, made from the tables
}

# A banned word, and what to write instead; in pieces, so that this file does not hold them.
BANNED = {
    r"\bTO" + r"DO\b": "do it, or open an issue",
    r"\bFIX" + r"ME\b": "fix it, or open an issue",
    r"\bXX" + r"X\b": "say what is wrong",
    r"(?<![\w.~$}])/(ro" + r"ot|ho" + r"me|wo" + r"rk|Us" + r"ers)/": "a path of one machine: make it an argument",
    r"\bassert " + r"True\b": "assert something",
}


def files() -> list[Path]:
    inside = [path for part in PARTS for path in sorted((ROOT / part).rglob("*"))]
    top = [
        path
        for path in sorted(ROOT.iterdir())
        if path.suffix in {".py", ".toml", ".md", ".in", ".lock"} or path.name == "Makefile"
    ]
    return [path for path in [*inside, *top] if path.is_file() and not is_cache(path)]


def is_cache(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part == "__pycache__" or (part.startswith(".") and part != ".ci") for part in parts)


FILES = files()
DATA = ROOT / "tests" / "data"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_text_of_ours(path: Path) -> bool:
    return path.suffix in TEXT and not path.is_relative_to(DATA) and "demo" not in path.relative_to(ROOT).parts


TEXTS = [path for path in FILES if is_text_of_ours(path)]
# A header beside the tests is a table of vectors.
SIZED = [path for path in TEXTS if path.suffix in CODE and not (path.suffix == ".h" and "tests" in path.parts)]


@pytest.mark.parametrize("path", SIZED, ids=name_of)
def test_a_file_has_one_subject(path):
    lines = path.read_text().count("\n")
    limit = LONGER.get(name_of(path), LINES_MAX)
    assert lines <= limit, f"{lines} lines, at most {limit}: where is the second subject?"


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_no_word_is_banned(path):
    text = path.read_text()
    found = [
        f"line {text.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}: {instead}"
        for pattern, instead in BANNED.items()
        for hit in re.finditer(pattern, text)
    ]
    assert not found, "; ".join(found)


TESTED = "\n".join(path.read_text() for path in TEXTS if path.is_relative_to(ROOT / "tests") and path.suffix in CODE)


@pytest.mark.parametrize("path", [path for path in FILES if path.is_relative_to(ROOT / "csrc")], ids=name_of)
def test_a_line_of_the_engine_has_at_most_100_columns(path):
    lines = enumerate(path.read_text().splitlines(), 1)
    assert not [f"line {number}: {len(line)}" for number, line in lines if len(line) > 100]


PUBLIC_HEADERS = [
    path
    for path in FILES
    if path.suffix == ".h" and path.is_relative_to(ROOT / "csrc") and not path.stem.endswith(("_impl", "_internal"))
]


@pytest.mark.parametrize("path", PUBLIC_HEADERS, ids=name_of)
def test_a_header_of_the_engine_is_named_by_a_test(path):
    declared = set(re.findall(r"\b(ol_\w+|OL_\w+)\b", path.read_text()))
    tested = set(re.findall(r"\b(?:ol_\w+|OL_\w+)\b", TESTED))
    assert declared & tested, "no test under tests/ names anything that it declares"


@pytest.mark.parametrize("path", [path for path in FILES if path.match("_native/*.pyx")], ids=name_of)
def test_an_extension_has_a_stub(path):
    assert path.with_suffix(".pyi").exists()


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix == ".md" and not path.is_relative_to(DATA)], ids=name_of
)
def test_a_document_has_one_title(path):
    prose = re.sub(r"^(```|~~~).*?^\1", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix == ".md" and not path.is_relative_to(DATA)], ids=name_of
)
def test_a_document_points_to_what_is_there(path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("folder", ["docs", "docs/format", "docs/how-to", "docs/reference"])
def test_the_index_names_every_document(folder):
    index = (ROOT / folder / "index.md").read_text()
    pages = {path.name for path in (ROOT / folder).glob("*.md")} - {"index.md"}
    assert not {page for page in pages if page not in index}


def test_the_changelog_names_the_version():
    assert re.search(rf"^## {re.escape(offsetlog.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_changelog_has_incompatible_changes_under_one_heading():
    text = (ROOT / "CHANGELOG.md").read_text()
    for version in text.split("\n## ")[1:]:
        headings = re.findall(r"^### (.+)$", version, re.MULTILINE)
        known = ("Changed", "Safety", "Performance", "Features", "Internals")
        assert headings == [each for each in known if each in headings]
        assert not re.search(r"^\* (?:Changed|Files):", version, re.MULTILINE), "it stands under the heading Changed"


# --------------------------------------------------------------------------------------------------------- requirements


def locked() -> list[str]:
    """The lines of both locks; the second holds what only the site of the documents needs."""
    lines = [line for name in ("dev", "docs") for line in (ROOT / f"requirements-{name}.lock").read_text().splitlines()]
    return [line for line in lines if not line.startswith("#")]


def test_no_package_is_in_both_locks():
    names = [line.partition("==")[0] for line in locked()]
    assert len(names) == len(set(names))


def test_requirements_are_pinned_exactly():
    loose = [line for line in locked() if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)]
    assert not loose


def test_the_lock_holds_everything_that_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    declared = [
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *itertools.chain(*extras.values()),
    ]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in declared} - {"offsetlog"}
    assert names <= {line.partition("==")[0] for line in locked()}


def test_commits_are_taken_many_at_a_time_whatever_columns_are_wanted():
    # A column that csrc/columns/usual_commits.c does not fill makes the whole scan take one record at a time.
    source = (ROOT / "csrc" / "columns" / "usual_commits.c").read_text()
    filled = {name.lower() for name in re.findall(r"case OL_COLUMN_(\w+):", source)}
    assert set(VIEWS["commits"]) == filled
