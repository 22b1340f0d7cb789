"""docs/cli.md shows what the commands print."""

from __future__ import annotations

import difflib
import subprocess
import sys

import pytest

pytest.importorskip("typer")

from offsetlog.cli import spark
from offsetlog.cli.app import COMMANDS
from tests.cli.captures import CALLS, JOBS, MARK, PAGE, WIDTHS, generated, page, pictures_of, sections

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
    written = PAGE.read_text(encoding="utf-8")
    assert written.endswith(generated(written))


def test_every_command_has_a_picture_at_each_width():
    found = sections(PAGE.read_text(encoding="utf-8").partition(MARK)[2])
    assert set(CALLS) == set(COMMANDS)
    assert set(JOBS) == {f"spark {name.replace('_', '-')}" for name in spark.COMMANDS}
    for name in [*CALLS, *JOBS]:
        shown = pictures_of(found[name])
        for width in WIDTHS:
            assert f"\n{width} columns:\n\n```text\n$ offsetlog " in shown, name
        assert "Traceback" not in shown
        assert "offsetlog: Spark" not in shown
        assert "offsetlog: there is" not in shown


@pytest.mark.ci
@pytest.mark.xdist_group("spark captures")
def test_the_page_is_what_the_jobs_of_spark_print():
    pytest.importorskip("pyspark")
    # In a process of its own: Spark's JVM takes relative paths from the directory in which it began.
    command = [sys.executable, "-m", "tests.cli.captures", "--print", "--spark"]
    done = subprocess.run(command, cwd=PAGE.parents[1], stdout=subprocess.PIPE, check=True, timeout=900)
    names = ("docs/cli.md", "the jobs")
    pages = (PAGE.read_text(encoding="utf-8").splitlines(), done.stdout.decode().splitlines())
    changes = [*difflib.unified_diff(*pages, *names, lineterm="")]
    assert not changes, "run `python -m tests.cli.captures --write --spark`\n" + "\n".join(changes[:60])
