"""Commands that work partition by partition: they ask for no `--partitions`, and a broker's
directory stays a broker's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import DATA, call

import offsetlog
from offsetlog._native.codec import partition_for
from offsetlog.cli import stores
from offsetlog.directory import checkpoint_record
from offsetlog.directory.log_directory import LOCK, PROPERTIES

#: Both brokers had eight partitions.
COUNT = ["--partitions", "8"]

#: The scenario whose directory it is, and the command.
COMMANDS = [
    ("groups", "compact"),
    ("groups", "compact --min-history cl-range-fraud=7d --min-history 'cg-*=0'"),
    ("txn", "compact --again --delete-retention 0"),
    ("groups", "snapshot"),
    ("txn", "snapshot --log-partition 1,3"),
    ("expiry", "expire --retention 1h --retention simple-explicit=never --yes"),
    ("txn", "abort 11 --yes"),
]
LOOKS = [
    ("groups", "compact --dry-run --min-history cl-range-fraud=7d"),
    ("expiry", "expire --retention 1h --dry-run"),
    ("expiry", "expire --retention 1h --within 2h"),
]


def copy(name: str, path: Path) -> Path:
    shutil.copytree(DATA / name / "log", path)
    return path


def content(path: Path) -> dict[str, bytes]:
    """Every file of a directory but the lock and what offsetlog knows about the directory."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in files
        if file.name not in (LOCK, PROPERTIES, checkpoint_record.NAME)
    }


def log_sizes(path: Path) -> dict[str, int]:
    # The bytes differ in the time of the run.
    return {name: len(data) for name, data in content(path).items() if name.endswith(".log")}


def digests(path: Path) -> tuple[str, str]:
    with offsetlog.open(path, 8, read_only=True) as store:
        return str(store.digest()), str(store.digest(physical=True))


def without_seconds(out: str) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in out.splitlines()]
    for row in rows:
        row.pop("elapsed_ms", None)
        row.pop("timestamp", None)
        for stuck in row.get("stuck_transactions", ()):
            stuck.pop("age_ms")
    return rows


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_the_result_is_the_same_without_the_number(tmp_path, capsys, name, command):
    given, unknown = copy(name, tmp_path / "given"), copy(name, tmp_path / "unknown")
    verb, *arguments = command.replace("'", "").split()
    code, out, err = call(capsys, verb, unknown, *arguments, "--format=json")
    assert (code, err) == (0, "")
    assert out
    expected = call(capsys, verb, given, *arguments, *COUNT, "--format=json")
    assert (code, without_seconds(out)) == (expected[0], without_seconds(expected[1]))
    assert digests(unknown) == digests(given)
    assert content(unknown).keys() == content(given).keys()
    assert log_sizes(unknown) == log_sizes(given)
    assert (given / PROPERTIES).exists()
    assert not (unknown / PROPERTIES).exists()
    assert call(capsys, "verify", unknown, *COUNT)[0] == 0


@pytest.mark.parametrize(("name", "command"), LOOKS)
def test_a_look_changes_nothing(tmp_path, capsys, name, command):
    path = copy(name, tmp_path / "log")
    before = content(path)
    verb, *arguments = command.split()
    code, out, err = call(capsys, verb, path, *arguments, "--format=json")
    assert (code, err) == (0, "")
    assert out
    assert out == call(capsys, verb, path, *arguments, *COUNT, "--format=json")[1]
    assert content(path) == before
    assert not (path / PROPERTIES).exists()
    assert not (path / LOCK).exists()


SOME = [
    "compact",
    "compact --dry-run",
    "snapshot",
    "expire --retention 1h --dry-run",
    "expire --retention 1h --yes",
    "abort 11 --yes",
]


@pytest.mark.parametrize("command", SOME)
def test_some_of_the_partitions_are_enough(tmp_path, capsys, command):
    path = copy("txn", tmp_path / "log")
    for number in (0, 2, 7):
        shutil.rmtree(path / f"__consumer_offsets-{number}")
    there = sorted(folder.name for folder in path.glob("__consumer_offsets-*"))
    verb, *arguments = command.split()
    code, out, err = call(capsys, verb, path, *arguments)
    assert (code, err) == (0, "")
    assert out
    assert sorted(folder.name for folder in path.glob("__consumer_offsets-*")) == there
    assert not (path / PROPERTIES).exists()


def test_a_number_that_is_given_is_checked_and_kept(tmp_path, capsys):
    path = copy("groups", tmp_path / "log")
    before = content(path)
    for command in (*SOME, "compact --log-partition 1"):
        verb, *arguments = command.split()
        code, out, err = call(capsys, verb, path, *arguments, "--partitions=9")
        assert (code, out) == (2, "")
        assert "with partitions=9 the group" in err
    assert content(path) == before
    assert call(capsys, "compact", path, *COUNT)[0] == 0
    assert "partitions=8\n" in (path / PROPERTIES).read_text()
    code, _, err = call(capsys, "compact", path, "--partitions=9")
    assert code == 2
    assert "the directory has 8" in err


NEED_IT = [
    ["commit", "billing", "orders:0=1"],
    ["delete", "cl-range-fraud", "--yes"],
    ["restore", "cl-range-fraud", "--at=offset:1", "--yes"],
    ["undelete", "cl-range-fraud", "--yes"],
]


