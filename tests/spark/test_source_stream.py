"""The stream reader: every record once, whatever is rolled, cleaned or killed meanwhile; lost records are reported."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from depth import by_depth, first_seed
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, TopicPartition
from offsetlog.errors import ConfigError, CorruptionError, HistoryError, MissingFileError, OffsetOutOfRangeError
from offsetlog.spark import OffsetlogDataSource, starting_offsets
from offsetlog.spark.scan import plan
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.stream import StreamReader, StreamSplit, _limited
from offsetlog.spark.scan.views import full_schema

from .reading import rows_of

KILLS = by_depth(gate=2, long=20)
SEED = first_seed()
SMALL = StoreConfig(segment_bytes=4 << 10, index_interval_bytes=256)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def opened(path: Path, partitions: int = 2) -> OffsetStore:
    return offsetlog.open(
        path, partitions=partitions, durability="process", config=SMALL, maintenance=MaintenanceConfig(enabled=False)
    )


def reader_of(path: Path, **options: object) -> StreamReader:
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}}, streaming=True)
    return StreamReader(read, full_schema(read))


def rows_between(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a batch of Spark; offsets go through JSON, as checkpoints keep them."""
    splits = reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
    return [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


def read_all(reader: StreamReader, splits: list[Any]) -> int:
    return sum(batch.num_rows for split in splits for batch in reader.read(split))


class _Rows:  # Spark's ReadMaxRows, in all versions
    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows


def test_every_record_comes_once_however_it_is_cut(path: Path):
    print(f"seed {SEED}")
    generator = random.Random(SEED)
    with opened(path) as store:
        store.commit("g0", {TopicPartition("t", 0): 1})
        store.flush()
        reader = reader_of(path, view="records", splitBytes=300)
        position = reader.initialOffset()
        seen: list[tuple[int, int]] = []
        for step in range(60):
            for _ in range(generator.randrange(30)):
                store.commit(f"g{generator.randrange(9)}", {TopicPartition("t", generator.randrange(5)): step})
            if generator.random() < 0.2:
                # After a restart another object goes on from what the checkpoint says.
                reader = reader_of(path, view="records", splitBytes=300)
            limit = _Rows(generator.randrange(1, 40)) if generator.random() < 0.7 else None
            end = reader.latestOffset(position, limit)
            rows = rows_between(reader, position, end)
            if limit is not None:
                assert len(rows) <= limit.max_rows
            seen += [(row["log_partition"], row["log_offset"]) for row in rows]
            position = end
        end = reader.latestOffset(position, None)
        seen += [(row["log_partition"], row["log_offset"]) for row in rows_between(reader, position, end)]
    whole = [(number, offset) for number, until in end["__consumer_offsets"].items() for offset in range(until)]
    assert sorted(seen) == sorted((int(number), offset) for number, offset in whole)


def churn(store: OffsetStore, times: int, number: int = 0) -> None:
    for step in range(times):
        store.commit("churn", {TopicPartition("t", number): step})


def test_what_was_cleaned_before_it_was_read_is_reported(path: Path):
    with opened(path, partitions=1) as store:
        churn(store, 300)
        store.compact()
        # Records missing when the query began are nobody's loss.
        reader = reader_of(path, view="records")
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        assert 0 < len(rows_between(reader, start, end)) < 300
        churn(store, 300)
        later = reader.latestOffset(end)
        assert len(rows_between(reader, end, later)) == 300
        store.compact()
        with pytest.raises(HistoryError, match=r"records of log partition 0 between .* were cleaned") as refused:
            rows_between(reader, end, later)
        assert refused.value.log_partition == 0
        lossy = reader_of(path, view="records", failOnDataLoss="false")
        assert 0 < len(rows_between(lossy, end, later)) < 300


def test_what_is_cleaned_between_plan_and_task_is_reported_by_the_task(path: Path):
    with opened(path, partitions=1) as store:
        reader = reader_of(path, view="records")
        churn(store, 1)
        start = reader.initialOffset()
        churn(store, 300)
        splits = reader.partitions(start, reader.latestOffset(start))
        store.compact()
        with pytest.raises(HistoryError, match="before they were read"):
            read_all(reader, splits)


def test_a_log_that_went_or_was_cut_is_reported(path: Path, tmp_path: Path):
    with opened(path, partitions=2) as store:
        churn(store, 50)
        store.commit("other", {TopicPartition("t", 0): 1})
    reader = reader_of(path, view="records")
    start = reader.initialOffset()
    (number,) = [int(number) for number, end in reader.latestOffset(start)["__consumer_offsets"].items() if end > 10]
    beyond = {"__consumer_offsets": {str(number): 1000}, "begun": {}}
    with pytest.raises(OffsetOutOfRangeError, match="but ended at log offset 1000 before"):
        reader.partitions(start, beyond)
    folder = path / f"__consumer_offsets-{number}"
    folder.rename(tmp_path / "aside")
    with pytest.raises(MissingFileError, match="the log partition was removed"):
        reader.partitions(start, beyond)
    lossy = reader_of(path, view="records", failOnDataLoss="false")
    assert not any(isinstance(split, StreamSplit) for split in lossy.partitions(start, beyond))
    # A log that is away for a moment keeps its place; one that was cut or created again is reported, or read on from
    # its end.
    assert reader.latestOffset(beyond)["__consumer_offsets"][str(number)] == 1000
    (tmp_path / "aside").rename(folder)
    with pytest.raises(OffsetOutOfRangeError, match="truncated or created again; with failOnDataLoss=false, the"):
        reader.latestOffset(beyond)
    end = lossy.latestOffset(beyond)
    assert 10 < end["__consumer_offsets"][str(number)] < 1000
    assert rows_between(lossy, beyond, end) == []


def test_committed_records_only(path: Path):
    key = TopicPartition("t", 0)
    with opened(path, partitions=1) as store:
        reader = reader_of(path, isolationLevel="read_committed", columns="group,offset")
        store.commit("a", {key: 1})
        start = reader.initialOffset()
        assert rows_between(reader, start, reader.latestOffset(start))[0]["group"] == "a"
        aborted, kept = store.transaction("b", 7), store.transaction("c", 8)
        aborted.commit({key: 2})
        store.commit("a", {key: 3})
        kept.commit({key: 4})
        middle = reader.latestOffset(start)
        # It waits for the oldest that is open.
        assert [row["offset"] for row in rows_between(reader, start, middle)] == [1]
        aborted.abort()
        later = reader.latestOffset(middle)
        assert [row["offset"] for row in rows_between(reader, middle, later)] == [3]
        kept.__exit__(None, None, None)
        end = reader_of(path, isolationLevel="read_committed").latestOffset(later)
        assert [row["offset"] for row in rows_between(reader, later, end)] == [4]


def test_a_tombstone_counts_also_where_its_transaction_is_aborted(path: Path):
    # Kafka's coordinator deletes at once, whatever becomes of the transaction.
    key = TopicPartition("t", 0)
    with opened(path, partitions=1) as store:
        store.commit("a", {key: 1})
        reader = reader_of(path, isolationLevel="read_committed", columns="offset,kind")
        start = reader.initialOffset()
        store.delete("a", [key])
        with store.transaction("a", 7) as transaction:
            transaction.commit({key: 2})
            transaction.abort()
        rows = rows_between(reader, start, reader.latestOffset(start))
    assert [(row["offset"], row["kind"]) for row in rows] == [(1, "commit"), (None, "delete")]


def test_a_partition_that_comes_later_and_one_that_is_away(path: Path, tmp_path: Path):
    with opened(path, partitions=2) as store:
        churn(store, 50)
        store.commit("other", {TopicPartition("t", 0): 1})
    folders = sorted(path.glob("__consumer_offsets-*"))
    (full,) = [folder for folder in folders if int(folder.name[-1]) == churned(path)]
    # With what says that it should be there: it is no loss, and comes later.
    hidden = [full, *(each for each in path.iterdir() if each.is_file())]
    for each in hidden:
        each.rename(tmp_path / each.name)
    (path / "offsetlog.properties").write_text("format=1\npartitions=2\n")
    reader = reader_of(path, view="records")
    start = reader.initialOffset()
    before = reader.latestOffset(start)
    for each in hidden:
        (tmp_path / each.name).rename(each)
    with opened(path, partitions=2) as store:
        store.compact()
    # It was cleaned before it came: nobody's loss.
    end = reader.latestOffset(before)
    assert 0 < len(rows_between(reader, before, end)) < 50
    # An offset of Spark 4.0 that lacks a partition which was there.
    lacking = {"__consumer_offsets": dict.fromkeys(before["__consumer_offsets"], 0), "begun": {}}
    with pytest.raises(MissingFileError, match="the log partition was removed"):
        reader.partitions(end, lacking)


def churned(path: Path) -> int:
    """The log partition of the group that is written to most."""
    sizes = {each.parent.name: each.stat().st_size for each in path.glob("*/00000000000000000000.log")}
    return int(max(sizes, key=lambda name: sizes[name]).rpartition("-")[2])


def test_a_segment_that_goes_before_its_task_is_reported_as_asked(path: Path):
    with opened(path, partitions=1) as store:
        reader = reader_of(path, view="records", splitBytes=500)
        churn(store, 1)
        start = reader.initialOffset()
        for step in range(300):
            store.commit("kept", {TopicPartition("t", step): step})
        splits = reader.partitions(start, reader.latestOffset(start))
    segments = sorted((path / "__consumer_offsets-0").glob("*.log"))
    assert len(segments) > 3
    segments[1].unlink()
    with pytest.raises(MissingFileError, match=segments[1].name):
        read_all(reader, splits)
    lossy = reader_of(path, view="records", failOnDataLoss="false", splitBytes=500)
    assert 200 < read_all(lossy, splits) < 301


@pytest.mark.parametrize("producer_id", [76, -1])
def test_a_damaged_header_opens_no_transaction(path: Path, producer_id: int):
    """Nothing would ever end it: the stream goes on, and a reader of the records gets the error."""
    key = TopicPartition("t", 0)
    with opened(path, partitions=1) as store:
        store.commit("x", {key: 0})
        with store.transaction("g", 77) as transaction:
            transaction.commit({key: 5})
        for number in range(3):
            store.commit("x", {key: number})
    batch = next(row for row in rows_of(path, view="batches") if row["transactional"])
    segment = path / "__consumer_offsets-0" / batch["segment"]
    content = bytearray(segment.read_bytes())
    content[batch["position"] + 43 : batch["position"] + 51] = producer_id.to_bytes(8, signed=True)
    segment.write_bytes(content)
    reader = reader_of(path, view="records", isolationLevel="read_committed", mode="permissive")
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert end["__consumer_offsets"] == {"0": 6}
    rows = rows_between(reader, start, end)
    assert [row["log_offset"] for row in rows if not row["problem"]] == [0, 2, 3, 4, 5]
    assert sum(row["problem"] is not None for row in rows) == 1


@pytest.mark.parametrize("mode", ["failfast", "permissive"])
def test_a_damaged_end_of_a_transaction_is_reported_and_not_waited_for(path: Path, mode: str):
    key = TopicPartition("t", 0)
    with opened(path, partitions=1) as store:
        with store.transaction("g", 77) as transaction:
            transaction.commit({key: 5})
        store.commit("x", {key: 1})
    batch = next(row for row in rows_of(path, view="batches") if row["control"])
    segment = path / "__consumer_offsets-0" / batch["segment"]
    content = bytearray(segment.read_bytes())
    content[batch["position"] + 65] ^= 1
    segment.write_bytes(content)
    reader = reader_of(path, isolationLevel="read_committed", mode=mode)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert end["__consumer_offsets"] == {"0": 3}
    if mode == "failfast":
        with pytest.raises(CorruptionError, match=segment.name):
            rows_between(reader, start, end)
    else:
        rows = rows_between(reader, start, end)
        assert [row["outcome"] for row in rows if not row["problem"]] == ["open", "plain"]


def test_a_partition_without_a_segment_has_no_open_transaction(path: Path):
    (path / "__consumer_offsets-0").mkdir(parents=True)
    reader = reader_of(path, isolationLevel="read_committed")
    start = reader.initialOffset()
    assert reader.latestOffset(start)["__consumer_offsets"] == {"0": 0}


def test_where_a_stream_begins(path: Path):
    with opened(path, partitions=1) as store:
        churn(store, 20)
        assert reader_of(path).initialOffset()["__consumer_offsets"] == {"0": 0}
        assert reader_of(path, startingOffsets="latest").initialOffset()["__consumer_offsets"] == {"0": 20}
        given = reader_of(path, startingOffsets='{"__consumer_offsets":{"0":7}}')
        assert given.initialOffset() == {"__consumer_offsets": {"0": 7}, "begun": {"0": 20}}
        assert (
            reader_of(path, startingOffsets=json.dumps(given.initialOffset())).initialOffset() == given.initialOffset()
        )
        with pytest.raises(OffsetOutOfRangeError, match="gives log offset 21 for log partition 0, which ends at 20"):
            reader_of(path, startingOffsets='{"0":21}').initialOffset()
        with pytest.raises(ConfigError, match="names log partition 5"):
            reader_of(path, startingOffsets='{"5":0}').initialOffset()
    (segment,) = (path / "__consumer_offsets-0").glob("00000000000000000000.log")
    with pytest.raises(ConfigError, match="not a single segment"):
        reader_of(segment).initialOffset()


def test_the_way_back_of_a_listener_is_a_place_to_start(tmp_path: Path):
    # The answer of `starting_offsets` for log partitions without a position of the group.
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=3) as store:
        for number in range(30):
            store.commit_one(f"group {number}", "orders", 0, number)
    ends = reader_of(path, startingOffsets="latest").initialOffset()["__consumer_offsets"]
    with offsetlog.open(tmp_path / "positions", partitions=1) as positions:
        positions.commit_one("spark-lake", "__consumer_offsets", 0, 2)
        for missing, last in (("earliest", 0), ("latest", ends["2"])):
            given = starting_offsets(positions, "spark-lake", missing=missing, partitions={"__consumer_offsets": 3})
            starts = reader_of(path, startingOffsets=given).initialOffset()["__consumer_offsets"]
            assert (starts["0"], starts["2"]) == (2, last)


