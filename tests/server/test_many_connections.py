"""Thousands of connections that say nothing, or little by little, or nonsense: the others are served meanwhile."""

from __future__ import annotations

import random
import resource
import socket
from contextlib import ExitStack

import pytest

from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import ApiVersionsRequest
from offsetlog.topics import open_files
from tests.depth import first_seed

from .batches import produced_batch
from .running import SECONDS, Client, RunningServer
from .test_life import commit, made, started
from .topic_requests import NOW, produce

CONNECTIONS = 5000
ASK = encode_request(ApiVersionsRequest("test", "1.0"), 3, 1)


@pytest.fixture
def connections_max():
    """As many as this process may have at both ends; all of CONNECTIONS where the machine allows it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield min(CONNECTIONS, before[1] // 3)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def assert_commits(client: Client, first: int, count: int = 20) -> int:
    for offset in range(first, first + count):
        assert commit(client, "busy", "orders", offset) == 0
    return first + count


def test_others_are_served_beside_thousands_of_connections(tmp_path, connections_max):
    seed = first_seed()
    print(f"seed {seed}, {connections_max} connections")
    draw = random.Random(seed)
    opened: list[socket.socket] = []
    with RunningServer(tmp_path / "data", partitions=4) as server, Client(server.address) as client:
        made(client, "orders")
        offset = assert_commits(client, 1)
        try:
            opened.extend(
                socket.create_connection(server.address, timeout=SECONDS) for _ in range(connections_max)
            )
            offset = assert_commits(client, offset)
            silent, slow, huge = (opened[first::3] for first in range(3))
            # A request a byte at a time, for as long as anybody likes.
            for at in range(len(ASK) - 1):
                for each in draw.sample(slow, 50) if at > 3 else slow:
                    each.send(ASK[at : at + 1])
            offset = assert_commits(client, offset)
            # Sizes of 2 GiB end their connections before anything is taken for them.
            for each in huge:
                each.send(b"\x7f\xff\xff\xff" + b"x" * 100)
            offset = assert_commits(client, offset)
            assert all(ended(each) for each in huge)
            # Those that said nothing are as welcome as before.
            for each in draw.sample(silent, 100):
                each.sendall(ASK)
                assert each.recv(4096)
            assert len(server.server._connections) == 1 + len(silent) + len(slow)
        finally:
            for each in opened:
                each.close()
        assert_commits(client, offset)


@pytest.mark.parametrize(("files", "partitions"), [(256, 4), (512, 50)])
def test_as_many_connections_as_there_may_be_leave_files_for_logs(tmp_path, files, partitions):
    names = [f"t{number}" for number in range(40)]
    given = (tmp_path / "data", "--partitions", str(partitions), "--log-level", "error")
    with started(*given, open_files=files) as (_, address), Client(address) as client, ExitStack() as opened:
        made(client, *names)
        for _ in range(files):
            opened.enter_context(socket.create_connection(address, timeout=SECONDS))
        for number in range(10 * partitions):
            assert commit(client, f"g{number}", "t0", number) == 0
        # Only a few of their logs may be open at a time, so that each is opened here.
        for name in names * 2:
            assert produce(client, produced_batch(1, timestamp=NOW), topic=name).error_code == 0


@pytest.mark.parametrize("files", [64, 256, 700, 1024, 4096, 65_536, 1 << 20])
@pytest.mark.parametrize("partitions", [4, 50])
def test_the_files_of_a_process_suffice_for_connections_and_logs(monkeypatch, files, partitions):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    logs = open_files.open_logs_max() + partitions
    most = open_files.connections_max(partitions)
    assert most == 1 or most + logs * open_files.FILES_OF_A_LOG + open_files.RESERVED_FILES <= files
    assert most == 1 or most > files // 5
    assert open_files.connections_max(partitions, open_logs=1) >= most


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
