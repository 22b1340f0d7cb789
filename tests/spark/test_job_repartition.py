"""Moving a log to another number of partitions: nothing is lost, and what it means stays what it was."""

from __future__ import annotations

import contextlib
import json
import random
from collections import defaultdict

import pyarrow as pa
import pytest

from offsetlog._native.codec import partition_for
from offsetlog._native.scan import SegmentScan, outcomes_of
from offsetlog.errors import TornTailError
from offsetlog.spark.jobs import repartition
from offsetlog.spark.jobs.tasks.partition_writing import (
    ENDED,
    MARKER,
    OPEN,
    PLAIN,
    SCHEMA,
    ProducerIds,
    RowsWriter,
    Settings,
)
from offsetlog.spark.jobs.tasks.surveying import survey_partition
from tests.conformance.scenarios import SCENARIOS
from tests.spark.moving_logs import TOPIC, RandomLog, all_rows

pytestmark = pytest.mark.spark


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
    """What happened to each group: its records and their outcomes, in their order."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"])):
        if row["group"] is not None:
            kept = ("key", "value", "timestamp", "outcome", "header_keys", "delete_horizon")
            # Before magic 1 there were no times: -1 is that of a client then.
            by_broker = row["timestamp_type"] == "LogAppendTime"
            found[row["group"]].append([by_broker, *(row[name] for name in kept)])
    return found


def pending(rows):
    """What is open, and whose it is."""
    names = ("producer_id", "producer_epoch", "key", "value")
    return sorted(repr([row[name] for name in names]) for row in rows if row["outcome"] == "open")


def told_sum(told, name):
    return sum(each[name] for each in told)


def told_digest(told):
    return repartition._digest((each["positions"], each["group_records"], each["pending"]) for each in told)


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
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost(tmp_path, before, after, seed):
    log = RandomLog(tmp_path / "old", before, seed, records=60 if before < 10 else 12, groups=12 if before < 10 else 60)
    rows = all_rows(log.path)
    chance = random.Random(seed)
    settings = settings_of(log.path, tmp_path, after, segment_bytes=chance.choice([4096, 5000, 1 << 20]))
    told = write(planned(rows, after), tmp_path / "new", settings, lambda: chance.choice([1, 3, 50]))

    there = all_rows(tmp_path / "new")
    assert digest_of(tmp_path / "new") == digest_of(log.path) == told_digest(told)
    assert story(there) == story(rows)
    assert pending(there) == pending(rows)
    assert all(partition_for(row["group"], after) == row["log_partition"] for row in there if row["group"])
    assert told_sum(told, "records") == len(there)


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
            # What a crash left behind the end is no record.
            with scan, contextlib.suppress(TornTailError):
                while (batch := scan.read()) is not None:
                    rows += batch.to_pylist()
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
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
