"""Groups are removed, and positions expire, only where nobody uses them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.manager.zookeeper.manager import ZooKeeperManager
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import ZooKeeperConnection
from offsetlog.zookeeper.operations import Delete

from .managers import PATIENCE, leading
from .proxy import OP_MULTI, Cut, CuttingProxy
from .test_manager import make, offsets_of

KEYS = [TopicPartition("orders", number) for number in range(4)]
MANY = {TopicPartition(f"t-{number % 5}", number): number for number in range(120)}
DAY_MS = 86_400_000
#: So small that the positions of MANY are removed in several transactions.
SMALL = {"request_bytes_max": 5000}


def all_nodes(connection: ZooKeeperConnection, node: str = "/consumers") -> set[str]:
    try:
        names = connection.children(node)
    except errors.NoNodeError:
        return set()
    return {node}.union(*(all_nodes(connection, f"{node}/{name}") for name in names))


def commit_many(manager: ZooKeeperManager, group: str) -> None:
    keys = list(MANY)
    for first in range(0, len(keys), 20):
        manager.commit(group, {key: MANY[key] for key in keys[first : first + 20]})


@contextmanager
def before_write(manager: ZooKeeperManager, number: int, call: Callable[[], Any]) -> Iterator[list[Any]]:
    """Makes a call, as another client would, before the write of this number is sent."""
    session, writes = manager._session, []
    write = session.write

    def interposed(work: Any, operations: Any) -> Any:
        writes.append(operations)
        if len(writes) == number:
            call()
        return write(work, operations)

    session.write = interposed  # type: ignore[method-assign]
    try:
        yield writes
    finally:
        session.write = write  # type: ignore[method-assign]


@contextmanager
def before_read(manager: ZooKeeperManager, number: int, call: Callable[[], Any]) -> Iterator[list[Any]]:
    """Makes a call, as another client would, before the read of this number is asked for; yields what was read."""
    session, reads = manager._session, []
    read = session.read

    def interposed(work: Any, ask: Any) -> Any:
        reads.append(ask)
        if len(reads) == number:
            call()
        return read(work, ask)

    session.read = interposed  # type: ignore[method-assign]
    try:
        yield reads
    finally:
        session.read = read  # type: ignore[method-assign]


# ------------------------------------------------------------------------------------------------------------- removal


def test_a_group_goes_with_its_nodes_in_one_transaction(hosts, connection):
    with leading(hosts) as manager:
        commit_many(manager, "g")
        manager.commit("kept", {KEYS[0]: 1})
        make(
            connection, ("/consumers/g/ids", b""), ("/consumers/g/owners/t-1", b""), ("/consumers/g/offsets/idle", b"")
        )
        with before_write(manager, 0, print) as writes:
            assert manager.delete_group("g") == len(MANY)
        assert len(writes) == 1
        above = ["/consumers/kept", "/consumers/kept/offsets", "/consumers/kept/offsets/orders"]
        assert all_nodes(connection) == {"/consumers", *above, "/consumers/kept/offsets/orders/0"}
        assert manager.delete_group("g") == 0
        make(connection, ("/consumers/empty/owners/t", b""))
        assert manager.delete_group("empty") == 0
        assert manager.groups() == ["kept"]


@pytest.mark.parametrize("node", ["ids/c-1", "owners/orders/0"])
def test_a_group_with_a_consumer_stays(hosts, connection, node):
    with leading(hosts) as manager:
        manager.commit("g", dict.fromkeys(KEYS, 1))
        make(connection, ("/consumers/g/ids", b""), ("/consumers/g/owners/orders", b""))
        connection.create(f"/consumers/g/{node}", b"c-1-0", ephemeral=True)
        with pytest.raises(errors.GroupNotEmptyError, match=f"/consumers/g/{node} exists") as caught:
            manager.delete_group("g")
        assert (caught.value.group, caught.value.error_code, caught.value.retriable) == ("g", 68, False)
        assert offsets_of(manager, "g") == dict.fromkeys(KEYS, 1)
        connection.delete(f"/consumers/g/{node}")
        assert manager.delete_group("g") == len(KEYS)


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_consumer_that_starts_while_its_group_is_removed_keeps_its_positions(hosts, connection, has_ids):
    with leading(hosts) as manager:
        manager.commit("g", dict.fromkeys(KEYS, 1))
        if has_ids:
            make(connection, ("/consumers/g/ids", b""))
        with (
            before_write(manager, 1, lambda: make(connection, ("/consumers/g/ids/c-1", b""))),
            pytest.raises(errors.GroupNotEmptyError),
        ):
            manager.delete_group("g")
        assert offsets_of(manager, "g") == dict.fromkeys(KEYS, 1)
        assert manager.consumers("g") == ["c-1"]


@pytest.mark.parametrize("key", [KEYS[0], TopicPartition("orders", 9), TopicPartition("new", 0)])
def test_a_commit_while_its_group_is_removed_is_not_lost(hosts, key):
    with leading(hosts) as manager, leading(hosts) as other:
        manager.commit("g", dict.fromkeys(KEYS, 1))
        with (
            before_write(manager, 1, lambda: other.commit("g", {key: 5})),
            pytest.raises(errors.GroupNotEmptyError, match="changed during the deletion"),
        ):
            manager.delete_group("g")
        assert offsets_of(manager, "g") == {**dict.fromkeys(KEYS, 1), key: 5}


def test_a_commit_beside_another_removal_of_its_group_is_not_lost(hosts):
    with leading(hosts) as manager, leading(hosts) as other:
        manager.commit("g", dict.fromkeys(KEYS, 1))

        def change() -> None:
            # The first one has the group be looked at again.
            other.delete("g", [KEYS[0]])
            other.commit("g", {KEYS[3]: 5})

        with (
            before_write(manager, 1, change),
            pytest.raises(errors.GroupNotEmptyError, match="orders/3 changed during the deletion"),
        ):
            manager.delete_group("g")
        assert offsets_of(manager, "g") == {KEYS[1]: 1, KEYS[2]: 1, KEYS[3]: 5}


def test_a_large_group_goes_in_several_transactions(hosts, connection):
    with leading(hosts, connection=SMALL) as manager:
        commit_many(manager, "g")
        with before_write(manager, 0, print) as writes:
            assert manager.delete_group("g") == len(MANY)
        assert len(writes) > 3
        assert all_nodes(connection) == {"/consumers"}


@pytest.mark.parametrize("number", range(2, 6))
def test_a_consumer_that_starts_while_a_large_group_is_removed_keeps_the_rest(hosts, connection, number):
    with leading(hosts, connection=SMALL) as manager:
        commit_many(manager, "g")
        with (
            before_write(manager, number, lambda: make(connection, ("/consumers/g/ids/c-1", b""))),
            pytest.raises(errors.GroupNotEmptyError, match=r"positions deleted so far: \d+"),
        ):
            manager.delete_group("g")
        left = offsets_of(manager, "g")
        assert 0 < len(left) < len(MANY)
        assert left.items() <= MANY.items()


@pytest.mark.parametrize("moment", list(Cut))
@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_removal_that_was_cut_in_the_middle_is_finished_by_the_next(ensemble, root, connection, moment, number):
    with (
        CuttingProxy(ensemble.ports[0]) as proxy,
        leading(f"127.0.0.1:{proxy.port}{root}", connection=SMALL) as manager,
    ):
        commit_many(manager, "g")
        proxy.cut_next(OP_MULTI, moment, after=number)
        with pytest.raises(errors.UnknownOutcomeError):
            manager.delete_group("g")
        assert proxy.cuts == 1
        left = offsets_of(manager, "g")
        assert left.items() <= MANY.items()
        assert manager.delete_group("g") == len(left)
        assert all_nodes(connection) == {"/consumers"}


def test_a_group_that_somebody_else_removes_too_is_gone(hosts, connection):
    with leading(hosts) as manager, leading(hosts) as other:
        manager.commit("g", dict.fromkeys(KEYS, 1))
        with before_write(manager, 1, lambda: other.delete("g", KEYS[:2])):
            assert manager.delete_group("g") == 2
        manager.commit("g", dict.fromkeys(KEYS, 1))
        with before_write(manager, 1, lambda: other.delete_group("g")):
            assert manager.delete_group("g") == 0
        assert all_nodes(connection) == {"/consumers"}


@pytest.mark.parametrize("number", [1, 2])
def test_the_positions_of_deleted_topics_go_with_their_nodes(hosts, connection, number):
    with leading(hosts, connection={"request_bytes_max": 2000}) as manager, leading(hosts) as other:
        for group in ("a", "b"):
            for pending in [manager.commit_async(group, {key: offset}) for key, offset in MANY.items()]:
                pending.result(PATIENCE)
        wanted = {key: value for key, value in MANY.items() if key.topic not in ("t-1", "t-3")}
        with before_write(manager, number, lambda: other.commit("a", {TopicPartition("t-1", 500): 1})):
            assert manager.on_topic_deleted(["t-1", "t-3", "nothing"]) == 2 * (len(MANY) - len(wanted)) + 1
        for group in ("a", "b"):
            assert offsets_of(manager, group) == wanted
            assert connection.children(f"/consumers/{group}/offsets") == ["t-0", "t-2", "t-4"]


@pytest.mark.parametrize("again", [False, True])
def test_a_commit_while_its_position_is_deleted_is_not_lost(hosts, again):
    with leading(hosts) as manager, leading(hosts) as other:
        manager.commit("g", dict.fromkeys(KEYS, 1))

        def change() -> None:
            if again:  # the first one has them be looked at again
                other.delete("g", [KEYS[1]])
            other.commit("g", {KEYS[0]: 5})

        with (
            before_write(manager, 1, change),
            pytest.raises(errors.GroupNotEmptyError, match="orders/0 changed during the deletion"),
        ):
            manager.delete("g", KEYS[:3])
        left = {KEYS[0]: 5, KEYS[1]: 1, KEYS[2]: 1, KEYS[3]: 1}
        if again:
            del left[KEYS[1]]
        assert offsets_of(manager, "g") == left
        assert manager.delete("g", KEYS[:3]) == len(left) - 1


def test_positions_that_somebody_else_deletes_too_are_gone(hosts):
    with leading(hosts) as manager, leading(hosts) as other:
        manager.commit("g", dict.fromkeys(KEYS, 1))
        with before_write(manager, 1, lambda: other.delete("g", [KEYS[0]])):
            assert manager.delete("g", KEYS[:3]) == 2
        assert offsets_of(manager, "g") == {KEYS[3]: 1}


def test_a_commit_while_its_topic_is_deleted_stays_and_keeps_no_other_from_it(hosts):
    wanted = TopicPartition("t-1", 0)
    others = [TopicPartition("t-1", 1), TopicPartition("t-2", 0), TopicPartition("t-3", 0)]
    with leading(hosts) as manager, leading(hosts) as other:
        for group in ("a", "b"):
            manager.commit(group, dict.fromkeys([wanted, *others], 1))
        with (
            before_write(manager, 1, lambda: other.commit("a", {wanted: 5})),
            pytest.raises(errors.GroupNotEmptyError, match="/consumers/a/offsets/t-1/0 changed during the deletion"),
        ):
            manager.on_topic_deleted(["t-1", "t-2"])
        # The others in one transaction with it stay as well.
        assert offsets_of(manager, "a") == {wanted: 5, others[0]: 1, others[2]: 1}
        assert offsets_of(manager, "b") == {others[2]: 1}
        assert manager.on_topic_deleted(["t-1", "t-2"]) == 2
        assert offsets_of(manager, "a") == {others[2]: 1}


def test_a_node_below_a_position_is_named_and_asked_for_once(hosts, connection):
    with leading(hosts) as manager:
        for group in ("a", "b"):
            manager.commit(group, dict.fromkeys(KEYS, 1) | {TopicPartition("t", 0): 1})
        make(connection, ("/consumers/a/offsets/orders/2/x", b""))
        with before_write(manager, 0, print) as writes, pytest.raises(errors.NodeNotEmptyError) as caught:
            manager.on_topic_deleted(["orders", "t"])
        assert caught.value.node == "/consumers/a/offsets/orders/2"
        assert "has child nodes; remove them by hand" in str(caught.value)
        assert len(writes) == 3
        assert offsets_of(manager, "a") == dict.fromkeys(KEYS, 1)
        assert offsets_of(manager, "b") == {}
        with pytest.raises(errors.NodeNotEmptyError, match="orders/2"):
            manager.delete("a", KEYS)
        connection.delete("/consumers/a/offsets/orders/2/x")
        assert manager.delete("a", KEYS) == len(KEYS)


# -------------------------------------------------------------------------------------------------------------- expiry


class Clock:
    """A time of day that a test moves, from the ensemble's on."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms

    def set_to_age(self, connection: ZooKeeperConnection, node: str, age_ms: int) -> None:
        connection.sync_async().result()  # its server may lack what another one answered
        self.ms = connection.get(node).stat.modified_ms + age_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def manager(hosts, clock):
    with leading(hosts, clock=clock, retention_ms=DAY_MS) as made:
        yield made


