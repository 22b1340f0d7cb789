"""docs/cli.md shows what the commands print."""

from __future__ import annotations

import difflib

import pytest

pytest.importorskip("typer")

from tests.cli.captures import MARK, PAGE, generated, page

pytestmark = pytest.mark.source_tree


def test_the_page_is_what_the_commands_print():
    written, made = PAGE.read_text(encoding="utf-8"), page()
    names = ("docs/cli.md", "the commands")
    changes = [*difflib.unified_diff(written.splitlines(), made.splitlines(), *names, lineterm="")]
    assert not changes, "run `python -m tests.cli.captures --write`\n" + "\n".join(changes[:60])
    assert MARK in written


def test_captures_depend_on_nothing_but_their_data(tmp_path, monkeypatch):
    # Another temporary directory, as on another machine.
    longer = tmp_path / ("x" * 60)
    longer.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(longer))
    assert PAGE.read_text(encoding="utf-8").endswith(generated())
