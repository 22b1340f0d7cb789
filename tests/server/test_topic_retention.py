"""Deletion in topics by their settings: its time, the view of clients, and the state after a restart."""

from __future__ import annotations

import pytest

from offsetlog import error_codes
from offsetlog.errors import StorageError
from offsetlog.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
)

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import NOW, create, delete, fetch, list_offset, produce, until

EARLIEST, LATEST = -2, -1
HOUR = 3600 * 1000
DAY = 24 * HOUR
STARTS = "log-start-offset-checkpoint"


@pytest.fixture(params=["process", "disk"])
def server(request, tmp_path):
    with RunningServer(tmp_path / "data", durability=request.param) as running:
        yield running


def sweep(server: RunningServer) -> None:
    server._run(server.server.topic_sweep.run())


def alter(client: Client, name: str, value: str | None) -> None:
    change = IncrementalAlterConfigsRequestResourceConfig(name, 1 if value is None else 0, value)
    resource = IncrementalAlterConfigsRequestResource(2, "orders", (change,))
    assert client.ask(IncrementalAlterConfigsRequest((resource,)), 1).responses[0].error_code == 0


def send(client: Client, *ages_ms: int, **more) -> None:
    """A record of each age, each of which begins a segment in a topic whose segment.ms is short."""
    for age_ms in ages_ms:
        assert produce(client, produced_batch(1, timestamp=NOW - age_ms), **more).error_code == 0


def files(server: RunningServer, ending: str, partition: int = 0) -> list[str]:
    directory = server.server.node.manager.directory.path / f"orders-{partition}"
    return sorted(each.name for each in directory.iterdir() if each.name.endswith(ending))


def test_old_segments_go_and_clients_see_it(server, client):
    create(client, segment_ms="1000", retention_ms=str(2 * DAY), file_delete_delay_ms="0")
    send(client, 9 * DAY, 5 * DAY, 3 * DAY, DAY, 0)
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 3
    assert list_offset(client, LATEST).offset == 5
    assert list_offset(client, 0).offset == 3
    assert fetch(client, 2).error_code == error_codes.OFFSET_OUT_OF_RANGE.code
    found = fetch(client, 3)
    assert (found.error_code, found.log_start_offset, found.high_watermark) == (0, 3, 5)
    assert files(server, ".log") == [f"{offset:020}.log" for offset in (3, 4)]
    assert files(server, ".deleted") == []
    starts = (server.server.node.manager.directory.path / STARTS).read_text().splitlines()
    assert "orders 0 3" in starts


def test_an_active_segment_that_is_old_goes_and_offsets_go_on(server, client):
    create(client, retention_ms=str(DAY))
    send(client, 3 * DAY, 2 * DAY)
    sweep(server)
    assert list_offset(client, EARLIEST).offset == list_offset(client, LATEST).offset == 2
    assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 2
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 2
    assert fetch(client, 2).high_watermark == 3


def test_segments_go_that_are_too_many_bytes(server, client):
    create(client, segment_ms="1000", retention_ms="-1", retention_bytes="150")
    send(client, 5 * HOUR, 4 * HOUR, 3 * HOUR, 2 * HOUR, HOUR)
    sizes = [(server.server.node.manager.directory.path / "orders-0" / name).stat().st_size
             for name in files(server, ".log")[:-1]]
    sweep(server)
    # The others have so many without those that went, and no longer without one more.
    start = list_offset(client, EARLIEST).offset
    each = sizes[0]
    assert set(sizes) == {each}
    assert (5 - start) * each >= 150 > (5 - start - 1) * each


def test_settings_that_change_count_at_once(server, client):
    create(client)
    send(client, 9 * DAY, 5 * DAY)
    sweep(server)
    # The default of segment.ms is a week, so one segment has all of it, which is old as its newest record is.
    assert list_offset(client, EARLIEST).offset == 0
    alter(client, "segment.ms", "1000")
    send(client, 4 * DAY, 3 * DAY)
    assert len(files(server, ".log")) == 3
    alter(client, "retention.ms", str(4 * DAY - HOUR))
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 3
    alter(client, "segment.ms", None)
    send(client, 2 * DAY, 0)
    assert len(files(server, ".log")) == 1