def test_positions_expire_by_the_time_of_their_last_change(manager, clock, connection):
    manager.commit("g", dict.fromkeys(KEYS, 1))
    clock.set_to_age(connection, "/consumers/g/offsets/orders/0", DAY_MS)
    assert manager.expire() == 0
    # Later by as much as ZooKeeper's clock needs to go on.
    connection.set_data("/consumers/g/offsets/orders/1", b"7")
    while connection.get("/consumers/g/offsets/orders/1").stat.modified_ms <= clock.ms - DAY_MS:
        connection.set_data("/consumers/g/offsets/orders/1", b"7")
    clock.ms += 1
    assert manager.expire() == 3
    assert offsets_of(manager, "g") == {KEYS[1]: 7}
    assert manager.expire() == 0


def test_a_group_of_which_all_has_expired_goes_with_its_nodes(manager, clock, connection):
    for group in ("g", "h"):
        manager.commit(group, dict.fromkeys(KEYS, 1))
        make(connection, (f"/consumers/{group}/ids", b""), (f"/consumers/{group}/owners", b""))
    clock.set_to_age(connection, "/consumers/h/offsets/orders/0", DAY_MS + 1)
    assert manager.expire() == 2 * len(KEYS)
    assert all_nodes(connection) == {"/consumers"}


