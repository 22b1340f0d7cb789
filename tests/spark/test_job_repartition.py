"""Moving a log to another number of partitions: nothing is lost, and what it means stays what it was."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from depth import by_depth

import offsetlog
from offsetlog._native.codec import partition_for
from offsetlog._native.encoding import encode_batch
from offsetlog._native.scan import SegmentScan, outcomes_of
from offsetlog.errors import (
    ConfigError,
    CorruptionError,
    HistoryError,
    InvalidArgumentError,
    MissingFileError,
    PartitionCountError,
    TornTailError,
    TransactionError,
)
from offsetlog.spark.jobs import repartition
from offsetlog.spark.jobs.tasks import surveying
from offsetlog.spark.jobs.tasks.partition_writing import (
    ENDED,
    MARKER,
    OPEN,
    PLAIN,
    SCHEMA,
    ProducerIds,
    RowsWriter,
    Settings,
    _Writer,
)
from offsetlog.spark.jobs.tasks.surveying import Survey, survey_partition
from offsetlog.spark.source import register
from offsetlog.types import TopicPartition
from tests.conformance.scenarios import SCENARIOS
from tests.spark.moving_logs import START_MS, TOPIC, RandomLog, all_rows, key_of, marker, rows_of, value_of

pytestmark = [pytest.mark.spark, pytest.mark.ci]


def planned(rows, partitions):
    """The rows in the order of the new partitions, one by one: what the job says in Spark's words."""
    latest, found, targets, batches = {}, [], defaultdict(set), defaultdict(list)
    for row in rows:
        batches[row["log_partition"], row["base_offset"]].append(row["timestamp"])
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"])):
        number = row["log_partition"]
        latest[number] = max(latest.get(number, -1), *batches[number, row["base_offset"]])
        if row["control"] is None:
            target = number % partitions if row["group"] is None else partition_for(row["group"], partitions)
            targets[number, row["marker_offset"]].add(target)
            goes_to = [target]
        else:
            goes_to = sorted(targets[number, row["log_offset"]])
        standing = PLAIN
        if row["control"] is not None:
            standing = MARKER
        elif row["transactional"]:
            standing = OPEN if row["marker_offset"] is None else ENDED
        found += [
            {
                **row,
                "target": target,
                "order_time": latest[number],
                "own": int("ol.transaction" in row["header_keys"]),
                "standing": standing,
                "log_append_time": int(row["timestamp_type"] == "LogAppendTime"),
                "leader_epoch": row["batch_leader_epoch"],
                "delete_horizon": -1 if row["delete_horizon"] is None else row["delete_horizon"],
            }
            for target in goes_to
        ]
    found.sort(key=lambda row: (row["target"], row["order_time"], row["log_partition"], row["log_offset"]))
    return found


def surveys(path):
    folders = sorted(path.glob(f"{TOPIC}-*"))
    return [survey_partition(str(folder), int(folder.name.rpartition("-")[2])) for folder in folders]


def digest_of(path):
    return repartition._digest(each.digest for each in surveys(path))


