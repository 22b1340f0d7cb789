"""Lag: at a moment and over time, with what is wrong in a column instead of a negative number."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import Future
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, TopicPartition, errors
from offsetlog.cli.spark.session import own_failures
from offsetlog.spark.jobs import lag as job
from offsetlog.spark.jobs import lag_ends

from .frames import COMMITS, RECORDS, frame, tuples_of
from .oracle_rows import record_rows

ENDS = "topic string, partition int, log_start_offset bigint, log_end_offset bigint, timestamp bigint"


def test_lag_now(spark):
    offsets = frame(
        spark,
        [
            {"partition": 0, "offset": 40},
            {"partition": 1, "offset": 120},
            {"partition": 2, "offset": 3},
            {"partition": 3, "offset": 7},
            {"partition": 4, "offset": 50},
            {"partition": 5, "offset": -1},
        ],
        COMMITS,
    )
    ends = spark.createDataFrame(
        [
            ("t", 0, 0, 90, 1),
            ("t", 0, 0, 100, 2),
            ("t", 1, 0, 100, 1),
            ("t", 2, 10, 100, 1),
            ("t", 4, None, 50, None),
            ("t", 5, 10, 100, 1),
        ],
        ENDS,
    )
    names = ["partition", "committed", "log_end_offset", "lag", "beyond_end", "lost", "problem"]
    found = job.lag(offsets, ends)
    assert tuples_of(found, *names) == [
        (0, 40, 100, 60, 0, 0, None),
        (1, 120, 100, 0, 20, 0, "beyond the end"),
        (2, 3, 100, 97, 0, 7, "below the start"),
        (3, 7, None, None, None, None, "no end offset"),
        (4, 50, 50, 0, 0, None, None),
        (5, -1, 100, None, None, None, "negative offset"),
    ]
    sums = ["group", "topic", "partitions", "lag", "most", "beyond_end", "lost", "without_end"]
    assert tuples_of(job.by_topic(found), *sums) == [("g", "t", 6, 157, 97, 1, 1, 1)]


def test_lag_over_time(spark):
    commit = {"kind": "offset_commit", "key": b"k", "value": b"v"}
    rows = [
        {**commit, "offset": 10, "timestamp": 100},
        {**commit, "offset": 20, "timestamp": 200},
        # A clock that went back: the record belongs to the time of what stands before it.
        {**commit, "offset": 25, "timestamp": 150},
        {**commit, "offset": 30, "timestamp": 300, "outcome": "committed", "marker_offset": 5, "producer_id": 1},
        {**commit, "offset": 5, "timestamp": 300, "partition": 1},
        {"kind": "control", "control": "COMMIT", "timestamp": 400, "group": None, "topic": None, "partition": None},
        {**commit, "value": None, "timestamp": 500, "partition": 1},
    ]
    ends = spark.createDataFrame(
        [("t", 0, 0, 15, 100), ("t", 0, 0, 28, 250), ("t", 1, 0, 9, 350), ("t", 0, 0, 99, None)], ENDS
    )
    records = frame(spark, rows, RECORDS)
    found = job.lag_over_time(records, ends, job.moments(spark, [99, 100, 199, 200, 300, 399, 400, 500]))
    assert tuples_of(found, "time", "partition", "committed", "log_end_offset", "end_timestamp", "lag", "problem") == [
        (100, 0, 10, 15, 100, 5, None),
        (199, 0, 10, 15, 100, 5, None),
        (200, 0, 25, 15, 100, 0, "beyond the end"),
        (300, 0, 25, 28, 250, 3, None),
        (300, 1, 5, None, None, None, "no end offset"),
        (399, 0, 25, 28, 250, 3, None),
        (399, 1, 5, 9, 350, 4, None),
        (400, 0, 30, 28, 250, 0, "beyond the end"),
        (400, 1, 5, 9, 350, 4, None),
        (500, 0, 30, 28, 250, 0, "beyond the end"),
    ]


def test_a_random_store_over_time(spark, tmp_path):
    chance, moments = random.Random(5), []
    keys = [TopicPartition("t", number) for number in range(3)]
    with offsetlog.open(tmp_path, 2, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        for number in range(80):
            group = f"g{chance.randrange(3)}"
            if chance.random() < 0.15:
                store.delete(group, [chance.choice(keys)])
            elif chance.random() < 0.3:
                with store.transaction(group, 100) as transaction:
                    transaction.commit({chance.choice(keys): number})
                    store.commit(group, {chance.choice(keys): number + 1000})
            else:
                store.commit(group, {chance.choice(keys): number})
            if number % 10 == 9:
                time.sleep(0.003)
                moments.append(time.time_ns() // 1_000_000 - 1)
        expected = []
        for moment in moments:
            at = datetime.fromtimestamp(moment / 1000, UTC)
            for group in ("g0", "g1", "g2"):
                answer = store.fetch(group, at=at)
                expected += [(moment, group, key.partition, value.offset) for key, value in answer.items()]
    records = frame(spark, record_rows(tmp_path), RECORDS)
    found = job.committed_at(records, job.moments(spark, moments))
    assert tuples_of(found, "time", "group", "partition", "committed") == sorted(expected)


def test_moments(spark):
    assert job.every(1500, 4200, 1000) == [2000, 3000, 4000, 5000]
    assert job.every(1000, 1000, 1000) == [1000]
    for wrong in ((0, 10, 0), (0, 10**9, 1)):
        with pytest.raises(errors.InvalidArgumentError):
            job.every(*wrong)
    with pytest.raises(errors.InvalidArgumentError):
        job.moments(spark, [])


def test_samples_from_files(spark, tmp_path):
    rows = [{"topic": "t", "partition": 0, "log_end_offset": 7, "timestamp": 1000}]
    (tmp_path / "ends.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "ends.csv").write_text("partition,topic,log_end_offset,timestamp\n0,t,7,1970-01-01T00:00:01\n")
    for name in ("ends.jsonl", "ends.csv"):
        found = lag_ends.of_samples(spark, str(tmp_path / name))
        assert found.columns == lag_ends.SCHEMA.names
        assert tuples_of(found, *found.columns) == [("t", 0, None, 7, 1000)]
    # A topic that looks like a number is none, and a time may be either in the same column.
    (tmp_path / "digits.csv").write_text(
        "topic,partition,log_end_offset,timestamp\n007,0,7,1970-01-01T00:00:01Z\n1.10,1,8,2000\n1e3,2,9,\n"
    )
    (tmp_path / "digits.jsonl").write_text(
        '{"topic": "007", "partition": 0, "log_end_offset": 7, "timestamp": "1970-01-01T00:00:01Z"}\n'
        '{"topic": "1.10", "partition": 1, "log_end_offset": "8", "timestamp": 2000}\n'
        '{"topic": "1e3", "partition": 2, "log_end_offset": 9}\n'
    )
    for name in ("digits.csv", "digits.jsonl"):
        found = lag_ends.of_samples(spark, str(tmp_path / name))
        assert tuples_of(found, "topic", "log_end_offset", "timestamp") == [
            ("007", 7, 1000),
            ("1.10", 8, 2000),
            ("1e3", 9, None),
        ]
    (tmp_path / "wrong.csv").write_text("topic,partition\nt,0\n")
    with pytest.raises(errors.InvalidArgumentError, match="lack the columns log_end_offset"):
        lag_ends.of_samples(spark, str(tmp_path / "wrong.csv"))
    for line, why in (("t,x,3", "partition 'x'"), ("t,0,many", "log_end_offset 'many'")):
        (tmp_path / "word.csv").write_text(f"topic,partition,log_end_offset\nt,0,7\n{line}\n")
        with pytest.raises(errors.InvalidArgumentError, match=f"{why} is not a number; the row contains") as caught:
            lag_ends.of_samples(spark, str(tmp_path / "word.csv"))
        assert caught.value.path == str(tmp_path / "word.csv")
    # A line that cannot be read is reported, and not left out.
    (tmp_path / "cut.jsonl").write_text(json.dumps(rows[0]) + '\n{"topic": "t", "parti')
    (tmp_path / "cut.csv").write_text("topic,partition,log_end_offset\nt,0,7\nt\n")
    for name in ("cut.jsonl", "cut.csv"):
        with pytest.raises(errors.OffsetLogError), own_failures():
            lag_ends.of_samples(spark, str(tmp_path / name)).collect()


def test_ends_from_directories(spark, tmp_path):
    # Any topic's log is as good as another: here that of the offsets themselves.
    with offsetlog.open(tmp_path, 2, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        for number in range(5):
            position = store.commit("g", {TopicPartition("t", 0): number})
    (tmp_path / "empty-3").mkdir()
    (tmp_path / "orders-7").mkdir()
    (tmp_path / "orders-7" / f"{120:020}.log").touch()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\n__consumer_offsets 1 2\n")
    ends = lag_ends.of_directories(spark, [tmp_path])
    found = tuples_of(ends, "topic", "partition", "log_start_offset", "log_end_offset")
    assert found == [
        ("__consumer_offsets", position.log_partition, 2 * position.log_partition, position.log_offset + 1),
        ("orders", 7, 120, 120),
    ]
    with pytest.raises(errors.MissingFileError):
        lag_ends.of_directories(spark, [tmp_path / "none"])


def test_of_replicas_the_highest_end_counts(spark, tmp_path):
    for name, end in (("ahead", 120), ("behind", 50)):
        (tmp_path / name / "t-0").mkdir(parents=True)
        (tmp_path / name / "t-0" / f"{end:020}.log").touch()
    ends = lag_ends.of_directories(spark, [tmp_path / "ahead", tmp_path / "behind"])
    times = {row.timestamp for row in ends.collect()}
    assert len(times) == 1
    assert tuples_of(job.lag(frame(spark, [{"offset": 20}], COMMITS), ends), "log_end_offset", "lag") == [(120, 100)]


def test_ends_from_a_cluster(spark):
    pytest.importorskip("confluent_kafka")
    expected = r"127\.0\.0\.1:1 did not return the log end offsets.*check that a broker listens there"
    with pytest.raises(errors.StorageError, match=expected):
        lag_ends.of_broker(spark, [("t", 0)], {"bootstrap.servers": "127.0.0.1:1"}, timeout=1)
    # librdkafka's own cluster in process, which has no topic.
    assert lag_ends.of_broker(spark, [("t", 0), ("t", 1)], {"test.mock.num.brokers": "1"}).collect() == []
    assert lag_ends.of_broker(spark, [], {"bootstrap.servers": "127.0.0.1:1"}).collect() == []


def test_what_a_cluster_answers(spark, monkeypatch):
    kafka = pytest.importorskip("confluent_kafka")

    class Client:
        def __init__(self, config):
            assert config["bootstrap.servers"] == "there:9092"

        def list_offsets(self, requests, request_timeout):
            found = {}
            for key, spec in requests.items():
                future = found[key] = Future()
                if key.topic == "none":
                    future.set_exception(kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)))
                else:
                    future.set_result(SimpleNamespace(offset=100 if spec._value == -1 else 7))
            return found

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", Client)
    found = lag_ends.of_broker(spark, [("t", 1), ("none", 0)], {"bootstrap.servers": "there:9092"})
    assert tuples_of(found, "topic", "partition", "log_start_offset", "log_end_offset") == [("t", 1, 7, 100)]
