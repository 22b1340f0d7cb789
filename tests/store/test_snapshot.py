"""Snapshots of a store: what the next open goes on from, and every reason not to."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from faults import FaultFileSystem
from witnesses import forget_witnesses

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, TopicPartition, errors, opening
from offsetlog._native import snapshot as native
from offsetlog._native.files import format_offset_checkpoint
from offsetlog.directory import snapshots as snapshots_module
from offsetlog.directory.log_directory import CLEAN_MARKER, CLEANER_POINTS, TOPIC

QUIET = MaintenanceConfig(enabled=False)
SMALL = StoreConfig(segment_bytes=16 * 1024, batch_bytes_max=4096, extend_bytes_min=4096, extend_bytes_max=16 * 1024)
NAME = snapshots_module.FILE_NAME


def open_store(path: Path, **options) -> OffsetStore:
    options = {"partitions": 2, "durability": "process", "config": SMALL, "maintenance": QUIET, **options}
    return opening.open_with(path, **options)


def fill(store: OffsetStore, seed: int, count: int = 150) -> None:
    """Commits of many kinds, deletes, transactions that end and some that do not."""
    draw = random.Random(seed)
    for number in range(count):
        group, topic = f"group-{draw.randrange(20)}", f"topic-{draw.randrange(5)}"
        what = draw.random()
        if what < 0.7:
            keys = [TopicPartition(topic, draw.randrange(60)) for _ in range(draw.randrange(1, 6))]
            store.commit(
                group, {key: offsetlog.OffsetAndMetadata(number, draw.choice(["", "m", "consumer 7"])) for key in keys}
            )
        elif what < 0.8:
            store.delete(group, [TopicPartition(topic, draw.randrange(60))])
        elif what < 0.85:
            store.delete(group)
        else:
            transaction = store.transaction(group, producer_id=1000 * seed + number)
            transaction.commit({TopicPartition(topic, draw.randrange(60)): number})
            end = draw.random()
            if end < 0.4:
                transaction.__exit__(None, None, None)
            elif end < 0.8:
                transaction.abort()


def digests(store: OffsetStore):
    return store.digest(), store.digest(physical=True)


def used(store: OffsetStore) -> dict[int, int | None]:
    return {number: found["snapshot"] for number, found in store.recoveries().items()}


def discarded(store: OffsetStore) -> dict[int, str]:
    return {
        number: found["snapshot_discarded"]
        for number, found in store.recoveries().items()
        if found["snapshot_discarded"] is not None
    }


def files(path: Path) -> list[Path]:
    return sorted(path.glob(f"{TOPIC}-*/{NAME}"))


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed store with snapshots of both log partitions, and a tail after each."""
    with open_store(path) as store:
        fill(store, 1)
        reports = store.snapshot()
        assert [report.log_partition for report in reports] == [0, 1]
        assert all(report.written for report in reports)
        fill(store, 2, 40)
    return path


def expected(path: Path):
    """Returns the state that the logs alone give."""
    aside = path.with_name("aside")
    shutil.copytree(path, aside)
    for file in files(aside):
        file.unlink()
    with open_store(aside, partitions=None, read_only=True) as store:
        assert set(used(store).values()) == {None}
        found = digests(store)
    shutil.rmtree(aside)
    return found


# -------------------------------------------------------------------------------------------------------------- loading


def test_a_store_goes_on_from_its_snapshots(filled):
    wanted = expected(filled)
    with open_store(filled) as store:
        assert all(offset is not None and offset > 0 for offset in used(store).values())
        assert discarded(store) == {}
        assert digests(store) == wanted
        assert store.verify() == []
        progress = store.progress()
        assert progress.done
        assert progress.ready == 2
        assert progress.bytes < sum(file.stat().st_size for file in filled.glob(f"{TOPIC}-*/*.log"))
        fill(store, 3)
        for transaction in store.transactions():
            store.abort_transaction(transaction.producer_id)
        assert store.verify() == []
        wanted = digests(store)
    with open_store(filled) as store:
        assert digests(store) == wanted == expected(filled)


def test_snapshots_of_snapshots(path):
    with open_store(path) as store:
        fill(store, 1)
        first = store.snapshot()
        assert [report.since for report in first] == [None, None]
        again = store.snapshot()
        assert [report.written for report in again] == [False, False]
    for seed in range(2, 8):
        with open_store(path) as store:
            assert digests(store) == expected(path)
            fill(store, seed, 60)
            before = used(store)
            reports = store.snapshot([0, 1, 1])
            assert [report.since for report in reports] == [before[0], before[1]]
            assert [report.positions for report in reports] == [
                store._open_core.partition(number).count() for number in range(2)
            ]
            fill(store, seed + 100, 10)
    with open_store(path) as store:
        assert digests(store) == expected(path)


