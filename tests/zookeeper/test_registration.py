"""The registration of a broker on a real ensemble: kept through expired sessions, and one for each id."""

from __future__ import annotations

import queue
import socket
import threading

import pytest

from offsetlog import errors
from offsetlog.manager.zookeeper.broker import record_from_properties, register_broker
from offsetlog.zookeeper.cluster import ClusterClient
from offsetlog.zookeeper.cluster_records import BrokerRecord, Endpoint, broker_node
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.nodes import Node, NodeStat
from offsetlog.zookeeper.operations import Create, Delete
from offsetlog.zookeeper.registration import BrokerRegistration

from .ensemble import PATIENCE, Ensemble, expire_session
from .proxy import OP_MULTI, Cut, CuttingProxy
from .threads import in_patience


def record_of(broker_id: int = 1, port: int = 9092) -> BrokerRecord:
    return BrokerRecord(broker_id=broker_id, endpoints=(Endpoint.parse(f"PLAINTEXT://kafka-{broker_id}:{port}"),))


def properties_of(hosts: str, **changes: object) -> dict[str, object]:
    return {
        "zookeeper.connect": hosts,
        "broker.id": 1,
        "advertised.listeners": "PLAINTEXT://kafka-1:9092",
        "zookeeper.session.timeout.ms": 4000,
    } | {name.replace("_", "."): value for name, value in changes.items()}


@pytest.fixture
def other(hosts):
    """A connection of another process."""
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as started:
        yield started


def test_a_broker_registers_itself_with_three_lines(hosts, other):
    broker = register_broker({"zookeeper.connect": hosts, "broker.id": 1, "listeners": "PLAINTEXT://kafka-1:9092"})
    try:
        cluster = ClusterClient(other)
        cluster.sync()
        found = cluster.brokers()[1]
        assert (found.record.address, found.session) == ("kafka-1:9092", broker.connection.session_id)
        assert found.epoch == broker.registration.epoch
        assert found.record.timestamp_ms > 0
        assert (broker.cluster_id, broker.cluster.broker_ids()) == (cluster.cluster_id(), [1])
    finally:
        broker.close()
    broker.close()
    cluster.sync()
    assert cluster.broker_ids() == []


@pytest.mark.parametrize("time_ms", [2**63 - 1, -(2**63), 253402300800000])
def test_a_holder_since_a_time_of_no_calendar_is_named(connection, time_ms):
    registration = BrokerRegistration(connection, record_of())
    node = Node(record_of(port=9093).to_json(), NodeStat(0, time_ms, 5, 7, 0, 5, 5))
    failure = registration._taken(node)
    assert (failure.holder, failure.since_ms) == ("kafka-1:9093", time_ms)
    assert f"since {time_ms} ms after 1970" in str(failure)


def test_a_close_ends_the_connection_also_where_the_registration_cannot_be_ended(hosts, monkeypatch):
    broker = register_broker(properties_of(hosts))
    close = broker.registration.close

    def failing() -> None:
        close()
        raise RuntimeError("no")

    monkeypatch.setattr(broker.registration, "close", failing)
    with pytest.raises(RuntimeError, match="no"):
        broker.close()
    assert broker.connection.is_closed


def test_a_taken_id_is_an_error_that_names_its_holder(connection, other):
    with BrokerRegistration(connection, record_of()) as first:
        with pytest.raises(errors.BrokerIdTakenError, match="taken by kafka-1:9092") as caught:
            BrokerRegistration(other, record_of(port=9999)).start()
        failure = caught.value
        held = connection.get(broker_node(1)).stat
        assert (failure.broker_id, failure.holder, failure.node) == (1, "kafka-1:9092", broker_node(1))
        assert (failure.session, failure.since_ms) == (connection.session_id, held.modified_ms)
        assert f"{connection.session_id:#x}" in str(failure)
        # The one that has it is not disturbed, and another id is free.
        assert (first.failure, ClusterClient(connection).broker(1).epoch) == (None, first.epoch)
        with BrokerRegistration(other, record_of(2)):
            assert ClusterClient(other).broker_ids() == [1, 2]
    with BrokerRegistration(other, record_of()):
        assert ClusterClient(other).broker(1).session == other.session_id


