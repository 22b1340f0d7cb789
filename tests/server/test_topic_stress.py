"""Topics that are written, read, deleted and made again while their logs are closed, compacted and cut."""

from __future__ import annotations

import random
import threading

import pytest

from offsetlog import error_codes
from offsetlog.topics import topic_logs
from offsetlog.topics.compaction import CompactionSettings
from tests.depth import by_depth, first_seed

from .batches import keyed_batch, read_records
from .running import Client, RunningServer
from .topic_requests import NOW, create, delete, fetch, produce

PARTITIONS = 3
POLICY = {
    "cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.1",
    "delete_retention_ms": "100",
}
#: Errors that a reader may get: the offset is not there yet, or the topic is not.
EXPECTED = {0, error_codes.OFFSET_OUT_OF_RANGE.code, error_codes.UNKNOWN_TOPIC_OR_PARTITION.code}


class Writer:
    """Writes one topic, and remembers the last value of each key with its offset."""

    def __init__(self, address, topic: str, seed: int) -> None:
        self.topic, self._draw, self._address = topic, random.Random(seed), address
        self._time = NOW - 10**7
        self._forget()

    def _forget(self) -> None:
        self.ends = [0] * PARTITIONS
        self.last: list[dict] = [{} for _ in range(PARTITIONS)]

    def run(self, steps: int) -> None:
        with Client(self._address) as client:
            create(client, self.topic, partitions=PARTITIONS, **POLICY)
            for _ in range(steps):
                if self._draw.random() < 0.01:
                    assert delete(client, self.topic) == 0
                    create(client, self.topic, partitions=PARTITIONS, **POLICY)
                    self._forget()
                self._write(client)

    def _write(self, client: Client) -> None:
        draw, number = self._draw, self._draw.randrange(PARTITIONS)
        values = [None if draw.random() < 0.1 else b"%d" % draw.randrange(10**9) for _ in range(draw.randrange(1, 5))]
        records = [(b"%d" % draw.randrange(20), value) for value in values]
        self._time += 10
        batch = keyed_batch(records, timestamp=self._time, codec=draw.randrange(5))
        answer = produce(client, batch, topic=self.topic, partition=number)
        assert (answer.error_code, answer.base_offset) == (0, self.ends[number])
        for offset, (key, value) in enumerate(records, answer.base_offset):
            self.last[number][key] = (offset, value)
        self.ends[number] += len(records)

    def check(self, client: Client) -> None:
        """The last value of each key is there, at its offset; tombstones may be gone."""
        for number, end in enumerate(self.ends):
            found, offset = {}, 0
            while offset < end:
                answer = fetch(client, offset, topic=self.topic, partition=number)
                assert (answer.error_code, answer.high_watermark) == (0, end)
                records, offset = read_records(answer.records)
                found |= {key: (at, value) for at, key, value in records}
            gone = {key for key, (_, value) in self.last[number].items() if value is None and key not in found}
            assert found == {key: kept for key, kept in self.last[number].items() if key not in gone}


def read_at_random(address, topics: list[str], seed: int, done: threading.Event) -> None:
    draw = random.Random(seed)
    with Client(address) as client:
        while not done.is_set():
            place = {"topic": draw.choice(topics), "partition": draw.randrange(PARTITIONS)}
            answer = fetch(client, draw.randrange(300), max_wait_ms=20, **place)
            assert answer.error_code in EXPECTED
            if answer.records:
                read_records(answer.records)


@pytest.mark.long
@pytest.mark.parametrize("durability", ["process", "disk"])
def test_every_last_value_survives_closings_compaction_and_deletes(tmp_path, durability, monkeypatch, caplog):
    monkeypatch.setattr(topic_logs, "JUDGED_AGAIN_MS", 200)
    seed = first_seed()
    settings = {"compaction": CompactionSettings(backoff_ms=50), "retention_check_ms": 70, "open_logs_max": 2}
    failures: list[BaseException] = []

    def guarded(work, *given) -> None:
        try:
            work(*given)
        except BaseException as failure:
            failures.append(failure)

    with RunningServer(tmp_path / "data", durability, 4, **settings) as running:
        topics, done = [f"t{index}" for index in range(4)], threading.Event()
        writers = [Writer(running.address, topic, seed + index) for index, topic in enumerate(topics)]
        steps = by_depth(gate=300, long=5000)
        writing = [threading.Thread(target=guarded, args=(each.run, steps)) for each in writers]
        given = (read_at_random, running.address, topics, seed, done)
        reading = threading.Thread(target=guarded, args=given)
        for thread in (*writing, reading):
            thread.start()
        for thread in writing:
            thread.join()
        done.set()
        reading.join()
    assert not failures, f"OL_SEED={seed}: {failures}"
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with RunningServer(tmp_path / "data", durability, 4) as running, Client(running.address) as client:
        for writer in writers:
            writer.check(client)
    assert not [each.getMessage() for each in caplog.records if each.levelname == "ERROR"], f"OL_SEED={seed}"
