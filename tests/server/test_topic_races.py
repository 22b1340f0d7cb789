"""Deletes, closings, compaction and changed settings of topics' logs that meet at the worst moments."""

from __future__ import annotations

import asyncio
import threading

import pytest

from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import DeleteTopicsRequest
from offsetlog.topics import compaction

from .batches import keyed_batch, produced_batch
from .running import SECONDS, Client, RunningServer
from .topic_requests import FETCH, NOW, create, delete, fetch, fetch_request, produce, until

#: Compacted at every look; each batch begins a segment, so that all but the last one is closed.
EAGER = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0"}


class Held:
    """A call that is held, for the arguments that are chosen, from when it is reached until `go`."""

    def __init__(self, call, chosen, *, after: bool = False) -> None:
        self.reached, self._go = threading.Event(), threading.Event()
        self._call, self._chosen, self._after = call, chosen, after

    def __call__(self, *given):
        if not self._chosen(*given):
            return self._call(*given)
        result = self._call(*given) if self._after else None
        self.reached.set()
        assert self._go.wait(SECONDS)
        return result if self._after else self._call(*given)

    def wait(self) -> None:
        assert self.reached.wait(SECONDS)

    def go(self) -> None:
        self._go.set()


def batch() -> bytes:
    return produced_batch(1, timestamp=NOW)


def send_versions(client: Client, count: int = 3, partition: int = 0) -> None:
    """Versions of one key, a second apart."""
    for age in range(count, 0, -1):
        records = keyed_batch([(b"a", b"%d" % age)], timestamp=NOW - 1000 * age)
        assert produce(client, records, partition=partition).error_code == 0


def begin_compaction(running: RunningServer):
    return asyncio.run_coroutine_threadsafe(running.server.topic_compaction.run(), running.loop)


def open_count(running: RunningServer) -> int:
    return running.server.node.topics._openings.count


@pytest.fixture
def data(tmp_path):
    """A directory that was stopped cleanly, with a record in each partition of two topics."""
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=2)
        create(client, "other", partitions=3)
        for topic, count in (("orders", 2), ("other", 3)):
            for number in range(count):
                produce(client, batch(), topic=topic, partition=number)
    return tmp_path / "data"


def test_no_log_of_a_topic_that_is_being_deleted_begins_to_be_closed(data):
    with (
        RunningServer(data, open_logs_max=1) as running,
        Client(running.address) as client,
        Client(running.address) as reader,
        Client(running.address) as deleter,
    ):
        topics = running.server.node.topics
        openings = topics._openings
        opening = Held(openings._open_log, lambda each, _: (each.topic, each.number) == ("orders", 0))
        closed = []
        close_log = openings._close_log

        def close(log):
            closed.append(log.path)
            return close_log(log)

        openings._open_log, openings._close_log = opening, close
        produce(client, batch(), partition=1)
        reader.send(encode_request(fetch_request(0), FETCH, 7, None))
        opening.wait()
        # The delete waits for the opening of one log, while the other is the first to be closed.
        request = DeleteTopicsRequest(topic_names=("orders",), timeout_ms=1000)
        deleter.send(encode_request(request, 5, 7, None))
        until(lambda: topics._partitions["orders", 1].is_deleted)
        for number in range(3):
            fetch(client, 0, topic="other", partition=number)
        opening.go()
        assert reader.receive() is not None
        assert deleter.receive() is not None
        assert not [path for path in closed if "orders" in path]


def test_a_delete_lets_no_other_partition_of_the_topic_be_compacted(tmp_path, monkeypatch):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=4, **EAGER)
        for number in range(4):
            send_versions(client, partition=number)
        partitions = list(running.server.node.topics._partitions.values())
        clean, began, cleaned = compaction.clean_topic, threading.Event(), []

        def clean_until_deleted(log, control, **given):
            cleaned.append(log.path)
            began.set()
            until(lambda: partitions[0].is_deleted)
            return clean(log, control, **given)

        monkeypatch.setattr(compaction, "clean_topic", clean_until_deleted)
        work = begin_compaction(running)
        assert began.wait(SECONDS)
        assert delete(client) == 0
        work.result(SECONDS)
        assert len(cleaned) == 1
