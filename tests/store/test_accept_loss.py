"""Going on after a loss: report, copies, and a store that takes commits again."""

from __future__ import annotations

import json
import shutil
import threading
import warnings
from pathlib import Path

import pytest
from witnesses import forget_witnesses

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, errors
from offsetlog._native.files import format_offset_checkpoint, parse_offset_checkpoint
from offsetlog.cli import app
from offsetlog.directory.log_directory import CHECKPOINTS, MANIFEST, PROPERTIES
from offsetlog.errors import DataLossError, PossibleLossError
from offsetlog.lifecycle.accept_loss import find_losses
from offsetlog.verify import verify

SMALL = StoreConfig(segment_bytes=8192, batch_bytes_max=2048, segment_index_bytes=4096)
BY_HAND = MaintenanceConfig(enabled=False)


def opened(path: Path, *, quiet: bool = True, **options: object) -> offsetlog.OffsetStore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "error")
        return offsetlog.open(path, config=SMALL, maintenance=BY_HAND, **options)  # type: ignore[arg-type]


@pytest.fixture
def built(path: Path) -> Path:
    """Three groups in two log partitions, a snapshot of half of it; one key of each is committed once."""
    with opened(path, partitions=2) as store:
        for number in range(3):
            store.commit_one(f"g{number}", "rare", 0, number)
        for i in range(200):
            store.commit_one(f"g{i % 3}", "t", i % 61, i)
        store.snapshot()
        for i in range(200, 300):
            store.commit_one(f"g{i % 3}", "t", i % 61, i)
    return path


def segments(path: Path, number: int) -> list[Path]:
    return sorted((path / f"__consumer_offsets-{number}").glob("*.log"))


def fullest(path: Path) -> int:
    return max(range(2), key=lambda number: len(segments(path, number)))


def check_goes_on(path: Path) -> None:
    """Everything is sound, takes commits, and survives another open."""
    assert verify(path).problems == []
    with opened(path, quiet=False) as store:
        assert store.problems() == []
        for group in ("g0", "g1", "g2"):
            store.commit_one(group, "t", 0, 7777)
        assert store.verify() == []
    with opened(path, quiet=False) as store:
        assert [store.fetch_one(group, "t", 0).offset for group in ("g0", "g1", "g2")] == [7777] * 3
    assert find_losses(path) == []


def test_a_segment_that_is_gone(built: Path):
    number = fullest(built)
    gone = segments(built, number)[0]
    gone.unlink()
    with opened(built) as store:
        [loss] = store.problems()
        assert isinstance(loss, DataLossError)
        assert (loss.log_partition, loss.lost_from) == (number, 0)
        assert loss.keys
        with pytest.raises(errors.ReadOnlyError, match="missing"):
            store.commit_one(loss.keys[0][0], "t", 1, 1)
    found = offsetlog.accept_loss(built, SMALL)
    assert [str(each) for each in found.losses] == [str(loss)]
    written = json.loads(found.report.read_text())
    [row] = written["losses"]
    assert (row["kind"], row["log_partition"], row["lost_from"], row["lost_below"]) == (
        "missing",
        number,
        loss.lost_from,
        loss.lost_below,
    )
    known = {(each["group"], each["topic"], each["partition"]) for each in row["last_known"]}
    assert known == set(loss.keys)
    assert all(copy.exists() for copy in found.copies)
    check_goes_on(built)


def test_bytes_in_the_middle_are_taken_out_and_what_follows_stays(built: Path):
    number = fullest(built)
    log = segments(built, number)[1]
    before = bytearray(log.read_bytes())
    before[70] ^= 1
    log.write_bytes(before)
    (built / f"__consumer_offsets-{number}" / "offsetlog-snapshot.arrow").unlink()
    (built / ".kafka_cleanshutdown").unlink()
    with opened(built) as store:
        served = store.to_arrow().num_rows, store.groups()
        [damage] = store.problems()
        assert damage.lost_below == damage.lost_from + 1
    offsetlog.accept_loss(built, SMALL)
    assert [each.read_bytes() for each in log.parent.glob("broken-*")] == [bytes(before)]
    with opened(built, quiet=False) as store:
        assert (store.to_arrow().num_rows, store.groups()) == served
    check_goes_on(built)


def test_no_snapshot_takes_the_place_of_one_that_knows_what_is_lost(built: Path):
    number = fullest(built)
    segments(built, number)[0].unlink()
    snapshot = built / f"__consumer_offsets-{number}" / "offsetlog-snapshot.arrow"
    before = snapshot.read_bytes()
    with opened(built) as store, pytest.raises(errors.CorruptionError, match="a new snapshot would hide the damage"):
        store.snapshot([number])
    assert snapshot.read_bytes() == before


def test_a_directory_that_is_gone(built: Path):
    shutil.rmtree(built / "__consumer_offsets-1")
    with opened(built) as store:
        [loss] = store.problems()
        assert (loss.log_partition, loss.lost_from) == (1, 0)
        group = next(f"g{i}" for i in range(100) if _partition_of(store, f"g{i}") == 1)
        for read in (
            lambda: store.fetch_one(group, "t", 0),
            lambda: store.fetch(group),
            lambda: store.fetch_arrow([group]),
            lambda: store.delete(group),
        ):
            with pytest.raises(DataLossError, match="directory of the log partition is missing"):
                read()
        assert [each.log_partition for each in store.verify()] == [1]
        with pytest.raises(errors.ReadOnlyError, match="missing"):
            store.commit_one(group, "t", 0, 1)
    assert not (built / "__consumer_offsets-1").exists()
    offsetlog.accept_loss(built, SMALL)
    check_goes_on(built)


