"""Commands that destroy: what they ask on a terminal, what they refuse elsewhere, and that nothing happens before."""

from __future__ import annotations

import io
import shutil
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("typer")

from test_cli_read import GROUPS, call, on_terminal

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.cli.app import application

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
ORDERS = [TopicPartition("orders", number) for number in range(10)]


class Asked(NamedTuple):
    """A command that destroys, and what it says of its effect."""

    arguments: list[str]
    #: In the question, and after "the command would" in the refusal.
    deed: str
    #: Each change: after the deed of a refusal, and as rows above the question.
    named: str
    rows: list[list[str]]


COMMANDS = {
    "delete": Asked(
        ["delete", "billing"],
        "delete the whole group billing: 2 committed offsets, 1 pending offset of open transactions, last committed 20",
        "orders:0 50 -> none, orders:2 9 -> none",
        [["billing", "orders", "0", "50", ""], ["billing", "orders", "2", "9", ""]],
    ),
    "delete some": Asked(
        ["delete", "billing", "orders:2"],
        "delete 1 committed offset of group billing, last committed 20",
        "orders:2 9 -> none",
        [["billing", "orders", "2", "9", ""]],
    ),
    "restore": Asked(
        ["restore", "billing", "--at=offset:2"],
        "restore group billing to log offset 2: commit 2 offsets and delete 1 offset",
        "orders:0 50 -> 42, orders:1 none -> 7, orders:2 9 -> none",
        [
            ["billing", "orders", "0", "50", "42", "-8"],
            ["billing", "orders", "1", "", "7"],
            ["billing", "orders", "2", "9", ""],
        ],
    ),
    "undelete": Asked(
        ["undelete", "billing"],
        "commit 1 deleted offset of group billing again, deleted 20",
        "orders:1 none -> 7",
        [["billing", "orders", "1", "", "7"]],
    ),
    "undelete of a moment": Asked(
        ["undelete", "billing", "--at=offset:2"],
        "commit 1 deleted offset of group billing again, as of log offset 2",
        "orders:1 none -> 7",
        [["billing", "orders", "1", "", "7"]],
    ),
    "abort": Asked(
        ["abort", "11"],
        "abort the transaction of producer 11 with 1 pending offset of 1 group in 1 log partition, last write at 20",
        "billing orders:5 99",
        [["billing", "orders", "5", "", "99"]],
    ),
    "expire": Asked(
        ["expire", "--retention=7d"],
        "delete 7 expired offsets of 1 group and 1 group with nothing left, the first expired 20",
        "old orders:0 3, old orders:1 3, old orders:2 3, old orders:3 3, old orders:4 3, 3 more",
        [["old", "orders", "0"], ["old", "orders", "6"], ["old", "", ""]],
    ),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """orders:0 was 42 and is 50, orders:1 was 7 and is deleted, orders:2 is 9; orders:5 is pending; `old` is old."""
    path = tmp_path / "data"
    with offsetlog.open(path, 2, "process") as store:
        store.commit("billing", {ORDERS[0]: 42, ORDERS[1]: 7})
        store.commit("billing", {ORDERS[0]: 50, ORDERS[2]: 9})
        store.delete("billing", [ORDERS[1]])
        store.transaction("billing", producer_id=11).commit({ORDERS[5]: 99})
        store.commit("old", dict.fromkeys(ORDERS[:7], OffsetAndMetadata(3, commit_timestamp=NOW - 9 * DAY)))
    return path


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A broker's directory: two members of a group, a deleted offset of it, and a transaction that is open."""
    path = tmp_path / "log"
    shutil.copytree(GROUPS, path)
    with offsetlog.open(path, 8) as store:
        store.transaction("cl-range-fraud", producer_id=77).commit({ORDERS[5]: 99})
    return path


def files(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file()
    }


def state(path: Path) -> str:
    with offsetlog.open(path, read_only=True) as store:
        return str(store.digest(physical=True))


def called(capsys, asked: Asked, path: Path, *options: str) -> tuple[int, str, str]:
    command, *rest = asked.arguments
    return call(capsys, command, path, *rest, *options)


def shown_to(asked: Asked, path: Path, *options: str, answer: bytes = b"") -> tuple[int, str]:
    command, *rest = asked.arguments
    return on_terminal(command, path, *rest, *options, answer=answer, columns=400)


every = pytest.mark.parametrize("asked", COMMANDS.values(), ids=COMMANDS)


# ------------------------------------------------------------------------------------------------------- off a terminal


@every
@pytest.mark.parametrize("form", ["text", "json"])
def test_off_a_terminal_nothing_is_done_without_yes(data, capsys, asked, form):
    before = files(data)
    code, out, err = called(capsys, asked, data, f"--format={form}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("offsetlog: nothing was done: there is no terminal to ask on; the command would ")
    assert asked.deed in err
    assert err.endswith(f" ({asked.named}); add --yes to do it, or --dry-run to only show it\n")
    # Not even the lock was taken.
    assert files(data) == before


@every
@pytest.mark.parametrize("yes", ["--yes", "-y"])
def test_with_yes_it_is_done(data, capsys, asked, yes):
    before = state(data)
    code, out, err = called(capsys, asked, data, yes)
    assert (code, err) == (0, "")
    assert out
    assert state(data) != before
    # A second time there is nothing to do, which nobody has to be asked for.
    after = state(data)
    code, out, err = called(capsys, asked, data)
    assert out.count("\n") + err.count("\n") == 1
    assert "would" not in err
    assert state(data) == after
    assert call(capsys, "verify", data)[0] == 0


@every
def test_a_dry_run_says_what_would_be_done(data, capsys, asked):
    before = files(data)
    code, out, err = called(capsys, asked, data, "--dry-run")
    assert (code, err) == (0, "")
    table = [line.split("\t") for line in out.splitlines()]
    for row in asked.rows:
        assert any(line[: len(row)] == row for line in table)
    if asked.arguments[0] != "expire":
        assert out.splitlines()[-1].startswith("would ")
        assert asked.deed in out.splitlines()[-1]
    json_rows = called(capsys, asked, data, "--dry-run", "--format=json")[1].splitlines()
    assert len(json_rows) == len(table) - (1 if asked.arguments[0] == "expire" else 2)
    assert files(data) == before


@every
def test_a_question_nobody_sees_is_not_asked(data, capsys, asked, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    # The standard error, where it would stand, goes elsewhere.
    before = files(data)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert called(capsys, asked, data)[:2] == (1, "")
    # Streams that were closed before the start.
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(sys, name, None)
        assert called(capsys, asked, data)[:2] == (1, "")
    assert files(data) == before


# -------------------------------------------------------------------------------------------------------- on a terminal


@every
def test_a_terminal_asks(data, asked):
    before = state(data)
    code, shown = shown_to(asked, data, answer=b"n\n")
    assert code == 1
    assert "nothing was done" in shown
    assert state(data) == before
    question = next(line for line in shown.splitlines() if "[y/N]" in line)
    assert asked.deed in question[0].lower() + question[1:]
    above = [line.split() for line in shown[: shown.index(question)].splitlines()]
    for row in asked.rows:
        shown_row = [cell or "-" for cell in row]
        assert any(line[: len(row)] == shown_row for line in above)
    assert shown_to(asked, data, answer=b"\n")[0] == 1
    assert state(data) == before
    assert shown_to(asked, data, answer=b"y\n")[0] == 0
    assert state(data) != before


@every
def test_a_terminal_does_not_ask_with_yes(data, asked):
    before = state(data)
    code, shown = shown_to(asked, data, "--yes")
    assert (code, "?" in shown) == (0, False)
    assert state(data) != before


# ---------------------------------------------------------------------------------------------------- who is in a group

WITH_MEMBERS = {
    "delete": ["delete", "cl-range-fraud"],
    "delete some": ["delete", "cl-range-fraud", "orders-in:0"],
    "restore": ["restore", "cl-range-fraud", "--at=offset:12"],
    "undelete": ["undelete", "cl-range-fraud", "audit-gone:1"],
    "abort": ["abort", "77"],
}


@pytest.mark.parametrize("arguments", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_a_group_with_members_needs_force(used, capsys, arguments):
    command, *rest = arguments
    before = state(used)
    said = "group cl-range-fraud has 2 members that may go on committing"
    for options, asked_for in (
        ([], "add --yes and --force to do it"),
        (["--yes"], "add --force to do it"),
        (["--force"], "add --yes to do it"),
    ):
        code, out, err = call(capsys, command, used, *rest, *options)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("offsetlog: nothing was done: ")
        assert asked_for in err
        assert (said in err) == ("--force" not in options)
        assert state(used) == before
    code, shown = on_terminal(command, used, *rest, answer=b"y\n", columns=400)
    assert (code, said in shown, "[y/N]" in shown) == (1, True, False)
    code, _, err = call(capsys, command, used, *rest, "--dry-run")
    assert (code, err) == (1, f"offsetlog: would be refused: {said}: it takes --force\n")
    assert call(capsys, command, used, *rest, "--dry-run", "--force")[0] == 0
    assert state(used) == before
    code, shown = on_terminal(command, used, *rest, "--force", answer=b"n\n", columns=400)
    assert code == 1
    assert shown.index(said) < shown.index("[y/N]")
    assert state(used) == before
    code, _, err = call(capsys, command, used, *rest, "--yes", "--force")
    assert (code, err) == (0, f"offsetlog: {said}\n")
    assert state(used) != before


def test_a_restore_to_nothing_needs_force(data, capsys):
    # A mistyped year would delete everything of the group.
    arguments = ["restore", data, "billing", "--at=-5d"]
    deed = " UTC, 5 d 0 h ago, when none of the offsets to delete was committed: delete 2 offsets"
    reason = (
        "none of the present offsets of group 'billing' existed at that moment, and the restore would delete 2 of them"
    )
    before = files(data)
    for options, asked_for in (
        ([], "add --yes and --force to do it"),
        (["--yes"], "add --force to do it"),
        (["--force"], "add --yes to do it"),
    ):
        code, out, err = call(capsys, *arguments, *options)
        assert (code, out) == (1, "")
        assert deed in err
        assert f"{asked_for}, or --dry-run to only show it" in err
        assert (reason in err) == ("--force" not in options)
    code, out, err = call(capsys, *arguments, "--dry-run")
    assert code == 1
    assert err.startswith(f"offsetlog: would be refused: {reason}")
    assert err.endswith(": it takes --force\n")
    assert deed in out
    assert call(capsys, *arguments, "orders:2", "--dry-run")[0] == 1
    assert call(capsys, *arguments, "--dry-run", "--force")[0] == 0
    assert files(data) == before
    code, out, err = call(capsys, *arguments, "--yes", "--force")
    assert (code, ": delete 2 offsets" in out) == (0, True)


def test_a_whole_group_goes_with_its_records(used, capsys):
    code, out, _ = call(capsys, "delete", used, "cl-range-fraud", "--yes", "--force")
    assert (code, out) == (
        0,
        "deleted 10 offsets of cl-range-fraud, and 1 record of the group itself, and 1 pending offset of open "
        "transactions\n",
    )
    assert "cl-range-fraud" not in call(capsys, "groups", used)[1]


def test_a_group_whose_record_cannot_be_read_needs_force(tmp_path, capsys):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    offset = encode_value(1, 3, {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW})
    records = [
        (encode_key(1, {"group": "g", "topic": "t", "partition": 0}), offset),
        (encode_key(2, {"group": "g"}), b"\x00\x03\x00"),
    ]
    (folder / f"{0:020}.log").write_bytes(encode_batch(0, NOW, records))
    code, out, err = call(capsys, "delete", tmp_path, "g", "--yes", "--partitions=1")
    assert (code, out) == (1, "")
    assert "group g has a record that cannot be read, so the members of the group are unknown; the command would" in err
    assert call(capsys, "fetch", tmp_path, "g", "--partitions=1")[0] == 0
    assert call(capsys, "delete", tmp_path, "g", "--yes", "--force", "--partitions=1")[0] == 0


# ------------------------------------------------------------------------------------------------------------- the help


@pytest.mark.parametrize("command", ["delete", "restore", "undelete", "expire", "abort", "compact"])
def test_the_help_says_that_it_asks(capsys, command):
    application.cache_clear()
    code, out, _ = call(capsys, command, "--help")
    help_text = " ".join(out.split())
    assert (code, "--yes" in help_text, "--dry-run" in help_text) == (0, True, True)
    assert "asks first" in help_text
    assert ("--force" in help_text) == (command not in ("expire", "compact"))


def test_a_commit_moves_a_group_with_members_back_only_with_force(used, capsys):
    before = state(used)
    back = ["commit", used, "cl-range-fraud", "orders-in:0=0"]
    code, out, err = call(capsys, *back)
    assert (code, out) == (1, "")
    assert "group cl-range-fraud has 2 members that may go on committing, and the commit would " in err
    assert "and the commit would move offsets back (orders-in:0 " in err
    assert err.endswith(" -> 0); to commit anyway, add --force\n")
    assert state(used) == before
    assert call(capsys, "commit", used, "cl-range-fraud", "orders-in:0=9000000000")[0] == 0
    assert call(capsys, *back, "--force")[0] == 0
    assert call(capsys, "commit", used, "nobody-yet", "orders-in:0=5")[0] == 0
    assert call(capsys, "commit", used, "nobody-yet", "orders-in:0=1")[0] == 0


def test_ctrl_c_at_a_question_is_130_and_a_line_of_its_own(data):
    before = state(data)
    code, shown = on_terminal("delete", data, "billing", answer=b"\x03", columns=400)
    assert code == 130, shown
    assert [line for line in shown.split("\r\n") if line][-1] == "offsetlog: nothing was done"
    assert state(data) == before