def test_a_start_may_name_a_log_partition_without_a_directory(path: Path):
    # `starting_offsets` fills the numbers below the highest; a log partition gets its directory with its first record.
    with opened(path, partitions=3) as store:
        groups = [f"group {number}" for number in range(30)]
        for group in (each for each in groups if store._open_core.number_of(each) != 1):
            store.commit_one(group, "orders", 0, 1)
    assert not (path / "__consumer_offsets-1").exists()
    with pytest.raises(ConfigError, match="names log partition 1"):
        reader_of(path, startingOffsets='{"1":0}').initialOffset()
    readers = [
        reader_of(path, view="records", startingOffsets=f'{{"0":-2,"1":{missing},"2":-2}}') for missing in (-2, -1)
    ]
    starts = [reader.initialOffset() for reader in readers]
    with offsetlog.open(path) as store:
        for group in (each for each in groups if store._open_core.number_of(each) == 1):
            store.commit_one(group, "orders", 0, 1)
    for reader, start in zip(readers, starts, strict=True):
        assert sorted(start["__consumer_offsets"]) == ["0", "2"]
        end = reader.latestOffset(start)
        rows = rows_between(reader, start, end)
        assert len([row for row in rows if row["log_partition"] == 1]) == end["__consumer_offsets"]["1"] > 0


