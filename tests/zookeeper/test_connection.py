"""A session answers writes truly: made, refused with the node that refused it, or of unknown outcome."""

from __future__ import annotations

import threading

import kazoo.exceptions
import pytest

from offsetlog import errors
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.operations import Check, Create, Delete, SetData
from offsetlog.zookeeper.requests import ReadNames, ReadNode

from .ensemble import Ensemble, expire_session
from .proxy import OP_MULTI, Answering, Cut, CuttingProxy

PATIENCE = 60.0


def test_nodes_are_made_read_changed_and_removed(connection):
    assert connection.exists("/a") is None
    connection.create("/a", b"1")
    found = connection.get("/a")
    assert (found.data, found.stat.version, found.stat.ephemeral_owner) == (b"1", 0, 0)
    connection.set_data("/a", b"2", version=0)
    with pytest.raises(errors.NodeVersionError) as caught:
        connection.set_data("/a", b"3", version=0)
    assert caught.value.node == "/a"
    connection.create("/a/b")
    connection.create("/a/a")
    assert connection.children("/a") == ["a", "b"]
    with pytest.raises(errors.NodeNotEmptyError):
        connection.delete("/a")
    with pytest.raises(errors.NodeExistsError):
        connection.create("/a/b")
    for call in (connection.get, connection.children, connection.delete):
        with pytest.raises(errors.NoNodeError) as missing:
            call("/a/c")
        assert missing.value.node == "/a/c"
    with pytest.raises(errors.NoNodeError):
        connection.create("/x/y")


@pytest.mark.parametrize("path", ["/a\udc80", "/a//b", "/a/", "/./a", "/a/..", "a", ""])
def test_a_path_that_no_node_can_have_is_refused_where_it_is_given(connection, path):
    session = connection.session_id
    connection.create("/a", b"1")
    for ask in (connection.get_async, connection.exists_async, connection.children_async, connection.listing_async):
        with pytest.raises(errors.InvalidArgumentError):
            ask(path)
    assert connection.get("/a").data == b"1"
    assert connection.session_id == session


def test_writes_and_many_reads_at_a_path_that_is_not_utf_8_are_refused_where_they_are_given(connection):
    session = connection.session_id
    connection.create("/a", b"1")
    for given in (
        lambda: connection.read_many_async([ReadNode("/a"), ReadNode("/a\udc80")]),
        lambda: connection.multi_async([SetData("/a", b"2"), Create("/a/\udc80")]),
    ):
        with pytest.raises(errors.InvalidArgumentError, match="not UTF-8"):
            given()
    assert connection.get("/a").data == b"1"
    assert connection.session_id == session


def test_several_writes_are_made_all_or_none(connection):
    connection.create("/a", b"0")
    connection.multi([Create("/a/b", b"1"), SetData("/a", b"2", 0), Check("/a", 1)])
    for refused, kind, node in [
        ([SetData("/a", b"9"), Create("/a/b")], errors.NodeExistsError, "/a/b"),
        ([SetData("/a", b"9"), Check("/a/b", 7), Create("/c")], errors.NodeVersionError, "/a/b"),
        ([Create("/c"), Create("/d/e"), SetData("/a", b"9")], errors.NoNodeError, "/d/e"),
        ([Create("/c"), Delete("/a")], errors.NodeNotEmptyError, "/a"),
    ]:
        with pytest.raises(kind) as caught:
            connection.multi(refused)
        assert caught.value.node == node
        assert connection.get("/a").data == b"2"
        assert connection.children("/") == ["a"]


def test_a_root_is_the_same_for_reads_and_writes_however_it_is_written(ensemble, root, connection):
    connection.create("/größe")
    for number, text in enumerate([f"{root}/größe", f"{root}//größe/", f"/{root}/größe//"]):
        with ZooKeeperConnection(ConnectionSettings(hosts=f"{ensemble.hosts}{text}")) as other:
            other.create(f"/{number}", b"x")
            assert other.get(f"/{number}").data == b"x"
            (found,) = other.read_many_async([ReadNames("/")]).result()
            assert found == other.children("/") == [str(each) for each in range(number + 1)]
    assert connection.children("/größe") == ["0", "1", "2"]


