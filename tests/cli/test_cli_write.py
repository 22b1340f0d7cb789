"""`commit`, `fetch` and `delete`: what they do, what they refuse, and that nothing else is touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import DATA, GROUPS, call

import offsetlog
from offsetlog import TopicPartition
from offsetlog._native.codec import partition_for
from offsetlog.cli.positions import parse_expected, parse_offsets, parse_partition, parse_selection
from offsetlog.errors import InvalidArgumentError


@pytest.fixture
def data(tmp_path, capsys):
    path = tmp_path / "data"
    assert call(capsys, "commit", path, "billing", "orders:0=42", "orders:1=7", "--partitions", 4)[0] == 0
    return path


def fetched(capsys, path: Path, *arguments: str) -> dict[tuple[str, int], int]:
    code, out, _ = call(capsys, "fetch", path, "billing", *arguments, "--format=json")
    assert code == 0
    return {(row["topic"], row["partition"]): row["offset"] for row in map(json.loads, out.splitlines())}


def test_what_is_committed_is_fetched(data, capsys):
    assert fetched(capsys, data) == {("orders", 0): 42, ("orders", 1): 7}
    assert fetched(capsys, data, "orders:1") == {("orders", 1): 7}
    assert fetched(capsys, data, "orders") == {("orders", 0): 42, ("orders", 1): 7}
    code, out, _ = call(capsys, "offsets", data, "--format=json")
    assert (code, len(out.splitlines())) == (0, 2)


def test_metadata_and_epoch_are_kept(data, capsys):
    call(capsys, "commit", data, "billing", "orders:0=1", "--metadata", "a\tж", "--leader-epoch", 3)
    row = json.loads(call(capsys, "fetch", data, "billing", "orders:0", "--format=json")[1])
    assert (row["metadata"], row["leader_epoch"]) == ("a\tж", 3)
    assert "a\\tж" in call(capsys, "fetch", data, "billing", "orders:0")[1]


def test_a_condition_that_does_not_hold_is_refused(data, capsys):
    code, out, err = call(capsys, "commit", data, "billing", "orders:0=43", "--expected", "orders:0=41")
    assert (code, out) == (1, "")
    assert "expected 41, found 42" in err
    assert call(capsys, "commit", data, "billing", "orders:2=1", "--expected", "orders:2=none")[0] == 0
    assert call(capsys, "commit", data, "billing", "orders:2=1", "--expected", "orders:2=none")[0] == 1
    assert call(capsys, "commit", data, "billing", "orders:0=1", "--monotonic")[0] == 1
    assert fetched(capsys, data)["orders", 0] == 42


def test_json_of_a_commit(data, capsys):
    row = json.loads(call(capsys, "commit", data, "billing", "a:0=1", "--format=json", "--durability=process")[1])
    assert (row["committed_offsets"], row["durability"]) == (1, "process")
    assert row["log_offset"] == 2


def test_a_commit_names_its_log_offsets(data, capsys):
    number = partition_for(b"billing", 4)
    one = call(capsys, "commit", data, "billing", "a:0=1")[1]
    assert one == f"committed 1 offset of billing (log partition {number}, log offset 2)\n"
    many = call(capsys, "commit", data, "billing", *(f"orders:{each}=0" for each in range(1000)))[1]
    assert many == f"committed 1,000 offsets of billing (log partition {number}, log offsets 3 to 1002)\n"


def test_a_commit_is_undone_at_the_log_offset_that_it_names(data, capsys):
    before = fetched(capsys, data)
    out = call(capsys, "commit", data, "billing", "orders:0=1", "orders:1=2", "orders:2=3", "--format=json")[1]
    row = json.loads(out)
    assert (row["log_offset"], row["undo_at"]) == (4, 2)
    assert call(capsys, "restore", data, "billing", "--at", f"offset:{row['undo_at']}", "--yes")[0] == 0
    assert fetched(capsys, data) == before


def test_a_commit_of_several_batches_is_undone_at_the_log_offset_that_it_names(data, capsys):
    # It is written as a transaction, and its last record is the marker.
    before = fetched(capsys, data)
    offsets = [f"orders:{number}=9" for number in range(4200)]
    out = call(capsys, "commit", data, "billing", *offsets, "--metadata", "m" * 4096, "--format=json")[1]
    row = json.loads(out)
    assert (row["undo_at"], row["log_offset"]) == (2, 4202)
    assert call(capsys, "restore", data, "billing", "--at", f"offset:{row['undo_at']}", "--yes")[0] == 0
    assert fetched(capsys, data) == before


@pytest.mark.parametrize(
    "text",
    ["orders", "orders:0", "orders=1", ":0=1", "orders:=1", "orders:x=1", "orders:0=", "orders:0=-1", "orders:-1=1"],
)
def test_what_is_no_position_is_refused(tmp_path, capsys, text):
    code, _, err = call(capsys, "commit", tmp_path / "data", "--partitions=1", "g", text)
    assert code == 2
    assert err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_positions_are_parsed():
    assert parse_partition("a:b:3") == TopicPartition("a:b", 3)
    assert parse_selection("a.b") == "a.b"
    assert parse_offsets(["t:0=1"], "m", 2) == {TopicPartition("t", 0): (1, "m", 2, -1, -1, None)}
    assert parse_expected(["t:0=none", "t:1=5"]) == {TopicPartition("t", 0): None, TopicPartition("t", 1): 5}
    with pytest.raises(InvalidArgumentError, match="a second time"):
        parse_offsets(["t:0=1", "t:0=2"], "", -1)
    with pytest.raises(InvalidArgumentError):
        parse_selection("")


def test_a_slip_makes_no_directory(tmp_path, capsys):
    code, _, err = call(capsys, "delete", tmp_path / "typo", "g")
    assert code == 2
    assert "there is no log directory" in err
    assert not (tmp_path / "typo").exists()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").touch()
    code, _, err = call(capsys, "commit", tmp_path / "letters", "g", "t:0=1")
    assert code == 2
    assert "this directory holds files, but no log" in err
    assert [each.name for each in (tmp_path / "letters").iterdir()] == ["letter"]


def test_the_first_example_of_the_help_works(tmp_path, capsys):
    code, out, err = call(capsys, "commit", tmp_path / "data", "billing", "orders:0=42")
    assert (code, out.startswith("committed 1 offset of billing (log partition ")) == (0, True)
    assert err == f"offsetlog: created a new log directory with 4 partitions ({tmp_path / 'data'})\n"
    assert call(capsys, "commit", tmp_path / "data", "billing", "orders:0=43")[2] == ""


def test_what_is_not_there_is_reported(data, capsys):
    code, out, err = call(capsys, "fetch", data, "billing", "orders:0", "nope:3", "--format=json")
    assert (code, len(out.splitlines())) == (1, 1)
    assert err == "offsetlog: group billing: no offset of nope:3 is committed\n"
    assert call(capsys, "fetch", data, "nobody") == (1, "", f"offsetlog: there is no group nobody in {data}\n")
    code, out, err = call(capsys, "offsets", data, "--group=nobody")
    assert (code, len(out.splitlines())) == (1, 1)
    assert err == f"offsetlog: there is no group nobody in {data}\n"


def test_wrong_numbers_are_reported_in_words(data, capsys):
    for arguments, said in (
        (["orders:0=-3"], "it must be 0 or more"),
        (["orders:0=1", "--expected=orders:3=1"], "orders:3, which this command does not commit"),
        (["orders:0=1", "--partitions=x"], "it must be a whole number; see offsetlog commit --help"),
    ):
        code, out, err = call(capsys, "commit", data, "billing", *arguments)
        assert (code, out) == (2, "")
        assert said in err


@pytest.mark.parametrize("name", ["__consumer_offsets-1", "__consumer_offsets-99", "renamed"])
@pytest.mark.parametrize("partitions", [[], ["--partitions=5"]])
def test_a_partition_directory_is_no_log_directory(data, capsys, name, partitions):
    path = data / name
    if name == "renamed":
        shutil.copytree(GROUPS / "__consumer_offsets-4", path)
    elif name == "__consumer_offsets-1":
        shutil.copytree(GROUPS / "__consumer_offsets-1", path, dirs_exist_ok=True)
    before = sorted(data.rglob("*"))
    for command in (["commit", path, "g", "t:0=1"], ["delete", path, "g"]):
        code, out, err = call(capsys, *command, *partitions)
        assert (code, out) == (2, "")
        assert "name the log directory that contains it" in err
    if path.exists():
        code, out, err = call(capsys, "fetch", path, "g")
        assert (code, out) == (2, "")
        assert "name the log directory that contains it" in err
    with pytest.raises(InvalidArgumentError, match="partition directory"):
        offsetlog.open(path, 5)
    assert sorted(data.rglob("*")) == before


def test_a_partition_directory_is_reported_by_where_it_leads(data, monkeypatch):
    (data / "__consumer_offsets-0").mkdir(exist_ok=True)
    monkeypatch.chdir(data / "__consumer_offsets-0")
    with pytest.raises(InvalidArgumentError, match="partition directory"):
        offsetlog.open(".", 5)


def test_a_directory_that_only_sounds_like_a_partition_is_one_for_logs(tmp_path):
    with offsetlog.open(tmp_path / "store-1", 5) as store:
        store.commit_one("g", "t", 0, 1)


def test_a_file_is_no_log_directory(tmp_path, capsys):
    (tmp_path / "file").touch()
    for command in (["commit", tmp_path / "file", "g", "t:0=1"], ["fetch", tmp_path / "file", "g"]):
        code, out, err = call(capsys, *command)
        assert (code, out) == (2, "")
        assert "this is a file, not a log directory" in err


def test_another_number_of_partitions_is_refused(data, capsys):
    code, _, err = call(capsys, "commit", data, "billing", "orders:0=1", "--partitions", 5)
    assert code == 2
    assert "partitions=5 was given, but the directory has 4 partitions" in err


def test_a_directory_of_kafka_must_be_given_its_partitions(tmp_path, capsys):
    log = tmp_path / "log"
    shutil.copytree(DATA / "groups" / "log", log)
    code, _, err = call(capsys, "commit", log, "billing", "orders:0=1")
    assert code == 2
    assert "--partitions" in err
    assert call(capsys, "commit", log, "billing", "orders:0=1", "--partitions", 8)[0] == 0
    assert fetched(capsys, log) == {("orders", 0): 1}
    assert call(capsys, "verify", log)[0] == 0


def test_what_recovery_cut_is_reported(tmp_path, capsys):
    log = tmp_path / "log"
    shutil.copytree(DATA / "torn" / "log", log)
    code, _, err = call(capsys, "commit", log, "billing", "orders:0=1", "--partitions", 4)
    assert code == 0
    assert err.count("removed an unfinished tail") == 3
    assert call(capsys, "verify", log)[0] == 0


def test_a_held_lock_is_reported(data, capsys):
    with offsetlog.open(data):
        code, _, err = call(capsys, "commit", data, "billing", "orders:0=1")
    assert code == 2
    assert err.count("\n") == 1


def test_offsets_topics_and_groups_are_deleted(data, capsys):
    call(capsys, "commit", data, "billing", "a:0=1", "a:1=1", "b:0=1")
    assert call(capsys, "delete", data, "billing", "orders:0", "--yes")[1] == "deleted 1 offset of billing\n"
    assert json.loads(call(capsys, "delete", data, "billing", "a", "--yes", "--format=json")[1]) == {
        "group": "billing",
        "deleted_offsets": 2,
    }
    assert fetched(capsys, data) == {("orders", 1): 7, ("b", 0): 1}
    assert call(capsys, "delete", data, "billing", "--yes")[0] == 0
    assert call(capsys, "fetch", data, "billing", "--format=json")[:2] == (1, "")
    for nothing in (["billing"], ["billing", "--yes"], ["billing", "--dry-run"], ["nobody", "orders:0"]):
        unknown = f"offsetlog: there is no group {nothing[0]} in {data}\n"
        assert call(capsys, "delete", data, *nothing) == (1, "", unknown)


def left_open(path: Path) -> None:
    # The store's end leaves the transaction as a crash would.
    with offsetlog.open(path, 4) as store:
        transaction = store.transaction("billing", producer_id=11)
        transaction.commit({TopicPartition("orders", 5): 9})


def test_an_open_transaction_is_listed_and_aborted(data, capsys):
    left_open(data)
    rows = [json.loads(line) for line in call(capsys, "transactions", data, "--format=json")[1].splitlines()]
    assert [(row["producer_id"], row["pending_offsets"], row["group_names"]) for row in rows] == [(11, 1, ["billing"])]
    for yes in ([], ["--yes"]):
        code, out, err = call(capsys, "abort", data, 12, *yes)
        assert (code, out, err) == (1, "", "offsetlog: producer 12 has no open transaction\n")
    assert call(capsys, "abort", data, 11, "--yes")[:2] == (
        0,
        "aborted the transaction of producer 11 with 1 pending offset in 1 log partition\n",
    )
    assert call(capsys, "transactions", data, "--format=json")[1] == ""
    assert fetched(capsys, data) == {("orders", 0): 42, ("orders", 1): 7}
    assert call(capsys, "verify", data)[0] == 0


def test_the_demo_is_sound(capsys):
    code, out, err = call(capsys, "demo", "--entries=1000", "--format=json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert rows[-1]["sound"] is True
    steps = {row["step"]: row for row in rows}
    fetched_step = steps["each of these positions (fetch_one)"]
    assert fetched_step["offsets"] == steps["columns (commit_arrow)"]["offsets"] == 1000
    assert steps["load"]["records"] == steps["verify (reads and compares the log)"]["records"]
    code, out, _ = call(capsys, "demo", "--entries=1000")
    assert code == 0
    assert "sound" in out.splitlines()[-4:][0] or "\nsound\n" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_leaves_nothing(tmp_path, number):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "offsetlog", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert list(tmp_path.iterdir())
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (128 + number, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_kept_directory_is_reported_first(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "offsetlog", "demo", "--keep", "--entries=1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        complaints = running.stderr.read().decode()
    (kept,) = tmp_path.iterdir()
    assert complaints == f"offsetlog: the directory is {kept / 'log'}\n"
    assert running.returncode == 141