def test_a_group_with_a_consumer_never_expires(manager, clock, connection):
    manager.commit("g", dict.fromkeys(KEYS, 1))
    make(connection, ("/consumers/g/ids/c-1", b""))
    clock.set_to_age(connection, "/consumers/g/offsets/orders/0", 1000 * DAY_MS)
    assert manager.expire() == 0
    connection.delete("/consumers/g/ids/c-1")
    # It starts again between the look and the write.
    with before_write(manager, 1, lambda: make(connection, ("/consumers/g/ids/c-1", b""))):
        assert manager.expire() == 0
    assert offsets_of(manager, "g") == dict.fromkeys(KEYS, 1)


@pytest.mark.parametrize("is_all", [True, False])
def test_a_commit_while_its_position_expires_is_not_lost(manager, clock, connection, hosts, is_all):
    manager.commit("g", dict.fromkeys(KEYS, 1))
    clock.set_to_age(connection, "/consumers/g/offsets/orders/0", DAY_MS + 1)
    if not is_all:
        manager.commit("g", {KEYS[3]: 4})
        clock.set_to_age(connection, "/consumers/g/offsets/orders/3", DAY_MS)
        if connection.get("/consumers/g/offsets/orders/0").stat.modified_ms == clock.ms - DAY_MS:
            clock.ms += 1  # within one millisecond
    with leading(hosts) as other, before_write(manager, 1, lambda: other.commit("g", {KEYS[0]: 5})):
        manager.expire()
    assert manager.fetch("g", [KEYS[0]])[KEYS[0]].offset == 5