def test_a_snapshot_is_the_state_at_its_offset(filled):
    with open_store(filled) as store:
        fill(store, 5)
        store.snapshot()
        for number in range(2):
            partition = store._open_core.partition(number)
            found = native.open_file(store._directory.fs, Path(partition.path) / NAME)
            assert (*found.digest(True), found.facts()["offset"]) == partition.digest(True)


def test_arrow_reads_it_in_place(filled):
    for file in files(filled):
        with pa.memory_map(str(file)) as mapped:
            whole = mapped.read_buffer()
            reader = pa.ipc.open_file(whole)
            assert reader.num_record_batches == 1
            batch = reader.get_batch(0)
            batch.validate(full=True)
            facts = json.loads(reader.schema.metadata[b"offsetlog.snapshot"])
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            assert batch.schema.names[-1] == "directory"
            assert facts["version"] == native.VERSION
            assert facts["positions"] > 0
            # The table's contents lie in the file as in memory: nothing was encoded.
            assert columns["cells"][0].as_buffer().size % 4 == 0
            assert columns["strings"][0].as_buffer().size > 0
            del batch, columns


def test_a_read_only_store_uses_them_and_leaves_them(filled):
    wanted = expected(filled)
    with open_store(filled, read_only=True) as store:
        assert None not in used(store).values()
        assert digests(store) == wanted
        store.refresh()
        assert digests(store) == wanted
    file = files(filled)[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with open_store(filled, read_only=True) as store:
        assert list(discarded(store)) == [0]
        assert digests(store) == wanted
        with pytest.raises(errors.ReadOnlyError):
            store.snapshot()
    assert file.read_bytes() == content


# -------------------------------------------------------------------------------------------------------------- reasons


def check_discarded(path: Path, caplog, reason: str, number: int = 0) -> None:
    wanted = expected(path)
    file = path / f"{TOPIC}-{number}" / NAME
    caplog.clear()
    with caplog.at_level(logging.WARNING, "offsetlog.snapshot"), open_store(path) as store:
        assert reason in discarded(store)[number]
        assert used(store)[number] is None
        assert digests(store) == wanted
        assert store.problems() == []
        assert store.verify() == []
        assert not file.exists()
        assert any(reason in record.getMessage() for record in caplog.records)
        [report] = store.snapshot([number])
        assert report.since is None
    with open_store(path) as store:
        assert discarded(store) == {}
        assert digests(store) == wanted


def test_damage(filled, caplog):
    file = files(filled)[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x10
    file.write_bytes(content)
    check_discarded(filled, caplog, "checksum")


@pytest.mark.parametrize("size", [0, 1, 9, 500, -1, -700])
def test_a_cut_file(filled, caplog, size):
    file = files(filled)[0]
    content = file.read_bytes()
    file.write_bytes(content[:size])
    check_discarded(filled, caplog, "")


def test_something_else_in_its_place(filled, caplog):
    file = files(filled)[0]
    table = pa.table({"a": range(1000)})
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    check_discarded(filled, caplog, "list of the file's sections")


def test_a_log_that_was_cleaned_beyond_it(filled, caplog):
    entries = {(TOPIC, 0): 10_000}
    (filled / CLEANER_POINTS).write_bytes(format_offset_checkpoint(entries))
    check_discarded_once(filled, caplog, "was cleaned below")


def check_discarded_once(path: Path, caplog, reason: str) -> None:
    # As long as the reason stays, what is written is discarded again.
    wanted = expected(path)
    with caplog.at_level(logging.WARNING, "offsetlog.snapshot"), open_store(path) as store:
        assert reason in discarded(store)[0]
        assert digests(store) == wanted
        assert store.verify() == []


def test_a_log_that_the_store_itself_cleaned(path):
    with open_store(path) as store:
        fill(store, 1, 300)
        store.snapshot()
        fill(store, 2, 300)
        for transaction in store.transactions():
            store.abort_transaction(transaction.producer_id)
        reports = store.compact(delete_retention_ms=0)
        assert any(report.cleaned for report in reports)
        wanted = digests(store)
        # Cleaned records cannot be added to the old ones.
        store.snapshot()
        fill(store, 3, 30)
        later = digests(store)
    assert expected(path) == later
    with open_store(path) as store:
        assert discarded(store) == {}
        assert None not in used(store).values()
        assert digests(store) == later
    with open_store(path) as store:
        store.compact(delete_retention_ms=0)
        store.compact(delete_retention_ms=0)
        assert store.digest() == later[0] != wanted[0]
    with open_store(path) as store:
        assert store.digest() == later[0]
        assert store.verify() == []


def test_leader_epochs_that_are_others(filled, caplog):
    epochs = filled / f"{TOPIC}-0" / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n1 3\n")
    check_discarded(filled, caplog, "leader epochs")


def test_another_log_of_the_same_length(path, tmp_path, caplog):
    other = tmp_path / "other"
    for place, offset in ((path, 1), (other, 2)):
        with open_store(place, partitions=1) as store:
            for number in range(50):
                store.commit_one("g", "t", number, offset)
            store.snapshot()
    partition = path / f"{TOPIC}-0"
    shutil.copy(other / f"{TOPIC}-0" / NAME, partition / NAME)
    shutil.copy(other / f"{TOPIC}-0" / "partition.metadata", partition / "partition.metadata")
    (path / "offsetlog.properties").write_bytes((other / "offsetlog.properties").read_bytes())
    forget_witnesses(path)
    with open_store(path, partitions=1) as store:
        assert "the log has a different batch at" in discarded(store)[0]
        assert store.fetch_one("g", "t", 3).offset == 1


def test_another_topic(path, tmp_path):
    other = tmp_path / "other"
    for place in (path, other):
        with open_store(place, partitions=1) as store:
            store.commit_one("g", "t", 1, 1)
            store.snapshot()
    shutil.copy(other / f"{TOPIC}-0" / NAME, path / f"{TOPIC}-0" / NAME)
    with open_store(path, partitions=1) as store:
        assert "topic id" in discarded(store)[0]


def test_a_log_that_is_shorter(filled, tmp_path):
    before = tmp_path / "before"
    with open_store(before, partitions=1) as store:
        fill(store, 9, 30)
    shutil.copytree(before, tmp_path / "long")
    with open_store(tmp_path / "long", partitions=1) as store:
        fill(store, 10, 30)
        store.snapshot()
    shutil.copy(tmp_path / "long" / f"{TOPIC}-0" / NAME, before / f"{TOPIC}-0" / NAME)
    wanted = expected(before)
    with open_store(before, partitions=1) as store:
        assert "above the log end" in discarded(store)[0]
        assert digests(store) == wanted


def test_a_damaged_log_has_none(filled):
    log = sorted((filled / f"{TOPIC}-0").glob("*.log"))[0]
    content = bytearray(log.read_bytes())
    content[300] ^= 0xFF
    log.write_bytes(content)
    (filled / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for checkpoint in filled.glob("recovery-point*"):
        checkpoint.unlink()
    with pytest.warns(errors.CorruptionWarning):
        store = open_store(filled)
    with store:
        assert "damaged" in discarded(store)[0]
        assert store.problems()
        with pytest.raises(errors.CorruptionError) as raised:
            store.snapshot()
        assert "1 other log partitions now have a snapshot" in raised.value.__notes__[0]


def test_what_an_interrupted_write_left_is_of_no_account(filled):
    for number in range(2):
        (filled / f"{TOPIC}-{number}" / snapshots_module.TEMPORARY_NAME).write_bytes(b"half of it")
    with open_store(filled) as store:
        assert discarded(store) == {}
        fill(store, 4, 20)
        store.snapshot()
    assert not list(filled.glob(f"*/{snapshots_module.TEMPORARY_NAME}"))


# ------------------------------------------------------------------------------------------------------------- writing


def test_commits_go_on_while_one_is_written(path):
    stop = threading.Event()
    failures: list[BaseException] = []
    with open_store(path, config=StoreConfig()) as store:
        fill(store, 1)

        def commit(seed: int) -> None:
            draw = random.Random(seed)
            number = 0
            try:
                while not stop.is_set():
                    number += 1
                    store.commit_one(f"group-{draw.randrange(300)}", f"topic-{seed}", draw.randrange(20), number)
                    if number % 50 == 0:
                        store.delete(f"group-{draw.randrange(300)}")
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=commit, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        try:
            offsets = [[report.offset for report in store.snapshot()]]
            # On a busy machine the other threads may not have begun yet.
            while len(offsets) < 6 or (offsets[0] == offsets[-1] and not failures):
                offsets.append([report.offset for report in store.snapshot()])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert offsets == sorted(offsets)
        assert offsets[0] < offsets[-1]
        wanted = digests(store)
    assert wanted == expected(path)
    with open_store(path, config=StoreConfig()) as store:
        assert list(used(store).values()) == offsets[-1]
        assert digests(store) == wanted


def test_a_close_writes_one_when_it_is_worth_its_while(path):
    due = MaintenanceConfig(snapshot_tail_bytes=4096)
    with open_store(path, maintenance=due, partitions=1) as store:
        store.commit_one("g", "t", 0, 1)
    assert files(path) == []
    with open_store(path, maintenance=due, partitions=1) as store:
        fill(store, 1)
        wanted = digests(store)
    assert len(files(path)) == 1
    before = files(path)[0].stat().st_mtime_ns
    with open_store(path, maintenance=due, partitions=1) as store:
        assert store.progress().bytes == 0
        assert digests(store) == wanted
        assert store.transactions()
        store.commit_one("g", "t", 0, 2)
    assert files(path)[0].stat().st_mtime_ns == before
    for seed, off in enumerate((QUIET, MaintenanceConfig(snapshots=False, snapshot_tail_bytes=4096)), start=2):
        with open_store(path, maintenance=off, partitions=1) as store:
            fill(store, seed)
        assert files(path)[0].stat().st_mtime_ns == before


def test_a_close_writes_one_where_a_replay_would_take_too_long(path):
    # 300 KB are replayed in a millisecond, by all logs together.
    slow = MaintenanceConfig(snapshot_replay_ms=1)
    groups = [f"g{number}" for number in range(40)]
    with open_store(path, maintenance=slow, partitions=4) as store:
        for number in range(2000):
            store.commit_one(groups[number % 40], "t", 0, number)
        small = [store._open_core.number_of(group) for group in groups]
    assert files(path) == []
    with open_store(path, maintenance=slow, partitions=4) as store:
        for number in range(5000):
            store.commit_one(groups[0], "t", 0, number)
        wanted = digests(store)
    # The longest of them is enough.
    assert [file.parent.name for file in files(path)] == [f"{TOPIC}-{small[0]}"]
    with open_store(path, partitions=4) as store:
        assert digests(store) == wanted
        assert store.progress().bytes < 300_000


def test_one_that_cannot_be_written_keeps_nothing_from_being_closed(path, caplog):
    fs = FaultFileSystem(path.parent)
    due = MaintenanceConfig(snapshot_tail_bytes=4096)
    store = open_store(path, maintenance=due, partitions=1, fs=fs, background=False)
    fill(store, 1)
    blocked = path / f"{TOPIC}-0" / snapshots_module.TEMPORARY_NAME
    blocked.mkdir()
    with caplog.at_level(logging.WARNING, "offsetlog.snapshot"):
        store.close()
    assert "no snapshot was written" in caplog.text
    blocked.rmdir()
    del store, fs
    with open_store(path, partitions=1) as again:
        assert (path / f"{TOPIC}-0").is_dir()
        assert again.problems() == []


def test_a_crash_at_every_file_operation_of_a_write(tmp_path):
    def run(root: Path, stop_at: int | None) -> tuple[FaultFileSystem, object, int]:
        # Returns the machine, what was there, and how many operations the second snapshot takes.
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        fs = FaultFileSystem(root)
        store = open_store(root / "data", partitions=1, durability="disk", fs=fs, background=False)
        fill(store, 1, 40)
        store.snapshot()
        fill(store, 2, 20)
        store.flush()
        wanted = digests(store)
        begun = fs.operations
        if stop_at is not None:
            fs.stop_at(begun + stop_at)
        try:
            store.snapshot()
            assert stop_at is None
        except errors.OffsetLogError:
            assert fs.stopped
        taken = fs.operations - begun
        if stop_at is not None:
            store._closer.abandon(store._core)
            store._core = None
        else:
            store.close()
        return fs, wanted, taken

    _, _, operations = run(tmp_path / "run", None)
    assert operations >= 5
    seen = set()
    for stop_at in range(1, operations + 1):
        fs, wanted, _ = run(tmp_path / "run", stop_at)
        for seed in range(3):
            disk = tmp_path / "disk"
            shutil.rmtree(disk, ignore_errors=True)
            disk.mkdir()
            fs.materialize(disk, seed)
            with open_store(disk / "data", partitions=1) as store:
                assert digests(store) == wanted
                assert store.problems() == []
                assert discarded(store) == {}
                seen.add(used(store)[0])
                fill(store, 3, 10)
                store.snapshot()
            with open_store(disk / "data", partitions=1) as store:
                assert discarded(store) == {}
                assert store.verify() == []
    # The old one, or the new one.
    assert len(seen) == 2
    assert None not in seen


def test_a_full_disk_leaves_the_old_one(path):
    fs = FaultFileSystem(path.parent)
    store = open_store(path, partitions=1, fs=fs, background=False)
    fill(store, 1, 40)
    store.snapshot()
    [old] = files(path)
    content = old.read_bytes()
    fill(store, 2, 20)
    store.flush()
    begun = fs.operations
    failed = 0
    while old.read_bytes() == content:
        failed += 1
        fs.fail_at(begun + failed, 28)
        with pytest.raises(errors.StorageError):
            store.snapshot()
        assert not (old.parent / snapshots_module.TEMPORARY_NAME).exists()
        begun = fs.operations
    # The file is made, emptied, written at once, flushed and renamed; the last to fail made the new name durable.
    assert failed == 6
    fs.fail_at(0, 0)
    wanted = digests(store)
    store.close()
    del store, fs
    with open_store(path, partitions=1) as store:
        assert digests(store) == wanted


# -------------------------------------------------------------------------------------------------------- living on it


def test_a_child_of_a_store_that_runs_on_a_snapshot(filled):
    wanted = expected(filled)
    store = open_store(filled)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            store.groups()
        except errors.ClosedError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert digests(store) == wanted
    fill(store, 6)
    assert store.verify() == []
    store.close()


def test_a_table_grows_beyond_what_its_snapshot_reserved(path):
    with open_store(path, partitions=1, config=StoreConfig()) as store:
        for group in range(60):
            store.commit(f"group-{group}", {TopicPartition("t", number): number for number in range(30)})
        store.snapshot()
    with open_store(path, partitions=1, config=StoreConfig()) as store:
        assert used(store)[0] == 1800
        before = store.memory()["cells"]
        columns = {"group": [], "topic": [], "partition": [], "offset": []}
        for group in range(3000):
            for number in range(20):
                for name, value in zip(columns, (f"new-{group}", f"t{number % 3}", number, group), strict=True):
                    columns[name].append(value)
        store.commit_arrow(pa.table(columns))
        assert store.memory()["cells"] > 20 * before
        assert store.verify() == []
        wanted = digests(store)
    assert expected(path) == wanted


@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_is_cleaned_goes_on_from_its_snapshots(path, tmp_path, seed):
    draw = random.Random(seed)
    config = MaintenanceConfig(enabled=False, snapshots=True)
    opened = used = 0
    for life in range(8):
        with open_store(path, partitions=1, maintenance=config) as store:
            store.digest()  # loaded
            assert discarded(store) == {}
            opened += life > 0
            used += life > 0 and store.recoveries()[0]["snapshot"] is not None
            if life == 0:
                fill(store, seed)
            for step in range(draw.randrange(1, 6)):
                what = draw.randrange(5)
                if what < 3:
                    fill(store, 100 * seed + 10 * life + step, draw.randrange(1, 60))
                elif what == 3:
                    store.snapshot()
                else:
                    store.compact(again=draw.random() < 0.5, delete_retention_ms=draw.choice([None, 0]))
            if draw.random() < 0.3:
                # A delete: a cleaning up to the end leaves tombstones of the group that was deleted last, or nothing.
                store.delete(f"group-{draw.randrange(20)}")
                store.snapshot()
                store.compact(again=True, delete_retention_ms=0)
            elif life == 0:
                store.snapshot()
            expected = digests(store)
        shutil.copytree(path, copy := tmp_path / f"copy-{life}")
        (copy / f"{TOPIC}-0" / NAME).unlink()
        with open_store(copy, partitions=1) as store:
            assert digests(store) == expected
    assert used == opened == 7


def test_a_snapshot_of_another_log_partition_is_of_no_use(path, caplog):
    with open_store(path) as store:
        fill(store, 3)
        store.snapshot()
        expected = digests(store)
    shutil.copyfile(path / f"{TOPIC}-0" / NAME, path / f"{TOPIC}-1" / NAME)
    with caplog.at_level(logging.WARNING, "offsetlog.snapshot"), open_store(path) as store:
        assert digests(store) == expected
    assert "the snapshot belongs to log partition 0" in caplog.text


@pytest.mark.parametrize("failure", [ImportError("the interpreter ends"), MemoryError(), RuntimeError("of Arrow")])
def test_nothing_about_a_snapshot_keeps_a_store_from_being_closed(path, monkeypatch, caplog, failure):
    def fail(*_):
        raise failure

    monkeypatch.setattr("offsetlog.directory.snapshots._store", fail)
    store = offsetlog.open(path, 1, "process", maintenance=MaintenanceConfig(snapshot_tail_bytes=4096))
    for number in range(100):
        store.commit_one("g", "t", 0, number)
    store.close()
    assert type(failure).__name__ in caplog.text
    assert (path / CLEAN_MARKER).exists()
