"""The client of a connection ends when it is asked to, whatever its servers do, and no caller waits within it."""

from __future__ import annotations

import contextlib
import random
import select
import threading
from collections import deque
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.kazoo_handler import Doorbell
from offsetlog.zookeeper.operations import Create

from .managers import PATIENCE, leading, manager_of
from .proxy import Answering, CuttingProxy
from .silent_server import SilentServer
from .threads import Threads, in_patience

KEY = TopicPartition("orders", 0)
#: Longer than a test has patience.
FOR_EVER = 3600.0


# ------------------------------------------------------------------------------------------------------------- callers


def test_a_caller_never_waits_for_a_server_to_hand_a_request_over(ensemble, root):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", request_timeout=PATIENCE)
        with ZooKeeperConnection(settings) as connection:
            connection.create("/a", b"1")
            gone = threading.Event()
            connection.add_state_listener(lambda state: state == "suspended" and gone.set())
            proxy.refuse(True)
            assert gone.wait(PATIENCE)
            asked = in_patience(lambda: [connection.get_async("/a") for _ in range(5000)])
            assert len(asked) == 5000
            proxy.refuse(False)
            assert {each.result().data for each in asked} == {b"1"}


def test_a_caller_never_waits_for_a_server_that_takes_nothing_more():
    with SilentServer(grants_sessions=True) as server:
        settings = ConnectionSettings(hosts=server.hosts, session_timeout=FOR_EVER, connection_timeout=1.0)
        with ZooKeeperConnection(settings) as connection:
            # More than all buffers between the two hold.
            many = in_patience(lambda: [connection.multi_async([Create("/a", b"x" * 100_000)]) for _ in range(600)])
            assert not any(each.done() for each in many)
            in_patience(connection.close)
            for each in many:
                assert isinstance(in_patience(each.result), errors.UnknownOutcomeError)


def test_each_request_rings_in_any_order():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng, bell, rung, heard = random.Random(seed), Doorbell(), 0, 0
    for _ in range(100):
        for _ in range(rng.randrange(2000)):
            assert bell.send(b"\0") == 1
            rung += 1
        for _ in range(rng.randrange(2000)):
            heard += bell.recv(1) == b"\0"
    while bell.recv(1):
        heard += 1
    assert heard >= rung
    assert bell.recv(1) == b""
    bell.close()
    bell.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        bell.send(b"\0")


def test_no_ring_of_many_threads_is_lost():
    bell, requests = Doorbell(), deque()
    count, each = 4, 20_000

    def ask() -> None:
        for _ in range(each):
            requests.append(None)
            bell.send(b"\0")

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    taken = 0
    while taken < count * each:
        # As the client does: it waits until it is rung for, and takes one request, where there is one.
        assert select.select([bell], [], [], PATIENCE)[0], f"{taken} of {count * each} were taken"
        if requests:
            requests.popleft()
            taken += 1
        bell.recv(1)
    for thread in threads:
        thread.join(PATIENCE)
    bell.close()


# --------------------------------------------------------------------------------------------------------------- start


def test_a_start_at_a_server_that_is_silent_ends_in_its_time():
    with SilentServer() as server:
        threads = Threads()
        settings = ConnectionSettings(hosts=server.hosts, session_timeout=FOR_EVER, connection_timeout=0.2)
        failure = in_patience(ZooKeeperConnection(settings).start)
        assert isinstance(failure, errors.ZooKeeperUnavailableError)
        assert "within 0.2 s" in str(failure)
        threads.wait_until_ended()


def test_a_close_at_a_server_that_is_silent_ends_in_its_time():
    with SilentServer(grants_sessions=True) as server:
        threads = Threads()
        settings = ConnectionSettings(hosts=server.hosts, session_timeout=FOR_EVER, connection_timeout=1.0)
        connection = ZooKeeperConnection(settings)
        connection.start()
        in_patience(connection.close)
        threads.wait_until_ended()


def test_a_start_that_fails_says_why_the_last_connection_failed():
    with pytest.raises(errors.ZooKeeperUnavailableError, match=r"the last connection failed: .*refused"):
        ZooKeeperConnection(ConnectionSettings(hosts="127.0.0.1:1", connection_timeout=0.5)).start()


def test_a_second_start_makes_no_second_client(hosts):
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as connection:
        session = connection.session_id
        connection.start()
        assert connection.session_id == session


def test_two_starts_at_the_same_time_make_one_client(hosts, monkeypatch):
    threads, made, both = Threads(), [], threading.Barrier(2)
    new_client = ZooKeeperConnection._new_client

    def made_beside_another(connection: ZooKeeperConnection) -> Any:
        # The other one would come here in this time, too; it is not to.
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        made.append(new_client(connection))
        return made[-1]

    monkeypatch.setattr(ZooKeeperConnection, "_new_client", made_beside_another)
    connection = ZooKeeperConnection(ConnectionSettings(hosts=hosts))
    starting = [threading.Thread(target=connection.start) for _ in range(2)]
    for each in starting:
        each.start()
    for each in starting:
        each.join(PATIENCE)
    assert len(made) == 1
    assert connection.children("/") == []
    connection.close()
    threads.wait_until_ended()