def test_the_node_of_a_process_that_died_is_waited_for(ensemble, hosts, connection, other):
    dead = BrokerRegistration(other, record_of())
    dead.start()
    started = threading.Thread(target=BrokerRegistration(connection, record_of(), wait=PATIENCE).start)
    with ClusterClient(connection).watch_broker(1) as watch:
        assert watch.next(PATIENCE).session == other.session_id
        started.start()
        other.close()
        while (found := watch.next(PATIENCE)) is None or found.session != connection.session_id:
            continue
    started.join(PATIENCE)
    assert not started.is_alive()


def test_a_broker_registers_again_after_its_session_expired(ensemble, hosts, connection, other):
    with BrokerRegistration(connection, record_of()) as registration:
        for _ in range(2):
            former, session = registration.epoch, connection.session_id
            expire_session(connection._client, ensemble.hosts)
            epoch = registration.wait_until_registered(former, PATIENCE)
            assert epoch > former
            cluster = ClusterClient(other)
            cluster.sync()
            found = cluster.broker(1)
            assert (found.epoch, found.session) == (epoch, connection.session_id)
            assert found.session != session


def test_a_broker_registers_again_after_its_node_was_removed(connection, other):
    with BrokerRegistration(connection, record_of()) as registration:
        former = registration.epoch
        other.delete(broker_node(1))
        assert registration.wait_until_registered(former, PATIENCE) > former


def test_a_broker_registers_again_after_the_directory_was_removed(connection, other):
    with BrokerRegistration(connection, record_of()) as registration:
        former = registration.epoch
        other.multi([Delete(broker_node(1)), Delete("/brokers/ids"), Delete("/brokers/topics"), Delete("/brokers")])
        assert registration.wait_until_registered(former, PATIENCE) > former


# ------------------------------------------------------------- the end, on a connection that others go on with


def nobody_is_registered(other) -> bool:
    other.sync_async().result()
    return other.children("/brokers/ids") == []


def test_a_close_in_the_moment_in_which_the_node_is_made_again_removes_it(connection, other, monkeypatch):
    with BrokerRegistration(connection, record_of()) as registration:
        create, closing, is_closing = connection.create, threading.Thread(target=registration.close), threading.Event()

        def create_and_close(*given: object, **named: object) -> None:
            create(*given, **named)
            closing.start()
            assert registration._closed.wait(PATIENCE)
            while not registration._watch._is_closed:
                continue
            is_closing.set()

        monkeypatch.setattr(connection, "create", create_and_close)
        other.delete(broker_node(1))
        assert is_closing.wait(PATIENCE)
        closing.join(PATIENCE)
        assert nobody_is_registered(other)


def test_a_start_that_fails_after_the_node_was_made_removes_it(connection, other, monkeypatch):
    registration = BrokerRegistration(connection, record_of())

    def failing(_: Node) -> None:
        raise errors.ZooKeeperUnavailableError("no")

    monkeypatch.setattr(registration, "_registered", failing)
    with pytest.raises(errors.ZooKeeperUnavailableError, match="no"):
        registration.start()
    assert nobody_is_registered(other)


class Leaving(CuttingProxy):
    """Carries the next write out, and then refuses all connections."""

    is_wanted = True

    def _moment_of(self, request: bytes) -> Cut | None:
        if not (self.is_wanted and request[8:12] == OP_MULTI.to_bytes(4, "big")):
            return super()._moment_of(request)
        self.is_wanted = False
        self._is_refusing = True
        return Cut.AFTER


