"""Requests that wait for the server's threads: their bytes count until the server is done with them."""

from __future__ import annotations

import random
from contextlib import ExitStack, contextmanager

from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import ProduceResponse
from offsetlog.server.connection_limits import ADVANCE_BYTES, ConnectionLimits, RequestMemory
from offsetlog.topics.partition_log import PartitionLog
from tests.depth import first_seed

from .batches import produced_batch
from .running import Client, RunningServer
from .test_cold_disk import Slow
from .topic_requests import NOW, PRODUCE, create, produce, produce_request, until

LIMIT = 1 << 20


class _Arriving:
    def __init__(self) -> None:
        self.times_read_on = 0

    def read_on(self):
        self.times_read_on += 1

    def is_slow(self, since):
        return False

    def end(self, reason):
        raise AssertionError(reason)


def test_the_first_request_is_read_beyond_the_limit_unless_kept_ones_take_all():
    memory = RequestMemory(100)
    first, second = _Arriving(), _Arriving()
    memory.keep(99)
    assert memory.arrived(first, 500)
    assert not memory.arrived(second, 1)
    memory.keep(1)
    assert not memory.arrived(first, 501)
    memory.keep(300)
    memory.give_back_kept(300)
    assert first.times_read_on == 0
    memory.give_back_kept(1)
    assert (first.times_read_on, second.times_read_on) == (1, 0)
    assert memory.arrived(first, 501 + ADVANCE_BYTES)


def test_kept_requests_are_waited_for_like_those_that_arrive():
    memory = RequestMemory(100)
    first = _Arriving()
    memory.keep(150)
    assert not memory.arrived(first, 10)
    memory.give_back_kept(150)
    assert first.times_read_on == 1
    memory.release(first)
    assert memory.left == 100


# ------------------------------------------------------------------------------------------------ a server


@contextmanager
def serving(tmp_path):
    """A server with a compacted topic of two partitions, whose log is open."""
    limits = ConnectionLimits(queued_request_bytes_max=LIMIT)
    with RunningServer(tmp_path / "data", limits=limits) as server, Client(server.address) as client:
        create(client, partitions=2, cleanup_policy="compact")
        for partition in range(2):
            assert produce(client, produced_batch(1, timestamp=NOW), partition=partition).error_code == 0
        yield server


def compressed_produce() -> bytes:
    """A request of about 600 KB, with a batch that is inflated to look for keys."""
    value = random.Random(first_seed()).randbytes(600_000)
    return encode_request(produce_request(produced_batch(1, timestamp=NOW, value=value, codec=1)), PRODUCE, 1)


def slow_appends(monkeypatch) -> Slow:
    return Slow(monkeypatch, PartitionLog, "append", lambda log, *_: log.number == 0)


def test_requests_that_wait_to_be_inflated_keep_others_from_being_read(tmp_path, monkeypatch):
    request = compressed_produce()
    with serving(tmp_path) as server, ExitStack() as stack:
        slow = stack.enter_context(slow_appends(monkeypatch))
        disk, memory = server.server.node.disk, server.server._connections.memory
        clients = [stack.enter_context(Client(server.address)) for _ in range(6)]
        for each in clients:
            each.send(request)
        until(lambda: len(disk._tasks) + len(memory._waiting) == 6)
        # Two of them together exceed the limit.
        assert len(disk._tasks) == 2
        assert memory.left <= 0
        # Small ones need none of it.
        with Client(server.address) as other:
            assert produce(other, produced_batch(1, timestamp=NOW), partition=1).error_code == 0
        slow.may_go_on.set()
        for each in clients:
            _, answer = decode_response(ProduceResponse, PRODUCE, each.receive())
            assert answer.responses[0].partition_responses[0].error_code == 0
        until(lambda: memory.left == LIMIT)


def test_a_request_counts_until_the_server_is_done_with_it_though_its_client_is_gone(tmp_path, monkeypatch):
    request = compressed_produce()
    with serving(tmp_path) as server, slow_appends(monkeypatch) as slow:
        disk, connections = server.server.node.disk, server.server._connections
        until(lambda: connections.memory.left == LIMIT)
        for number in range(2):
            with Client(server.address) as client:
                client.send(request)
                until(lambda number=number: len(disk._tasks) == number + 1)
            until(lambda: len(connections) == 1)
        assert connections.memory.left == LIMIT - 2 * (len(request) - 4)
        slow.may_go_on.set()
        until(lambda: connections.memory.left == LIMIT)
