"""The ZooKeeper manager: what it writes, what it reads, what it refuses."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading

import pytest

from offsetlog import errors
from offsetlog.manager.async_manager import AsyncOffsetManager
from offsetlog.manager.registry import available_managers, create_manager
from offsetlog.manager.zookeeper import session
from offsetlog.manager.zookeeper.manager import ZooKeeperManager, create
from offsetlog.manager.zookeeper.settings import PROPERTIES, from_properties
from offsetlog.types import OffsetAndMetadata, TopicPartition
from offsetlog.zookeeper.connection import REQUEST_BYTES_MAX, ZooKeeperConnection
from offsetlog.zookeeper.operations import Create

from .managers import PATIENCE, leading, manager_of

KEYS = [TopicPartition("orders", number) for number in range(4)]


def make(connection: ZooKeeperConnection, *nodes: tuple[str, bytes]) -> None:
    """Makes nodes with those above them."""
    for path, data in nodes:
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            try:
                connection.create("/" + "/".join(parts[:count]), data if count == len(parts) else b"")
            except errors.NodeExistsError:
                continue


def offsets_of(manager: ZooKeeperManager, group: str) -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in manager.fetch(group).items()}


# -------------------------------------------------------------------------------------------------------------- nodes


def test_a_commit_is_one_transaction_of_the_nodes_that_old_consumers_have(hosts, connection):
    with leading(hosts) as manager:
        manager.commit("g", {KEYS[0]: 5, KEYS[1]: 2**63 - 1, TopicPartition("t", 12): 0})
        wanted = {"orders/0": b"5", "orders/1": b"9223372036854775807", "t/12": b"0"}
        found = {path: connection.get(f"/consumers/g/offsets/{path}") for path in wanted}
        assert {path: node.data for path, node in found.items()} == wanted
        made = {node.stat.created_zxid for node in found.values()}
        above = ["/consumers", "/consumers/g", "/consumers/g/offsets", "/consumers/g/offsets/t"]
        made |= {connection.get(path).stat.created_zxid for path in above}
        assert len(made) == 1
        assert [connection.get(path).data for path in above] == [b""] * 4
        manager.commit("g", {KEYS[0]: 4, KEYS[1]: 3})
        changed = {connection.get(f"/consumers/g/offsets/orders/{n}").stat.modified_zxid for n in range(2)}
        assert len(changed) == 1
        assert manager.fetch("g", [KEYS[0]])[KEYS[0]].commit_timestamp == (
            connection.get("/consumers/g/offsets/orders/0").stat.modified_ms
        )


def test_what_old_consumers_wrote_is_read_with_null_and_empty_nodes_above(hosts, connection):
    make(connection, ("/consumers/g/ids", b""), ("/consumers/g/owners/t", b""), ("/consumers/g/offsets/t/3", b"0042"))
    with leading(hosts) as manager:
        assert offsets_of(manager, "g") == {TopicPartition("t", 3): 42}
        manager.commit("g", {TopicPartition("t", 3): 43}, monotonic=True)
        assert connection.get("/consumers/g/offsets/t/3").data == b"43"


def test_groups_consumers_and_owners_are_listed(hosts, connection):
    with leading(hosts) as manager:
        assert manager.groups() == []
        assert (manager.consumers("g"), manager.owners("g")) == ([], {})
        manager.commit("g", {KEYS[0]: 1})
        make(connection, ("/consumers/idle/offsets", b""), ("/consumers/g/ids", b""))
        make(
            connection, ("/consumers/g/owners/orders/0", b"g_host-1-0"), ("/consumers/g/owners/orders/3", b"g_\xc3\xbc")
        )
        connection.create("/consumers/g/ids/g_host-1", b'{"version":1}', ephemeral=True)
        assert manager.groups() == ["g", "idle"]
        assert manager.consumers("g") == ["g_host-1"]
        assert manager.owners("g") == {KEYS[0]: "g_host-1-0", KEYS[3]: "g_ü"}
        make(connection, ("/consumers/g/owners/orders/4", b"\xff"))
        with pytest.raises(errors.CorruptionError) as caught:
            manager.owners("g")
        assert caught.value.path == "/consumers/g/owners/orders/4"
        with pytest.raises(errors.GroupError):
            manager.consumers("a/b")


# ------------------------------------------------------------------------------------------------------------ bad data


@pytest.mark.parametrize("data", [b"", b"x", b"-1", b"1 ", str(2**63).encode(), b"1" * 5000])
def test_a_node_that_holds_no_offset_is_named_and_keeps_nobody_from_the_others(hosts, connection, data):
    with leading(hosts) as manager:
        manager.commit("g", dict.fromkeys(KEYS[:3], 7))
        connection.set_data("/consumers/g/offsets/orders/1", data)
        for ask in (lambda: manager.fetch("g"), lambda: manager.fetch("g", KEYS)):
            with pytest.raises(errors.CorruptionError) as caught:
                ask()
            assert caught.value.path == "/consumers/g/offsets/orders/1"
        assert [each.offset for each in manager.fetch("g", [KEYS[0], KEYS[2]]).values()] == [7, 7]
        for conditions in ({"monotonic": True}, {"expected": {KEYS[1]: 7}}):
            with pytest.raises(errors.CorruptionError):
                manager.commit("g", {KEYS[1]: 8}, **conditions)
        manager.commit("g", {KEYS[1]: 8})
        assert offsets_of(manager, "g") == {KEYS[0]: 7, KEYS[1]: 8, KEYS[2]: 7}


@pytest.mark.parametrize("name", ["x", "01", "-1", str(2**31)])
def test_a_node_whose_name_is_no_partition_is_named(hosts, connection, name):
    with leading(hosts) as manager:
        manager.commit("g", {KEYS[0]: 7})
        make(connection, (f"/consumers/g/offsets/orders/{name}", b"5"))
        with pytest.raises(errors.CorruptionError) as caught:
            manager.fetch("g")
        assert caught.value.path == f"/consumers/g/offsets/orders/{name}"
        assert manager.fetch("g", [KEYS[0]])[KEYS[0]].offset == 7
        assert manager.on_topic_deleted(["orders"]) == 2
        assert manager.fetch("g") == {}


# ------------------------------------------------------------------------------------------------------------- limits


def test_a_commit_that_does_not_fit_is_refused_and_never_split(hosts):
    many = {TopicPartition("t", number): number for number in range(60)}
    with leading(hosts, connection={"request_bytes_max": 4000}) as manager:
        for conditions in ({}, {"monotonic": True}):
            with pytest.raises(errors.TooLargeError, match=r"jute\.maxbuffer"):
                manager.commit("g", many, **conditions)
        assert manager.groups() == []
        fitting = dict(list(many.items())[:20])
        manager.commit("g", fitting)
        with pytest.raises(errors.TooLargeError):
            manager.commit("g", many)
        assert offsets_of(manager, "g") == fitting


@pytest.mark.ci
def test_a_commit_of_the_largest_request_is_taken(hosts):
    with leading(hosts) as manager:
        one = Create("/consumers/g/offsets/t/10000", b"1")
        size = manager._session.connection.request_size
        count = REQUEST_BYTES_MAX // (size([one, one]) - size([one])) - 10
        many = {TopicPartition("t", 10_000 + number): 1 for number in range(count)}
        manager.commit("g", many)
        manager.commit("g", dict.fromkeys(many, 2))
        assert offsets_of(manager, "g") == dict.fromkeys(many, 2)
        with pytest.raises(errors.TooLargeError):
            manager.commit("h", many | {TopicPartition("u", number): 1 for number in range(20)})


def test_names_that_no_node_can_have_are_refused(hosts):
    with leading(hosts) as manager:
        for group in ("", "a/b", ".", "\U0001f600"):
            for call in (
                lambda g: manager.commit(g, {KEYS[0]: 1}),
                manager.fetch,
                manager.delete_group,
                lambda g: manager.delete(g, KEYS),
            ):
                with pytest.raises(errors.GroupError, match="cannot be kept in ZooKeeper"):
                    call(group)
        for call in (lambda k: manager.commit("g", {k: 1}), lambda k: manager.fetch("g", [k])):
            with pytest.raises(errors.TopicError, match="cannot be kept in ZooKeeper"):
                call(TopicPartition("a/b", 0))
        assert manager.groups() == []


# -------------------------------------------------------------------------------------------------------- many at once


def test_groups_are_made_by_many_at_once_while_others_remove_them(hosts):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with leading(hosts) as one, leading(hosts) as two, leading(hosts) as remover:
        failures: list[BaseException] = []
        done = threading.Event()

        def commit(manager: ZooKeeperManager, number: int) -> None:
            rng = random.Random(seed + number)
            try:
                for offset in range(40):
                    group = f"g-{rng.randrange(3)}"
                    conditions = {"monotonic": rng.random() < 0.3}
                    try:
                        manager.commit(group, {TopicPartition(f"t-{number}", rng.randrange(3)): offset}, **conditions)
                    except errors.RewindError as failure:
                        assert failure.actual > offset  # noqa: PT017
            except BaseException as failure:
                failures.append(failure)

        def remove() -> None:
            while not done.is_set():
                for number in range(3):
                    try:
                        remover.delete_group(f"g-{number}")
                    except errors.GroupNotEmptyError:
                        continue

        threads = [threading.Thread(target=commit, args=(each, n)) for n, each in enumerate((one, two, one, two))]
        removing = threading.Thread(target=remove)
        for thread in [*threads, removing]:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        done.set()
        removing.join(PATIENCE)
        assert failures == []
        one.commit("g-0", {KEYS[0]: 1})
        assert two.fetch("g-0")[KEYS[0]].offset == 1


def test_commits_of_two_managers_are_those_of_a_model(hosts):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    model: dict[str, dict[TopicPartition, int]] = {}
    with leading(hosts) as one, leading(hosts) as two:
        for _ in range(250):
            manager, group = rng.choice([one, two]), f"g-{rng.randrange(3)}"
            known = model.setdefault(group, {})
            keys = rng.sample(KEYS, rng.randrange(1, 4))
            offsets = {key: rng.randrange(50) for key in keys}
            step = rng.randrange(6)
            if step < 2:
                manager.commit(group, offsets)
                known |= offsets
            elif step == 2:
                holds = all(known.get(key, 0) <= offset for key, offset in offsets.items())
                if holds:
                    manager.commit(group, offsets, monotonic=True)
                    known |= offsets
                else:
                    with pytest.raises(errors.RewindError):
                        manager.commit(group, offsets, monotonic=True)
            elif step == 3:
                expected = {key: known.get(key) if rng.random() < 0.7 else rng.randrange(50) for key in keys}
                if all(known.get(key) == value for key, value in expected.items()):
                    manager.commit(group, offsets, expected=expected)
                    known |= offsets
                else:
                    with pytest.raises(errors.ExpectedOffsetError):
                        manager.commit(group, offsets, expected=expected)
            elif step == 4:
                assert manager.delete(group, keys) == sum(known.pop(key, None) is not None for key in keys)
            elif rng.random() < 0.3:
                assert manager.delete_group(group) == len(known)
                known.clear()
            assert offsets_of(rng.choice([one, two]), group) == known
            asked = two.fetch(group, KEYS)
            assert {key: value.offset for key, value in asked.items()} == {key: known.get(key, -1) for key in KEYS}


@pytest.mark.parametrize("is_named", [True, False])
def test_a_fetch_sees_the_commits_of_another_process_as_a_whole(hosts, monkeypatch, is_named):
    monkeypatch.setattr(session, "IN_FLIGHT", 7)
    with leading(hosts) as writer, leading(hosts) as reader:
        many = [TopicPartition(f"t-{n % 3}", n) for n in range(30)]
        writer.commit("g", dict.fromkeys(many, 0))
        read, reads = reader._session.read, []

        def interposed(work, ask):
            # A commit comes before each of the first questions, so that the first passes see halves of several.
            reads.append(ask)
            if len(reads) <= 40:
                writer.commit("g", dict.fromkeys(many, len(reads)))
            elif len(reads) == 41:
                writer.commit("g", dict.fromkeys([*many, TopicPartition("new", 0)], 41))
            return read(work, ask)

        monkeypatch.setattr(reader._session, "read", interposed)
        found = reader.fetch("g", [*many, TopicPartition("new", 0)] if is_named else None)
        assert {value.offset for value in found.values()} == {41}
        assert len(found) == 31
        assert len(reads) > 45


def test_a_fetch_in_an_event_loop_does_not_hold_it(hosts):
    with leading(hosts) as manager:
        manager.commit("g", {KEYS[0]: 5})
        asked, go_on = threading.Event(), threading.Event()
        fetch = manager.fetch

        def waiting(*given):
            asked.set()
            assert go_on.wait(PATIENCE)
            return fetch(*given)

        manager.fetch = waiting

        async def serve():
            offsets = AsyncOffsetManager(manager)
            fetching = asyncio.ensure_future(offsets.fetch("g"))
            await asyncio.to_thread(asked.wait, PATIENCE)
            await offsets.commit("g", {KEYS[1]: 6})
            go_on.set()
            return await fetching

        assert asyncio.run(serve())[KEYS[1]].offset == 6


# ------------------------------------------------------------------------------------------------------------ settings


def test_the_manager_is_chosen_by_its_name(hosts):
    assert available_managers()["zookeeper"] == "offsetlog.manager.zookeeper.manager:create"
    properties = {"offset.storage": "zookeeper", "zookeeper.connect": hosts, "offsets.topic.num.partitions": "4"}
    manager = create_manager(properties)
    assert isinstance(manager, ZooKeeperManager)
    with manager:
        assert manager.partitions == 4
        manager.become_leader(manager.partition_for("g"), 1).result(PATIENCE)
        manager.commit("g", {KEYS[0]: 5})
        assert manager.fetch("g")[KEYS[0]].offset == 5


def test_properties_are_read_by_the_names_that_kafka_has():
    settings = from_properties(
        {
            "zookeeper.connect": "zk1:2181,zk2:2181/kafka",
            "zookeeper.session.timeout.ms": "9000",
            "zookeeper.connection.timeout.ms": 2500,
            "jute.maxbuffer": "4096",
            "offsets.topic.num.partitions": "7",
            "offsets.commit.timeout.ms": "1500",
            "offsets.retention.minutes": "3",
            "offsets.retention.check.interval.ms": "60000",
            "log.dir": "of another manager",
        }
    )
    reached = settings.connection
    assert (reached.hosts, reached.session_timeout, reached.connection_timeout) == ("zk1:2181,zk2:2181/kafka", 9.0, 2.5)
    assert (reached.request_bytes_max, settings.partitions, settings.commit_timeout) == (4096, 7, 1.5)
    assert (settings.retention_ms, settings.retention_check_interval_ms) == (180_000, 60_000)
    assert from_properties({"zookeeper.connect": "h", "offsets.retention.minutes": -1}).retention_ms is None


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_a_property_out_of_its_domain_is_named(name):
    wrong = "/kafka" if name == "zookeeper.connect" else "x"
    given = {"zookeeper.connect": "zk1:2181", name: wrong}
    with pytest.raises(errors.ConfigError) as caught:
        create(given)
    assert name in str(caught.value)
    if name not in ("zookeeper.connect", "offsets.retention.minutes"):
        with pytest.raises(errors.ConfigError, match=name.replace(".", r"\.")):
            create(given | {name: 0})


@pytest.mark.parametrize("below", ["/new", "/new/of/several/", "//new//of"])
def test_a_root_that_is_not_there_is_made_by_the_start(hosts, connection, below):
    with leading(f"{hosts}{below}") as manager, leading(f"{hosts}{below}") as other:
        manager.commit("g", {KEYS[0]: 5})
        assert other.fetch("g")[KEYS[0]].offset == 5
    path = "/" + "/".join(filter(None, below.split("/")))
    assert connection.children(path) == ["consumers"]


def test_a_root_that_somebody_removed_later_is_an_error_of_commits(hosts, connection):
    with leading(f"{hosts}/new") as manager:
        connection.delete("/new")
        with pytest.raises(errors.ZooKeeperError, match=r"the root node of '.*/new' was removed"):
            manager.commit("g", {KEYS[0]: 5})
        assert connection.children("/") == []


def test_without_servers_the_start_fails():
    with pytest.raises(errors.ConfigError, match=r"zookeeper\.connect is missing"):
        create({})
    with pytest.raises(errors.ZooKeeperUnavailableError):
        manager_of("127.0.0.1:1", connection={"connection_timeout": 0.3}).start()


def test_what_zookeeper_has_no_place_for_is_refused(hosts):
    with leading(hosts) as manager:
        for value in (
            OffsetAndMetadata(1, "text"),
            OffsetAndMetadata(1, leader_epoch=0),
            OffsetAndMetadata(1, expire_timestamp=5),
        ):
            with pytest.raises(errors.CapabilityError):
                manager.commit("g", {KEYS[0]: 1, KEYS[1]: value})
        manager.commit("g", {KEYS[0]: OffsetAndMetadata(1, "", -1, commit_timestamp=5)})
        assert manager.fetch("g")[KEYS[0]].commit_timestamp > 5


def test_kazoo_is_imported_only_where_zookeeper_is_used():
    code = (
        "import sys, offsetlog, offsetlog.manager.registry, offsetlog.manager.zookeeper.manager\n"
        "assert not [name for name in sys.modules if name.startswith('kazoo')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
