"""Watches that stay, on a real ensemble: each last state comes, also through cut connections and expired sessions."""

from __future__ import annotations

import queue
import random
import threading

import pytest

from offsetlog import errors
from offsetlog.zookeeper.cluster import ClusterClient
from offsetlog.zookeeper.cluster_records import CONTROLLER, Assignment, PartitionState, TopicRecord, topic_node
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.operations import Create, Delete
from offsetlog.zookeeper.watches import Watch, Watcher, read_node

from .ensemble import PATIENCE, expire_session
from .proxy import CuttingProxy


def data_of(watch: Watch, timeout: float = PATIENCE) -> bytes | None:
    node = watch.next(timeout)
    return None if node is None else node.data


def watch_of(connection: ZooKeeperConnection, node: str) -> Watch:
    return Watch(connection, lambda watch: read_node(connection, node, watch))


def test_a_node_is_seen_through_its_whole_life(hosts, connection):
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as writer, watch_of(connection, "/a") as watch:
        assert data_of(watch) is None
        with pytest.raises(TimeoutError):
            watch.next(0.0)
        for _ in range(3):
            writer.create("/a", b"0")
            assert data_of(watch) == b"0"
            for number in range(1, 4):
                writer.set_data("/a", b"%d" % number)
                assert data_of(watch) == b"%d" % number
            writer.delete("/a")
            assert data_of(watch) is None


def test_a_writer_that_is_faster_hides_states_and_never_the_last(hosts, connection):
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as writer, watch_of(connection, "/a") as watch:
        writer.create("/a", b"0")
        done = threading.Thread(target=lambda: [writer.set_data("/a", b"%d" % n) for n in range(1, 301)])
        done.start()
        seen = [-1]
        while seen[-1] != 300:
            found = data_of(watch)
            if found is not None:
                seen.append(int(found))
        done.join()
        assert seen == sorted(seen)
        with pytest.raises(TimeoutError):
            watch.next(0.0)


def test_the_last_state_comes_through_connections_that_are_cut(ensemble, root, connection):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    connection.create("/a", b"0")
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as cut, watch_of(cut, "/a") as watch:
            assert data_of(watch) == b"0"
            for number in range(1, 31):
                is_before = chance.random() < 0.5
                if is_before:
                    proxy.cut_all()
                connection.set_data("/a", b"%d" % number)
                if not is_before:
                    proxy.cut_all()
                assert data_of(watch) == b"%d" % number


def test_what_changes_while_nobody_is_connected_comes_once_somebody_is(ensemble, root, connection):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as cut, watch_of(cut, "/a") as watch:
            assert data_of(watch) is None
            proxy.refuse(True)
            connection.create("/a", b"1")
            with pytest.raises(TimeoutError):
                watch.next(0.2)
            connection.set_data("/a", b"2")
            proxy.refuse(False)
            assert data_of(watch) == b"2"


def test_the_last_state_comes_after_the_session_expired(ensemble, hosts, connection):
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as writer, watch_of(connection, "/a") as watch:
        assert data_of(watch) is None
        for number in range(2):
            session = connection.session_id
            writer.create("/a", b"%d" % number)
            expire_session(connection._client, ensemble.hosts)
            while data_of(watch) is None:
                continue
            writer.delete("/a")
            assert data_of(watch) is None
            assert connection.session_id != session


def test_a_callback_gets_each_state_and_the_errors_between(hosts, connection):
    states: queue.SimpleQueue[object] = queue.SimpleQueue()
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as writer:
        cluster = ClusterClient(writer)
        cluster.make_directories()
        watch = ClusterClient(connection).watch_topic("orders")

        def callback(state: object) -> None:
            states.put(state)
            raise ValueError("a callback that fails loses no state")

        with Watcher(watch, callback, states.put):
            assert states.get(timeout=PATIENCE) is None
            record = TopicRecord(topic="orders", partitions={0: Assignment((1,))})
            cluster.create_topic(record)
            assert states.get(timeout=PATIENCE) == (record, 0)
            writer.set_data(topic_node("orders"), b"odd")
            failure = states.get(timeout=PATIENCE)
            assert isinstance(failure, errors.CorruptionError)
            assert failure.path == topic_node("orders")
            writer.set_data(topic_node("orders"), record.to_json())
            assert states.get(timeout=PATIENCE) == (record, 2)
            writer.delete(topic_node("orders"))
            assert states.get(timeout=PATIENCE) is None
        assert states.empty()