def test_a_query_that_runs_once_ends_where_the_log_ended(path: Path):
    with opened(path, partitions=1) as store:
        churn(store, 20)
        reader = reader_of(path, maxOffsetsPerTrigger=6)
        start = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        churn(store, 20)
        taken = []
        while True:
            end = reader.latestOffset(start, _Rows(6))
            if end == start:
                break
            taken.append(end["__consumer_offsets"]["0"])
            start = end
        assert taken == [6, 12, 18, 20]


def test_what_waits_is_reported_whatever_the_limit(path: Path):
    with opened(path, partitions=1) as store:
        churn(store, 20)
        reader = reader_of(path, maxOffsetsPerTrigger=6)
        start = reader.initialOffset()
        assert reader.reportLatestOffset() is None
        reader.prepareForTriggerAvailableNow()
        churn(store, 5)
        assert reader.latestOffset(start, _Rows(6))["__consumer_offsets"] == {"0": 6}
        assert reader.reportLatestOffset() == {"__consumer_offsets": {"0": 25}, "begun": {}}


def test_the_progress_of_a_query_shows_what_waits(path: Path, tmp_path: Path, spark: SparkSession):
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="Spark 4.2 or later")
    spark.dataSource.register(OffsetlogDataSource)
    with opened(path, partitions=1) as store:
        churn(store, 20)
    rows = spark.readStream.format("offsetlog").option("maxOffsetsPerTrigger", "15").load(str(path))
    writing = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    sources = [each["sources"][0] for each in query.recentProgress if each["numInputRows"]]
    pairs = [(json.loads(each["endOffset"]), json.loads(each["latestOffset"])) for each in sources]
    ends = [(end["__consumer_offsets"]["0"], latest["__consumer_offsets"]["0"]) for end, latest in pairs]
    assert ends == [(15, 20), (20, 20)]


