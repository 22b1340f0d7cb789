"""A log read in any pieces is the log: transactions, histories, moments, and a log that moves while it is read."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conformance.scenarios import SCENARIOS
from pyspark.sql.datasource import EqualTo
from witnesses import forget_witnesses

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition, errors
from offsetlog._native.encoding import encode_batch
from offsetlog.directory.history_floor import cutoff_offset
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.pushdown import narrowed
from offsetlog.spark.scan.states import BucketReader

from .moving_logs import key_of, value_of
from .reading import Row, in_this_process, read_splits, rows_of, splits_of, table_of

# The second tier: C reads the same splits in csrc/columns.
pytestmark = pytest.mark.ci

KEYS = [TopicPartition("t", number) for number in range(6)]
BY_HAND = MaintenanceConfig(enabled=False)
SMALL = StoreConfig(segment_bytes=8 << 10, index_interval_bytes=512)


def opened(path: Path, **options: object) -> OffsetStore:
    given = {"partitions": 1, "durability": "process", "config": SMALL, "maintenance": BY_HAND, **options}
    return offsetlog.open(path, **given)


def write(store: OffsetStore, seed: int, steps: int = 400) -> None:
    """Commits, deletions and transactions that overlap."""
    draw = random.Random(seed)
    waiting: dict[int, offsetlog.Transaction] = {}
    for step in range(steps):
        group, key = draw.choice("abc"), draw.choice(KEYS)
        value = {key: OffsetAndMetadata(step, "m" * draw.randrange(60))}
        choice = draw.randrange(10)
        if choice < 5:
            store.commit(group, value)
        elif choice == 5:
            store.delete(group, [key])
        elif choice < 8 or not waiting:
            producer = draw.randrange(4)
            if producer not in waiting:
                waiting[producer] = store.transaction(group, 100 + producer).__enter__()
            waiting[producer].commit(value)
        else:
            transaction = waiting.pop(draw.choice(sorted(waiting)))
            transaction.abort() if draw.random() < 0.3 else transaction.__exit__(None, None, None)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a few dozen segments; some transactions are open at its end."""
    path = tmp_path_factory.mktemp("log") / "data"
    store = opened(path)
    write(store, 1)
    store.flush()
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    store.close()
    return copy


def tables(path: Path, view: str, sizes: list[int], **options: object) -> Iterator[pa.Table]:
    for size in sizes:
        yield table_of(path, view=view, splitBytes=size, **options)


@pytest.mark.parametrize("view", ["records", "commits", "batches"])
def test_pieces_of_any_size_are_the_whole(log: Path, view: str) -> None:
    whole = table_of(log, view=view)
    assert whole.num_rows > 200
    draw = random.Random(view)
    for table in tables(log, view, [1, 2, 700, 4096, *(draw.randrange(1, 30_000) for _ in range(10))]):
        assert table.equals(whole)


def test_small_pieces_are_many_and_large_ones_few(log: Path) -> None:
    batches = table_of(log, view="batches").num_rows
    assert len(splits_of(log, view="records", splitBytes=1)) == batches
    assert len(splits_of(log, view="records")) == 1


@pytest.mark.parametrize(("cores", "most"), [(1, 1), (3, 4), (64, 4)])
def test_every_core_has_a_piece_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, most: int
) -> None:
    with offsetlog.open(tmp_path, partitions=1, maintenance=BY_HAND) as store:
        rows = np.arange(250_000)
        store.commit_arrow(
            pa.table(
                {
                    "group": [f"g{row // 100}" for row in rows.tolist()],
                    "topic": ["t"] * len(rows),
                    "partition": rows % 9,
                    "offset": rows,
                }
            )
        )
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.log"))
    monkeypatch.setattr("offsetlog.spark.scan.plan.parallelism", lambda read: cores)
    pieces = splits_of(tmp_path)
    # Four mebibytes are the least that a core is woken for.
    assert 8 << 20 < size < 16 << 20
    assert min(cores, 3) <= len(pieces) <= most
    assert sum(piece.size for piece in pieces) == size
    assert table_of(tmp_path, columns="offset")["offset"].to_pylist() == rows.tolist()