def test_a_commit_between_two_looks_of_an_expiry_is_not_lost(manager, clock, connection, hosts):
    node = "/consumers/g/offsets/orders/0"

    def commit() -> None:
        other.commit("g", {KEYS[0]: 5})
        while connection.get(node).stat.modified_ms < clock.ms - DAY_MS:
            other.commit("g", {KEYS[0]: 5})  # within one millisecond

    with leading(hosts) as other:
        for number in itertools.count(1):
            manager.commit("g", dict.fromkeys(KEYS, 1))
            clock.set_to_age(connection, node, DAY_MS + 1)
            with before_read(manager, number, commit) as reads:
                manager.expire()
            if len(reads) < number:
                break
            assert manager.fetch("g", [KEYS[0]])[KEYS[0]].offset == 5, number
        assert number > 10
        assert manager.groups() == []


def test_a_node_below_a_position_keeps_no_other_from_expiry(manager, clock, connection):
    for group in ("a", "b"):
        manager.commit(group, dict.fromkeys(KEYS, 1))
    make(connection, ("/consumers/a/offsets/orders/0/x", b""))
    connection.set_data("/consumers/a/offsets/orders/3", b"7")
    clock.set_to_age(connection, "/consumers/b/offsets/orders/0", DAY_MS + 1)
    while connection.get("/consumers/a/offsets/orders/3").stat.modified_ms < clock.ms - DAY_MS:
        connection.set_data("/consumers/a/offsets/orders/3", b"7")
    with before_write(manager, 0, print) as writes, pytest.raises(errors.NodeNotEmptyError) as caught:
        manager.expire()
    assert caught.value.node == "/consumers/a/offsets/orders/0"
    assert len(writes) == 2
    assert offsets_of(manager, "a") == {KEYS[0]: 1, KEYS[3]: 7}
    assert manager.groups() == ["a"]


