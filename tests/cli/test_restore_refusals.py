"""`restore` and others where nothing may be written: damage, a lock, a missing number; and what they answer then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("typer")

from conformance.scenarios import BUNDLED
from test_cli_read import call

import offsetlog
from offsetlog import TopicPartition
from offsetlog._native.codec import partition_for
from offsetlog.cli.refusals import damage_of
from offsetlog.errors import CorruptionWarning, ReadOnlyError
from offsetlog.types import PartitionHealth, StoreHealth

ORDERS = [TopicPartition("orders", number) for number in range(4)]
GROUPS = BUNDLED / "kafka-4.3.0" / "groups" / "log"


def files(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.fixture
def data(tmp_path) -> Path:
    """orders:0 to 3 were 100 to 103, and a reset of log offsets 4 to 7 made them 0."""
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=1) as store:
        store.commit("billing", {key: 100 + key.partition for key in ORDERS})
        store.commit("billing", dict.fromkeys(ORDERS, 0))
    return path


def spoil_newest_batch(path: Path) -> None:
    log = path / "__consumer_offsets-0" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[-5] ^= 0xFF
    log.write_bytes(content)


@pytest.mark.parametrize("clock", ["02:30", "03:00", "02:30:15"])
def test_a_time_without_quotes_is_explained(data, capsys, clock):
    code, _, err = call(capsys, "restore", data, "billing", "--at", "2026-03-01", clock, "--dry-run")
    assert code == 1
    assert "; a time with a space needs quotes\n" in err


# --------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_a_commit_into_a_damaged_log_partition_says_why_to_the_end(data, capsys):
    spoil_newest_batch(data)
    code, _, err = call(capsys, "commit", data, "billing", "orders:0=1")
    assert code == 1
    assert err.count("have changed since they were flushed to disk") == 2


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_damage_is_no_answer_that_nothing_differs(data, capsys):
    # The reset itself is what cannot be read.
    spoil_newest_batch(data)
    before = files(data)
    for options in (["--yes"], ["--dry-run"], []):
        code, out, err = call(capsys, "restore", data, "billing", "--at", "offset:4", *options)
        assert (code, out) == (1, "")
        assert "log partition 0 accepts no writes: " in err
        assert f"`offsetlog repair {data}` lists the damage" in err
        assert "have changed since they were flushed to disk" in err
        assert "kafka-consumer-groups.sh" in err
    assert files(data) == before


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
@pytest.mark.parametrize(
    "arguments",
    [["restore", "--at=offset:0", "--force"], ["delete"], ["undelete", "--at=offset:4"]],
    ids=lambda arguments: arguments[0],
)
def test_a_refusal_for_damage_writes_nothing(data, capsys, arguments):
    spoil_newest_batch(data)
    before = files(data)
    verb, *options = arguments
    code, out, err = call(capsys, verb, data, "billing", *options, "--yes")
    assert (code, out) == (1, "")
    refusal = "offsetlog: nothing was done: log partition 0 accepts no writes: the batch at offset "
    assert err.splitlines()[-1].startswith(refusal)
    assert files(data) == before


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_a_dry_run_says_that_damage_refuses(data, capsys):
    spoil_newest_batch(data)
    code, out, err = call(capsys, "restore", data, "billing", "--at=offset:0", "--force", "--dry-run")
    assert code == 1
    assert "would restore group billing to log offset 0" in out
    assert "offsetlog: would be refused: log partition 0 accepts no writes: the batch at offset " in err
    assert call(capsys, "delete", data, "billing", "--dry-run")[0] == 1


def test_a_restore_of_a_damaged_log_partition_is_refused_where_nothing_differs(data):
    spoil_newest_batch(data)
    with pytest.warns(CorruptionWarning):
        store = offsetlog.open(data)
    with store:
        with pytest.raises(ReadOnlyError, match=r"0 is read-only because its log is damaged: .*`offsetlog repair`"):
            store.restore("billing", 4)
        with pytest.raises(ReadOnlyError, match=r"its log is damaged \(remedy: `offsetlog repair`\): in 0"):
            store.commit("billing", {ORDERS[0]: 1})
        assert store.restore("billing", 4, dry_run=True) == []


# ----------------------------------------------------------------------------------------------------- what refuses a


def test_a_dry_run_says_that_the_lock_is_held(data, capsys):
    with offsetlog.open(data):
        code, out, err = call(capsys, "restore", data, "billing", "--at=offset:4", "--dry-run")
        assert code == 1
        assert "would restore group billing to log offset 4: commit 4 offsets" in out
        assert err == "offsetlog: would be refused: the lock is held by another process; stop it first\n"
    assert call(capsys, "restore", data, "billing", "--at=offset:4", "--dry-run")[0] == 0


def test_a_dry_run_says_that_the_number_of_partitions_is_missing(tmp_path, capsys):
    log = tmp_path / "log"
    shutil.copytree(GROUPS, log)
    before = files(log)
    arguments = ["restore", log, "cl-range-fraud", "--at=offset:2", "--force", "--dry-run"]
    code, out, err = call(capsys, *arguments)
    assert (code, "would restore" in out) == (1, True)
    assert "offsetlog: would be refused: " in err
    assert "any partitions its offsets topic has; give --partitions N" in err
    code, _, err = call(capsys, *arguments, "--partitions=8")
    assert (code, "would be refused" in err) == (0, False)
    assert files(log) == before


# ------------------------------------------------------------------------------------------------------ other questions


def test_the_time_of_the_bad_commit_itself_is_pointed_out(data, capsys):
    code, out, _ = call(capsys, "history", data, "billing", "orders", 0, "--format=json")
    bad = json.loads(out.splitlines()[-1])["timestamp"]
    code, out, err = call(capsys, "restore", data, "billing", "--at", bad, "--yes")
    assert (code, err) == (0, "")
    assert out.endswith(
        f" (the last change has exactly this time; to restore the state before that change, use --at {bad - 1})\n"
    )
    code, out, err = call(capsys, "restore", data, "billing", "--at", "now", "--yes")
    assert code == 2
    with offsetlog.open(data, read_only=True) as store:
        late = store.history("billing", *ORDERS[0])[-1].timestamp + 1
    code, out, _ = call(capsys, "restore", data, "billing", "--at", late, "--yes")
    assert (code, "very time" in out) == (0, False)


def test_a_log_offset_inside_the_bad_commit_is_refused(data, capsys):
    code, out, err = call(capsys, "restore", data, "billing", "--at=offset:6", "--yes")
    assert (code, out) == (2, "")
    assert "give offset:4 for the state before this commit, offset:8 for the state after it" in err
    code, out, _ = call(capsys, "restore", data, "billing", "--at=offset:4", "--yes")
    assert (code, ": commit 4 offsets" in out) == (0, True)


@pytest.mark.parametrize("call_of", [["restore", "--yes"], ["restore", "--dry-run"], ["fetch"]])
@pytest.mark.parametrize("moment", ["offset:6", "offset:1000"])
def test_a_mistyped_group_is_reported_before_a_log_offset_that_its_partition_lacks(data, capsys, call_of, moment):
    """Inside a commit, or above the end of the log partition in which the mistyped name would be."""
    name, *options = call_of
    code, _, err = call(capsys, name, data, "typo", "--at", moment, *options)
    assert (code, err) == (1, f"offsetlog: there is no group typo in {data}\n")
    assert call(capsys, name, data, "billing", "--at", moment, *options)[0] == 2


def test_a_group_whose_log_partition_is_elsewhere_is_not_unknown(tmp_path, capsys):
    log = tmp_path / "log"
    shutil.copytree(GROUPS, log)
    number = partition_for(b"cl-range-fraud", 8)
    shutil.rmtree(log / f"__consumer_offsets-{number}")
    for arguments in (
        ["fetch", log, "cl-range-fraud"],
        ["history", log, "cl-range-fraud", "orders-in", 0],
        ["restore", log, "cl-range-fraud", "--at=-1d"],
        ["restore", log, "cl-range-fraud", "--at=-1d", "--dry-run"],
        ["undelete", log, "cl-range-fraud"],
        ["delete", log, "cl-range-fraud", "--dry-run"],
        ["diff", log, "-1d", "--group=cl-range-fraud"],
    ):
        code, _, err = call(capsys, *arguments, "--partitions=8")
        assert code == 1
        assert f"log partition {number} of group cl-range-fraud is not in {log}" in err
        assert "there is no group" not in err
    code, _, err = call(capsys, "fetch", log, "nobody-at-all", "--partitions=8")
    assert (code, err) == (1, f"offsetlog: there is no group nobody-at-all in {log}\n")
    for command in ("offsets", "rewinds"):  # without the number of partitions no group can be looked up in one
        code, _, err = call(capsys, command, log, "--group", "cl-range-fraud")
        assert code == 1
        assert "which has 7 log partitions and lacks at least 1" in err


def test_a_log_partition_that_failed_without_a_problem_on_the_disk_is_refused(data):
    class Failed:
        path = data

        def health(self):
            return StoreHealth(False, (PartitionHealth(1, "failed", ()),), ())

    assert "log partition 1 accepts no writes: its state is failed. " in damage_of(Failed(), [1])
    assert damage_of(Failed(), [0]) is None
