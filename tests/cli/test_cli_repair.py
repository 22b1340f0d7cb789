"""`offsetlog repair`: what it shows of a loss, what it asks, and that a log goes on without what is missing."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import call, on_terminal

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig
from offsetlog.directory import checkpoint_record
from offsetlog.directory.log_directory import MANIFEST, PROPERTIES, TOPIC

SMALL = StoreConfig(segment_bytes=8192, batch_bytes_max=2048, segment_index_bytes=4096)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Two log partitions of several segments each, closed cleanly, with a snapshot of all but the last commits."""
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=2, config=SMALL, maintenance=MaintenanceConfig(enabled=False)) as store:
        for i in range(400):
            store.commit_one(f"g{i % 5}", "t", i % 61, i)
        store.snapshot()
        store.commit_one("g0", "t", 0, 1000)
    return path


def segments(path: Path, number: int) -> list[Path]:
    return sorted((path / f"{TOPIC}-{number}").glob("*.log"))


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_whole_directory_lacks_nothing(built: Path, capsys):
    before = content(built)
    assert call(capsys, "repair", built) == (0, "nothing is missing\n", "")
    assert call(capsys, "repair", built, "--accept-loss", "--yes") == (0, "nothing is missing\n", "")
    assert content(built) == before


def test_a_loss_is_shown_and_nothing_changes(built: Path, capsys):
    lost, following = segments(built, 0)[1:3]
    lost.unlink()
    before = content(built)
    code, out, err = call(capsys, "repair", built)
    assert code == 1
    assert f"missing\t0\t{int(lost.stem)}\t{int(following.stem)}\t" in out
    assert "  log partition 0 lacks group 'g" in out
    assert err == (
        "offsetlog: 1 loss: restore the missing files from a copy, or give up the missing records with --accept-loss\n"
    )
    code, out, _ = call(capsys, "repair", built, "--format", "json")
    [row] = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert (row["log_partition"], row["lost_from"]) == (0, int(lost.stem))
    assert row["lost_below"] == int(following.stem)
    assert row["keys"]
    assert content(built) == before


def test_off_a_terminal_it_refuses_without_yes(built: Path, capsys):
    segments(built, 0)[1].unlink()
    before = content(built)
    code, out, err = call(capsys, "repair", built, "--accept-loss")
    assert (code, out) == (1, "")
    assert "give up the missing records in 1 log partition of " in err
    assert content(built) == before
    code, out, err = call(capsys, "repair", built, "--yes")
    assert (code, out) == (2, "")
    assert err.startswith("offsetlog: nothing was done: --yes has an effect only with --accept-loss")
    assert content(built) == before


@pytest.mark.parametrize("answer", [b"y\n", b"n\n"])
def test_on_a_terminal_it_asks(built: Path, answer: bytes):
    segments(built, 0)[1].unlink()
    before = content(built)
    code, shown = on_terminal("repair", built, "--accept-loss", answer=answer)
    assert "ive up the missing records in 1 log partition of" in shown
    assert code == (0 if answer == b"y\n" else 1)
    assert (content(built) == before) == (answer == b"n\n")


def test_the_log_goes_on_without_what_is_missing(built: Path, capsys):
    segments(built, 0)[1].unlink()
    shutil.rmtree(built / f"{TOPIC}-1")
    code, out, err = call(capsys, "repair", built, "--accept-loss", "--yes")
    assert (code, err) == (0, "")
    assert out.startswith("accepted 2 losses and kept ")
    [report] = built.glob("offsetlog-loss-*.json")
    assert str(report) in out
    assert [each["log_partition"] for each in json.loads(report.read_bytes())["losses"]] == [1, 0]
    assert call(capsys, "repair", built) == (0, "nothing is missing\n", "")
    assert call(capsys, "verify", built)[0] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with offsetlog.open(built) as store:
            for i in range(20):
                store.commit_one(f"h{i}", "t", 0, i)
            assert store.problems() == []


def test_a_doubt_is_accepted(built: Path, capsys):
    (built / f"{TOPIC}-0" / MANIFEST).unlink()
    code, out, _ = call(capsys, "repair", built)
    assert code == 1
    assert out.splitlines()[1].startswith("in doubt\t0\t")
    assert call(capsys, "repair", built, "--accept-loss", "--yes")[0] == 0
    assert call(capsys, "repair", built) == (0, "nothing is missing\n", "")


def test_what_is_no_log_directory(built: Path, tmp_path: Path, capsys):
    file = tmp_path / "file"
    file.write_bytes(b"x")
    for path, message in (
        (file, "this is a file, not a log directory"),
        (tmp_path / "none", "the directory does not exist"),
        (built / f"{TOPIC}-0", "this is a partition directory; name the log directory that contains it"),
    ):
        code, out, err = call(capsys, "repair", path)
        assert (code, out, err) == (2, "", f"offsetlog: {message} ({path})\n")


def test_beside_a_running_store(built: Path, capsys):
    segments(built, 0)[1].unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = offsetlog.open(built)
    with store:
        code, _, err = call(capsys, "repair", built, "--accept-loss", "--yes")
    assert code == 2
    assert "stop it first, or wait with --lock-timeout TIME; commands that only read do not need the lock" in err
    assert "read_only=True" not in err


def test_lost_properties_are_not_taken_for_a_kafka_directory(built: Path, capsys):
    right = (built / PROPERTIES).read_bytes()
    (built / PROPERTIES).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code, _, err = call(capsys, "commit", built, "g", "t:0=5")
    assert code == 0
    assert "the file is missing" in err
    assert (built / PROPERTIES).read_bytes() == right
    (built / PROPERTIES).unlink()
    (built / checkpoint_record.NAME).write_bytes(b"damaged")
    code, _, err = call(capsys, "commit", built, "g", "t:0=5")
    assert code == 2
    assert err.startswith(
        "offsetlog: offsetlog.properties, which holds the number of partitions of the offsets topic, is "
    )
