"""Credentials of a connection: they open what is closed to others, and where they are refused that is said once."""

from __future__ import annotations

import contextlib
import logging
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from offsetlog import errors
from offsetlog.manager.zookeeper.broker import register_broker
from offsetlog.manager.zookeeper.manager import create
from offsetlog.manager.zookeeper.settings import from_properties
from offsetlog.types import TopicPartition
from offsetlog.zookeeper import connection as connections
from offsetlog.zookeeper.cluster import ClusterClient
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection

from .managers import PATIENCE, leading
from .proxy import CuttingProxy
from .silent_server import SilentServer
from .threads import Threads, in_patience

KEY = TopicPartition("orders", 0)
#: No server has this scheme.
REFUSED = (("unknown", "x"),)
#: Longer than a test has patience.
FOR_EVER = 3600.0
#: The number that the answer to credentials has, and the error of refused ones.
AUTH_XID, AUTH_FAILED = -4, -115


@pytest.fixture
def closed(hosts):
    """A root that nobody but the user "u" with the password "p:q" may read or change."""
    kazoo = KazooClient(hosts=hosts)
    kazoo.start(timeout=PATIENCE)
    try:
        kazoo.create("/closed", acl=[make_digest_acl("u", "p:q", all=True)])
    finally:
        kazoo.stop()
        kazoo.close()
    return f"{hosts}/closed"


def test_credentials_open_what_is_closed_to_others(closed):
    properties = {"zookeeper.connect": closed, "zookeeper.auth.digest": "u:p:q", "offsets.topic.num.partitions": 3}
    with create(properties) as manager:
        for partition in range(3):
            manager.become_leader(partition, 1)
        manager.commit("g", {KEY: 5})
        assert manager.fetch("g")[KEY].offset == 5
    with pytest.raises(errors.ZooKeeperError, match="does not permit this operation"), leading(closed):
        pass
    with register_broker({**properties, "broker.id": 1, "listeners": "PLAINTEXT://k:9092"}) as broker:
        assert broker.cluster.broker_ids() == [1]


def test_a_start_with_credentials_that_are_refused_fails_at_once(hosts):
    threads = Threads()
    settings = ConnectionSettings(hosts=hosts, auth=REFUSED, connection_timeout=FOR_EVER)
    for _ in range(2):
        failure = in_patience(ZooKeeperConnection(settings).start)
        assert isinstance(failure, errors.ZooKeeperError)
        assert "refuses the credentials of this connection (scheme: unknown)" in str(failure)
        assert not failure.retriable
    with (
        pytest.raises(errors.ZooKeeperError, match="refuses the credentials"),
        leading(hosts, connection={"auth": REFUSED}),
    ):
        pass
    threads.wait_until_ended()


class Changing(CuttingProxy):
    """Refuses credentials in the place of the server, as one does that was started again with other ones."""

    is_refusing = False

    def _passed_on(self, piece: bytes) -> bytes:
        if self.is_refusing and piece[4:8] == struct.pack(">i", AUTH_XID):
            return piece[:16] + struct.pack(">i", AUTH_FAILED) + piece[20:]
        return piece


@contextmanager
def refused_later(proxy: Changing, manager: Any) -> Iterator[None]:
    """Has the servers refuse the credentials from now on, and take them again afterwards."""
    connection, is_lost = manager._session.connection, threading.Event()
    connection.add_state_listener(lambda state: state == "lost" and is_lost.set())
    proxy.is_refusing = True
    proxy.cut_all()
    assert is_lost.wait(PATIENCE)
    yield
    again = threading.Event()
    connection.add_state_listener(lambda _: connection.refusal is None and again.set())
    proxy.is_refusing = False
    assert again.wait(PATIENCE)


def test_credentials_that_are_refused_later_are_said_to_callers_until_they_are_taken(ensemble, root, monkeypatch):
    monkeypatch.setattr(connections, "REPLACE_SECONDS_MAX", 0.05)
    with Changing(ensemble.ports[0]) as proxy:
        auth = (("digest", "u:p"),)
        with leading(f"127.0.0.1:{proxy.port}{root}", connection={"auth": auth, "session_timeout": 8.0}) as manager:
            manager.commit("g", {KEY: 1})
            with refused_later(proxy, manager):
                for call in (
                    lambda: manager.commit("g", {KEY: 2}),
                    lambda: manager.fetch("g"),
                    lambda: manager.delete("g", [KEY]),
                    manager.groups,
                    lambda: manager._session.connection.get("/"),
                ):
                    failure = in_patience(call)
                    assert type(failure) is errors.ZooKeeperError, failure
                    assert "refuses the credentials" in str(failure)
            manager.commit("g", {KEY: 3}, expected={KEY: 1})
            assert manager.fetch("g")[KEY].offset == 3


