"""The listener: what it makes of Spark's reports, and how its commits survive a target that does not take them."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition, errors
from offsetlog.spark import OffsetCommitListener, held_stores, source_topic, starting_offsets
from offsetlog.spark.committer import PositionCommitter
from offsetlog.spark.targets import StoreTarget, Target, is_bootstrap, make_target

from .shaped_source import ShapedSource

KAFKA = "KafkaV2[Subscribe[orders]]"
FILES = "FileStreamSource[file:/data/in]"
ORDERS = [TopicPartition("orders", number) for number in range(4)]
QUICK = {"interval_seconds": 0.0, "back_off_seconds": (0.01, 0.05)}


class Answers(Target):
    """A target that keeps the positions it takes, and fails on demand."""

    def __init__(self, *, kafka_only: bool = False) -> None:
        self.kafka_only = kafka_only
        self.committed: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.calls: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.refusing: dict[TopicPartition, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.attempted = threading.Event()
        self.closed = 0

    def commit(self, group, positions):
        self.attempted.set()
        self.gate.wait(30)
        self.calls.append(group)
        if group in self.failing:
            raise self.failing[group]
        refused = {key: self.refusing[key] for key in positions if key in self.refusing}
        taken = {key: value for key, value in positions.items() if key not in refused}
        self.committed.setdefault(group, {}).update(taken)
        return refused

    def fetch(self, group):
        return self.committed.get(group, {})

    def partitions_of(self, topics):
        return None

    def close(self):
        self.closed += 1

    def offsets(self, group="g"):
        return {(key.topic, key.partition): value.offset for key, value in self.committed.get(group, {}).items()}


@pytest.fixture
def target():
    return Answers()


@pytest.fixture
def listen(target):
    """`listen(group, **settings) -> OffsetCommitListener` on the target, closed after the test."""
    made = []

    def listen(group="g", *, at=target, **settings):
        made.append(OffsetCommitListener(at, group, **{**QUICK, **settings}))
        return made[-1]

    yield listen
    for listener in made:
        target.gate.set()
        listener.close(1)


def started(query="q", run="r1", name=None):
    return SimpleNamespace(id=query, runId=run, name=name)


def progress(batch, *sources, query="q", run="r1", name=None):
    progresses = [SimpleNamespace(description=description, endOffset=offset) for description, offset in sources]
    return SimpleNamespace(progress=SimpleNamespace(id=query, runId=run, name=name, batchId=batch, sources=progresses))


def orders(*offsets, source=KAFKA):
    return source, json.dumps({"orders": {str(number): offset for number, offset in enumerate(offsets)}})


# ------------------------------------------------------------------------------------------------------ what counts


def test_the_end_offsets_of_every_source_are_committed(listen, target):
    listener = listen()
    listener.onQueryProgress(progress(3, orders(7, 9), (FILES, '{"logOffset":4}'), ("Rate@1f", "12"), name="lake"))
    assert listener.flush(10)
    assert target.offsets() == {
        ("orders", 0): 7,
        ("orders", 1): 9,
        ("FileStreamSource_file_data_in", 0): 5,
        ("Rate", 0): 12,
    }
    assert json.loads(target.committed["g"][ORDERS[0]].metadata) == {"query": "lake", "id": "q", "batch": 3}
    assert (listener.failures, listener.last_error, listener.pending, listener.commits) == ((), None, {}, 1)


def test_what_is_no_position_is_left_out_and_reported_once(listen, target, caplog):
    listener = listen(at=(cluster := Answers(kafka_only=True)))
    delta = ("DeltaSource[x]", '{"reservoirVersion":5}')
    with caplog.at_level(logging.WARNING, "offsetlog.spark"):
        for batch in range(3):
            listener.onQueryProgress(progress(batch, orders(batch), (FILES, '{"logOffset":4}'), delta))
    assert listener.flush(10)
    assert cluster.offsets() == {("orders", 0): 2}
    assert [record.getMessage().partition(" is not ")[0] for record in caplog.records] == [
        f"query q: the progress of {FILES}",
        "query q: the progress of DeltaSource[x]",
    ]
    listener.onQueryProgress(progress(9, orders(1, source="org.PythonStream@12"), (KAFKA, "None")))
    assert listener.flush(10)
    assert cluster.offsets() == {("orders", 0): 2}


def test_a_source_that_cannot_be_read_does_not_keep_the_others_back(listen, target):
    listener = listen()
    listener.onQueryProgress(progress(0, ("Kafka[x]", '{"orders":{"0":"no"}}'), (FILES, '{"logOffset":4}')))
    assert listener.flush(10)
    assert list(target.offsets().values()) == [5]
    [failure] = listener.failures
    assert (failure.group, failure.retried, type(failure.error)) == ("g", False, errors.CorruptionError)
    assert failure.error.item == "Kafka[x]"


def test_the_smallest_offset_of_sources_that_share_a_partition_counts(listen, target):
    listener = listen()
    listener.onQueryProgress(progress(0, orders(7, 3), orders(5, 4)))
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 5, ("orders", 1): 3}


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("fixed {other}", {"fixed {other}"}),
        ("spark-{query}", {"spark-lake", "spark-q2"}),
        ("{id}", {"q1", "q2"}),
        (lambda query: f"fn-{query.title}" if query.name else None, {"fn-lake"}),
    ],
)
def test_queries_can_have_groups_of_their_own(listen, target, group, expected):
    listener = listen(group)
    listener.onQueryProgress(progress(0, orders(1), query="q1", name="lake"))
    listener.onQueryProgress(progress(0, orders(1), query="q2"))
    assert listener.flush(10)
    assert set(target.committed) == expected


@pytest.mark.parametrize("queries", ["lake", ["lake", "other"], {"q1"}, lambda query: query.name == "lake"])
def test_queries_are_chosen_by_name_or_id(listen, target, queries):
    listener = listen("{id}", queries=queries)
    listener.onQueryProgress(progress(0, orders(1), query="q1", name="lake"))
    listener.onQueryProgress(progress(0, orders(1), query="q2", name="sea"))
    assert listener.flush(10)
    assert set(target.committed) == {"q1"}


# ------------------------------------------------------------------------------------------------------ order


def test_a_position_goes_back_only_where_the_query_did(listen, target):
    listener = listen()
    listener.onQueryStarted(started(run="r1"))
    listener.onQueryProgress(progress(5, orders(50)))
    listener.onQueryProgress(progress(4, orders(40)))  # a late report
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 50}

    listener.onQueryStarted(started(run="r2"))
    listener.onQueryProgress(progress(6, orders(60)))  # late, of the run before
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 50}
    listener.onQueryProgress(progress(2, orders(20), run="r2"))  # started from an older checkpoint
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 20}
    listener.onQueryProgress(progress(3, orders(15), run="r2"))  # the source lost data
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 15}

    listener.onQueryTerminated(started(run="r2"))
    listener.onQueryProgress(progress(9, orders(90), run="r2"))  # late, after its end
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 15}


def test_a_listener_that_came_later_knows_no_start(listen, target):
    listener = listen()
    listener.onQueryProgress(progress(8, orders(80), run="r7"))
    listener.onQueryProgress(progress(1, orders(10), run="r8"))
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 10}


def test_an_idle_query_is_committed_again_after_a_while(listen, target):
    listener = listen(refresh_seconds=0.05)
    listener.onQueryProgress(progress(0, orders(1)))
    listener.onQueryIdle(started(run="other"))
    assert listener.flush(10)
    time.sleep(0.06)
    listener.onQueryIdle(started())
    assert listener.flush(10)
    assert len(target.calls) == 2
    slow = listen(refresh_seconds=1000)
    slow.onQueryProgress(progress(0, orders(1)))
    slow.onQueryIdle(started())
    assert slow.flush(10)
    assert len(target.calls) == 3


def test_the_end_of_a_query_does_not_wait_for_the_interval(listen, target):
    listener = listen(interval_seconds=1000.0)
    listener.onQueryProgress(progress(0, orders(1)))
    assert listener.flush(10)
    listener.onQueryProgress(progress(1, orders(2)))
    assert list(listener.pending) == ["g"]
    listener.onQueryTerminated(started())
    assert wait_until(lambda: target.offsets() == {("orders", 0): 2})


def wait_until(true, seconds=10.0) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


# ------------------------------------------------------------------------------------------------------ failures


def test_the_newest_position_is_committed_when_the_target_comes_back(listen, target, caplog):
    target.failing["g"] = errors.ClusterUnavailableError("down")
    listener = listen()
    with caplog.at_level(logging.CRITICAL, "offsetlog.spark"):
        for batch in range(200):
            listener.onQueryProgress(progress(batch, orders(batch, 7)))
        assert not listener.flush(0.1)
    assert len(listener.pending["g"]) <= 2
    assert isinstance(listener.last_error, errors.ClusterUnavailableError)
    assert all(failure.retried and failure.group == "g" for failure in listener.failures)
    assert listener.failure_count >= len(listener.failures) >= 1
    target.failing.clear()
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 199, ("orders", 1): 7}
    assert listener.pending == {}


def test_one_group_that_fails_does_not_keep_others_back(listen, target):
    target.failing["g-a"] = errors.ActiveGroupError("members")
    listener = listen("g-{id}", back_off_seconds=(30.0, 30.0))
    listener.onQueryProgress(progress(0, orders(1), query="a"))
    listener.onQueryProgress(progress(0, orders(2), query="b"))
    assert wait_until(lambda: target.offsets("g-b") == {("orders", 0): 2})
    assert target.offsets("g-a") == {}
    target.failing.clear()
    assert listener.flush(10)  # without waiting for the pause to pass
    assert target.offsets("g-a") == {("orders", 0): 1}


def test_what_is_refused_for_good_is_dropped_and_reported(listen, target):
    target.refusing[ORDERS[1]] = errors.ClusterError("no such topic", code="UNKNOWN_TOPIC_OR_PART")
    listener = listen()
    listener.onQueryProgress(progress(0, orders(1, 2, 3)))
    assert not listener.flush(10)
    assert target.offsets() == {("orders", 0): 1, ("orders", 2): 3}
    [failure] = listener.failures
    assert (failure.positions, failure.retried, listener.pending) == (1, False, {})
    target.refusing.clear()
    listener.onQueryProgress(progress(1, orders(4, 5, 6)))
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 4, ("orders", 1): 5, ("orders", 2): 6}


def test_a_flush_reports_what_was_refused_before_it_and_not_twice(listen, target):
    target.refusing[ORDERS[1]] = errors.ClusterError("no such topic", code="UNKNOWN_TOPIC_OR_PART")
    listener = listen()
    listener.onQueryProgress(progress(0, orders(1, 2)))
    assert wait_until(lambda: listener.failures)
    assert not listener.flush(10)
    assert listener.flush(10)


def test_a_flush_that_runs_out_of_time_leaves_the_report_to_the_next(listen, target):
    target.refusing[ORDERS[1]] = errors.ClusterError("no such topic", code="UNKNOWN_TOPIC_OR_PART")
    listener = listen("g-{id}")
    listener.onQueryProgress(progress(0, orders(1, 2)))
    assert wait_until(lambda: listener.failures)
    target.gate.clear()
    listener.onQueryProgress(progress(0, orders(1), query="other"))
    assert not listener.flush(0.1)
    target.gate.set()
    assert not listener.flush(10)
    assert listener.flush(10)


def test_a_close_after_a_refusal_waits_until_the_target_is_closed(listen, target, monkeypatch):
    target.refusing[ORDERS[0]] = errors.ClusterError("no such topic", code="UNKNOWN_TOPIC_OR_PART")
    listener = listen()
    listener.onQueryProgress(progress(0, orders(1)))
    assert wait_until(lambda: listener.failures)
    close = target.close
    monkeypatch.setattr(target, "close", lambda: (time.sleep(1.5), close()))
    assert not listener.close(10)
    assert target.closed == 1


def test_only_what_was_refused_is_tried_again(listen, target):
    target.refusing[ORDERS[0]] = errors.ClusterUnavailableError("its leader is away")
    listener = listen(back_off_seconds=(30.0, 30.0))
    listener.onQueryProgress(progress(0, orders(1, 2)))
    assert wait_until(lambda: list(listener.pending.get("g", ())) == [ORDERS[0]])
    listener.onQueryProgress(progress(1, orders(3, 4)))
    target.refusing.clear()
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 3, ("orders", 1): 4}


def test_a_newer_position_wins_over_a_failed_one(listen, target):
    target.gate.clear()
    target.failing["g"] = errors.ClusterUnavailableError("down")
    listener = listen(back_off_seconds=(30.0, 30.0))
    listener.onQueryProgress(progress(0, orders(10)))
    assert target.attempted.wait(10)
    listener.onQueryProgress(progress(1, orders(20)))  # while the first is on its way
    target.gate.set()
    assert wait_until(lambda: bool(listener.failures))
    assert listener.pending["g"][ORDERS[0]].offset == 20
    target.failing.clear()
    assert listener.flush(10)
    assert target.offsets() == {("orders", 0): 20}


def test_an_odd_exception_is_recorded_and_the_thread_lives(listen, target):
    target.failing["g"] = RuntimeError("a bug")
    listener = listen()
    listener.onQueryProgress(progress(0, orders(1)))
    assert not listener.flush(0.1)
    assert isinstance(listener.last_error, RuntimeError)
    target.failing.clear()
    assert listener.flush(10)


def test_spark_never_sees_an_exception(listen):
    listener = listen(lambda query: 7)
    listener.onQueryProgress(progress(0, orders(1)))
    listener.onQueryProgress(SimpleNamespace())
    for call in (listener.onQueryStarted, listener.onQueryIdle, listener.onQueryTerminated):
        call(SimpleNamespace())
    kinds = [type(failure.error) for failure in listener.failures]
    assert kinds == [errors.ArgumentTypeError, *[AttributeError] * 4]


def test_what_waits_is_bounded(listen, target):
    target.gate.clear()
    listener = listen("g-{id}", positions_max=3)
    listener.onQueryProgress(progress(0, orders(1), query="first"))
    assert target.attempted.wait(10)
    listener.onQueryProgress(progress(0, orders(1, 2), query="a"))
    listener.onQueryProgress(progress(0, orders(1, 2), query="b"))
    assert isinstance(listener.last_error, errors.CapacityError)
    listener.onQueryProgress(progress(1, orders(9, 9), query="a"))  # takes no more room
    assert listener.failure_count == 1
    target.gate.set()
    listener.flush(10)
    assert (target.offsets("g-a"), target.offsets("g-b")) == ({("orders", 0): 9, ("orders", 1): 9}, {("orders", 0): 1})


def test_failures_are_remembered_up_to_a_number(target):
    target.failing["g"] = errors.GroupError("no")
    committer = PositionCommitter(target, interval_seconds=0.0, failures_max=3)
    for offset in range(5):
        committer.put("g", {ORDERS[0]: OffsetAndMetadata(offset)})
        committer.flush(10)
    assert (len(committer.failures), committer.failure_count) == (3, 5)
    committer.close(1)


def test_threads_put_side_by_side(target):
    committer = PositionCommitter(target, interval_seconds=0.0)
    key = [TopicPartition("t", number) for number in range(8)]

    def work(number):
        for offset in range(500):
            committer.put("g", {key[number]: OffsetAndMetadata(offset)})
            if offset % 100 == 0:
                committer.flush(10)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert committer.close(10)
    assert target.offsets() == {("t", number): 499 for number in range(8)}
    assert target.closed == 1


@pytest.mark.parametrize("seed", range(5))
def test_no_failure_lets_a_position_be_lost_or_go_back(seed):
    chance = random.Random(seed)

    class Moody(Answers):
        def commit(self, group, positions):
            before = dict(self.committed.get(group, {}))
            if chance.random() < 0.3:
                raise errors.ClusterUnavailableError("down")
            self.refusing = {
                key: errors.ClusterUnavailableError("its leader is away") for key in positions if chance.random() < 0.3
            }
            refused = super().commit(group, positions)
            for key, value in before.items():
                assert self.committed[group][key].offset >= value.offset
            return refused

    target = Moody()
    committer = PositionCommitter(target, interval_seconds=0.0, back_off_seconds=(0.0001, 0.001))
    newest: dict[str, dict[TopicPartition, int]] = {}
    for offset in range(400):
        group = f"g{chance.randrange(3)}"
        keys = chance.sample(ORDERS, chance.randint(1, 4))
        newest.setdefault(group, {}).update(dict.fromkeys(keys, offset))
        committer.put(group, {key: OffsetAndMetadata(offset) for key in keys})
        if chance.random() < 0.05:
            assert committer.flush(20)
            assert {group: target.offsets(group) for group in newest} == newest
    assert committer.close(20)
    assert {group: target.offsets(group) for group in newest} == newest
    assert all(isinstance(failure.error, errors.ClusterUnavailableError) for failure in committer.failures)


# ------------------------------------------------------------------------------------------------------ the end


def test_closing_commits_what_waits_and_ends(listen, target):
    listener = listen(interval_seconds=1000.0)
    for batch in range(3):
        listener.onQueryProgress(progress(batch, orders(batch)))
    assert listener.close()
    assert listener.close()
    assert (target.offsets(), target.closed) == ({("orders", 0): 2}, 1)
    listener.onQueryProgress(progress(3, orders(3)))
    assert (target.offsets(), listener.failures) == ({("orders", 0): 2}, ())


def test_closing_tells_what_was_not_committed(listen, target):
    target.failing["g"] = errors.ClusterUnavailableError("down")
    with listen() as unused:
        unused.onQueryStarted(started())
    assert unused.failures == ()
    listener = listen()
    listener.onQueryProgress(progress(0, orders(1)))
    assert not listener.close(0.1)
    assert isinstance(listener.last_error, errors.ClosedError)
    assert listener.failures[-1].positions == 1


def test_the_end_of_the_process_commits_what_waits(tmp_path):
    program = """
