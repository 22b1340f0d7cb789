"""Compaction leaves the last value of each key at its offset, whatever codecs and restarts."""

from __future__ import annotations

import asyncio
import random

import pytest
from depth import by_depth, first_seed

from offsetlog import error_codes
from offsetlog._native.clocks import ManualClock
from offsetlog.protocol.messages import (
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)

from .batches import keyed_batch, produced_batch, read_records
from .running import Client, RunningServer
from .topic_requests import NOW, PRODUCE, create, delete, fetch, list_offset, produce

DAY = 24 * 3600 * 1000
CHECKPOINT = "cleaner-offset-checkpoint"
#: Compacted at every look; each batch begins a segment, so that all but the last one is closed.
EAGER = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0"}


@pytest.fixture(params=["process", "disk"])
def server(request, tmp_path):
    with RunningServer(tmp_path / "data", durability=request.param) as running:
        yield running


def open_count(running: RunningServer) -> int:
    return running.server.node.topics._openings.count


def compact(running: RunningServer) -> None:
    running._run(running.server.topic_compaction.run())


class Sender:
    """Sends batches a second apart, the last of them at the time of the tests."""

    def __init__(self, client: Client, count: int = 1000) -> None:
        self.client = client
        self.time = NOW - 1000 * count

    def __call__(self, *records: tuple[bytes, bytes | None], codec: int = 0, **more) -> int:
        self.time += 1000
        answer = produce(self.client, keyed_batch(records, timestamp=self.time, codec=codec, **more))
        assert answer.error_code == 0
        return answer.base_offset