def test_a_watch_says_that_the_credentials_are_refused_and_goes_on_once_they_are_taken(ensemble, root, monkeypatch):
    monkeypatch.setattr(connections, "REPLACE_SECONDS_MAX", 0.05)
    with Changing(ensemble.ports[0]) as proxy:
        auth = (("digest", "u:p"),)
        with leading(f"127.0.0.1:{proxy.port}{root}", connection={"auth": auth, "session_timeout": 8.0}) as manager:
            connection = manager._session.connection
            with ClusterClient(connection).watch_topics() as watch:
                assert watch.next(PATIENCE) == []
                with refused_later(proxy, manager), pytest.raises(errors.ZooKeeperError, match="refuses the cred"):
                    watch.next(PATIENCE / 2)
                # Each further try that was refused is said as well.
                found = None
                while found is None:
                    with contextlib.suppress(errors.ZooKeeperError):
                        found = watch.next(PATIENCE)
                assert found == []


def test_refused_credentials_are_tried_more_and_more_seldom(ensemble, root):
    class Waits(threading.Event):
        seen: list[float] = []  # noqa: RUF012
        enough = threading.Event()

        def wait(self, timeout: float | None = None) -> bool:
            self.seen.append(timeout)
            if len(self.seen) == 8:
                self.enough.set()
            return super().wait(0.01)

    with Changing(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", auth=(("digest", "u:p"),))
        with ZooKeeperConnection(settings) as connection:
            connection._closing = Waits()
            proxy.is_refusing = True
            proxy.cut_all()
            assert Waits.enough.wait(PATIENCE)
        assert Waits.seen[:8] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_what_waits_for_a_server_ends_when_that_refuses_the_credentials(ensemble, root):
    with Changing(ensemble.ports[0]) as proxy:
        auth = (("digest", "u:p"),)
        with leading(f"127.0.0.1:{proxy.port}{root}", connection={"auth": auth}) as manager:
            connection, is_gone = manager._session.connection, threading.Event()
            connection.add_state_listener(lambda state: state == "suspended" and is_gone.set())
            proxy.refuse(True)
            assert is_gone.wait(PATIENCE)
            waiting = manager.commit_async("g", {KEY: 1}, timeout=FOR_EVER)
            proxy.is_refusing = True
            proxy.refuse(False)
            with pytest.raises(errors.ZooKeeperError, match="refuses the credentials"):
                waiting.result(PATIENCE)


def test_no_password_stands_in_an_error_or_in_what_is_printed():
    settings = ConnectionSettings(hosts="h", auth=(("digest", "u:secret"),))
    assert "secret" not in repr(settings)
    assert "secret" not in repr(from_properties({"zookeeper.connect": "h", "zookeeper.auth.digest": "u:secret"}))
    for wrong in ("secret", ":secret", "secret:", ""):
        form = r"zookeeper\.auth\.digest must have the form user:password"
        with pytest.raises(errors.ConfigError, match=form) as caught:
            from_properties({"zookeeper.connect": "h", "zookeeper.auth.digest": wrong})
        assert "secret" not in str(caught.value)


def test_a_server_that_never_takes_or_refuses_the_credentials_ends_the_start():
    with SilentServer(grants_sessions=True) as server:
        settings = ConnectionSettings(hosts=server.hosts, connection_timeout=0.5, auth=(("digest", "user:secret"),))
        connection, failures = ZooKeeperConnection(settings), []

        def start() -> None:
            try:
                connection.start()
            except errors.ZooKeeperUnavailableError as failure:
                failures.append(failure)

        starting = threading.Thread(target=start, daemon=True)
        starting.start()
        starting.join(PATIENCE)
        assert len(failures) == 1


def test_credentials_are_in_no_log(ensemble, caplog):
    caplog.set_level(logging.DEBUG)
    settings = ConnectionSettings(hosts=ensemble.hosts, auth=(("digest", "user:in-no-log"),))
    with ZooKeeperConnection(settings) as connection:
        connection.exists("/")
    assert "Auth(" in caplog.text
    assert "in-no-log" not in caplog.text