import sys
from types import SimpleNamespace as N
from offsetlog.spark import OffsetCommitListener
listener = OffsetCommitListener(sys.argv[1], "g", interval_seconds=1000)
for batch in range(3):
    source = N(description="KafkaV2[x]", endOffset='{"orders":{"0":%d}}' % batch)
    listener.onQueryProgress(N(progress=N(id="q", runId="r", name=None, batchId=batch, sources=[source])))
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "data")], check=True, timeout=60)
    assert starting_offsets(tmp_path / "data", "g") == '{"orders":{"0":2}}'


# ------------------------------------------------------------------------------------------------------ targets


def test_a_store_and_a_path_take_commits(listen, tmp_path):
    with offsetlog.open(tmp_path / "one", partitions=2) as store:
        listener = listen(at=store, durability="process")
        listener.onQueryProgress(progress(0, orders(1, 2)))
        assert listener.close()
        assert store.fetch_one("g", "orders", 1).offset == 2  # and it is still open
    listener = listen(at=str(tmp_path / "one"))
    listener.onQueryProgress(progress(0, orders(3, 4)))
    assert listener.flush(10)
    assert held_stores.is_held(tmp_path / "one")
    offsetlog.open(tmp_path / "one").close()  # whoever needs it gets it
    assert not held_stores.is_held(tmp_path / "one")
    listener.onQueryProgress(progress(1, orders(5, 6)))
    assert listener.close()
    assert not held_stores.is_held(tmp_path / "one")
    assert listener.failures == ()
    assert starting_offsets(tmp_path / "one", "g") == '{"orders":{"0":5,"1":6}}'