@pytest.mark.parametrize("damage", ["missing", "zeros", "wild", "shifted"])
def test_indexes_only_make_it_faster(log: Path, tmp_path: Path, damage: str) -> None:
    whole = table_of(log, view="records")
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    for index in sorted(copy.rglob("*.*index")):
        content = index.read_bytes()
        changed = {
            "missing": b"",
            "zeros": content + bytes(4096),
            "wild": random.Random(index.name).randbytes(len(content)),
            "shifted": b"".join(
                (int.from_bytes(content[at : at + 4]).to_bytes(4))
                + (int.from_bytes(content[at + 4 : at + 8]) + 7).to_bytes(4)
                for at in range(0, len(content) // 8 * 8, 8)
            ),
        }[damage]
        index.write_bytes(changed)
    for table in tables(copy, "records", [1, 1000, 1 << 20]):
        assert table.equals(whole)


def test_ranges_of_log_offsets(log: Path) -> None:
    whole = rows_of(log, view="records")
    end = whole[-1]["log_offset"] + 1
    draw = random.Random(3)
    for _ in range(20):
        first = draw.randrange(end)
        until = draw.randrange(first, end + 5)
        found = rows_of(
            log, view="records", startingOffset=first, endingOffset=until, splitBytes=draw.randrange(1, 5000)
        )
        assert found == [row for row in whole if first <= row["log_offset"] < until]
    named = rows_of(log, view="records", startingOffset='{"0": 100}', endingOffset="{}")
    assert named == [row for row in whole if row["log_offset"] >= 100]


def test_a_log_offset_of_a_log_partition_that_is_not_there(log: Path) -> None:
    """One wrong digit would read everything, or the present."""
    for option, view in (("startingOffset", "records"), ("endingOffset", "commits"), ("at", "offsets")):
        with pytest.raises(errors.ConfigError) as caught:
            rows_of(log, **{"view": view, option: '{"0": 100, "7": 1}'})
        refusal = f"{option} names log partition 7, which is not in this log (its log partitions: 0)"
        assert refusal in str(caught.value)


def test_filters_and_columns(log: Path) -> None:
    whole = rows_of(log)
    for options, fits in (
        ({"group": "a"}, lambda row: row["group"] == "a"),
        ({"topic": "t", "partition": 3}, lambda row: row["partition"] == 3),
        ({"group": "zz"}, lambda row: False),
    ):
        assert rows_of(log, **options, splitBytes=500) == [row for row in whole if fits(row)]
        positions = rows_of(log, view="offsets")
        kept = rows_of(log, view="offsets", minPartitions=3, **options)
        assert sorted(kept, key=str) == sorted((row for row in positions if fits(row)), key=str)
    narrow = rows_of(log, columns="offset, outcome", splitBytes=900)
    assert narrow == [{"offset": row["offset"], "outcome": row["outcome"]} for row in whole]
    assert rows_of(log, view="offsets", columns="offset", group="a", minPartitions=3)[0].keys() == {"offset"}


@pytest.mark.parametrize("name", ["group", "topic"])
def test_a_name_that_is_not_utf8_is_no_filter(name: str) -> None:
    """Spark compares what it is shown, a scan the bytes of the log."""
    read = parse({"path": "/log"})
    assert narrowed(read, EqualTo((name,), "g\ufffd\ufffd")) == read
    assert narrowed(read, EqualTo((name,), None)) == read
    assert getattr(narrowed(read, EqualTo((name,), "ü")), name) == "ü"


# -------------------------------------------------------------------------------------------------------------- history


def history_of(store: OffsetStore) -> list[Row]:
    rows = []
    for group in "abc":
        for key in KEYS:
            for entry in store.history(group, key.topic, key.partition):
                value = entry.value
                rows.append(
                    {
                        "group": group,
                        "topic": key.topic,
                        "partition": key.partition,
                        "offset": value and value.offset,
                        "metadata": value and value.metadata,
                        "kind": entry.kind,
                        "timestamp": entry.timestamp,
                        "outcome": entry.outcome,
                        "marker_offset": entry.marker_offset,
                        "effective_at": entry.effective_at,
                        "producer_id": entry.producer_id,
                        "producer_epoch": entry.producer_epoch,
                        "log_offset": entry.log_offset,
                    }
                )
    return rows


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_history_is_that_of_the_store(tmp_path: Path, seed: int, buckets: int) -> None:
    with opened(tmp_path / "data") as store:
        write(store, 10 + seed, 300)
        expected = sorted(history_of(store), key=lambda row: row["log_offset"])
        columns = ",".join(expected[0])
        found = rows_of(tmp_path / "data", view="history", columns=columns, buckets=buckets)
        assert sorted(found, key=lambda row: row["log_offset"]) == expected
        part = rows_of(
            tmp_path / "data", view="history", columns=columns, startingOffset=50, endingOffset=90, group="a"
        )
        assert part == [row for row in expected if 50 <= row["log_offset"] < 90 and row["group"] == "a"]


# -------------------------------------------------------------------------------------------------------------- moments


def state_of(store: OffsetStore, at: object) -> dict[tuple[str, int], tuple[int, str]]:
    return {
        (group, key.partition): (value.offset, value.metadata)
        for group in "abc"
        for key, value in store.fetch(group, at=at).items()
    }


def test_the_state_of_a_moment_is_that_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 5, 300)
        stamps = sorted({row["timestamp"] for row in rows_of(path, view="records")})
        end = rows_of(path, view="records")[-1]["log_offset"] + 1
        for offset in (0, 1, 57, 200, end):
            found = rows_of(path, view="offsets", at=f"offset:{offset}", minPartitions=3)
            state = {(row["group"], row["partition"]): (row["offset"], row["metadata"]) for row in found}
            assert state == state_of(store, offset)
        for stamp in (stamps[0] - 1, stamps[0], stamps[len(stamps) // 2], stamps[-1], stamps[-1] + 5):
            cut = cutoff_offset_of(path, stamp)
            rows = rows_of(path, view="records", at=stamp, splitBytes=600)
            assert [row["log_offset"] for row in rows] == list(range(cut))
            moment = datetime.fromtimestamp(stamp / 1000, UTC)
            found = rows_of(path, view="offsets", at=moment.isoformat())
            state = {(row["group"], row["partition"]): (row["offset"], row["metadata"]) for row in found}
            assert state == state_of(store, moment)


@pytest.mark.parametrize("entry", [(1001, 150), (1150, 10), (1049, 60), (1040, 40), (0, 199), (1000, 4_000_000_000)])
def test_a_wrong_time_index_changes_no_moment(tmp_path: Path, entry: tuple[int, int]) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    segment = directory / f"{0:020}.log"
    content, positions = b"", []
    for number in range(200):
        positions.append(len(content))
        content += encode_batch(number, 1000 + number, [(key_of("g", "t", 0), value_of(number, 1000 + number))])
    segment.write_bytes(content)
    index = b"".join(struct.pack(">II", number, positions[number]) for number in range(10, 200, 10))
    segment.with_suffix(".index").write_bytes(index)
    segment.with_suffix(".timeindex").write_bytes(struct.pack(">qI", *entry))
    for moment, offset in ((1000, 0), (1050, 50), (1199, 199)):
        assert [row["offset"] for row in rows_of(tmp_path, view="offsets", at=moment)] == [offset]
    assert rows_of(tmp_path, view="offsets", at=999) == []


def test_a_moment_in_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with opened(path, partitions=2) as store:
        write(store, 5, 50)
    now = time.time_ns() // 1_000_000
    for view in ("offsets", "records"):
        # The clocks of two machines may differ by a minute.
        assert rows_of(path, view=view, at=now + 50_000) == rows_of(path, view=view)
        for at in (now + 120_000, "2162-03-01T02:30", 2**63 - 1):
            with pytest.raises(errors.InvalidArgumentError, match="lies in the future: this machine's clock says"):
                rows_of(path, view=view, at=at)


def test_what_the_log_has_is_no_future(tmp_path: Path) -> None:
    ahead = time.time_ns() // 1_000_000 + 3_600_000
    for number, stamps in enumerate([[1000, 2000], [1000, ahead]]):
        directory = tmp_path / f"__consumer_offsets-{number}"
        directory.mkdir()
        batches = [
            encode_batch(offset, stamp, [(key_of(f"g{number}", "t", offset), value_of(offset, stamp))])
            for offset, stamp in enumerate(stamps)
        ]
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    assert len(rows_of(tmp_path, view="records", at=ahead - 1)) == 3
    assert len(rows_of(tmp_path, view="records", at=ahead)) == 4
    with pytest.raises(errors.InvalidArgumentError, match="lies in the future"):
        rows_of(tmp_path, view="records", at=ahead + 1)


def cutoff_offset_of(path: Path, stamp: int) -> int:
    """Where the run of batches ends, by their headers; transactions open there do not count."""
    offset = 0
    for batch in rows_of(path, view="batches"):
        if batch["max_timestamp"] > stamp:
            break
        offset = batch["last_offset"] + 1
    assert cutoff_offset(path / "__consumer_offsets-0", stamp) <= offset
    return offset


def test_what_ended_after_a_moment_is_open_at_it(log: Path) -> None:
    ended = [row for row in rows_of(log) if row["outcome"] == "committed"]
    row = max(ended, key=lambda each: each["marker_offset"] - each["log_offset"])
    cut = row["marker_offset"]
    before = {each["log_offset"]: each for each in rows_of(log, at=f"offset:{cut}", splitBytes=300)}
    assert before[row["log_offset"]]["outcome"] == "open"
    assert max(before) < cut
    # A range of records is no moment: it says what became of them.
    ranged = {each["log_offset"]: each for each in rows_of(log, endingOffset=cut, splitBytes=300)}
    assert ranged[row["log_offset"]] == row


def test_a_moment_that_was_cleaned_away_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        for number in range(600):
            store.commit("g", {KEYS[number % 2]: number})
        store.compact()
        end = rows_of(path, view="records")[-1]["log_offset"] + 1
        with pytest.raises(errors.HistoryError, match="cleaned"):
            rows_of(path, view="offsets", at="offset:300")
        assert "HistoryError" in rows_of(path, view="offsets", at="offset:300", mode="permissive")[0]["problem"]
        assert len(rows_of(path, view="offsets", at=f"offset:{end}")) == 2
        with pytest.raises(errors.OffsetOutOfRangeError, match="ends at"):
            rows_of(path, view="offsets", at=f"offset:{end + 1}")


# -------------------------------------------------------------------------------------------------------- a log at work


def test_a_log_that_is_written_to_and_cleaned_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "data"
    stop = threading.Event()
    failures: list[BaseException] = []
    with opened(path) as store:
        for number in range(200):
            store.commit("still", {TopicPartition("s", number % 20): number})

        def work() -> None:
            try:
                number = 0
                while not stop.is_set():
                    store.commit("g", {KEYS[number % 6]: number})
                    number += 1
                    if number % 150 == 0:
                        store.compact()
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            draw = random.Random(8)
            for _ in range(25):
                # Positions of old groups are there in every state of the log.
                size = draw.randrange(1, 6000)
                splits = splits_of(path, view="commits", group="still", splitBytes=size)
                found = [
                    row
                    for batch in read_splits(splits, path, view="commits", group="still")
                    for row in batch.to_pylist()
                ]
                last = {row["partition"]: row["offset"] for row in found}
                assert last == {number % 20: number for number in range(180, 200)}
                offsets = [row["log_offset"] for row in found]
                assert offsets == sorted(set(offsets))
                rows = rows_of(path, view="offsets", minPartitions=3)
                assert {row["partition"]: row["offset"] for row in rows if row["group"] == "still"} == last
        finally:
            stop.set()
            thread.join()
    assert not failures


WRITER = """
import sys, offsetlog
from offsetlog import MaintenanceConfig, TopicPartition
off = MaintenanceConfig(enabled=False)
with offsetlog.open(sys.argv[1], partitions=1, durability="process", maintenance=off) as store:
    values = {TopicPartition("a-topic-of-some-length", number): number for number in range(int(sys.argv[2]))}
    for _ in range(12):
        store.commit("g", values)
        print("committed", flush=True)
"""


def test_a_large_batch_that_is_being_written_is_no_damage(tmp_path: Path) -> None:
    """Another process writes it where it will stay, which takes longer than a look at it."""
    path, count = tmp_path / "data", 80_000
    command = [sys.executable, "-c", WRITER, str(path), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "committed\n"
        draw, found = random.Random(4), 0
        while writer.poll() is None:
            options = {"view": "batches", "columns": "crc_ok", "splitBytes": draw.choice([1, 6_000_000, 64 << 20])}
            splits = splits_of(path, **options)
            assert all(split.horizon.offset % count == 0 for split in splits)
            batches = [batch for split in splits for batch in read_splits([split], path, **options)]
            sound = [right for batch in batches for right in batch.column("crc_ok").to_pylist()]
            assert sound == [True] * (splits[-1].horizon.offset // count if splits else 0)
            found += len(sound)
        assert writer.returncode == 0
    assert found > 0
    assert len(rows_of(path, view="batches", columns="base_offset")) == 12


@pytest.mark.parametrize("size", [1, 2000])
def test_what_was_cleaned_between_planning_and_reading(tmp_path: Path, size: int) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        for number in range(500):
            store.commit("g", {KEYS[number % 6]: number})
        splits = splits_of(path, view="commits", splitBytes=size)
        before = rows_of(path)
        store.compact()
        after = rows_of(path)
        assert len(after) < len(before)
        store.commit("g", {KEYS[0]: 1000})
        found = [row for batch in read_splits(splits, path, view="commits") for row in batch.to_pylist()]
        assert found == after


def ends_of_files(name: str) -> tuple[str, ...]:
    return tuple(name + suffix for suffix in (".log", ".index", ".timeindex"))


@pytest.mark.parametrize("left", [3, 2, 1, 0])
def test_a_swap_that_a_crash_ended_is_finished(log: Path, tmp_path: Path, left: int) -> None:
    """Some of three old segments are still there; the file that takes their place has no name of its own yet."""
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    forget_witnesses(copy)  # a swap that a broker makes
    whole = {view: rows_of(log, view=view) for view in ("records", "commits", "offsets")}
    directory = copy / "__consumer_offsets-0"
    old = [file.stem for file in sorted(directory.glob("*.log"))[:3]]
    swapped = b"".join((directory / f"{name}.log").read_bytes() for name in old)
    index = directory / f"{old[0]}.index"
    (directory / f"{old[0]}.index.swap").write_bytes(index.read_bytes())
    (directory / f"{old[0]}.log.swap").write_bytes(swapped)
    for name in old[left:]:
        for file in ends_of_files(name):
            (directory / file).unlink(missing_ok=True)
    for view, rows in whole.items():
        kept = ("log_offset", "key", "group", "topic", "partition", "offset")
        found = rows_of(copy, view=view, **({"splitBytes": 5000} if view != "offsets" else {}))
        assert [[row.get(name) for name in kept] for row in found] == [[row.get(name) for name in kept] for row in rows]
    with opened(copy, partitions=None, config=None, maintenance=None, read_only=True) as store:
        state = {(row["group"], row["partition"]): row["offset"] for row in whole["offsets"]}
        assert state == {
            (group, key.partition): each.offset for group in "abc" for key, each in store.fetch(group).items()
        }


def test_a_segment_that_waits_for_its_name_is_read(log: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    first = sorted(copy.rglob("*.log"))[0]
    for file in ends_of_files(first.stem):
        if first.with_name(file).exists():
            first.with_name(file).rename(first.with_name(file + ".swap"))
    splits = splits_of(copy, view="records", splitBytes=5000)
    whole = [row["log_offset"] for row in rows_of(log, view="records")]
    for _ in range(2):
        found = [row for batch in read_splits(splits, copy, view="records") for row in batch.to_pylist()]
        assert [row["log_offset"] for row in found] == whole
        # Somebody recovers the directory between planning and reading.
        for file in first.parent.glob("*.swap"):
            file.rename(file.with_suffix(""))


@pytest.mark.parametrize("view", ["records", "batches", "commits", "offsets", "groups", "history"])
def test_the_space_of_a_roll_under_way_is_no_damage(log: Path, tmp_path: Path, view: str) -> None:
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    segment = sorted(copy.rglob("*.log"))[2]
    content = segment.read_bytes()
    for size in (1, 61, 5000):
        segment.write_bytes(content + bytes(size))
        assert rows_of(copy, view=view) == rows_of(log, view=view)
        pieces = rows_of(copy, view=view, splitBytes=3000)
        assert sorted(map(str, pieces)) == sorted(map(str, rows_of(log, view=view)))
    # Batches are missing.
    sorted(copy.rglob("*.log"))[3].unlink()
    with pytest.raises(errors.CorruptionError):
        rows_of(copy, view=view)


def test_a_swap_that_was_not_complete_is_undone(log: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    directory = copy / "__consumer_offsets-0"
    first, second = sorted(directory.glob("*.log"))[:2]
    (directory / f"{second.name}.swap").write_bytes(first.read_bytes())
    (directory / f"{first.stem}.timeindex.cleaned").write_bytes(b"")
    assert rows_of(copy, view="records") == rows_of(log, view="records")


def test_a_single_segment_that_was_closed_since(tmp_path: Path) -> None:
    """It gets shorter by the space that was allocated ahead."""
    path = tmp_path / "data"
    with opened(path) as store:
        for number in range(10):
            store.commit("g", {KEYS[0]: number})
        segment = next(path.rglob("*.log"))
        allocated = segment.stat().st_size
        splits = splits_of(segment, view="records", splitBytes=500)
        for number in range(200):
            store.commit("g", {KEYS[0]: number})
        assert segment.stat().st_size < allocated
        found = [row for batch in read_splits(splits, segment, view="records") for row in batch.to_pylist()]
        assert [row["log_offset"] for row in found] == list(range(10))


@in_this_process
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_state_of_a_log_that_is_cleaned_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """After some segments were applied: what the cleaner takes of the others has gone for something not listed."""
    path = tmp_path / "data"
    calls = 0
    with opened(path) as store:
        for number in range(300):
            store.commit("g", {KEYS[number % 6]: number})
        apply = BucketReader._replay_segment

        def apply_and_clean(reader: BucketReader, *arguments: object, **options: object) -> None:
            nonlocal calls
            if calls == after:
                for number in range(300, 600):
                    store.commit("g", {KEYS[number % 6]: number})
                store.compact()
            calls += 1
            apply(reader, *arguments, **options)

        monkeypatch.setattr(BucketReader, "_replay_segment", apply_and_clean)
        rows = rows_of(path, view="offsets")
        assert {row["partition"]: row["offset"] for row in rows} == {number % 6: number for number in range(594, 600)}
        assert calls > after


def test_a_segment_that_has_gone_for_good(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    splits = splits_of(copy, view="records", splitBytes=3000)
    segments = sorted(copy.rglob("*.log"))
    assert len(segments) > 4
    gone = segments[3]
    gone.unlink()
    with pytest.raises(errors.MissingFileError, match="no other segment holds its records") as caught:
        list(read_splits(splits, copy, view="records"))
    assert caught.value.path == str(gone)
    batches = read_splits(splits, copy, view="records", mode="permissive")
    problems = {row["problem"] for batch in batches for row in batch.to_pylist() if row["problem"]}
    assert len(problems) == 1
    assert str(gone) in problems.pop()


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if "txn" in each.name], ids=lambda each: each.name)
def test_outcomes_of_kafkas_transactions_do_not_depend_on_splits(scenario) -> None:
    whole = rows_of(scenario.log)
    assert {row["outcome"] for row in whole} >= {"plain", "committed", "aborted"}
    for size in (1, 150, 1000, 3333):
        assert rows_of(scenario.log, splitBytes=size) == whole


def test_a_partition_without_a_segment_and_a_start_after_the_end_hold_nothing(tmp_path: Path):
    path = tmp_path / "data"
    with opened(path) as store:
        store.commit("a", {KEYS[0]: 1})
    (path / "__consumer_offsets-1").mkdir()
    assert len(rows_of(path, view="records")) == 1
    for start in (1, 2, 1000):
        assert rows_of(path, view="records", startingOffset=start, partitions="0") == []
    assert len(rows_of(path, view="offsets")) == 1
