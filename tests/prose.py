"""Everything in the tree that a person reads as English: prose of documents, comments, docstrings, messages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
PYTHON = {".py", ".pyi"}
CYTHON = {".pyx", ".pxd"}
BRACES = {".c", ".h", ".java"}
PROSE = {".md"}
SETTINGS = {".toml"}
PARTS = ["csrc", "offsetlog", "tests", "benchmarks", "docs", "examples"]
TOP = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "setup.py", "pyproject.toml"]
# Kafka's files and answers, whose words are Kafka's.
DATA = TESTS / "data"
# Names of code in prose: `what` is no word of a sentence.
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
FENCE = re.compile(r"^(?P<fence>```|~~~)(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)", re.MULTILINE | re.DOTALL)
BRACES_TOKEN = re.compile(
    r"/\*(?P<block>.*?)\*/|//(?P<line>[^\n]*)|\"(?P<string>(?:\\.|[^\"\\\n])*)\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#+(?!!)(?P<text>[^\n]*)", re.MULTILINE)


class Passage(NamedTuple):
    """Words that stand together: the line of the file where they begin, and their text with its line breaks."""

    line: int
    text: str


def files() -> list[Path]:
    inside = [path for part in PARTS for path in sorted((ROOT / part).rglob("*"))]
    return [path for path in [*inside, *(ROOT / name for name in TOP)] if path.is_file() and is_read(path)]


def is_read(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    if path.is_relative_to(DATA) or any(part == "__pycache__" or part.startswith(".") for part in parts):
        return False
    return is_source(path) or path.suffix in PROSE | SETTINGS or path.name == "Makefile"


def is_source(path: Path) -> bool:
    made_by_cython = path.suffix == ".c" and path.is_relative_to(ROOT / "offsetlog")
    return path.suffix in PYTHON | CYTHON | BRACES and not made_by_cython


def passages(path: Path) -> Iterator[Passage]:
    """Yields the English of one file. A test's string literals are data, unless they are docstrings."""
    text = path.read_text()
    with_strings = not path.is_relative_to(TESTS)
    if path.suffix in PROSE:
        yield from document_passages(text)
    elif path.suffix in BRACES:
        yield from braces_passages(text, with_strings)
    elif path.suffix in CYTHON | PYTHON:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        yield from joined_comments(python_comments(tokens))
        if path.suffix in PYTHON and with_strings:
            yield from python_strings(text)
        else:
            yield from token_strings(tokens, with_strings)
    else:
        yield from hash_passages(text)


def document_passages(text: str) -> Iterator[Passage]:
    """Prose without its code, and each block of code by itself, since readers read its comments and output."""
    for block in FENCE.finditer(text):
        yield Passage(line_of(text, block.start("code")), block["code"])
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    yield Passage(1, CODE_SPAN.sub(blanked, prose))


def braces_passages(text: str, with_strings: bool) -> Iterator[Passage]:
    comments = []
    for token in BRACES_TOKEN.finditer(text):
        if token["block"] is not None:
            comment = re.sub(r"\n[ \t]*\*(?= |\n|$)", "\n", token["block"].lstrip("*"))
            yield Passage(line_of(text, token.start()), CODE_SPAN.sub(blanked, comment.strip(" ")))
        elif token["line"] is not None:
            comments.append(Passage(line_of(text, token.start()), token["line"].strip()))
        elif token["string"] and with_strings:
            yield Passage(line_of(text, token.start()), token["string"])
    yield from joined_comments(comments)


def python_comments(tokens: list[tokenize.TokenInfo]) -> list[Passage]:
    return [Passage(token.start[0], token.string.lstrip("#: ")) for token in tokens if token.type == tokenize.COMMENT]


def token_strings(tokens: list[tokenize.TokenInfo], all_of_them: bool) -> Iterator[Passage]:
    """Strings without a parser, which Cython's source does not have here: all of them, or docstrings alone."""
    begins_statement = True
    for token in tokens:
        if token.type == tokenize.STRING and (all_of_them or begins_statement):
            yield Passage(token.start[0], CODE_SPAN.sub(blanked, token.string.lstrip("rbfuRBFU").strip("\"'")))
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            begins_statement = token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def python_strings(text: str) -> Iterator[Passage]:
    """Strings as they are at run time: joined over lines, with `{}` for a value."""
    nodes = list(ast.walk(ast.parse(text)))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield Passage(node.lineno, CODE_SPAN.sub(blanked, node.value))
        elif isinstance(node, ast.JoinedStr):
            yield Passage(node.lineno, "".join(map(literal_part, node.values)))


def literal_part(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) else "{}"


def hash_passages(text: str) -> Iterator[Passage]:
    """The comments of a file whose comments begin with a hash, and the words that its commands print."""
    comments = [Passage(line_of(text, hit.start()), hit["text"].strip()) for hit in HASH_COMMENT.finditer(text)]
    yield from joined_comments(comments)
    for hit in re.finditer(r"\"([^\"\n]*)\"|'([^'\n]*)'", text):
        yield Passage(line_of(text, hit.start()), hit[1] or hit[2] or "")


def joined_comments(comments: list[Passage]) -> Iterator[Passage]:
    """Comments of successive lines are one passage: a line that begins in the middle of a sentence begins none."""
    first, lines = 0, []
    for line, text in comments:
        if lines and line != first + len(lines):
            yield Passage(first, CODE_SPAN.sub(blanked, "\n".join(lines)))
            lines = []
        first = first if lines else line
        lines.append(text)
    if lines:
        yield Passage(first, CODE_SPAN.sub(blanked, "\n".join(lines)))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def blanked(code: re.Match[str]) -> str:
    return "`" + "\n" * code[0].count("\n") + "`"