def _partition_of(store: offsetlog.OffsetStore, group: str) -> int:
    from offsetlog._native.codec import partition_for

    return partition_for(group, store.partitions)


@pytest.mark.parametrize("name", ["offsetlog.manifest", "offsetlog.flushed"])
def test_a_doubt_stays_until_it_is_accepted(built: Path, name: str):
    (built / "__consumer_offsets-0" / name).unlink()
    for _ in range(3):
        with opened(built) as store:
            [doubt] = store.problems()
            assert isinstance(doubt, PossibleLossError)
            assert (doubt.log_partition, doubt.lost_below) == (0, None)
            for group in ("g0", "g1", "g2"):
                store.commit_one(group, "t", 0, 1)
    found = offsetlog.accept_loss(built, SMALL)
    assert len(found.losses) == 1
    check_goes_on(built)


@pytest.mark.parametrize("damage", [b"version: x\n", b"", None])
def test_a_topic_id_that_only_the_other_partitions_know(built: Path, damage: bytes | None):
    folder = built / "__consumer_offsets-0"
    metadata = folder / "partition.metadata"
    right = metadata.read_bytes()
    (folder / MANIFEST).write_bytes(b"damaged")
    if damage is None:
        metadata.unlink()
    else:
        metadata.write_bytes(damage)
    offsetlog.accept_loss(built, SMALL)
    assert metadata.read_bytes() == right
    check_goes_on(built)


def test_a_broker_may_move_away_what_was_repaired(built: Path):
    """The directory is not ours: nobody says that its partitions must be there."""
    forget_witnesses(built)
    (built / PROPERTIES).unlink()
    number = fullest(built)
    log = segments(built, number)[0]
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x55
    log.write_bytes(content)
    (built / ".kafka_cleanshutdown").unlink()
    assert offsetlog.accept_loss(built, SMALL).losses
    shutil.rmtree(built / f"__consumer_offsets-{number}")
    for name in CHECKPOINTS:
        if (built / name).exists():
            entries = parse_offset_checkpoint((built / name).read_bytes())
            kept = {key: offset for key, offset in entries.items() if key[1] != number}
            (built / name).write_bytes(format_offset_checkpoint(kept))
    with opened(built, quiet=False, partitions=2) as store:
        assert store.problems() == []


def test_health_shows_every_state(built: Path):
    number = fullest(built)
    segments(built, number)[0].unlink()
    (built / f"__consumer_offsets-{1 - number}" / "offsetlog.manifest").unlink()
    (built / "cleaner-offset-checkpoint").write_text("nonsense")
    with opened(built) as store:
        health = store.health()
        assert not health.sound
        states = {each.log_partition: each.state for each in health.partitions}
        assert states == {number: "read-only", 1 - number: "in doubt"}
        assert [str(each.problems[0]) for each in health.partitions] == [
            str(next(problem for problem in store.problems() if problem.log_partition == each.log_partition))
            for each in health.partitions
        ]
        assert [Path(each.path).name for each in health.directory] == ["cleaner-offset-checkpoint"]
    shutil.rmtree(built / f"__consumer_offsets-{number}")
    with opened(built) as store:
        assert {each.log_partition: each.state for each in store.health().partitions}[number] == "missing"


def test_a_sound_store_is_healthy(built: Path):
    with opened(built, quiet=False) as store:
        assert store.health() == (True, (), ())


def test_more_than_was_shown_is_not_accepted(built: Path):
    number = fullest(built)
    segments(built, number)[0].unlink()
    shown = find_losses(built, SMALL)
    segments(built, number)[1].unlink()
    before = {path: path.read_bytes() for path in built.rglob("*") if path.is_file()}
    with pytest.raises(errors.InvalidArgumentError, match="a loss is not in the list that was shown"):
        offsetlog.accept_loss(built, SMALL, shown=shown)
    assert {path: path.read_bytes() for path in built.rglob("*") if path.is_file()} == before
    assert len(offsetlog.accept_loss(built, SMALL, shown=find_losses(built, SMALL)).losses) == len(shown) + 1
    check_goes_on(built)


def test_nothing_to_accept(built: Path):
    before = sorted(built.rglob("*"))
    assert offsetlog.accept_loss(built, SMALL) == offsetlog.lifecycle.accept_loss.AcceptedLoss([])
    assert sorted(built.rglob("*")) == before


def test_a_log_start_that_cannot_be_is_not_followed(built: Path):
    checkpoint = built / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\n__consumer_offsets 0 100000\n")
    with opened(built) as store:
        [problem] = store.problems()
        assert "100000" in problem.message
        assert store.to_arrow().num_rows > 100
        for group in ("g0", "g1", "g2"):
            store.commit_one(group, "t", 0, 1)
    # A broker would follow it.
    assert "100000" not in checkpoint.read_text()
    assert "100000" in (built / "offsetlog.refused-log-start-offset-checkpoint").read_text()
    check_goes_on(built)


def test_a_store_that_is_open_is_refused(built: Path, capsys):
    with opened(built):
        with pytest.raises(errors.LockedError, match=r"stop it first; to wait .*, pass lock_timeout=30"):
            offsetlog.accept_loss(built, SMALL)
        (built / "log-start-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 100000\n")
        assert app.run(["repair", str(built), "--accept-loss", "--yes", "--lock-timeout", "10ms"]) == 2
        shown = capsys.readouterr().err
        assert "after 0.01 s of waiting" in shown
        assert "wait with --lock-timeout TIME" in shown


def test_it_waits_for_the_lock(built: Path):
    store = opened(built)
    close = threading.Timer(0.2, store.close)
    close.start()
    assert offsetlog.accept_loss(built, SMALL, lock_timeout=60).losses == []
    close.join()