def story(rows):
    """Returns the history of each group: its records and their outcomes, in their order."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"])):
        if row["group"] is not None:
            kept = ("key", "value", "timestamp", "outcome", "header_keys", "delete_horizon")
            # Before magic 1 there were no times: -1 is that of a client then.
            by_broker = row["timestamp_type"] == "LogAppendTime"
            found[row["group"]].append([by_broker, *(row[name] for name in kept)])
    return found


def pending(rows):
    """Returns the open records with their producers."""
    names = ("producer_id", "producer_epoch", "key", "value")
    return sorted(repr([row[name] for name in names]) for row in rows if row["outcome"] == "open")


def sum_of(parts, name):
    return sum(each[name] for each in parts)


def digest_of_parts(parts):
    return repartition._digest((each["positions"], each["group_records"], each["pending"]) for each in parts)


def settings_of(path, target, partitions, **given):
    held_open = repartition.check_surveys(surveys(path), partitions)
    return Settings(str(target), given.pop("segment_bytes", 1 << 20), held_open=held_open, **given)


def write(rows, folder, settings, sizes):
    writer = RowsWriter(folder, settings)
    table = pa.Table.from_pylist(rows, schema=SCHEMA).combine_chunks()
    at = 0
    while at < len(rows):
        size = sizes()
        for batch in table.slice(at, size).to_batches():
            writer.write(batch)
        at += size
    return writer.finish()


@pytest.mark.parametrize(("before", "after"), [(1, 5), (4, 3), (3, 4), (7, 1), (2, 2), (50, 3)])
@pytest.mark.parametrize("seed", range(by_depth(gate=1, long=4)))
def test_nothing_is_lost(tmp_path, before, after, seed):
    log = RandomLog(tmp_path / "old", before, seed, records=60 if before < 10 else 12, groups=12 if before < 10 else 60)
    rows = all_rows(log.path)
    chance = random.Random(seed)
    settings = settings_of(log.path, tmp_path, after, segment_bytes=chance.choice([4096, 5000, 1 << 20]))
    parts = write(planned(rows, after), tmp_path / "new", settings, lambda: chance.choice([1, 3, 50]))

    there = all_rows(tmp_path / "new")
    assert digest_of(tmp_path / "new") == digest_of(log.path) == digest_of_parts(parts)
    assert story(there) == story(rows)
    assert pending(there) == pending(rows)
    assert all(partition_for(row["group"], after) == row["log_partition"] for row in there if row["group"])
    assert sum_of(parts, "records") == len(there)


def scanned(path):
    """The rows of the view "records" as the engine reads them: any magic, any codec."""
    rows = []
    for folder in path.glob(f"{TOPIC}-*"):
        number = int(folder.name.rpartition("-")[2])
        files = sorted(folder.glob("*.log"))
        outcomes = outcomes_of([(file, 0, file.stat().st_size) for file in files])
        end = survey_partition(str(folder), number).end
        for file in files:
            columns = repartition.RECORD_COLUMNS
            scan = SegmentScan(file, "records", columns, log_partition=number, outcomes=outcomes, until=end)
            # Bytes that a crash left after the end are no record.
            with scan, contextlib.suppress(TornTailError):
                while (batch := scan.read()) is not None:
                    rows += batch.to_pylist()
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


#: One of each kind of log; the full depth takes all.
KINDS = {"compacted", "crash", "groups", "txn", "0.8.2.2", "0.9.0.1-gzip", "upgraded-compacted"}
CHOSEN = by_depth(gate=[each for each in SCENARIOS if each.name.split("/")[-1] in KINDS], long=SCENARIOS)


@pytest.mark.parametrize("scenario", CHOSEN, ids=lambda scenario: scenario.name)
def test_what_brokers_wrote(tmp_path, scenario):
    after = 1 + len(scenario.name) % 7
    rows = scanned(scenario.log)
    settings = settings_of(scenario.log, tmp_path, after, floors={0: 5})
    write(planned(rows, after), tmp_path / "new", settings, lambda: 97)
    there = scanned(tmp_path / "new")
    assert digest_of(tmp_path / "new") == digest_of(scenario.log)
    assert story(there) == story(rows)
    assert pending(there) == pending(rows)


def test_of_two_transactions_of_one_producer_the_second_gets_another_id():
    ids = ProducerIds({})
    assert ids.take(0, 7, ENDED) == 7
    renamed = ids.take(1, 7, ENDED)
    assert renamed not in {7, -1}
    assert ids.take(1, 7, ENDED) == renamed
    assert ids.end(1, 7) == renamed
    assert ids.end(0, 7) == 7
    assert ids.take(1, 7, ENDED) == 7
    assert ids.end(0, 7) is None
    assert ids.renamed == 1


def test_an_open_transaction_keeps_its_id():
    ids = ProducerIds({7: [1]})
    ended = ids.take(0, 7, ENDED)
    assert ended != 7
    assert ids.take(1, 7, OPEN) == 7
    assert ids.end(0, 7) == ended


def test_ids_of_our_own_stay_among_our_own():
    own = (1 << 62) + 5
    ids = ProducerIds({})
    assert ids.take(0, own, ENDED) == own
    assert ids.take(1, own, ENDED) > own
    assert ids.take(0, 5, ENDED) == 5
    assert 5 < ids.take(1, 5, ENDED) < 1 << 62


def test_settings_come_home_whole():
    settings = Settings("there", 100, "00ff", {0: 5, 1: 0}, {4000: [0, 1]}, True)
    assert Settings.from_json(settings.to_json()) == settings
    assert json.loads(settings.to_json())["floors"] == {"0": 5, "1": 0}


# ------------------------------------------------------------------------------------------------ on Spark


@pytest.fixture(scope="module")
def moved(spark, tmp_path_factory):
    """A log of seven partitions moved to three, with its history and without."""
    register(spark)
    folder = tmp_path_factory.mktemp("moved")
    log = RandomLog(folder / "old", 7, 3)
    (log.path / "meta.properties").write_text("version=1\ncluster.id=one\nnode.id=1\ndirectory.id=two\n")
    history = repartition.run(spark, log.path, folder / "history", 3, segment_bytes=8192)
    state = repartition.run(spark, log.path, folder / "state", 2, keep="state")
    return folder, history, state


def test_the_job_keeps_every_record(moved):
    folder, history, _ = moved
    rows, there = all_rows(folder / "old"), all_rows(folder / "history")
    assert story(there) == story(rows)
    assert pending(there) == pending(rows)
    data = [row for row in rows if row["control"] is None]
    markers = [row for row in there if row["control"] is not None]
    assert len(there) == len(data) + len(markers) == history.records
    assert history.markers == len(markers) >= len(rows) - len(data)
    assert history.renamed > 0
    assert history.digest == digest_of(folder / "old") == digest_of(folder / "history")
    assert (history.before, history.after) == (7, 3)
    # The order is the one that is planned.
    assert [row["key"] for row in there] == [row["key"] for row in planned(rows, 3)]


def test_a_state_alone(moved):
    folder, _, state = moved
    assert state.digest == digest_of(folder / "old") == digest_of(folder / "state")
    there = all_rows(folder / "state")
    assert pending(there)
    assert not [row for row in there if row["outcome"] in {"committed", "aborted"} or row["control"]]
    keys = [(row["key"], row["producer_id"]) for row in there if row["outcome"] == "plain"]
    assert len(keys) == len(set(keys)) or any(row["kind"] == "unknown" for row in there)


def test_the_engine_opens_it(moved):
    folder, history, _ = moved
    for name, count in (("history", 3), ("state", 2)):
        assert (folder / name / "meta.properties").read_text() == (folder / "old" / "meta.properties").read_text()
        assert not list(folder.glob("*.partial"))
        with offsetlog.open(folder / name) as store:
            assert store.partitions == count
            assert store.digest() == history.digest
            assert not store.problems()
            assert not store.verify()
            assert len(store.transactions()) > 0
            store.commit("group-1", {TopicPartition("orders", 0): 12345})


def test_the_past_is_reported_as_before(moved):
    folder, _, _ = moved
    moment = datetime.fromtimestamp((START_MS + 200) / 1000, UTC)
    with (
        offsetlog.open(folder / "old", partitions=7, read_only=True) as old,
        offsetlog.open(folder / "history", read_only=True) as new,
        offsetlog.open(folder / "state", read_only=True) as state,
    ):
        for group in old.groups():
            assert new.fetch(group, at=moment) == old.fetch(group, at=moment), group
        assert any(old.fetch(group, at=moment) for group in old.groups())
        # Without its history a log does not claim to know what was.
        with pytest.raises(HistoryError):
            state.fetch("group-1", at=moment)


def test_what_cannot_be_is_refused_and_leaves_nothing(spark, tmp_path):
    register(spark)
    log = RandomLog(tmp_path / "old", 2, 1, records=10)
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="already"):
        repartition.run(spark, log.path, tmp_path / "there", 3)
    with pytest.raises(InvalidArgumentError):
        repartition.run(spark, log.path, tmp_path / "new", 0)
    with pytest.raises(InvalidArgumentError, match="share"):
        repartition.run(spark, "s3://bucket/old", tmp_path / "new", 3)
    strange = "group-0" if partition_for("group-0", 2) == 1 else "group-1"
    place = tmp_path / "old" / f"{TOPIC}-0" / f"{0:020d}.log"
    end = len(rows_of(log.path, 0))
    misplaced = encode_batch(end, START_MS, [(key_of(strange, "orders", 0), value_of(1, START_MS))])
    before = place.read_bytes()
    place.write_bytes(before + misplaced)
    with pytest.raises(PartitionCountError, match=strange):
        repartition.run(spark, log.path, tmp_path / "new", 3)
    place.write_bytes(before[:30] + b"\xff" + before[31:] + misplaced)
    with pytest.raises(CorruptionError, match="log partition 0 is damaged"):
        repartition.run(spark, log.path, tmp_path / "new", 3)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["old", "there"]


def test_two_open_transactions_that_would_become_one():
    first, second = Survey(0, open=[(7, 1, ["a"])]), Survey(1, open=[(7, 2, ["b"])])
    message = (
        "producer 7 has two open transactions, with epoch 1 in log partition 0 and with epoch 2 in log partition 1"
    )
    with pytest.raises(TransactionError, match=message):
        repartition.check_surveys([first, second], 1)
    # Where they do not meet, or are the same, they stay.
    same = Survey(2, open=[(7, 1, ["c"])])
    assert repartition.check_surveys([first, same], 1) == {7: [0, 2]}


# ---------------------------------------------------------------------------------------------- what happens meanwhile


def end_transactions(log, surveys):
    """Writes the COMMIT of every open transaction at the end of each log."""
    for each in surveys:
        end = each.end
        with (log.path / f"{TOPIC}-{each.number}" / f"{0:020d}.log").open("ab") as file:
            for producer_id, epoch, _ in each.open:
                file.write(marker(end, START_MS + 10_000, producer_id, epoch, True))
                end += 1


@pytest.mark.parametrize("keep", ["history", "state"])
def test_a_transaction_that_ends_while_the_job_runs_is_open(spark, tmp_path, monkeypatch, keep):
    register(spark)
    log = RandomLog(tmp_path / "old", 3, 5, records=20)
    before = digest_of(log.path)
    asked = repartition.survey

    def survey(*arguments):
        found, findings = asked(*arguments)
        assert any(each.open for each in found)
        end_transactions(log, found)
        return found, findings

    monkeypatch.setattr(repartition, "survey", survey)
    done = repartition.run(spark, log.path, tmp_path / "new", 2, keep=keep)
    assert done.digest == before == digest_of(tmp_path / "new") != digest_of(log.path)
    assert pending(all_rows(tmp_path / "new"))


def swapped(path):
    """A log of two segments whose cleaner was killed: the new first segment does not have its name yet."""
    folder = path / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    first = [(key_of("a", "orders", 0), value_of(1, START_MS)), (key_of("b", "orders", 0), value_of(2, START_MS))]
    (folder / f"{0:020d}.log.swap").write_bytes(encode_batch(0, START_MS, first))
    (folder / f"{0:020d}.log.deleted").write_bytes(encode_batch(0, START_MS, first[:1]))
    second = [(key_of("c", "orders", 0), value_of(3, START_MS))]
    (folder / f"{2:020d}.log").write_bytes(encode_batch(2, START_MS, second))
    return path


def test_a_swap_that_a_crash_ended_is_read_as_the_engine_finishes_it(spark, tmp_path):
    register(spark)
    path = swapped(tmp_path / "old")
    done = repartition.run(spark, path, tmp_path / "new", 2)
    assert done.records == 3
    with offsetlog.open(tmp_path / "new") as new, offsetlog.open(path, 1) as old:
        assert new.digest() == old.digest() == done.digest
        assert sorted(new.groups()) == ["a", "b", "c"]


def test_a_survey_looks_again_where_the_cleaner_took_a_segment(tmp_path, monkeypatch):
    log = RandomLog(tmp_path / "old", 1, 1, records=10)
    folder = log.path / f"{TOPIC}-0"
    listed = surveying.list_segments
    tries = []

    def list_segments(files, directory):
        tries.append(directory)
        found = listed(files, directory)
        return tuple(replace(each, path=f"{each.path}.gone") for each in found) if len(tries) == 1 else found

    monkeypatch.setattr(surveying, "list_segments", list_segments)
    assert survey_partition(str(folder), 0).records == len(rows_of(log.path, 0))
    assert len(tries) == 2


class _Filled:
    """A replay that meets the zeros of a place once, which is filled when it looks again."""

    def __init__(self, places):
        self.places = places
        self.next_offset = 0

    def apply(self, path, *, position=0):
        return {"damage": "torn" if self.places and self.places.pop(0) else None, "position": 100}

    def skip(self, path, position):
        return 200


@pytest.mark.parametrize(("places", "damages"), [([1], 0), ([1, 1], 0), ([1, 1, 1], 1)])
def test_a_place_that_a_writer_fills_is_no_damage(places, damages):
    found = Survey(0)
    surveying._apply(_Filled(places), "there", found, is_last=True)
    assert len(found.damages) == damages


def test_the_end_of_a_log_of_which_everything_was_cleaned(tmp_path):
    folder = tmp_path / f"{TOPIC}-0"
    folder.mkdir()
    (folder / f"{7:020d}.log").touch()
    found = survey_partition(str(folder), 0)
    assert (found.end, found.records, found.gaps) == (7, 0, True)


def test_a_copy_whose_tail_is_missing_is_refused(spark, tmp_path):
    register(spark)
    log = RandomLog(tmp_path / "old", 2, 1, records=10)
    end = survey_partition(str(log.path / f"{TOPIC}-1"), 1).end
    (log.path / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 1 {end + 5}\n")
    reaches = f"the checkpoint says that the log reaches log offset {end + 5}"
    refused = f"log partition 1: {reaches}, but the log ends at log offset {end}"
    with pytest.raises(CorruptionError, match=refused):
        repartition.run(spark, log.path, tmp_path / "new", 3)
    assert [each.name for each in tmp_path.iterdir()] == ["old"]


# ------------------------------------------------------------------------------------------------ where it is written


def test_the_places_of_a_repartition(tmp_path):
    log = RandomLog(tmp_path / "old", 2, 1, records=5).path
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(log)
    for source, target, error, reason in [
        (tmp_path / "none", tmp_path / "new", MissingFileError, "no such file or directory"),
        (tmp_path / "empty", tmp_path / "new", MissingFileError, "no partition of"),
        (log / f"{TOPIC}-0", tmp_path / "new", InvalidArgumentError, "partition directory"),
        (log, log / "new", InvalidArgumentError, "must be outside the log"),
        (log, tmp_path / "link" / "new", InvalidArgumentError, "must be outside the log"),
        (f"file://{log}", f"file:{log}/new", InvalidArgumentError, "must be outside the log"),
        (log, tmp_path / "empty", ConfigError, "already"),
        ("hdfs://host/old", tmp_path / "new", InvalidArgumentError, "share"),
        (log, "s3://bucket/new", InvalidArgumentError, "share"),
    ]:
        with pytest.raises(error, match=reason):
            repartition.check(source, target, 3)
    with pytest.raises(InvalidArgumentError):
        repartition.check(log, tmp_path / "new", 100_001)
    assert repartition.check(log, tmp_path / "new", 3).path == log


def test_what_a_killed_run_left_is_replaced_and_what_another_run_is_at_is_not(tmp_path):
    target = tmp_path / "new"
    building, lock = repartition._begin(target)
    (building / "attempt-1").mkdir()
    (building / repartition.REPORT).write_text("[]")
    call = "import sys; from offsetlog.spark.jobs import repartition; repartition._begin(repartition.Path(sys.argv[1]))"
    other = subprocess.run([sys.executable, "-c", call, target], capture_output=True, text=True, check=False)
    assert "LockedError" in other.stderr
    assert (building / "attempt-1").exists()
    lock.close()
    building, lock = repartition._begin(target)
    assert [each.name for each in building.iterdir()] == [repartition.BUILDING]
    lock.close()
    (building / repartition.BUILDING).unlink()
    with pytest.raises(ConfigError, match="that no repartition made"):
        repartition._begin(target)


def test_an_attempt_that_outlives_its_job_makes_nothing(tmp_path):
    settings = Settings(str(tmp_path / "gone.partial"), 1 << 20)
    with pytest.raises(FileNotFoundError):
        _Writer(settings.to_json()).write(iter([]))
    assert not list(tmp_path.iterdir())