def test_a_change_of_segment_bytes_counts_at_once(server, client):
    create(client)
    alter(client, "segment.bytes", str(1 << 20))
    big = produced_batch(1, timestamp=NOW, value=bytes(700_000))
    for offset in range(3):
        assert produce(client, big).base_offset == offset
    assert len(files(server, ".log")) == 3


def test_a_topic_that_is_only_compacted_deletes_nothing(server, client):
    create(client, cleanup_policy="compact", segment_ms="1000", retention_ms="1000")
    send(client, 5 * DAY, 3 * DAY)
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 0
    alter(client, "cleanup.policy", "compact,delete")
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 2


def test_a_time_to_come_is_not_old(server, client):
    create(client, segment_ms="1000", retention_ms="0", message_timestamp_after_max_ms=str(DAY))
    send(client, -HOUR, -2 * HOUR)
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 0


def test_deleted_files_stay_for_their_delay_and_go_with_the_next_start(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, segment_ms="1000", retention_ms=str(2 * DAY), file_delete_delay_ms=str(HOUR))
        send(client, 5 * DAY, 3 * DAY, DAY, 0)
        sweep(running)
        sweep(running)
        assert [name for name in files(running, ".deleted") if ".log" in name] == [
            f"{offset:020}.log.deleted" for offset in (0, 1)
        ]
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        assert files(running, ".deleted") == []
        assert list_offset(client, EARLIEST).offset == 2
        assert list_offset(client, LATEST).offset == 4
        assert fetch(client, 1).error_code == error_codes.OFFSET_OUT_OF_RANGE.code


def test_a_start_that_cannot_be_stored_deletes_nothing(server, client, monkeypatch, caplog):
    create(client, segment_ms="1000", retention_ms=str(2 * DAY))
    send(client, 3 * DAY, 0)
    directory = server.server.node.manager.directory

    def refuse(name, entries):
        raise StorageError("the disk refuses")

    with monkeypatch.context() as patched:
        patched.setattr(directory, "write_entries", refuse)
        sweep(server)
    assert "so no old segments are deleted: the disk refuses" in caplog.text
    assert list_offset(client, EARLIEST).offset == 0
    assert files(server, ".deleted") == []
    sweep(server)
    assert list_offset(client, EARLIEST).offset == 1


def test_a_topic_that_is_deleted_meanwhile_gets_no_start(server, client, monkeypatch):
    create(client, segment_ms="1000", retention_ms=str(2 * DAY))
    send(client, 3 * DAY, 0)
    topics = server.server.node.topics
    store_starts = topics._store_starts

    def delete_first(starts):
        assert delete(client) == 0
        store_starts(starts)

    monkeypatch.setattr(topics, "_store_starts", delete_first)
    sweep(server)
    starts = server.server.node.manager.directory.path / STARTS
    assert not starts.exists() or "orders" not in starts.read_text()


def test_it_sweeps_unasked(tmp_path):
    with RunningServer(tmp_path / "data", retention_check_ms=20) as running, Client(running.address) as client:
        create(client, segment_ms="1000", retention_ms=str(2 * DAY), file_delete_delay_ms="1")
        send(client, 3 * DAY, 0)
        until(lambda: list_offset(client, EARLIEST).offset == 1)
        until(lambda: files(running, ".deleted") == [])


def test_partitions_are_kept_apart(server, client):
    create(client, partitions=2, segment_ms="1000", retention_ms=str(2 * DAY))
    send(client, 5 * DAY, 0, partition=0)
    send(client, DAY, 0, partition=1)
    sweep(server)
    assert [list_offset(client, EARLIEST, partition=number).offset for number in (0, 1)] == [1, 0]