def consumed(client: Client, offset: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """All records from an offset on, as (offset, key, value)."""
    found: list = []
    while True:
        answer = fetch(client, offset)
        assert answer.error_code == 0
        records, next_offset = read_records(answer.records)
        found += [each for each in records if each[0] >= offset]
        if next_offset <= offset:
            return found
        offset = next_offset


@pytest.mark.parametrize("codec", range(5))
def test_the_last_value_of_each_key_stays_with_its_offset(server, client, codec):
    create(client, **EAGER)
    send = Sender(client)
    send((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), codec=codec)
    send((b"b", b"2"), (b"a", b"2"), codec=codec)
    send((b"a", b"3"), codec=codec)
    compact(server)
    # The active segment is not touched, and its record supersedes nothing.
    assert consumed(client) == [(2, b"c", b"1"), (3, b"b", b"2"), (4, b"a", b"2"), (5, b"a", b"3")]
    assert [list_offset(client, each).offset for each in (-2, -1)] == [0, 6]
    send((b"z", b"1"))
    compact(server)
    assert consumed(client) == [(2, b"c", b"1"), (3, b"b", b"2"), (5, b"a", b"3"), (6, b"z", b"1")]
    # From an offset that is gone on, the next one is read.
    assert [each[0] for each in consumed(client, 4)] == [5, 6]


def test_a_compressed_batch_keeps_its_codec(server, client):
    create(client, **EAGER)
    send = Sender(client)
    for codec in (1, 2, 3, 4):
        send((b"a", b"1"), (b"%d" % codec, b"x" * 100), codec=codec)
    send((b"z", b""))
    compact(server)
    records = fetch(client, 0).records
    codecs = []
    while records:
        codecs.append(records[22] & 7)
        records = records[12 + int.from_bytes(records[8:12], "big") :]
    assert codecs == [1, 2, 3, 4]
    assert [each[1] for each in consumed(client)] == [b"1", b"2", b"3", b"a", b"4", b"z"]


def test_an_empty_key_is_a_key_and_prefixes_are_others(server, client):
    create(client, **EAGER)
    send = Sender(client)
    send((b"", b"1"), (b"a", b"1"), (b"ab", b"1"), (b"\0\1\0\1g\0\1t\0\0\0\0", b"1"))
    send((b"", b"2"), (b"\0\0\0\1g\0\1t\0\0\0\0", b"2"))
    send((b"z", b"1"))
    compact(server)
    assert [each[0] for each in consumed(client)] == [1, 2, 3, 4, 5, 6]


def test_tombstones_stay_for_their_time(tmp_path):
    clock = ManualClock(NOW)
    with RunningServer(tmp_path / "data", clock=clock) as running, Client(running.address) as client:
        create(client, **EAGER, delete_retention_ms="1000")
        send = Sender(client)
        send((b"a", b"1"), (b"b", b"1"))
        send((b"a", None))
        send((b"y", b"1"))
        compact(running)
        assert consumed(client) == [(1, b"b", b"1"), (2, b"a", None), (3, b"y", b"1")]
        clock.milliseconds = NOW + 999
        send((b"x", b"1"))
        compact(running)
        assert (2, b"a", None) in consumed(client)
        clock.milliseconds = NOW + 1001
        send((b"w", b"1"))
        compact(running)
        assert [each[0] for each in consumed(client)] == [1, 3, 4, 5]


def test_young_records_stay_for_the_least_lag(tmp_path):
    clock = ManualClock(NOW)
    with RunningServer(tmp_path / "data", clock=clock) as running, Client(running.address) as client:
        create(client, **EAGER, min_compaction_lag_ms="1500")
        send = Sender(client, 4)
        for value in (b"1", b"2", b"3", b"4"):
            send((b"a", value))
        compact(running)
        # The third is a second old, and the fourth is in the active segment.
        assert [each[2] for each in consumed(client)] == [b"2", b"3", b"4"]
        clock.milliseconds = NOW + DAY
        compact(running)
        assert [each[2] for each in consumed(client)] == [b"3", b"4"]


def test_little_dirt_waits_for_the_ratio_or_the_greatest_lag(tmp_path):
    clock = ManualClock(NOW)
    with RunningServer(tmp_path / "data", clock=clock) as running, Client(running.address) as client:
        configs = {**EAGER, "min_cleanable_dirty_ratio": "0.6", "max_compaction_lag_ms": str(DAY)}
        create(client, **configs)
        send = Sender(client)
        send((b"a", b"1"))
        send((b"b", b"1"))
        compact(running)
        send((b"a", b"2"))
        compact(running)
        # Half of it is dirty.
        assert [each[0] for each in consumed(client)] == [0, 1, 2]
        clock.milliseconds = NOW + 2 * DAY
        send((b"c", b"1"))
        compact(running)
        assert [each[0] for each in consumed(client)] == [1, 2, 3]


def test_a_topic_that_is_not_compacted_keeps_all(server, client):
    create(client, segment_ms="1", min_cleanable_dirty_ratio="0")
    send = Sender(client)
    for value in (b"1", b"2", b"3"):
        send((b"a", value))
    compact(server)
    assert len(consumed(client)) == 3


def test_a_topic_with_both_policies_is_compacted_and_deleted(server, client):
    create(client, **{**EAGER, "cleanup_policy": "compact,delete"}, retention_ms=str(DAY))
    for age_ms, value in ((3 * DAY, b"1"), (2 * DAY, b"2"), (2000, b"3"), (1000, b"4"), (0, b"5")):
        assert produce(client, keyed_batch([(b"a", value)], timestamp=NOW - age_ms)).error_code == 0
    compact(server)
    assert [each[2] for each in consumed(client)] == [b"4", b"5"]
    server._run(server.server.topic_sweep.run())
    assert [each[2] for each in consumed(client, list_offset(client, -2).offset)] == [b"4", b"5"]


def test_the_last_batch_of_a_producer_stays_empty_and_knows_what_was_sent(server, client):
    create(client, **EAGER)
    send = Sender(client)
    first = keyed_batch([(b"a", b"1")], timestamp=send.time, producer=(7, 0, 0))
    assert produce(client, first).base_offset == 0
    send((b"a", b"2"))
    send((b"z", b"1"))
    compact(server)
    assert consumed(client) == [(1, b"a", b"2"), (2, b"z", b"1")]
    assert fetch(client, 0).records[57:61] == bytes(4)
    assert produce(client, first).base_offset == 0
    again = keyed_batch([(b"b", b"1")], timestamp=send.time, producer=(7, 0, 1))
    assert produce(client, again).base_offset == 3


def test_the_checkpoint_is_kafkas_and_goes_with_the_topic(server, client):
    create(client, **EAGER)
    send = Sender(client)
    send((b"a", b"1"))
    send((b"a", b"2"))
    compact(server)
    path = server.server.node.manager.directory.path / CHECKPOINT
    assert "orders 0 1" in path.read_text().splitlines()
    assert delete(client) == 0
    assert "orders 0 1" not in path.read_text().splitlines()


@pytest.mark.parametrize("codec", range(5))
def test_records_without_a_key_are_refused(server, client, codec):
    create(client, cleanup_policy="compact")
    batch = keyed_batch([(b"a", b"1"), (None, b"2"), (b"", b"3"), (None, b"4")], timestamp=NOW, codec=codec)
    answer = produce(client, batch)
    assert answer.error_code == error_codes.INVALID_RECORD.code
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert produce(client, keyed_batch([(b"a", b"1"), (b"", b"")], timestamp=NOW, codec=codec)).error_code == 0
    create(client, "kept")
    assert produce(client, batch, topic="kept").error_code == 0


def test_an_answer_names_few_of_many_records_without_a_key(server, client):
    create(client, cleanup_policy="compact", partitions=12)
    batch = produced_batch(5000, timestamp=NOW, key=None, value=b"", codec=4)
    one = produce(client, batch)
    assert [each.batch_index for each in one.record_errors] == list(range(1000))
    data = tuple(ProduceRequestTopicDataPartitionData(number, batch) for number in range(12))
    topics = (ProduceRequestTopicData("orders", partition_data=data),)
    asked = ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
    answers = client.ask(asked, PRODUCE).responses[0].partition_responses
    assert {each.error_code for each in answers} == {error_codes.INVALID_RECORD.code}
    assert sum(len(each.record_errors) for each in answers) == 10_000


def test_a_compressed_batch_that_lies_is_refused(server, client):
    create(client, cleanup_policy="compact")
    cut = keyed_batch([(b"a", b"1")] * 3, timestamp=NOW, codec=4, damaged=True)
    assert produce(client, cut).error_code == error_codes.INVALID_RECORD.code
    assert list_offset(client, -1).offset == 0


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + by_depth(gate=3, long=60)))
def test_random_records_leave_what_a_model_leaves(tmp_path, seed):
    draw = random.Random(seed)
    written: list[tuple[int, bytes, bytes | None]] = []
    running = RunningServer(tmp_path / "data", durability=draw.choice(["process", "disk"]), partitions=4)
    try:
        client = Client(running.address)
        create(client, **EAGER)
        send = Sender(client)
        for _ in range(by_depth(gate=60, long=300)):
            records = [
                (b"k%d" % draw.randrange(30), draw.choice([None, b"", draw.randbytes(draw.randrange(200))]))
                for _ in range(draw.choice([1, 1, 2, 5, 150]))
            ]
            base = send(*records, codec=draw.randrange(5))
            written += [(base + index, *each) for index, each in enumerate(records)]
            active = base
            if draw.random() < 0.2:
                compact(running)
                assert consumed(client) == left(written, active), f"seed {seed}"
            if draw.random() < 0.05:
                client.close()
                running.stop()
                running = RunningServer(tmp_path / "data", partitions=4)
                client = Client(running.address)
                send.client = client
                # Nothing of the log was lost, so that all of it is right.
                last = {key: value for _, key, value in written}
                assert {key: value for _, key, value in consumed(client)} == last, f"seed {seed}"
        client.close()
    finally:
        running.stop()