def test_a_path_that_is_not_held_is_locked_for_its_commits_only(listen, tmp_path):
    listener = listen(at=tmp_path / "one", hold=False)
    with offsetlog.open(tmp_path / "one", partitions=2) as store:
        listener.onQueryProgress(progress(0, orders(3)))
        assert not listener.flush(0.1)
        assert wait_until(lambda: isinstance(listener.last_error, errors.LockedError))
        assert store.groups() == []
    assert listener.flush(10)

    assert wait_until(lambda: not held_stores.is_held(tmp_path / "one"))
    assert starting_offsets(tmp_path / "one", "g") == '{"orders":{"0":3}}'


def test_a_store_that_was_closed_is_reported(listen, tmp_path):
    store = offsetlog.open(tmp_path / "one", partitions=2)
    listener = listen(at=store)
    store.close()
    listener.onQueryProgress(progress(0, orders(3)))
    assert not listener.flush(10)
    assert isinstance(listener.last_error, errors.ClosedError)
    assert listener.pending == {}


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("kafka:9092", True),
        ("a.example.com:9092, b:9093", True),
        ("SASL_SSL://a:9092,[::1]:9092", True),
        ("data", False),
        ("data/a:9092", False),
        ("C:data", False),
        ("a:9092,data", False),
    ],
)
def test_a_str_is_a_cluster_or_a_path(text, cluster):
    assert is_bootstrap(text) == cluster
    made = make_target(text)
    assert made.kafka_only == cluster
    assert isinstance(made, StoreTarget) != cluster
    made.close()


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"group": 7}, errors.ArgumentTypeError),
        ({"group": ""}, errors.ConfigError),
        ({"target": None}, errors.ArgumentTypeError),
        ({"queries": 7}, errors.ArgumentTypeError),
        ({"interval_seconds": -1}, errors.ConfigError),
        ({"back_off_seconds": (2.0, 1.0)}, errors.ConfigError),
        ({"positions_max": 0}, errors.ConfigError),
        ({"target": {"client.id": "x"}}, errors.ConfigError),
    ],
)
def test_arguments_are_checked(target, settings, kind):
    with pytest.raises(kind):
        OffsetCommitListener(**{"target": target, "group": "g", **settings})