@pytest.mark.parametrize("arguments", NEED_IT, ids=lambda arguments: arguments[0])
def test_who_looks_for_a_group_still_needs_the_number(tmp_path, capsys, arguments):
    path = copy("groups", tmp_path / "log")
    verb, *rest = arguments
    refused = (
        2,
        "",
        "offsetlog: this directory was written by Kafka and does not say how many partitions its offsets topic has; "
        f"give --partitions N (the broker's offsets.topic.num.partitions, 50 by default) ({path})\n",
    )
    assert call(capsys, verb, path, *rest) == refused
    assert content(path) == content(DATA / "groups" / "log")
    assert (path / LOCK).exists() == (DATA / "groups" / "log" / LOCK).exists()
    assert call(capsys, "compact", path)[0] == 0
    assert call(capsys, verb, path, *rest) == refused
    assert not (path / PROPERTIES).exists()


def test_a_commit_creates_no_log_partition_that_a_broker_lacks_unless_it_is_forced(tmp_path, capsys):
    path = tmp_path / "log"
    number = partition_for(b"billing", 8)
    other = f"__consumer_offsets-{(number + 1) % 8}"
    shutil.copytree(DATA / "groups" / "log" / other, path / other)
    code, out, err = call(capsys, "commit", path, "billing", "orders:0=1", *COUNT)
    assert (code, out) == (1, "")
    assert f"{path} has no log partition {number} for group billing" in err
    assert [each.name for each in path.iterdir()] == [other]
    assert call(capsys, "commit", path, "billing", "orders:0=1", *COUNT, "--force")[0] == 0
    assert (path / f"__consumer_offsets-{number}").exists()


def test_a_brokers_directory_is_known_as_one_after_offsetlog_has_written_there(tmp_path, capsys):
    path = tmp_path / "log"
    names = {partition_for(f"g{each}".encode(), 8): f"g{each}" for each in range(100)}
    here = f"__consumer_offsets-{partition_for(b'billing', 8)}"
    shutil.copytree(DATA / "groups" / "log" / here, path / here)
    assert call(capsys, "commit", path, "billing", "orders:0=1", *COUNT)[0] == 0
    assert call(capsys, "compact", path, "--again")[0] == 0
    del names[partition_for(b"billing", 8)]
    for number, name in names.items():
        code, out, err = call(capsys, "commit", path, name, "orders:0=1")
        assert (code, out) == (1, "")
        assert f"{path} has no log partition {number} for group {name}" in err
        code, out, err = call(capsys, "fetch", path, name)
        assert (code, out) == (1, "")
        assert f"log partition {number} of group {name} is not in {path}" in err
    number, name = names.popitem()
    assert call(capsys, "commit", path, name, "orders:0=1", "--force")[0] == 0
    assert call(capsys, "commit", path, name, "orders:0=2")[0] == 0
    assert [path / here, path / f"__consumer_offsets-{number}"] == sorted(
        path.glob("__consumer_offsets-*"), key=lambda each: each.name != here
    )


def test_a_log_partition_that_was_lost_is_not_said_to_be_on_another_broker(tmp_path, capsys):
    path = copy("groups", tmp_path / "log")
    assert call(capsys, "commit", path, "billing", "orders:0=1", *COUNT)[0] == 0
    shutil.rmtree(path / f"__consumer_offsets-{partition_for(b'billing', 8)}")
    code, out, err = call(capsys, "commit", path, "billing", "orders:0=2")
    assert (code, out) == (2, "")
    assert "broker" not in err
    assert "missing" in err
    # A wrong number is refused as such.
    assert "partitions" in call(capsys, "commit", path, "billing", "orders:0=2", "--partitions", 9)[2]
    offsetlog.accept_loss(path)
    assert "from_broker=true" in (path / PROPERTIES).read_text()


def test_a_store_of_its_own_lacks_no_log_partition(tmp_path, capsys):
    assert call(capsys, "commit", tmp_path / "log", "billing", "orders:0=1")[0] == 0
    for each in range(8):
        assert call(capsys, "commit", tmp_path / "log", f"g{each}", "orders:0=1")[0] == 0
    assert "from_broker" not in (tmp_path / "log" / PROPERTIES).read_text()


@pytest.mark.parametrize("count", [0, -1, 2**31, 10**12])
def test_a_wrong_number_of_partitions_is_refused_by_name(tmp_path, capsys, count):
    path = copy("groups", tmp_path / "log")
    code, out, err = call(capsys, "commit", path, "billing", "orders:0=1", "--partitions", count)
    assert (code, out) == (2, "")
    assert "partitions must be" in err
    assert content(path) == content(DATA / "groups" / "log")


def test_a_directory_of_another_user_is_written_with_a_warning(tmp_path, capsys, monkeypatch):
    path = copy("groups", tmp_path / "log")
    assert call(capsys, "compact", path)[2] == ""
    monkeypatch.setattr(stores.os, "geteuid", lambda: path.stat().st_uid + 1)
    code, _, err = call(capsys, "compact", path, "--again")
    assert code == 0
    assert "may not be able to open the new files; run the command as " in err
    assert call(capsys, "offsets", path)[2] == ""


def test_a_partition_that_cannot_be_there_is_refused(tmp_path, capsys):
    path = copy("groups", tmp_path / "log")
    for verb in ("compact", "snapshot"):
        code, out, err = call(capsys, verb, path, "--log-partition=8")
        assert (code, out, err) == (2, "", "offsetlog: there is no log partition 8: the highest is 7\n")