def test_a_start_whose_servers_go_ends_and_the_node_goes_once_there_is_one(ensemble, root, other):
    ClusterClient(other).make_directories()
    with Leaving(ensemble.ports[0]) as proxy, ClusterClient(other).watch_broker(1) as watch:
        hosts = f"127.0.0.1:{proxy.port}{root}"
        settings = ConnectionSettings(hosts=hosts, session_timeout=10 * PATIENCE, request_timeout=0.5)
        with ZooKeeperConnection(settings) as connection:
            failure = in_patience(BrokerRegistration(connection, record_of()).start)
            assert isinstance(failure, errors.ZooKeeperUnavailableError)
            assert "ZooKeeper did not answer within 0.5 s" in str(failure)
            assert watch.next(PATIENCE) is not None
            proxy.refuse(False)
            assert watch.next(PATIENCE) is None


def test_a_start_that_fails_leaves_the_node_of_the_one_who_has_the_id(connection, other):
    with BrokerRegistration(connection, record_of()) as first:
        second = BrokerRegistration(connection, record_of())
        with pytest.raises(errors.BrokerIdTakenError):
            second.start()
        second.close()
        assert ClusterClient(other).broker(1).epoch == first.epoch


def test_a_node_whose_bytes_somebody_changed_goes_with_the_registration(connection, other):
    with BrokerRegistration(connection, record_of()):
        other.set_data(broker_node(1), record_of(port=9093).to_json())
    assert nobody_is_registered(other)


def test_a_close_while_no_server_is_there_removes_the_node_once_there_is_one(ensemble, root, other):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=10 * PATIENCE)
        with ZooKeeperConnection(settings) as connection:
            registration, is_cut = BrokerRegistration(connection, record_of()), threading.Event()
            registration.start()
            session = connection.session_id
            connection.add_state_listener(lambda state: state == "suspended" and is_cut.set())
            proxy.refuse(True)
            assert is_cut.wait(PATIENCE)
            registration.close()
            with ClusterClient(other).watch_broker(1) as watch:
                assert watch.next(PATIENCE).session == session
                proxy.refuse(False)
                assert watch.next(PATIENCE) is None
            assert connection.session_id == session


def test_a_start_that_is_closed_while_it_waits_for_a_former_process_ends(connection, other):
    with BrokerRegistration(other, record_of()):
        registration = BrokerRegistration(connection, record_of(), wait=10 * PATIENCE)
        failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()

        def start() -> None:
            try:
                registration.start()
            except Exception as failure:
                failures.put(failure)

        threading.Thread(target=start, daemon=True).start()
        while registration._watch is None:
            continue
        registration.close()
        assert isinstance(failures.get(timeout=PATIENCE), errors.ClosedError)


def test_a_former_process_of_a_broker_has_its_time_to_go(connection, other):
    with BrokerRegistration(other, record_of()):
        for port, wait in ((9092, 0.2), (9999, 10 * PATIENCE)):
            with pytest.raises(errors.BrokerIdTakenError):
                BrokerRegistration(connection, record_of(port=port), wait=wait).start()


def test_an_id_that_is_lost_to_another_is_reported_once(ensemble, connection, other):
    failures: queue.SimpleQueue[errors.OffsetLogError] = queue.SimpleQueue()
    registration = BrokerRegistration(connection, record_of(), on_failure=failures.put)
    with registration:
        # The other one takes it in the same moment in which it goes.
        data = record_of(port=9999).to_json()
        other.multi([Delete(broker_node(1)), Create(broker_node(1), data, ephemeral=True)])
        failure = failures.get(timeout=PATIENCE)
        assert isinstance(failure, errors.BrokerIdTakenError)
        assert (failure.holder, failure.session) == ("kafka-1:9999", other.session_id)
        with pytest.raises(errors.BrokerIdTakenError):
            registration.wait_until_registered(timeout=PATIENCE)
        assert (registration.failure, registration.epoch) == (failure, None)
    # The node of the other one stays, and nothing is tried any more.
    assert other.get(broker_node(1)).data == data
    assert failures.empty()


@pytest.mark.parametrize("moment", list(Cut))
def test_a_registration_is_made_through_a_broken_connection(ensemble, root, other, moment):
    ClusterClient(other).make_directories()
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            proxy.cut_next(OP_MULTI, moment)
            with BrokerRegistration(connection, record_of()) as registration:
                assert proxy.cuts == 1
                found = ClusterClient(connection).broker(1)
                assert (found.epoch, found.session) == (registration.epoch, connection.session_id)


