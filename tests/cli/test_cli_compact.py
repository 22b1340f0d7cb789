"""`compact`: what it does to our directories and a broker's, what it tells, what it refuses."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import DATA, GROUPS, call, on_terminal, process

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition, errors
from offsetlog.directory.log_directory import CLEAN_MARKER, CLEANER_POINTS
from offsetlog.maintenance.scheduler import Maintenance

TXN = DATA / "txn" / "log"


def feed(path: Path, times: int = 500, segment_bytes: int = 16 << 10) -> str:
    """Makes a log in which nearly everything was superseded; returns its digest."""
    config = StoreConfig(segment_bytes=segment_bytes)
    quiet = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, 4, "process", config=config, maintenance=quiet) as store:
        for number in range(times):
            store.commit_one("billing", "orders", number % 3, number)
            store.commit_one("audit", "orders", number % 3, number)
        return str(store.digest())


def digest(path: Path) -> str:
    with offsetlog.open(path, read_only=True) as store:
        return str(store.digest())


def rows_of(out: str) -> tuple[list[dict], dict]:
    *rows, summary = map(json.loads, out.splitlines())
    assert summary["kind"] == "summary"
    return rows, summary


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data"
    feed(path)
    return path


@pytest.fixture
def kafka(tmp_path):
    path = tmp_path / "kafka"
    shutil.copytree(GROUPS, path)
    return path


def test_what_was_superseded_goes(data, capsys):
    before = digest(data)
    code, out, err = call(capsys, "compact", data, "--format=json")
    assert (code, err) == (0, "")
    rows, summary = rows_of(out)
    assert len(rows) == summary["log_partitions"] == summary["cleaned_partitions"] == 2
    assert all(row["records_kept"] == 3 and row["superseded"] == 497 for row in rows)
    assert summary["bytes_after"] < summary["bytes_before"] / 20
    assert (summary["records_kept"], summary["records_read"]) == (6, 1000)
    assert digest(data) == before
    assert call(capsys, "verify", data)[0] == 0
    assert (data / CLEANER_POINTS).exists()


def test_text_is_one_row_a_log_and_a_summary(data, capsys):
    code, out, _ = call(capsys, "compact", data)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split("\t")[7:9] == ["bytes_before", "bytes_after"]
    assert len(lines[1].split("\t")) == len(lines[0].split("\t"))
    assert lines[3] == "2 log partitions of 2 cleaned"
    assert any(line.startswith("records") and "6 of 1,000 kept" in line for line in lines)
    assert any(line.startswith("damaged") and "0 segments" in line for line in lines)


def test_on_a_terminal(data):
    code, shown = on_terminal("compact", str(data))
    assert code == 0
    assert "log_partition" in shown
    assert "2 log partitions of 2 cleaned" in shown


def test_a_second_time_there_is_nothing_to_do(data, capsys):
    call(capsys, "compact", data)
    rows, summary = rows_of(call(capsys, "compact", data, "--format=json")[1])
    assert summary["cleaned_partitions"] == 0
    assert all("nothing was written" in row["reason"] for row in rows)
    rows, summary = rows_of(call(capsys, "compact", data, "--again", "--format=json")[1])
    assert summary["cleaned_partitions"] == 2


def test_a_dry_run_changes_nothing_and_takes_no_lock(data, capsys):
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    with offsetlog.open(data, maintenance=MaintenanceConfig(enabled=False)):
        code, out, err = call(capsys, "compact", data, "--dry-run", "--format=json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["action"] for row in rows] == ["close and clean"] * 2
    assert all(row["ratio"] == 1 and row["live_bytes"] < row["bytes"] / 50 for row in rows)
    after = {file: file.read_bytes() for file in data.rglob("*.log")}
    assert after == {file: before[file] for file in after}
    cleaned, _ = rows_of(call(capsys, "compact", data, "--format=json")[1])
    for row, done in zip(rows, cleaned, strict=True):
        assert (row["records"], row["superseded"]) == (done["records_read"], done["superseded"])
        assert row["freed_records"] == done["records_read"] - done["records_kept"] + done["markers_dropped"]
        assert row["freed_bytes"] == done["bytes_before"] - done["bytes_after"]


def test_a_dry_run_counts_nothing_of_a_log_that_is_left_alone(data, capsys):
    assert call(capsys, "compact", data)[0] == 0
    code, out, err = call(capsys, "compact", data, "--dry-run", "--format=json")
    assert (code, err) == (0, "")
    for row in map(json.loads, out.splitlines()):
        assert row["action"] == "leave"
        assert [row[name] for name in ("records", "superseded", "freed_records", "freed_bytes")] == [None] * 4
    code, out, _ = call(capsys, "compact", data, "--dry-run")
    heading, first = (line.split("\t") for line in out.splitlines()[:2])
    assert first[heading.index("freed_bytes")] == first[heading.index("freed_records")] == ""


def damage_one(data: Path) -> Path:
    segment = max(data.rglob("*.log"), key=lambda path: (len(list(path.parent.glob("*.log"))), -int(path.stem)))
    content = bytearray(segment.read_bytes())
    content[100] ^= 0x55
    segment.write_bytes(content)
    return segment


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_a_dry_run_says_which_segments_a_clean_would_leave(data, capsys):
    segment = damage_one(data)
    out = call(capsys, "compact", data, "--dry-run", "--format=json")[1]
    rows = [json.loads(line) for line in out.splitlines()]
    (row,) = [row for row in rows if row["damaged"]]
    assert [each["path"] for each in row["damaged"]] == [str(segment)]
    assert row["reason"].endswith("; 1 damaged segment would be left unchanged")


def test_a_dry_run_of_a_log_that_is_cleaned_meanwhile_reads_it_again(data, capsys, monkeypatch):
    plans, turns = Maintenance.plans, []

    def cleaned_after_it_was_loaded(self, *arguments, **asked):
        turns.append(1)
        if len(turns) == 1:
            with offsetlog.open(data, maintenance=MaintenanceConfig(enabled=False)) as store:
                monkeypatch.setattr(Maintenance, "plans", plans)
                store.compact()
                monkeypatch.setattr(Maintenance, "plans", cleaned_after_it_was_loaded)
        return plans(self, *arguments, **asked)

    monkeypatch.setattr(Maintenance, "plans", cleaned_after_it_was_loaded)
    code, out, err = call(capsys, "compact", data, "--dry-run", "--again", "--format=json")
    assert (code, err) == (0, "")
    assert not any(json.loads(line)["damaged"] for line in out.splitlines())


def test_a_dry_run_tries_again_where_a_file_was_replaced(data, capsys, monkeypatch):
    survey, failures = Maintenance.survey, [errors.ChangedFileError("replaced"), errors.MissingFileError("gone")]

    def changed(self, plan):
        if failures:
            raise failures.pop()
        return survey(self, plan)

    monkeypatch.setattr(Maintenance, "survey", changed)
    code, out, err = call(capsys, "compact", data, "--dry-run", "--format=json")
    assert (code, err, failures) == (0, "", [])
    assert all(json.loads(line)["freed_records"] > 0 for line in out.splitlines())


def test_a_dry_run_gives_up_on_a_log_that_never_rests(data, capsys, monkeypatch):
    def changed(self, plan):
        raise errors.ChangedFileError("another process replaced it", path=data)

    monkeypatch.setattr(Maintenance, "survey", changed)
    code, out, err = call(capsys, "compact", data, "--dry-run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "another process replaced it" in err


def test_only_some_logs(data, capsys):
    numbers = [
        row["log_partition"] for row in rows_of(call(capsys, "compact", data, "--ratio=1", "--format=json")[1])[0]
    ]
    rows, summary = rows_of(call(capsys, "compact", data, "--log-partition", numbers[1], "--format=json")[1])
    assert [row["log_partition"] for row in rows] == [numbers[1]]
    assert summary["cleaned_partitions"] == 1
    assert call(capsys, "compact", data, "--log-partition", 4)[0] == 2
    assert call(capsys, "compact", data, "--log-partition=-1")[0] == 2


def test_only_logs_that_are_dirty_enough(data, capsys):
    assert rows_of(call(capsys, "compact", data, "--ratio=1", "--format=json")[1])[1]["cleaned_partitions"] == 0
    assert rows_of(call(capsys, "compact", data, "--ratio=0.9", "--format=json")[1])[1]["cleaned_partitions"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--delete-retention=many"],
        ["--min-history=7"],
        ["--min-history=never"],
        ["--min-history=billing=7"],
        ["--min-history=1d", "--min-history=2d"],
        ["--min-history=billing=1d", "--min-history=billing=2d"],
        ["--rate-limit=fast"],
        ["--memory=1"],
        ["--ratio=1.5"],
        ["--ratio=-1"],
        ["--log-partition=x"],
    ],
)
def test_wrong_usage_changes_nothing(data, capsys, arguments):
    code, out, err = call(capsys, "compact", data, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert not (data / CLEANER_POINTS).exists()


def test_where_there_is_no_log(tmp_path, capsys):
    for arguments in ([], ["--dry-run"]):
        code, out, err = call(capsys, "compact", tmp_path / "nowhere", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "nowhere").exists()


def test_it_is_refused_while_someone_holds_the_lock(data, capsys):
    with offsetlog.open(data):
        code, out, err = call(capsys, "compact", data)
    assert (code, out) == (2, "")
    assert "holds the lock" in err or "lock" in err


def test_deletions_go_after_their_time(data, capsys):
    with offsetlog.open(data, maintenance=MaintenanceConfig(enabled=False)) as store:
        store.delete("billing", [TopicPartition("orders", 1)])
    assert rows_of(call(capsys, "compact", data, "--delete-retention=0", "--format=json")[1])[1]["records_kept"] == 6
    rows, _ = rows_of(call(capsys, "compact", data, "--delete-retention=0", "--again", "--format=json")[1])
    assert sum(row["tombstones_dropped"] for row in rows) == 1


# ------------------------------------------------------------------------------------------------------ a past is kept


def kept(capsys, path: Path, *arguments: object) -> tuple[int, str]:
    """Compacts; returns how many records stay of 500 of each of two groups, and the messages."""
    code, out, err = call(capsys, "compact", path, *arguments, "--format=json")
    assert code == 0
    return rows_of(out)[1]["records_kept"], err


@pytest.mark.parametrize(
    ("arguments", "records"),
    [
        (["--min-history=1h"], 0),
        (["--min-history=billing=1h"], 503),
        (["--min-history=bill*=1h", "--min-history=0"], 503),
        (["--min-history=billing=1h", "--min-history=aud*=1h"], 1000),
        (["--min-history=billing=1h", "--min-history=other=1h", "--min-history=audit=0"], 503),
    ],
    ids=str,
)
def test_the_past_is_kept_by_group(data, capsys, arguments, records):
    before = digest(data)
    dry = call(capsys, "compact", data, *arguments, "--dry-run")
    assert (dry[0], dry[2]) == (0, "")
    assert kept(capsys, data, *arguments) == (records, "")
    assert digest(data) == before
    assert call(capsys, "verify", data)[0] == 0


def test_whoever_lets_the_past_of_groups_go_is_asked(data, capsys):
    asked = ["--min-history=billing=1h", "--min-history=aud*=2h"]
    assert kept(capsys, data, *asked) == (1000, "")
    for known in (asked, ["--min-history=*=1h"], ["--min-history=1h"], ["--min-history=billing=0", *asked[1:]]):
        assert call(capsys, "compact", data, "--dry-run", *known)[2] == ""
    for arguments, named in (
        ([], "aud*, billing"),
        (["--min-history=billing=1h"], "aud*"),
        (["--min-history=audit=1h"], "aud*, billing"),
    ):
        code, _, err = call(capsys, "compact", data, "--dry-run", *arguments)
        assert (code, err.count("\n")) == (0, 1)
        kept_before = f"an earlier cleaning kept the history of {named}, and this command would drop this history"
        assert err.startswith(f"offsetlog: {kept_before}")
    before = {file: file.read_bytes() for file in data.rglob("*.log")}
    code, out, err = call(capsys, "compact", data, asked[1])
    assert (code, out) == (1, "")
    warning, refusal = err.splitlines()
    assert warning == (
        "offsetlog: an earlier cleaning kept the history of billing, and this command would drop this history; to "
        "keep it, add --min-history 'billing=TIME'"
    )
    assert refusal == (
        "offsetlog: nothing was done: there is no terminal to ask on; the command would drop the history of billing, "
        "so that earlier positions cannot be restored; add --yes to do it, or --dry-run to only show it"
    )
    assert {file: file.read_bytes() for file in data.rglob("*.log")} == before
    assert kept(capsys, data, asked[1], "--yes") == (503, warning + "\n")
    code, shown = on_terminal("compact", data, answer=b"n\n")
    assert code == 1
    assert "Drop the history of aud*, so that earlier positions cannot be restored?" in shown
    code, shown = on_terminal("compact", data, answer=b"y\n")
    assert (code, "6 of 503 kept" in shown) == (0, True)
    assert kept(capsys, data) == (0, "")


# ------------------------------------------------------------------------------------------------- a broker's directory


def test_a_brokers_directory(kafka, capsys):
    before = digest(kafka)
    code, out, err = call(capsys, "compact", kafka, "--format=json")
    assert (code, err) == (0, "")
    rows, summary = rows_of(out)
    assert summary["records_kept"] < summary["records_read"] / 2
    assert digest(kafka) == before
    assert call(capsys, "verify", kafka)[0] == 0
    marked = (GROUPS / CLEAN_MARKER).exists()
    assert (kafka / CLEAN_MARKER).exists() == marked
    # Kafka reads a checkpoint for every log that was cleaned.
    checkpoints = dict(line.rsplit(" ", 1) for line in (kafka / CLEANER_POINTS).read_text().splitlines()[2:])
    for row in rows:
        if row["cleaned"]:
            assert int(checkpoints[f"__consumer_offsets {row['log_partition']}"]) == row["checkpoint"]


def test_nothing_stale_stays_beside_a_segment(kafka, capsys):
    call(capsys, "compact", kafka, "--partitions=8")
    for folder in kafka.glob("__consumer_offsets-*"):
        bases = {file.stem for file in folder.glob("*.log")}
        for suffix in (".index", ".timeindex", ".txnindex"):
            assert {file.stem for file in folder.glob(f"*{suffix}")} <= bases
        assert not [file for file in folder.iterdir() if file.suffix in (".cleaned", ".swap", ".deleted")]


def test_open_transactions_are_reported(tmp_path, capsys):
    path = tmp_path / "kafka"
    shutil.copytree(TXN, path)
    code, out, err = call(capsys, "compact", path, "--partitions=8", "--format=json")
    assert (code, err) == (0, "")
    _, summary = rows_of(out)
    assert len(summary["stuck_transactions"]) == 11
    assert {"producer_id", "log_partition", "age_ms", "pinned_bytes"} <= set(summary["stuck_transactions"][0])
    code, out, _ = call(capsys, "compact", path)
    assert "producer 11 in log partition 1, open for" in out


def test_a_damaged_segment_is_left_and_reported(data, capsys):
    victim = sorted(data.rglob("*.log"))[0]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.warns(offsetlog.errors.CorruptionWarning):
        code, out, err = call(capsys, "compact", data, "--format=json")
    assert code == 1
    assert "a damaged segment was left as it is" in err
    rows, summary = rows_of(out)
    assert summary["quarantined"] == 1
    (damaged,) = [segment for row in rows for segment in row["damaged"]]
    assert damaged["path"].endswith(victim.name)
    assert victim.read_bytes() == bytes(content)


# ---------------------------------------------------------------------------------------------------------- interrupted


def test_an_interrupt_leaves_a_sound_log(tmp_path):
    path = tmp_path / "data"
    before = feed(path, 3000)
    command = [sys.executable, "-m", "offsetlog", "compact", str(path), "--rate-limit=50K"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        deadline = time.monotonic() + 30
        while not list(path.rglob("*.cleaned")) and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    assert running.returncode == 130, err
    assert b"Traceback" not in err
    assert digest(path) == before
    assert process("verify", path).returncode == 0
    assert process("compact", path).returncode == 0
    assert digest(path) == before
