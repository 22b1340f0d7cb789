"""`expire`: expired positions are listed, or deleted; groups, prefixes and never; and what is refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import DATA, call, on_terminal

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.cli.expire import parse_retention
from offsetlog.errors import InvalidArgumentError

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
EXPIRY = DATA / "expiry" / "log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with offsetlog.open(path, 4, "process") as store:
        for group, age in (("old", 9), ("week", 6), ("audit-1", 9), ("billing", 9)):
            value = OffsetAndMetadata(7, commit_timestamp=NOW - age * DAY)
            store.commit(group, {TopicPartition("t", 0): value, TopicPartition("t", 1): value})
    return path


def rows(capsys, *arguments: object) -> list[dict[str, object]]:
    code, out, err = call(capsys, "expire", *arguments, "--format=json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def groups(path: Path) -> list[str]:
    with offsetlog.open(path, read_only=True) as store:
        return store.groups()


RULES = ["--retention=7d", "--retention=audit-*=never", "--retention", "billing=30d"]


def test_a_dry_run_tells_and_deletes_nothing(data, capsys):
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    due = rows(capsys, data, *RULES, "--dry-run")
    assert [(row["group"], row["topic"], row["partition"], row["reason"]) for row in due] == [
        ("old", "t", 0, "commit"),
        ("old", "t", 1, "commit"),
        ("old", None, None, "group"),
    ]
    assert {row["expires_at"] for row in due} == {NOW - 2 * DAY}
    assert {row["group"] for row in rows(capsys, data, *RULES, "--within", "25h")} == {"old", "week"}
    assert {row["rule"] for row in rows(capsys, data, *RULES, "--within", "30d")} == {None, "billing"}
    assert {file: file.read_bytes() for file in data.rglob("*") if file.is_file()} == before


def test_the_text_says_when_and_why(data, capsys):
    code, out, _ = call(capsys, "expire", data, "--retention=7d", "--within=2d")
    assert code == 0
    heading, *lines = [line.split("\t") for line in out.splitlines()]
    assert heading[:5] == ["group", "topic", "partition", "expires_at", "offset"]
    assert len(lines) == 12
    assert {line[6] for line in lines} == {str(7 * 86_400_000)}
    code, shown = on_terminal("expire", data, "--retention=100d", "--dry-run")
    assert (code, shown.strip()) == (0, "nothing has expired")


def test_what_has_expired_is_deleted(data, capsys):
    deleted = call(capsys, "expire", data, *RULES, "--yes")
    assert deleted[:2] == (0, "deleted 2 expired offsets, and with them 1 group\n")
    assert groups(data) == ["audit-1", "billing", "week"]
    for yes in ([], ["--yes"]):
        assert call(capsys, "expire", data, *RULES, *yes) == (0, "nothing has expired\n", "")
    [row] = rows(capsys, data, "--retention", "audit-1=0", "--retention", "billing=0", "--yes")
    assert (row["positions_expired"], row["groups_removed"], row["dry_run"]) == (4, 2, False)
    assert groups(data) == ["week"]


COMMANDS = [
    ["expire", "--retention=7d"],
    ["delete", "old"],
    ["commit", "old", "t:0=8"],
    ["undelete", "old"],
    ["restore", "old", "--at=2001-01-01"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_nothing_is_cleaned_unasked(tmp_path, monkeypatch, capsys, arguments):
    path = tmp_path / "data"
    by_hand = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, 1, "process", config=StoreConfig(segment_bytes=16 << 10), maintenance=by_hand) as store:
        for number in range(500):
            store.commit_one("busy", "t", 0, number)
        store.commit("old", {TopicPartition("t", 0): OffsetAndMetadata(7, commit_timestamp=NOW - 9 * DAY)})

    def impatient(config: MaintenanceConfig | None) -> MaintenanceConfig:
        return replace(config or MaintenanceConfig(), interval_ms=10, min_cleanable_bytes=0, idle_roll_ms=10)

    def refused(*_: object, **__: object) -> bool:
        time.sleep(0.3)
        return False

    monkeypatch.setattr("offsetlog.arguments.checked_maintenance", impatient)
    monkeypatch.setattr("offsetlog.cli.consent._is_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", refused)
    if arguments[0] in ("commit", "undelete"):
        close = offsetlog.OffsetStore.close
        monkeypatch.setattr(offsetlog.OffsetStore, "close", lambda store: (time.sleep(0.3), close(store)))
    before = {file.name: file.read_bytes() for file in path.rglob("*.log")}
    call(capsys, arguments[0], path, *arguments[1:])
    after = {file.name: file.read_bytes() for file in path.rglob("*.log")}
    assert all(after[name].startswith(content) for name, content in before.items())


def test_a_directory_of_kafka_s_is_only_read_to_tell(capsys):
    due = rows(capsys, EXPIRY, "--retention=1m", "--dry-run")
    # Groups with members are left alone.
    assert {row["group"] for row in due if row["topic"] is None} >= {"exp-fresh-ingest", "exp-simple-audit-late"}
    assert not {row["group"] for row in due} & {"exp-live-etl", "exp-848-search-index"}


def test_without_a_retention_nothing_is_done(data, capsys):
    for arguments in ([], ["--retention=never"], ["--retention=g=never"]):
        code, out, err = call(capsys, "expire", data, *arguments)
        assert (code, out) == (2, "")
        assert "give one, e.g. --retention 7d" in err
    assert len(groups(data)) == 4


@pytest.mark.parametrize("retention", ["7", "d", "-7d", "g=", "=7x", "7 days"])
def test_what_is_no_time_is_refused(data, capsys, retention):
    code, out, err = call(capsys, "expire", data, f"--retention={retention}", "--dry-run")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_retentions_are_parsed():
    assert parse_retention(["7d"]) == (7 * DAY, {})
    assert parse_retention(["never", "g=0", "a=b=1h", "p-*=never", "=2d"]) == (
        None,
        {"g": 0, "a=b": 3_600_000, "p-*": None, "": 2 * DAY},
    )
    for twice in (["1d", "2d"], ["g=1d", "g=never"]):
        with pytest.raises(InvalidArgumentError, match="two retentions"):
            parse_retention(twice)


def test_a_path_without_a_log_is_refused(tmp_path, capsys):
    for arguments in (["--dry-run"], []):
        code, out, _ = call(capsys, "expire", tmp_path / "none", "--retention=7d", *arguments)
        assert (code, out) == (2, "")
    assert not (tmp_path / "none").exists()


def test_a_log_from_the_future_needs_a_word(tmp_path, capsys):
    folder = tmp_path / "data" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    key = encode_key(1, {"group": "g", "topic": "t", "partition": 0})
    value = encode_value(1, 3, {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW - 9 * DAY})
    (folder / f"{0:020}.log").write_bytes(encode_batch(0, NOW + 90 * DAY, [(key, value)]))
    code, out, err = call(capsys, "expire", tmp_path / "data", "--retention=7d", "--partitions=1")
    assert (code, out) == (1, "")
    assert "the newest record is from" in err
    for options in (["--dry-run"], ["--within=1h"]):
        code, out, err = call(capsys, "expire", tmp_path / "data", "--retention=7d", *options)
        assert (code, err.count("\n")) == (0, 1)
        assert err.startswith("offsetlog: without --trust-clock nothing would be deleted: this machine's clock shows ")
        assert "g\tt\t0" in out
        assert call(capsys, "expire", tmp_path / "data", "--retention=7d", "--trust-clock", *options)[::2] == (0, "")
    # Nobody is asked for something that would be refused afterwards.
    for asked in (["--yes"], []):
        code, out, err = call(capsys, "expire", tmp_path / "data", "--retention=7d", *asked)
        assert (code, out) == (1, "")
        assert err.endswith("; if the clock is right, add --trust-clock\n")
    code, shown = on_terminal("expire", tmp_path / "data", "--retention=7d")
    assert (code, "?" in shown) == (1, False)
    code, shown = on_terminal("expire", tmp_path / "data", "--retention=7d", "--trust-clock", answer=b"n\n")
    assert code == 1
    assert "Delete 1 expired offset of 1 group and 1 group with nothing left, the first expired 20" in shown
    assert call(capsys, "expire", tmp_path / "data", "--retention=7d", "--trust-clock", "--yes")[0] == 0
    assert groups(tmp_path / "data") == []


@pytest.mark.parametrize("within", ["999999999999d", "9" * 400 + "d"])
def test_a_time_beyond_the_calendar_is_refused(data, capsys, within):
    code, out, err = call(capsys, "expire", data, "--retention=7d", "--within", within)
    assert (code, out) == (2, "")
    assert "calendar" in err or "not a duration" in err
    assert call(capsys, "expire", data, "--retention=7d", "--within=10000w")[0] == 0
