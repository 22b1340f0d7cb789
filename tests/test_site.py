"""The site of the documents: lists are indented for the library that makes it, and each change builds it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parent.parent


def lists():
    specification = importlib.util.spec_from_file_location("lists", ROOT / "docs" / "site" / "lists.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "indented"),
    [
        ("a\n\nb", "a\n\nb"),
        ("1. a\n\n   b", "1. a\n\n    b"),
        ("1. a\n\n       code\n\n2. b", "1. a\n\n        code\n\n2. b"),
        ("* a\n\n  ```text\n  1. x\n\n  y\n  ```\n\nb", "* a\n\n    ```text\n    1. x\n\n    y\n    ```\n\nb"),
        ("* a\n  b\n* c", "* a\n    b\n* c"),
        ("1. a\n   * b\n     c\n\n   d\n2. e", "1. a\n    * b\n        c\n\n    d\n2. e"),
        ("1. a\n2. b\n\n   c", "1. a\n2. b\n\n    c"),
        ("* a\n\n  b\n* c\n* d", "* a\n\n    b\n\n* c\n* d"),
        ("10. a\n\n    b", "10. a\n\n    b"),
        ("* a\nlazy\n\nb", "* a\n    lazy\n\nb"),
        ("```text\n* a\n\n  b\n```", "```text\n* a\n\n  b\n```"),
        ("    code\n    * no item", "    code\n    * no item"),
        ("3.5 ms\n**bold** text", "3.5 ms\n**bold** text"),
    ],
)
def test_what_belongs_to_an_item_is_indented_by_four(text, indented):
    assert lists().nested(text) == indented


def test_a_check_of_every_change_builds_the_site():
    assert "make docs" in (ROOT / ".ci" / "run").read_text()
    assert "mkdocs build --strict" in (ROOT / "Makefile").read_text()
    assert "strict: true" in (ROOT / "mkdocs.yml").read_text()


def test_a_picture_is_small():
    pictures = sorted((ROOT / "docs" / "pictures").iterdir())
    assert pictures
    assert not [path.name for path in pictures if path.stat().st_size > 200 * 1024]
    assert "http" not in (ROOT / "docs" / "pictures" / "top.svg").read_text().replace("http://www.w3.org/2000/svg", "")