def test_everything_of_a_cluster_can_be_watched(hosts, connection):
    watcher = ClusterClient(connection)
    watches = [
        watcher.watch_broker_ids(),
        watcher.watch_topics(),
        watcher.watch_controller(),
        watcher.watch_partition_state("t", 0),
        watcher.watch_broker(3),
    ]
    assert [each.next(PATIENCE) for each in watches] == [[], [], None, None, None]
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as writer:
        cluster = ClusterClient(writer)
        cluster.make_directories()
        epoch = cluster.elect_controller(3)
        assert watches[2].next(PATIENCE).broker_id == 3
        cluster.create_topic(TopicRecord(topic="t", partitions={0: Assignment((3,))}))
        assert watches[1].next(PATIENCE) == ["t"]
        state = PartitionState(leader=3, leader_epoch=0, isr=(3,), controller_epoch=1)
        cluster.create_partition_states("t", {0: state}, epoch)
        assert watches[3].next(PATIENCE) == (state, 0)
        data = b'{"version":1,"host":"h","port":9,"jmx_port":-1,"timestamp":"1"}'
        writer.create("/brokers/ids/3", data, ephemeral=True)
        assert watches[0].next(PATIENCE) == [3]
        assert watches[4].next(PATIENCE).record.address == "h:9"
        assert writer.exists(CONTROLLER) is not None
    # The writer's session is over, and what went with it is seen to go.
    assert [watches[number].next(PATIENCE) for number in (0, 2, 4)] == [[], None, None]
    for each in watches:
        each.close()


def test_brokers_that_go_and_come_back_and_those_that_change_are_seen(hosts, connection):
    data = '{{"version":1,"host":"h","port":{},"jmx_port":-1,"timestamp":"1"}}'
    with (
        ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as writer,
        ClusterClient(connection).watch_brokers() as watch,
    ):
        assert watch.next(PATIENCE) == {}
        ClusterClient(writer).make_directories()
        for broker in (1, 2):
            writer.create(f"/brokers/ids/{broker}", data.format(broker).encode())
        while len(first := watch.next(PATIENCE)) < 2:
            continue
        # In one transaction, so that no read sees it gone.
        same = data.format(1).encode()
        writer.multi([Delete("/brokers/ids/1"), Create("/brokers/ids/1", same)])
        back = watch.next(PATIENCE)
        assert back[1].record == first[1].record
        assert (back[1].epoch > first[1].epoch, back[2]) == (True, first[2])
        writer.set_data("/brokers/ids/2", data.format(22).encode())
        changed = watch.next(PATIENCE)
        assert ([each.record.address for each in changed.values()], changed[1]) == (["h:1", "h:22"], back[1])


def test_a_watch_does_not_wait_for_a_server_that_refuses_the_credentials(connection, monkeypatch):
    refused = errors.ZooKeeperError("refused", node="/")
    with watch_of(connection, "/a") as watch:
        assert watch.next(PATIENCE) is None
        watch._changed()
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(ZooKeeperConnection, "is_connected", False)
            meanwhile.setattr(ZooKeeperConnection, "refusal", refused)
            with pytest.raises(errors.ZooKeeperError, match="refused"):
                watch.next(0.0)
        watch._changed()
        assert watch.next(PATIENCE) is None


def test_a_closed_watch_ends_those_that_wait(connection):
    watch = watch_of(connection, "/a")
    first, ended = threading.Event(), threading.Event()

    def wait() -> None:
        for _ in watch:
            first.set()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert first.wait(PATIENCE)
    watch.close()
    watch.close()
    assert ended.wait(PATIENCE)
    with pytest.raises(errors.ClosedError):
        watch.next()


def test_a_closed_connection_ends_its_watches(hosts):
    connection = ZooKeeperConnection(ConnectionSettings(hosts=hosts))
    connection.start()
    watch = watch_of(connection, "/a")
    assert watch.next(PATIENCE) is None
    connection.close()
    with pytest.raises(errors.ClosedError):
        watch.next(PATIENCE)