def test_a_connection_that_is_closed_while_it_is_started_stays_closed(hosts, monkeypatch):
    threads = Threads()
    connection = ZooKeeperConnection(ConnectionSettings(hosts=hosts))
    is_let_in = connection._is_let_in

    def close_then_go_on(*given: Any) -> bool:
        connection.close()
        return is_let_in(*given)

    monkeypatch.setattr(connection, "_is_let_in", close_then_go_on)
    with pytest.raises(errors.ClosedError, match="during its start"):
        connection.start()
    assert connection.is_closed
    threads.wait_until_ended()
    monkeypatch.undo()
    with connection:
        assert connection.children("/") == []


# ---------------------------------------------------------------------------------------------------------- a next one


@pytest.mark.parametrize("lacking", ["offsetlog-zookeeper", "(run)"], ids=["to make it", "of its own"])
def test_a_client_that_cannot_be_replaced_for_want_of_threads_is_replaced_later(ensemble, root, monkeypatch, lacking):
    threads, again, refused = Threads(), threading.Event(), []
    start = threading.Thread.start
    with (
        Answering(ensemble.ports[0]) as proxy,
        ZooKeeperConnection(ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}")) as connection,
    ):
        session = connection.session_id

        def start_at_the_third_try(thread: threading.Thread) -> None:
            if lacking in thread.name and len(refused) < 2:
                refused.append(thread.name)
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_at_the_third_try)
        connection.add_state_listener(lambda state: state == "connected" and again.set())
        # The thread that reads it ends.
        proxy.code = -999
        with pytest.raises(errors.ZooKeeperUnavailableError):
            connection.children("/")
        assert again.wait(PATIENCE)
        assert len(refused) == 2
        assert connection.session_id != session
        assert connection.children("/") == []
    threads.wait_until_ended()


def test_a_connection_that_was_closed_can_be_started_again(hosts):
    threads = Threads()
    connection = ZooKeeperConnection(ConnectionSettings(hosts=hosts))
    for _ in range(2):
        connection.start()
        assert connection.children("/") == []
        connection.close()
    threads.wait_until_ended()


# ----------------------------------------------------------------------------------------------------------- a manager


class Refusing(CuttingProxy):
    """Takes connections, and refuses all from the first question whether a node is there on."""

    is_wanted = True

    def _moment_of(self, request: bytes) -> Any:
        if self.is_wanted and request[8:12] == b"\0\0\0\3":
            self.refuse(True)
        return super()._moment_of(request)


def test_a_start_of_a_manager_that_fails_leaves_nothing_open_and_can_be_repeated(ensemble, root):
    with Refusing(ensemble.ports[0]) as proxy:
        manager = manager_of(f"127.0.0.1:{proxy.port}{root}", connection={"request_timeout": 0.5}, retention_ms=1)
        threads = Threads()
        for _ in range(2):
            proxy.refuse(False)
            with pytest.raises(errors.ZooKeeperUnavailableError):
                manager.start()
            assert manager._session.connection.is_closed
            threads.wait_until_ended(but=proxy)
        proxy.is_wanted = False
        proxy.refuse(False)
        with manager:
            assert manager.groups() == []
        threads.wait_until_ended(but=proxy)


def test_a_close_goes_on_after_a_part_that_fails(hosts, monkeypatch):
    threads = Threads()
    with leading(hosts) as manager:
        manager.commit("g", {KEY: 1})
        connection = manager._session.connection
        close = connection.close

        def failing() -> None:
            close()
            raise RuntimeError("no")

        monkeypatch.setattr(connection, "close", failing)
        with pytest.raises(errors.StorageError, match="no"):
            manager.stop()
    threads.wait_until_ended()


def test_a_callback_of_a_commit_can_stop_its_manager(hosts):
    threads = Threads()
    stopped: list[Any] = []
    is_over = threading.Event()
    with leading(hosts) as manager:

        def stop(_: object) -> None:
            try:
                stopped.append(manager.stop())
            except BaseException as failure:
                stopped.append(failure)
            is_over.set()

        manager.commit_async("g", {KEY: 1}).add_done_callback(stop)
        assert is_over.wait(PATIENCE)
        assert stopped == [None]
        with pytest.raises(errors.ClosedError):
            manager.commit("g", {KEY: 2})
    threads.wait_until_ended()
    with leading(hosts) as other:
        assert other.fetch("g", [KEY])[KEY].offset == 1


@pytest.mark.parametrize("of", ["a watch", "a state"])
def test_a_callback_of_a_connection_can_close_it(hosts, connection, of):
    threads = Threads()
    connection.create("/a")
    closed: list[Any] = []
    is_over = threading.Event()
    own = ZooKeeperConnection(ConnectionSettings(hosts=hosts))
    own.start()

    def close(_: object = None) -> None:
        try:
            closed.append(own.close())
        except BaseException as failure:
            closed.append(failure)
        is_over.set()

    if of == "a watch":
        own.get_async("/a", close).result()
        connection.set_data("/a", b"1")
    else:
        own.add_state_listener(close)
        own._client.handler.break_connection()
    assert is_over.wait(PATIENCE)
    assert closed[0] is None
    assert own.is_closed
    threads.wait_until_ended()