def test_a_clock_that_cannot_be_right_deletes_nothing(manager, clock, connection):
    manager.commit("g", {KEYS[0]: 1})
    clock.set_to_age(connection, "/consumers/g/offsets/orders/0", -2 * 3_600_000)
    with pytest.raises(errors.ClockError) as caught:
        manager.expire()
    assert caught.value.now == clock.ms
    assert offsets_of(manager, "g") == {KEYS[0]: 1}


def test_one_group_that_fails_keeps_no_other_from_expiry(manager, clock, connection):
    for group in ("a", "b", "c"):
        manager.commit(group, {KEYS[0]: 1})
    deep = "/".join("x" * 9)
    make(connection, (f"/consumers/b/{deep}", b""))
    clock.set_to_age(connection, "/consumers/c/offsets/orders/0", DAY_MS + 1)
    with pytest.raises(errors.ZooKeeperError, match="too deep to be a node of a group"):
        manager.expire()
    assert manager.groups() == ["b"]


def test_it_expires_by_itself_at_its_interval(hosts, clock, connection):
    with leading(hosts, clock=clock, retention_ms=DAY_MS, retention_check_interval_ms=20) as manager:
        manager.commit("g", {KEYS[0]: 1})
        clock.set_to_age(connection, "/consumers/g/offsets/orders/0", DAY_MS + 1)
        with leading(hosts) as other:
            limit = 100_000
            while other.groups() and limit:
                limit -= 1
            assert other.groups() == []


def test_without_a_retention_nothing_expires(hosts, clock, connection):
    with leading(hosts, clock=clock) as manager:
        manager.commit("g", {KEYS[0]: 1})
        clock.set_to_age(connection, "/consumers/g/offsets/orders/0", 10_000 * DAY_MS)
        assert manager.expire(timeout=PATIENCE) == 0
        assert manager.groups() == ["g"]


def test_a_node_of_a_group_that_is_no_position_can_be_removed(hosts, connection):
    with leading(hosts) as manager:
        manager.commit("g", {KEYS[0]: 1})
        make(connection, ("/consumers/g/offsets/orders/x/y", b"odd"), ("/consumers/g/offsets/z", b"odd"))
        assert manager.delete_group("g") == 2
        assert all_nodes(connection) == {"/consumers"}
        assert connection.exists("/consumers/g") is None
        connection.multi([Delete("/consumers")])
        assert manager.groups() == []
