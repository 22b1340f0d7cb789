"""Completion in shells: what is proposed, what is loaded for it, and the scripts in the shells that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import call

import offsetlog
from offsetlog import TopicPartition
from offsetlog.cli import completion
from offsetlog.cli.app import COMMANDS, SPARK
from offsetlog.cli.spark import COMMANDS as JOBS

GROUPS = ["audit", "a b", "billing", "bill:ing", "$x", "bad\nname"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "data"
    with offsetlog.open(path, partitions=2, durability="process") as store:
        for group in GROUPS:
            store.commit(group, {TopicPartition("orders", 0): 1})
    return path


def proposed(capsys, monkeypatch, shell: str, *words: object) -> list[str]:
    monkeypatch.setenv(completion.VARIABLE, shell)
    code, out, err = call(capsys, *words)
    assert (code, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert all(len(line) == 3 for line in lines)
    return [value if kind == "plain" else kind for kind, value, _ in lines]


def test_commands(capsys, monkeypatch):
    for shell in completion.SCRIPTS:
        assert proposed(capsys, monkeypatch, shell, "") == [*COMMANDS, SPARK]
        assert proposed(capsys, monkeypatch, shell, "re") == ["rewinds", "restore", "repair"]
        assert proposed(capsys, monkeypatch, shell, SPARK, "") == [name.replace("_", "-") for name in JOBS]
        assert "--version" in proposed(capsys, monkeypatch, shell, "--")


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_every_command(capsys, monkeypatch, name):
    assert "--help" in proposed(capsys, monkeypatch, "zsh", name, "--")


def test_options_and_their_values(capsys, monkeypatch, data):
    assert proposed(capsys, monkeypatch, "zsh", "offsets", data, "--to") == ["--topic"]
    assert proposed(capsys, monkeypatch, "zsh", "dump", data, "--formatter", "o") == ["old", "offsets"]
    assert proposed(capsys, monkeypatch, "zsh", "dump", data, "--formatter=o") == [
        "--formatter=old",
        "--formatter=offsets",
    ]
    assert proposed(capsys, monkeypatch, "bash", "dump", data, "--formatter", "=", "o") == ["old", "offsets"]
    assert proposed(capsys, monkeypatch, "zsh", "completion", "") == ["bash", "zsh", "fish"]
    for shell in completion.SCRIPTS:
        assert proposed(capsys, monkeypatch, shell, "fetch", "") == ["file"]


def test_groups(capsys, monkeypatch, data):
    # A name with a line feed cannot be typed.
    known = ["$x", "a b", "audit", "bill:ing", "billing"]
    for words in (("fetch", data), ("offsets", data, "--group"), ("diff", data, "--group")):
        assert proposed(capsys, monkeypatch, "zsh", *words, "") == known
        assert proposed(capsys, monkeypatch, "fish", *words, "bi") == ["bill:ing", "billing"]
    options = ["--group=bill:ing", "--group=billing"]
    assert proposed(capsys, monkeypatch, "zsh", "offsets", data, "--group=bi") == options
    assert proposed(capsys, monkeypatch, "bash", "fetch", data, "") == [r"\$x", r"a\ b", "audit", "bill:ing", "billing"]
    # bash cuts words at colons, and gives them as they were typed.
    assert proposed(capsys, monkeypatch, "bash", "fetch", data, "bill", ":", "i") == ["ing"]
    assert proposed(capsys, monkeypatch, "bash", "fetch", f"'{data}'", r"a\ ") == [r"a\ b"]
    assert proposed(capsys, monkeypatch, "bash", "fetch", data, "'a ") == [r"a\ b"]


def test_groups_of_what_is_large_or_no_log(capsys, monkeypatch, data, tmp_path):
    assert proposed(capsys, monkeypatch, "zsh", "fetch", tmp_path / "nowhere", "") == ["file"]
    assert proposed(capsys, monkeypatch, "zsh", "fetch", tmp_path, "") == ["file"]
    monkeypatch.setattr(completion, "BYTES_MAX", 10)
    assert proposed(capsys, monkeypatch, "zsh", "fetch", data, "") == ["file"]


LOADED = """
import os, sys
os.environ["_OFFSETLOG_COMPLETE"] = "zsh"
from offsetlog.cli.app import run
run(sys.argv[1:])
print(*(name for name in sys.modules if name.startswith(("offsetlog.cli", "pyarrow", "rich"))), file=sys.stderr)
"""


def loaded(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    return set(done.stderr.split())


def test_only_what_is_needed_is_loaded():
    commands = {f"offsetlog.cli.{name}" for name in COMMANDS} - {"offsetlog.cli.completion"}
    assert not loaded("of") & {*commands, "pyarrow", "rich"}
    found = loaded("offsets", "--")
    assert found & commands == {"offsetlog.cli.offsets"}
    assert not found & {"pyarrow", "rich"}


# ---------------------------------------------------------------------------------------------------- in the shells

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
compopt() { printf 'compopt %s\\n' "$*"; }
_offsetlog_completion "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def in_shell(capsys, tmp_path, shell: str, command: list[str]) -> list[str]:
    script = tmp_path / f"offsetlog.{shell}"
    code, out, _ = call(capsys, "completion", shell)
    assert code == 0
    script.write_text(out)
    (program := tmp_path / "offsetlog").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m offsetlog "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [each.replace("SCRIPT", str(script)) for each in command],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash(capsys, data, tmp_path):
    def bash(*words: str) -> list[str]:
        return in_shell(capsys, tmp_path, "bash", ["bash", "--norc", "-c", BASH, "bash", "SCRIPT", "offsetlog", *words])

    assert bash("sn") == ["snapshot"]
    assert bash("fetch", str(data), "a") == [r"a\ b", "audit"]
    assert bash("fetch", "") == ["compopt -o default", ""]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish(capsys, data, tmp_path):
    def fish(line: str) -> list[str]:
        command = ["fish", "--no-config", "-c", f"source SCRIPT; complete --do-complete {line!r}"]
        return in_shell(capsys, tmp_path, "fish", command)

    assert fish("offsetlog sn") == ["snapshot"]
    assert [line.split("\t")[0] for line in fish("offsetlog offsets --to")] == ["--topic"]
    assert fish(f"offsetlog fetch {data} bi") == ["bill:ing", "billing"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh(capsys, data, tmp_path):
    # Without a terminal there is no completion of zsh's own: its builtin is replaced.
    def zsh(*words: str) -> list[str]:
        text = (
            "compdef() { : }; compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -rl -- $@ }; "
            "_files() { print files }; source SCRIPT; words=(\"$@\"); CURRENT=$#; _offsetlog"
        )
        return in_shell(capsys, tmp_path, "zsh", ["zsh", "-f", "-c", text, "zsh", "offsetlog", *words])

    assert zsh("sn") == ["snapshot"]
    assert zsh("fetch", "") == ["files"]
    assert zsh("fetch", str(data), r"a\ ") == ["a b"]
    assert zsh("fetch", str(data), "bi") == ["bill:ing", "billing"]