def test_a_request_that_is_too_large_is_not_sent(hosts, root):
    many = [Create("/a", b""), *(Create(f"/a/{number}", b"x" * 100) for number in range(20))]
    size = ZooKeeperConnection(ConnectionSettings(hosts=hosts)).request_size(many)
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts, request_bytes_max=size - 1)) as connection:
        with pytest.raises(errors.TooLargeError, match=r"jute\.maxbuffer"):
            connection.multi(many)
        assert connection.children("/") == []
        connection.multi(many[:-1])
        assert len(connection.children("/a")) == 19


def test_the_size_of_a_request_is_never_underestimated(ensemble, root):
    # As the proxy sees it, with the length and the root before each path.
    seen: list[int] = []

    class Measuring(CuttingProxy):
        def _moment_of(self, request: bytes) -> Cut | None:
            seen.append(len(request))
            return super()._moment_of(request)

    many = [
        Create("/a"),
        *(Create(f"/a/{number}", b"12345") for number in range(50)),
        SetData("/a", b"1"),
        Check("/a", 1),
    ]
    many.append(Delete("/a/0"))
    with Measuring(ensemble.ports[0]) as proxy:
        connection = ZooKeeperConnection(ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}"))
        with connection:
            connection.multi(many)
    assert connection.request_size(many) >= max(seen)


@pytest.mark.parametrize("moment", list(Cut))
def test_a_write_whose_connection_is_cut_has_an_unknown_outcome(ensemble, root, moment):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            connection.create("/a", b"0")
            session = connection.session_id
            proxy.cut_next(OP_MULTI, moment)
            with pytest.raises(errors.UnknownOutcomeError) as caught:
                connection.multi([SetData("/a", b"1"), Create("/a/b", ephemeral=True)])
            assert (proxy.cuts, caught.value.retriable, caught.value.node) == (1, True, "/a")
            # The session goes on, and everything was made, or nothing.
            made = moment is Cut.AFTER
            assert connection.get("/a").data == (b"1" if made else b"0")
            assert connection.children("/a") == (["b"] if made else [])
            assert connection.session_id == session


def test_a_read_whose_connection_is_cut_says_that_nobody_answered(ensemble, root):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            proxy.cut_next(4, Cut.AFTER)
            with pytest.raises(errors.ZooKeeperUnavailableError) as caught:
                connection.get("/")
            assert caught.value.retriable
            assert connection.children("/") == []


def test_a_session_that_expired_begins_again_without_its_nodes(ensemble, hosts, connection):
    states: list[str] = []
    lost, again = threading.Event(), threading.Event()

    def listen(state: str) -> None:
        states.append(state)
        if state == "lost":
            lost.set()
        elif lost.is_set() and state == "connected":
            again.set()

    connection.add_state_listener(listen)
    connection.create("/kept")
    connection.create("/gone", ephemeral=True)
    session = connection.session_id
    assert connection.get("/gone").stat.ephemeral_owner == session
    expire_session(connection._client, ensemble.hosts)
    assert again.wait(PATIENCE), states
    assert connection.session_id != session
    assert connection.children("/") == ["kept"]


class Confusing(CuttingProxy):
    """An answer to another request than the one that waits: kazoo ends its thread, and would connect no more."""

    wanted = False

    def _passed_on(self, piece: bytes) -> bytes:
        if not self.wanted:
            return piece
        self.wanted = False
        return piece[:7] + bytes([piece[7] ^ 1]) + piece[8:]