def left(written, active: int):
    """The last record of each key below the active segment, and all of that; tombstones stay for a day."""
    last = {key: offset for offset, key, _ in written if offset < active}
    return [each for each in written if each[0] >= active or last[each[1]] == each[0]]


def test_a_deleted_topic_ends_its_compaction_and_another_of_the_name_is_new(server, client):
    create(client, **EAGER)
    send = Sender(client)
    for value in (b"1", b"2", b"3"):
        send((b"a", value))
    compact(server)
    assert delete(client) == 0
    create(client, **EAGER)
    assert produce(client, produced_batch(2, timestamp=NOW)).base_offset == 0
    compact(server)
    assert len(consumed(client)) == 2


def test_reads_and_appends_go_on_beside_compaction_and_a_delete_ends_it(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, **EAGER)
        send = Sender(client)
        work = None
        written = []
        for number in range(200):
            records = [(b"k%d" % (number * 7 % 13), b"%d" % number), (b"own%d" % number, b"")]
            base = send(*records, codec=number % 5)
            written += [(base + index, *each) for index, each in enumerate(records)]
            if work is None or work.done():
                work = _begin(running)
            if number % 20 == 0:
                last = {key: value for _, key, value in written}
                assert {key: value for _, key, value in consumed(client)} == last
        work.result(20)
        compact(running)
        assert consumed(client) == left(written, written[-2][0])
        for value in range(50):
            send((b"a", b"%d" % value))
        work = _begin(running)
        assert delete(client) == 0
        work.result(20)
        create(client, **EAGER)
        assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 0


def _begin(running: RunningServer):
    return asyncio.run_coroutine_threadsafe(running.server.topic_compaction.run(), running.loop)


def test_a_stop_ends_compaction_and_a_start_goes_on(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, **EAGER)
        send = Sender(client)
        for value in range(30):
            send((b"a", b"%d" % value))
        work = _begin(running)
    work.result(20)
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        compact(running)
        assert [each[0] for each in consumed(client)] == [28, 29]


def test_a_log_that_is_not_open_is_compacted(tmp_path):
    clock = ManualClock(NOW)
    with RunningServer(tmp_path / "data", clock=clock) as running, Client(running.address) as client:
        create(client, **EAGER)
        send = Sender(client)
        for value in (b"1", b"2", b"3"):
            send((b"a", value))
    with RunningServer(tmp_path / "data", clock=clock) as running, Client(running.address) as client:
        assert open_count(running) == 0
        compact(running)
        assert open_count(running) == 0
        assert [each[2] for each in consumed(client)] == [b"2", b"3"]