# ------------------------------------------------------------------------------------------------------ Spark


def test_queries_of_spark_are_committed(spark, tmp_path):
    spark.dataSource.register(ShapedSource)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a\n")
    both = spark.readStream.format("text").load(str(tmp_path / "in")).union(spark.readStream.format("shaped").load())
    with offsetlog.open(tmp_path / "data", partitions=2) as store:
        listener = OffsetCommitListener(store, "spark-{query}", queries=["lake"])
        spark.streams.addListener(listener)
        try:
            writer = both.writeStream.format("noop").queryName("lake")
            query = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
            assert query.awaitTermination(120)
            assert wait_until(lambda: bool(store.fetch("spark-lake")), 30)
        finally:
            spark.streams.removeListener(listener)
        assert listener.close()
        assert listener.failures == ()
        topic = source_topic(f"FileStreamSource[file:{tmp_path / 'in'}]")
        found = store.fetch("spark-lake")
        assert {key: value.offset for key, value in found.items()} == {
            TopicPartition(topic, 0): 1,
            TopicPartition("orders", 0): 7,
            TopicPartition("orders", 1): 9,
        }
        assert json.loads(found[ORDERS[0]].metadata) == {"query": "lake", "id": query.id, "batch": 0}
        assert starting_offsets(store, "spark-lake", "orders") == '{"orders":{"0":7,"1":9}}'
