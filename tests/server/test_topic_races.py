"""Deletes, closings, compaction and changed settings of topics' logs that meet at the worst moments."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetlog import error_codes
from offsetlog._native.clocks import ManualClock
from offsetlog.errors import StorageError
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
    ProduceResponse,
)
from offsetlog.topics import compaction
from offsetlog.topics import opening as opening_module

from .batches import keyed_batch, produced_batch
from .running import SECONDS, Client, RunningServer
from .topic_requests import FETCH, NOW, PRODUCE, create, delete, fetch, fetch_request, list_offset, produce, until

#: Compacted at every look; each batch begins a segment, so that all but the last one is closed.
EAGER = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0"}


class Held:
    """A call that is held, for the arguments that are chosen, from when it is reached until `go`."""

    def __init__(self, call, chosen, *, after: bool = False) -> None:
        self.reached, self._go = threading.Event(), threading.Event()
        self._call, self._chosen, self._after = call, chosen, after

    def __call__(self, *given, **named):
        if not self._chosen(*given):
            return self._call(*given, **named)
        result = self._call(*given, **named) if self._after else None
        self.reached.set()
        assert self._go.wait(SECONDS)
        return result if self._after else self._call(*given, **named)

    def wait(self) -> None:
        assert self.reached.wait(SECONDS)

    def go(self) -> None:
        self._go.set()


def batch() -> bytes:
    return produced_batch(1, timestamp=NOW)


def send_versions(
    client: Client, count: int = 3, partition: int = 0, topic: str = "orders", end: int = NOW
) -> None:
    """Versions of one key, a second apart, the last of them a second before the end."""
    for age in range(count, 0, -1):
        records = keyed_batch([(b"a", b"%d" % age)], timestamp=end - 1000 * age)
        assert produce(client, records, topic=topic, partition=partition).error_code == 0


def alter(client: Client, topic: str, name: str, value: str) -> None:
    change = IncrementalAlterConfigsRequestResourceConfig(name, 0, value)
    resource = IncrementalAlterConfigsRequestResource(2, topic, (change,))
    assert client.ask(IncrementalAlterConfigsRequest((resource,)), 1).responses[0].error_code == 0


def begin_compaction(running: RunningServer):
    return asyncio.run_coroutine_threadsafe(running.server.topic_compaction.run(), running.loop)


def open_count(running: RunningServer) -> int:
    return running.server.node.topics.open_count


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


# ------------------------------------------------------------------------- closings beside compaction


def begin_close(running: RunningServer, partition) -> None:
    """Has a log closed that nobody uses; what has used it until now is forgotten first."""
    openings = running.server.node.topics._openings
    for _ in range(2):
        running.loop.call_soon_threadsafe(openings.close_unused, partition)


def test_a_log_that_is_being_closed_is_not_compacted(tmp_path, monkeypatch, caplog):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=2, **EAGER)
        for number in range(2):
            send_versions(client, partition=number)
        topics, clean, cleaned = running.server.node.topics, compaction.clean_topic, []
        topics._unopened_due = lambda *_: iter(())
        closing = Held(topics._openings._close_log, lambda log: True)
        topics._openings._close_log = closing

        def close_the_other(log, control, **given):
            cleaned.append(log.path)
            if len(cleaned) == 1:
                (other,) = [each for each in topics._partitions.values() if each.log is not log]
                begin_close(running, other)
                closing.wait()
            return clean(log, control, **given)

        monkeypatch.setattr(compaction, "clean_topic", close_the_other)
        begin_compaction(running).result(SECONDS)
        assert len(cleaned) == 1
        closing.go()
        assert [fetch(client, 2, partition=number).high_watermark for number in range(2)] == [3, 3]
    assert "not compacted" not in caplog.text


def test_a_log_that_is_being_compacted_is_not_closed(tmp_path, monkeypatch):
    with RunningServer(tmp_path / "data", open_logs_max=1) as running, Client(running.address) as client:
        create(client, "other", partitions=3)
        create(client, **EAGER)
        send_versions(client)
        held = Held(compaction.dirt_of, lambda *_: True)
        monkeypatch.setattr(compaction, "dirt_of", held)
        work = begin_compaction(running)
        held.wait()
        for number in range(3):
            produce(client, batch(), topic="other", partition=number)
        assert running.server.node.topics._partitions["orders", 0].log is not None
        held.go()
        work.result(SECONDS)


def test_no_segment_goes_while_the_dirt_of_a_log_is_measured(tmp_path, monkeypatch, caplog):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        policy = {**EAGER, "cleanup_policy": "compact,delete", "min_compaction_lag_ms": "1"}
        create(client, **policy, retention_ms="1500")
        send_versions(client)
        topics, dirt_of = running.server.node.topics, compaction.dirt_of

        def delete_first(*given):
            topics.delete_old_segments(NOW)
            return dirt_of(*given)

        monkeypatch.setattr(compaction, "dirt_of", delete_first)
        begin_compaction(running).result(SECONDS)
    assert "not compacted" not in caplog.text


# ------------------------------------------------------------------------------- the bound of open logs


@pytest.mark.parametrize("look", ["compaction", "sweep"])
def test_looks_at_open_logs_do_not_keep_them_open(tmp_path, look):
    with RunningServer(tmp_path / "data", open_logs_max=3) as running, Client(running.address) as client:
        create(client, partitions=12, cleanup_policy="compact,delete")
        topics = running.server.node.topics
        topics._unopened_due = lambda *_: iter(())
        server = running.server
        run = server.topic_compaction.run if look == "compaction" else server.topic_sweep.run
        for number in range(12):
            records = keyed_batch([(b"a", b"1")], timestamp=NOW)
            assert produce(client, records, partition=number).error_code == 0
            running._run(run())
            running._run(run())
            assert open_count(running) <= 5


def test_the_search_for_logs_to_close_goes_on_until_the_bound_holds(data, monkeypatch):
    monkeypatch.setattr(opening_module, "LOOKED_AT_MAX", 1)
    with RunningServer(data, open_logs_max=1) as running, Client(running.address) as client:
        for topic, number in (("orders", 0), ("orders", 1), ("other", 0), ("other", 1), ("other", 2)):
            fetch(client, 0, topic=topic, partition=number)
            until(lambda: open_count(running) == 1)


def test_closed_logs_of_which_nothing_is_deleted_are_not_opened_by_a_sweep(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, cleanup_policy="compact")
        create(client, "kept", retention_ms="-1")
        send_versions(client)
        produce(client, batch(), topic="kept")
    with RunningServer(tmp_path / "data") as running:
        openings, opened = running.server.node.topics._openings, []
        openings._open_log = lambda each, _: opened.append(each.topic)
        running._run(running.server.topic_sweep.run())
        assert opened == []


# ------------------------------------------------------------------------------------ one look of many


def test_the_checkpoints_are_read_once_for_all_closed_logs(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=5, **EAGER)
        for number in range(5):
            send_versions(client, partition=number)
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        directory = running.server.node.manager.directory
        read_checkpoint, reads = directory.read_checkpoint, []

        def read(name):
            reads.append(threading.current_thread().name)
            return read_checkpoint(name)

        directory.read_checkpoint = read
        compactions = running.server.node.topics._compaction
        begin_compaction(running).result(SECONDS)
        del directory.read_checkpoint
        assert compactions.read_checkpoints() == {("orders", number): 2 for number in range(5)}
        # Each write of one reads the file, too.
        assert len(reads) <= 2 + 5


def test_every_log_is_compacted_by_the_time_and_the_settings_of_its_turn(tmp_path, monkeypatch):
    clock = ManualClock(NOW)
    with RunningServer(tmp_path / "data", clock=clock) as running, Client(running.address) as client:
        for name in ("first", "second", "third"):
            create(client, name, **EAGER)
            send_versions(client, topic=name)
        clean, late, cleaned = compaction.clean_topic, [], []

        def take_an_hour(log, control, **given):
            late.append(clock.milliseconds - given["now_ms"])
            cleaned.append(Path(log.path).name)
            result = clean(log, control, **given)
            clock.milliseconds += 3_600_000
            if len(cleaned) == 1:
                (*_, last) = sorted({"first-0", "second-0", "third-0"} - set(cleaned))
                alter(client, last.removesuffix("-0"), "cleanup.policy", "delete")
            return result

        monkeypatch.setattr(compaction, "clean_topic", take_an_hour)
        begin_compaction(running).result(SECONDS)
        assert late == [0, 0]
        assert len(set(cleaned)) == 2


def test_a_log_that_is_the_dirtiest_by_now_is_compacted_next(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "LISTED_AGAIN_SECONDS", 0)
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        for name in ("first", "second", "third"):
            create(client, name, **EAGER)
            send_versions(client, topic=name)
        begin_compaction(running).result(SECONDS)
        for name in ("first", "second"):
            send_versions(client, 3 if name == "first" else 2, topic=name, end=NOW + 60_000)
        clean, cleaned = compaction.clean_topic, []

        def dirty_the_third(log, control, **given):
            cleaned.append(Path(log.path).name)
            if len(cleaned) == 1:
                send_versions(client, 9, topic="third", end=NOW + 60_000)
            return clean(log, control, **given)

        monkeypatch.setattr(compaction, "clean_topic", dirty_the_third)
        begin_compaction(running).result(SECONDS)
        assert cleaned == ["first-0", "third-0", "second-0"]


# ------------------------------------------------------------------------------------------- openings


def test_settings_that_change_while_a_log_is_opened_count(data):
    with (
        RunningServer(data) as running,
        Client(running.address) as client,
        Client(running.address) as reader,
    ):
        openings = running.server.node.topics._openings
        openings._open_log = opened = Held(openings._open_log, lambda *_: True, after=True)
        reader.send(encode_request(fetch_request(0), FETCH, 7, None))
        opened.wait()
        alter(client, "orders", "segment.ms", "1")
        opened.go()
        assert reader.receive() is not None
        for later in range(1, 4):
            produce(client, produced_batch(1, timestamp=NOW + 10 * later))
        assert len(list((data / "orders-0").glob("*.log"))) == 4


def fail_once(running: RunningServer, *, half_made: Path | None = None) -> None:
    """Has the next opening or making of a log fail for want of files, with or without a directory."""
    openings = running.server.node.topics._openings
    open_log = openings._open_log

    def fail(*_):
        openings._open_log = open_log
        if half_made is not None:
            half_made.mkdir()
        raise StorageError("open: Too many open files")

    openings._open_log = fail


@pytest.mark.parametrize("is_half_made", [True, False])
def test_a_log_that_could_not_be_made_is_empty_for_its_readers(tmp_path, is_half_made):
    failed = error_codes.KAFKA_STORAGE_ERROR.code
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client)
        fail_once(running, half_made=tmp_path / "data" / "orders-0" if is_half_made else None)
        assert produce(client, batch()).error_code == failed
        found = fetch(client, 0)
        assert (found.error_code, found.high_watermark) == (0, 0)
        assert list_offset(client, -1).error_code == 0
        # A start looks at a log that is half made, unless it was made later.
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() is not is_half_made
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        fail_once(running)
        assert produce(client, batch()).error_code == failed
        assert produce(client, batch()).base_offset == 0


def test_a_log_that_was_opened_in_the_end_leaves_a_clean_stop(data):
    with RunningServer(data) as running, Client(running.address) as client:
        fail_once(running)
        assert fetch(client, 0).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        assert fetch(client, 0).high_watermark == 1
    assert (data / ".kafka_cleanshutdown").exists()
    with RunningServer(data) as running, Client(running.address) as client:
        assert open_count(running) == 0
        fail_once(running)
        assert fetch(client, 0).error_code == error_codes.KAFKA_STORAGE_ERROR.code
    # Nobody has looked again.
    assert not (data / ".kafka_cleanshutdown").exists()
    with RunningServer(data) as running, Client(running.address) as client:
        assert fetch(client, 0).high_watermark == 1


def test_a_batch_that_is_sent_again_is_known_after_its_log_was_closed(data):
    with RunningServer(data) as running, Client(running.address) as client:
        sent = [produced_batch(1, timestamp=NOW, producer=(7, 0, number)) for number in range(6)]
        assert [produce(client, each).base_offset for each in sent] == [1, 2, 3, 4, 5, 6]
        partition = running.server.node.topics._partitions["orders", 0]
        for _ in range(2):
            begin_close(running, partition)
            until(lambda: open_count(running) == 0)
            # Kafka knows the last five, too.
            assert [produce(client, each).base_offset for each in sent[1:]] == [2, 3, 4, 5, 6]
        assert produce(client, produced_batch(1, timestamp=NOW, producer=(7, 0, 6))).base_offset == 7
        assert fetch(client, 0).high_watermark == 8


# ------------------------------------------------------------------------------------------- producing


def produced_meanwhile(
    running: RunningServer, client: Client, records: bytes, meanwhile: Callable[[], None]
) -> tuple[int, int]:
    """The errors of batches for "keyed" and "orders"; something else is done while the first is inflated."""
    topics = (("keyed", produced_batch(1, timestamp=NOW, codec=1)), ("orders", records))
    data = tuple(
        ProduceRequestTopicData(name, partition_data=(ProduceRequestTopicDataPartitionData(0, each),))
        for name, each in topics
    )
    partition = running.server.node.topics._partitions["keyed", 0]
    partition.append = inflating = Held(partition.append, lambda *_: True)
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data)
    client.send(encode_request(request, PRODUCE, 7, None))
    inflating.wait()
    try:
        meanwhile()
    finally:
        inflating.go()
    answer = decode_response(ProduceResponse, PRODUCE, client.receive())[1]
    return tuple(each.partition_responses[0].error_code for each in answer.responses)


@pytest.fixture
def keyed(tmp_path):
    """A server with a record in the compacted topic "keyed" and in "orders", and two clients."""
    with (
        RunningServer(tmp_path / "data") as running,
        Client(running.address) as client,
        Client(running.address) as other,
    ):
        create(client, "keyed", cleanup_policy="compact")
        create(client)
        for name in ("keyed", "orders"):
            produce(client, batch(), topic=name)
        yield running, client, other


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_batch_for_a_topic_that_is_deleted_while_another_is_inflated_goes_nowhere(
    keyed, caplog, codec, is_made_again
):
    running, client, other = keyed
    alter(client, "orders", "cleanup.policy", "compact")

    def delete_it():
        assert delete(other) == 0
        if is_made_again:
            create(other)

    records = produced_batch(1, timestamp=NOW, codec=codec)
    errors = produced_meanwhile(running, client, records, delete_it)
    assert errors == (0, error_codes.UNKNOWN_TOPIC_OR_PARTITION.code)
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
    assert list(running.server.node.topics._partitions) == [("keyed", 0)]


def test_a_batch_follows_the_settings_that_changed_while_another_was_inflated(keyed):
    running, client, other = keyed
    without_key = produced_batch(1, timestamp=NOW, key=None)
    assert produce(client, without_key).error_code == 0
    errors = produced_meanwhile(
        running, client, without_key, lambda: alter(other, "orders", "cleanup.policy", "compact")
    )
    assert errors == (0, error_codes.INVALID_RECORD.code)