def test_spark_sees_that_it_can_run_once(path: Path):
    admission = pytest.importorskip("pyspark.sql.streaming.datasource", reason="Spark 4.2 or later")
    assert isinstance(reader_of(path), admission.SupportsTriggerAvailableNow)
    assert reader_of(path, maxOffsetsPerTrigger=7).getDefaultReadLimit() == admission.ReadMaxRows(7)
    assert reader_of(path).getDefaultReadLimit() == admission.ReadAllAvailable()


def test_a_limit_is_shared_by_what_waits():
    assert _limited({0: 0, 1: 10}, {0: 5, 1: 10}, 100) == {0: 5, 1: 10}
    for most in range(1, 100):
        ends = _limited({0: 0, 1: 0}, {0: 90, 1: 10}, most)
        assert sum(ends.values()) == most
        assert ends[0] <= 90
        assert ends[1] <= 10


# ------------------------------------------------------------------------------------------------------ killed drivers


class Growing(threading.Thread):
    """Writes, rolls and cleans until it is stopped; the keys of `kept` stand once, so that no clean takes them."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__()
        self.store = opened(path, partitions=3)
        self.kept = 0
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self._generator = random.Random(seed)

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                for _ in range(20):
                    self.store.commit("kept", {TopicPartition("t", self.kept): self.kept})
                    self.kept += 1
                    churn(self.store, self._generator.randrange(3), self._generator.randrange(3))
                if self._generator.random() < 0.2:
                    self.store.compact()
                time.sleep(0.05)
        except BaseException as failure:
            self.failure = failure

    def stop(self) -> int:
        self.ended.set()
        self.join()
        if self.failure is not None:
            raise self.failure
        self.store.close()
        return self.kept


@pytest.fixture
def growing(path: Path) -> Iterator[Growing]:
    thread = Growing(path, SEED)
    thread.start()
    yield thread
    if not thread.ended.is_set():
        thread.stop()


def drive(path: Path, scratch: Path, how: str) -> subprocess.Popen[str]:
    script = Path(__file__).parent / "streaming_process.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [
        sys.executable,
        str(script),
        str(path),
        str(scratch / "out"),
        str(scratch / "checkpoint"),
        str(scratch),
        how,
    ]
    with (scratch / "driver.txt").open("a") as output:
        return subprocess.Popen(
            call, env=environment, text=True, stdout=subprocess.PIPE, stderr=output, start_new_session=True
        )


@pytest.mark.long
def test_killed_drivers_write_every_record_once(path: Path, tmp_path: Path, growing: Growing, spark: SparkSession):
    print(f"seed {SEED}, {KILLS} kills")
    generator = random.Random(SEED)
    for _ in range(KILLS):
        driver = drive(path, tmp_path, "on")
        assert driver.stdout is not None
        assert driver.stdout.readline() == "started\n", (tmp_path / "driver.txt").read_text()[-2000:]
        time.sleep(generator.uniform(0, 6))
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
    written = growing.stop()
    last = drive(path, tmp_path, "once")
    printed, _ = last.communicate(timeout=600)
    assert last.returncode == 0, printed + (tmp_path / "driver.txt").read_text()[-2000:]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    places = [(row["log_partition"], row["log_offset"]) for row in rows]
    assert len(set(places)) == len(places)
    kept = [row for row in rows if row["group"] == "kept"]
    assert sorted(row["partition"] for row in kept) == list(range(written))
    assert all(row["partition"] == row["offset"] for row in kept)


def test_a_batch_is_divided_by_what_it_has_to_read(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Among all cores, as a batch of Spark is, and not by the size of the log."""
    monkeypatch.setattr(plan, "_SPLIT_BYTES_MIN", 1000)
    with opened(path, partitions=1) as store:
        for number in range(400):
            store.commit("g", {TopicPartition("t", number % 7): number})
    read = dataclasses.replace(parse({"path": str(path), "view": "records"}, streaming=True), default_parallelism=5)
    reader = StreamReader(read, full_schema(read))
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    splits = reader.partitions(start, end)
    assert 5 <= len(splits) <= 7
    sizes = [split.split.size for split in splits]
    assert max(sizes) <= 1.5 * sum(sizes) / 5
    assert read_all(reader, splits) == 400
    # The last tenth of it is a tenth of the bytes.
    late = json.loads(json.dumps(end))
    late["__consumer_offsets"]["0"] = 360
    some = reader.partitions(late, end)
    assert 3 <= len(some) <= 7
    assert read_all(reader, some) == 40


def test_a_stream_knows_the_cores_of_the_cluster(path: Path):
    with opened(path) as store:
        store.commit("g", {TopicPartition("t", 0): 1})

    class OfACluster(OffsetlogDataSource):
        default_parallelism = 24

    source = OfACluster({"path": str(path), "columns": "group"})
    reader = source.streamReader(StructType([StructField("group", StringType())]))
    assert reader._read.default_parallelism == 24
