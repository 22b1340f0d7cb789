"""`snapshot`: what it writes, and that the next open goes on from it."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

from test_cli_read import call, on_terminal

import offsetlog
from offsetlog import MaintenanceConfig
from offsetlog.directory.snapshots import FILE_NAME


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data"
    with offsetlog.open(path, 4, "process") as store:
        for number in range(100):
            store.commit_one("billing", "orders", number % 3, number)
            store.commit_one("audit", "orders", number % 3, number)
    return path


def test_the_next_open_goes_on_from_it(data, capsys):
    code, out, err = call(capsys, "snapshot", data, "--format=json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["log_offset"], row["offsets"], row["written"], row["read_from"]) for row in rows] == [
        (100, 3, True, None)
    ] * 2
    assert len(list(data.rglob(FILE_NAME))) == 2
    with offsetlog.open(data, maintenance=MaintenanceConfig(enabled=False)) as store:
        assert {found["snapshot"] for found in store.recoveries().values()} == {100}
        assert store.fetch_one("billing", "orders", 0).offset == 99
        store.commit_one("billing", "orders", 0, 100)
    rows = [json.loads(line) for line in call(capsys, "snapshot", data, "--format=json")[1].splitlines()]
    assert sorted((row["log_offset"], row["written"]) for row in rows) == [(100, False), (101, True)]


def test_text(data, capsys):
    code, out, _ = call(capsys, "snapshot", data)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split("\t")[:2] == ["log_partition", "log_offset"]
    assert lines[-1] == "2 log partitions of 2 can start from a snapshot"
    code, shown = on_terminal("snapshot", str(data))
    assert code == 0
    assert "2 log partitions of 2" in shown


def test_only_one_log(data, capsys):
    number = json.loads(call(capsys, "snapshot", data, "--format=json")[1].splitlines()[0])["log_partition"]
    for file in data.rglob(FILE_NAME):
        file.unlink()
    out = call(capsys, "snapshot", data, "--log-partition", number, "--format=json")[1]
    assert [json.loads(line)["log_partition"] for line in out.splitlines()] == [number]
    assert [file.parent.name for file in data.rglob(FILE_NAME)] == [f"__consumer_offsets-{number}"]
    assert call(capsys, "snapshot", data, "--log-partition=4")[0] == 2


def test_what_is_refused(data, tmp_path, capsys):
    assert call(capsys, "snapshot", tmp_path / "nowhere")[0] == 2
    with offsetlog.open(data):
        code, out, err = call(capsys, "snapshot", data)
    assert (code, out) == (2, "")
    assert "lock" in err


def test_a_damaged_log_gets_none(data, capsys):
    victim = max(data.rglob("*.log"), key=lambda file: file.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.warns(offsetlog.errors.CorruptionWarning):
        code, out, err = call(capsys, "snapshot", data, "--format=json")
    assert code == 1
    assert len(out.splitlines()) == 1
    assert victim.parent.name in err
    assert len(list(data.rglob(FILE_NAME))) == 1


def test_nothing_new_is_reported_in_words(data, capsys):
    call(capsys, "snapshot", data)
    code, shown = on_terminal("snapshot", str(data))
    assert code == 0
    assert "nothing new to write" in shown
    assert "0 bytes" not in shown
    rows = [json.loads(line) for line in call(capsys, "snapshot", data, "--format=json")[1].splitlines()]
    assert [row["bytes"] for row in rows] == [None, None]


def test_a_snapshot_that_is_discarded_is_reported_as_all_else(data, capsys):
    call(capsys, "snapshot", data)
    for file in data.rglob(FILE_NAME):
        file.write_bytes(b"of no use")
    code, _, err = call(capsys, "history", data, "billing", "orders", "0")
    assert code == 0
    assert "the snapshot was not used" in err
    assert all(line.startswith("offsetlog: ") for line in err.splitlines())


def test_a_lock_that_is_held_is_reported_in_words_of_the_command_line(data, capsys):
    with offsetlog.open(data):
        code, _, err = call(capsys, "snapshot", data)
    assert code == 2
    assert "commands that only read do not need the lock" in err
    assert "read_only" not in err
