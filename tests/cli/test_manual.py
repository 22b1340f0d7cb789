"""The man page is that of the present commands, complete, and without a warning of those who format it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("typer")

import typer

from offsetlog.cli import manual
from offsetlog.cli.app import COMMANDS, SPARK, application
from offsetlog.cli.spark import COMMANDS as JOBS

pytestmark = pytest.mark.source_tree


def sections() -> dict[str, str]:
    """The plain text of the part of each command, by its path."""
    text = manual.page().replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
    text = text.partition(".SH COMMANDS\n")[2].partition(".SH ENVIRONMENT\n")[0]
    parts = re.split(r"^\.SS (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_in_the_tree_is_made_of_the_commands():
    assert manual.PAGE.read_text() == manual.page(), "run python -m offsetlog.cli.manual --write"


def test_every_command_has_its_part():
    jobs = [f"{SPARK} {name.replace('_', '-')}" for name in JOBS]
    assert list(sections()) == [f"offsetlog {name}" for name in (*COMMANDS, SPARK, *jobs)]


def commands() -> dict[str, object]:
    whole = typer.main.get_command(application())
    context = whole.make_context("offsetlog", [], resilient_parsing=True)
    found = {}
    for name in whole.list_commands(context):
        command = found[f"offsetlog {name}"] = whole.get_command(context, name)
        if name == SPARK:
            for job in command.list_commands(context):
                found[f"offsetlog {name} {job}"] = command.get_command(context, job)
    return found


@pytest.mark.parametrize("path", commands())
def test_every_option_and_argument_is_in_it(path):
    command, part = commands()[path], sections()[path]
    flat = " ".join(part.split())
    assert command.params or path == f"offsetlog {SPARK}"
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts) if parameter.param_type_name == "option" else ():
            assert re.search(rf"^\.B .*(?<![\w-]){re.escape(name)}(?![\w-])", part, re.MULTILINE), name
        about = " ".join((parameter.help or "").split())
        assert about in flat
    assert re.search(r"^\.B .*--help$", part, re.MULTILINE)
    for line in (command.help or "").replace("\b", "").split("\n"):
        assert " ".join(line.split()) in flat


def test_the_program_prints_it():
    done = subprocess.run([sys.executable, "-m", "offsetlog.cli.manual"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", manual.page())
    assert manual.main(["--wrte"]) == 2


LINTERS = {
    "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
    "groff": ["groff", "-man", "-ww", "-z", "-Tutf8"],
    "man": ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"],
}


@pytest.mark.parametrize("linter", LINTERS)
def test_the_page_is_formatted_without_a_warning(linter, tmp_path):
    if shutil.which(linter) is None:
        pytest.skip(f"there is no {linter} here")
    (path := tmp_path / "offsetlog.1").write_text(manual.page())
    done = subprocess.run([*LINTERS[linter], str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    if linter == "mandoc":
        assert done.stdout == ""