@pytest.mark.ci
def test_a_registration_outlives_the_death_of_each_server(tmp_path):
    with Ensemble(tmp_path) as ensemble, register_broker(properties_of(ensemble.hosts)) as broker:
        other = ZooKeeperConnection(ConnectionSettings(hosts=ensemble.hosts, session_timeout=8.0))
        with other:
            cluster = ClusterClient(other)
            for _ in range(3):
                ensemble.kill_server(ensemble.leader())
                ensemble.start()
                epoch = broker.registration.wait_until_registered(timeout=PATIENCE)
                with cluster.watch_broker(1) as watch:
                    while (found := watch.next(PATIENCE)) is None or found.epoch < epoch:
                        continue
                assert found.record.address == "kafka-1:9092"


def test_a_root_that_is_not_there_is_made(hosts, connection):
    with register_broker(properties_of(f"{hosts}/new/root")) as broker:
        assert broker.cluster.broker_ids() == [1]
    assert set(connection.children("/new/root")) == {"brokers", "cluster"}


def test_a_root_that_somebody_removes_later_is_not_made_again(hosts, connection):
    failures: list[errors.OffsetLogError] = []
    lost = threading.Event()

    def fail(failure: errors.OffsetLogError) -> None:
        failures.append(failure)
        lost.set()

    with register_broker(properties_of(f"{hosts}/new"), on_failure=fail):
        names = ["brokers/ids/1", "brokers/ids", "brokers/topics", "brokers", "cluster/id", "cluster"]
        connection.multi([*(Delete(f"/new/{each}") for each in names), Delete("/new")])
        assert lost.wait(PATIENCE)
    assert [type(each) for each in failures] == [errors.NoNodeError]
    assert connection.children("/") == []


def test_what_a_broker_says_of_itself_comes_from_its_properties():
    given = properties_of("h")
    given["advertised.listeners"] = "INTERNAL://k1:9092, EXTERNAL://k1.example:9093"
    given["listener.security.protocol.map"] = "INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL"
    given["listeners"] = "INTERNAL://0.0.0.0:9092"
    given["broker.rack"] = "r1"
    found = record_from_properties(given)
    assert found.endpoints == (
        Endpoint("INTERNAL", "k1", 9092, "PLAINTEXT"),
        Endpoint("EXTERNAL", "k1.example", 9093, "SASL_SSL"),
    )
    assert (found.broker_id, found.rack) == (1, "r1")


def test_a_listener_without_a_host_has_the_name_of_the_machine():
    given = properties_of("h")
    given["advertised.listeners"] = "PLAINTEXT://:9092"
    assert record_from_properties(given).endpoints == (Endpoint("PLAINTEXT", socket.getfqdn(), 9092, "PLAINTEXT"),)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("broker.id", None, "broker.id"),
        ("broker.id", "x", "broker.id"),
        ("broker.id", -1, "broker.id"),
        ("broker.rack", "a\nb", "broker.rack"),
        ("broker.rack", "a\udc80", "broker.rack"),
        ("advertised.listeners", None, "advertised.listeners"),
        ("advertised.listeners", "kafka-1:9092", "advertised.listeners"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "advertised.listeners"),
        ("advertised.listeners", "PLAINTEXT://[::]:9092", "advertised.listeners"),
        ("advertised.listeners", "INTERNAL://k1:9092", "advertised.listeners: the listener INTERNAL has"),
        ("advertised.listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "advertised.listeners names a listener more than "),
        ("listener.security.protocol.map", "PLAINTEXT", "listener.security.protocol.map"),
        ("listener.security.protocol.map", "OTHER:SSL", "advertised.listeners"),
        ("zookeeper.connect", None, "zookeeper.connect"),
    ],
)
def test_a_property_that_is_wrong_is_named(name, value, named):
    given = properties_of("h:1")
    if value is None:
        del given[name]
    else:
        given[name] = value
    with pytest.raises(errors.ConfigError) as caught:
        register_broker(given)
    assert str(caught.value).startswith(named)