@pytest.mark.parametrize("writes", [True, False], ids=["of a write", "of a read"])
def test_a_client_whose_thread_ends_for_good_is_followed_by_another(ensemble, root, writes):
    with Confusing(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", request_timeout=PATIENCE)
        with ZooKeeperConnection(settings) as connection:
            connection.create("/a", b"0")
            session, again = connection.session_id, threading.Event()
            connection.add_state_listener(lambda state: state == "connected" and again.set())
            proxy.wanted = True
            with pytest.raises(errors.UnknownOutcomeError if writes else errors.ZooKeeperUnavailableError):
                connection.set_data("/a", b"1") if writes else connection.get("/a")
            assert again.wait(PATIENCE)
            assert connection.get("/a").data == (b"1" if writes else b"0")
            connection.set_data("/a", b"2")
            assert connection.session_id != session
        assert connection.is_closed


def test_a_request_that_is_handed_over_as_the_thread_ends_is_answered(ensemble, root, monkeypatch):
    late, answered = [], threading.Event()
    thread_ended = ZooKeeperConnection._thread_ended

    def hand_over_then_end(connection: ZooKeeperConnection, handler: object) -> None:
        client = connection._client
        if client is not None and client.handler is handler and not late:
            late.append(client.handler.async_result())
            late[0].rawlink(lambda _: answered.set())
            client._queue.append((None, late[0]))
        thread_ended(connection, handler)

    monkeypatch.setattr(ZooKeeperConnection, "_thread_ended", hand_over_then_end)
    with Confusing(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", request_timeout=PATIENCE)
        with ZooKeeperConnection(settings) as connection:
            proxy.wanted = True
            with pytest.raises(errors.ZooKeeperUnavailableError):
                connection.get("/")
            assert answered.wait(PATIENCE)
            assert isinstance(late[0].exception, kazoo.exceptions.ConnectionLoss)


@pytest.mark.parametrize("writes", [True, False], ids=["of a write", "of a read"])
def test_an_answer_with_an_error_that_nobody_knows_is_an_answer(ensemble, root, writes):
    with Answering(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", request_timeout=PATIENCE)
        with ZooKeeperConnection(settings) as connection:
            connection.create("/a", b"0")
            answered, again = threading.Event(), threading.Event()
            connection.add_state_listener(lambda state: state == "connected" and again.set())
            proxy.code = -999
            answer = connection.multi_async([SetData("/a", b"1")]) if writes else connection.get_async("/a")
            answer.add_done_callback(lambda _: answered.set())
            assert answered.wait(PATIENCE / 2)
            with pytest.raises(errors.UnknownOutcomeError if writes else errors.ZooKeeperUnavailableError):
                answer.result()
            assert again.wait(PATIENCE)
            assert connection.get("/a").data == (b"1" if writes else b"0")


@pytest.mark.parametrize("code", [-1, -2, -5, -7, -112, -118])
def test_an_error_within_a_server_leaves_a_write_of_unknown_outcome(ensemble, root, code):
    """System, inconsistency, marshalling, time, an expired session, a moved one: here the write was made."""
    with Answering(ensemble.ports[0]) as proxy:
        connection = ZooKeeperConnection(ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}"))
        with connection:
            connection.create("/a", b"0")
            proxy.code = code
            with pytest.raises(errors.UnknownOutcomeError):
                connection.set_data("/a", b"1")
            assert connection.get("/a").data == b"1"


@pytest.mark.parametrize("code", [-122, -127])
def test_a_server_that_has_too_much_to_do_is_asked_again(ensemble, root, code):
    with (
        Answering(ensemble.ports[0]) as proxy,
        ZooKeeperConnection(ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}")) as connection,
    ):
        connection.create("/a", b"0")
        proxy.code = code
        with pytest.raises(errors.ZooKeeperUnavailableError) as caught:
            connection.get("/a")
        assert caught.value.retriable
        proxy.code = code
        with pytest.raises(errors.UnknownOutcomeError):
            connection.set_data("/a", b"1")
        assert connection.get("/a").data == b"1"


def test_a_write_over_a_quota_is_refused_and_names_its_node(tmp_path):
    with (
        Ensemble(tmp_path, 1, settings={"enforceQuota": "true"}) as ensemble,
        ZooKeeperConnection(ConnectionSettings(hosts=ensemble.hosts)) as connection,
    ):
        connection.create("/few")
        connection.create("/zookeeper/quota/few")
        for name, values in (("limits", (-1, -1, -1, 3)), ("stats", (1, 0, 0, 0))):
            text = "count={},bytes={}=;byteHardLimit={};countHardLimit={}".format(*values)
            connection.create(f"/zookeeper/quota/few/zookeeper_{name}", text.encode())
        connection.create("/few/0")
        connection.create("/few/1")
        with pytest.raises(errors.ZooKeeperError, match="a quota of node /few/3") as caught:
            connection.multi([SetData("/few/0", b""), Create("/few/3")])
        assert (type(caught.value), caught.value.retriable) == (errors.ZooKeeperError, False)
        assert connection.children("/few") == ["0", "1"]


def test_a_read_after_sync_sees_what_another_client_was_answered(ensemble, root):
    with ZooKeeperConnection(ConnectionSettings(hosts=f"127.0.0.1:{ensemble.ports[0]}{root}")) as writer:
        writer.create("/a", b"0")
        readers = [
            ZooKeeperConnection(ConnectionSettings(hosts=f"127.0.0.1:{port}{root}")) for port in ensemble.ports[1:]
        ]
        for reader in readers:
            reader.start()
        try:
            for number in range(1, 51):
                writer.set_data("/a", b"%d" % number)
                for reader in readers:
                    reader.sync_async()
                    assert reader.get("/a").data == b"%d" % number
        finally:
            for reader in readers:
                reader.close()


@pytest.mark.ci
def test_the_death_of_the_leader_is_survived(tmp_path):
    with Ensemble(tmp_path) as ensemble:
        connection = ZooKeeperConnection(ConnectionSettings(hosts=ensemble.hosts, session_timeout=8.0))
        with connection:
            connection.create("/a", b"-1")
            for number in range(3):
                ensemble.kill_server(ensemble.leader())
                _write_until_known(connection, number)
                ensemble.start()
                assert connection.get("/a").data == b"%d" % number


def _write_until_known(connection: ZooKeeperConnection, number: int) -> None:
    while True:
        try:
            connection.set_data("/a", b"%d" % number)
        except errors.UnknownOutcomeError:
            continue
        return


def test_where_nobody_listens_the_start_fails():
    settings = ConnectionSettings(hosts="127.0.0.1:1/kafka", connection_timeout=0.5)
    with pytest.raises(errors.ZooKeeperUnavailableError, match=r"ZooKeeper at 127\.0\.0\.1:1/kafka did not answer"):
        ZooKeeperConnection(settings).start()


def test_a_root_that_is_not_there_is_no_failure_of_the_start(hosts):
    with ZooKeeperConnection(ConnectionSettings(hosts=f"{hosts}/nothing")) as connection:
        assert connection.exists("/") is None
        with pytest.raises(errors.NoNodeError):
            connection.create("/a")


def test_settings_out_of_their_domain_are_refused():
    for given in (
        {"hosts": ""},
        {"hosts": "/kafka"},
        {"hosts": "h", "session_timeout": 0},
        {"hosts": "h", "request_timeout": -1},
        {"hosts": "h/\udc80"},
        {"hosts": "h:1,a..b:2"},
        {"hosts": f"h:1,{'x' * 64}"},
        {"hosts": "h:1,a\0b:2"},
        {"hosts": "h", "auth": (("digest", "user:\udc80"),)},
    ):
        with pytest.raises(errors.ConfigError):
            ConnectionSettings(**given)
    for hosts in ("h", "127.0.0.1:2181, [::1]:2181", "zk-1.example.:2181", "größe:1/root"):
        assert ConnectionSettings(hosts=hosts).hosts == hosts
    with pytest.raises(errors.ConfigError, match="not a list of hosts"):
        ZooKeeperConnection(ConnectionSettings(hosts="h:port")).start()


def test_a_closed_connection_refuses(hosts):
    connection = ZooKeeperConnection(ConnectionSettings(hosts=hosts))
    with pytest.raises(errors.ClosedError):
        connection.get("/")
    connection.start()
    connection.close()
    connection.close()
    for call in (connection.get, connection.create):
        with pytest.raises(errors.ClosedError):
            call("/a")
