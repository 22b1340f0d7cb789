"""The English that a person reads: no word and no beginning of a sentence that makes a reader read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prose import ROOT, files, passages

pytestmark = pytest.mark.source_tree

FILES = files()

# A word, and the words that a native engineer writes instead.
WORDS = {
    "told": "reported, named, printed, known",
    "anew": "again",
    "behind": "after",
}
# The only phrases with `behind`: they are about a lag.
LAGS = re.compile(r"\b(how far|lag(s|ged|ging)?|falls?|fell|fallen|falling) behind\b", re.IGNORECASE)
WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)

# Places where a block of text begins: a passage, a paragraph, a bullet, a numbered heading, a cell of a table.
BLOCK = r"\A\s*|\n\s*\n\s*|\n\s*(?:[*+-]|\d+[.)])\s+|(?:\A|\n)\s*#+\s+(?:[\d.]+\s+)?|\|\s*"
MARKS = r"[*_\"'(\[]*"
# A sentence inside of a block shows by its capital; the first of a block may lack it.
SENTENCE = re.compile(rf"(?:{BLOCK}|[.!?:]\)?\s+){MARKS}\b(What|Who|Of)\b(?=[\s'])")
BLOCK_BEGINNING = re.compile(rf"(?:{BLOCK}){MARKS}\b(what|who)\b(?=[\s'])")


def words(text: str) -> Iterator[tuple[int, str]]:
    lags = [phrase.span() for phrase in LAGS.finditer(text)]
    for hit in WORD.finditer(text):
        if not any(start <= hit.start() < end for start, end in lags):
            yield hit.start(), f"{hit[0]!r}: write {WORDS[hit[0].lower()]}"


def beginnings(text: str) -> Iterator[tuple[int, str]]:
    for pattern in (SENTENCE, BLOCK_BEGINNING):
        for hit in pattern.finditer(text):
            yield hit.start(1), f"a sentence begins with {hit[1]!r}: begin with its subject"


def complaints(text: str) -> list[tuple[int, str]]:
    return sorted([*words(text), *beginnings(text)])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_reader_reads_it_once(path):
    found = [
        f"line {line + text.count(chr(10), 0, start)}: {complaint}, in {' '.join(text[start : start + 60].split())!r}"
        for line, text in passages(path)
        for start, complaint in complaints(text)
    ]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(
    "text",
    [
        "the problem is told",
        "it is made anew",
        "the bytes behind the bound",
        "What survives, and how it is known",
        "It ends. Who asks gets an answer.",
        "two rules: Of a group nothing expires",
        "a list\n\n* What is left",
        "# Title\n\n## 2.7 What changes",
        "| name | what it is |",
        "what it does",
    ],
)
def test_it_refuses(text):
    assert complaints(text)


@pytest.mark.parametrize(
    "text",
    [
        "how far behind a group is; it lags behind, and a follower fell behind",
        "Records of what was cleaned",
        "it says what it is, of whom, and who asked",
        "Often, whatever happens",
        "a field `what` of Whatsoever",
    ],
)
def test_it_accepts(text):
    assert not complaints(text)
