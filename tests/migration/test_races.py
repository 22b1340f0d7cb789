"""Consumers that commit beside a migration, and connections that break in it: nothing goes back, all is counted."""

from __future__ import annotations

import contextlib
import threading

import pytest
from zookeeper.proxy import OP_MULTI, Cut, CuttingProxy, outlast_session

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog.migration import migration as module
from offsetlog.migration.directory_place import DirectoryPlace
from offsetlog.migration.migration import Migration
from offsetlog.migration.places import Fate, Written
from offsetlog.migration.zookeeper_place import ZooKeeperPlace
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import data_of, offset_node
from offsetlog.zookeeper.requests import OP_MULTI_READ

from .zookeeper_offsets import client_of, fill, offsets_in

GROUPS, PARTITIONS = 12, 10
MOVED = 1000


@pytest.fixture
def source(tmp_path):
    """A directory in which every position of every group stands at MOVED."""
    with offsetlog.open(tmp_path / "data") as store:
        for group in range(GROUPS):
            store.commit(f"g{group}", {TopicPartition("t", number): MOVED for number in range(PARTITIONS)})
    with offsetlog.open(tmp_path / "data", read_only=True) as store:
        yield DirectoryPlace(store)


def test_a_position_that_a_consumer_commits_meanwhile_never_goes_back(source, hosts, connection):
    # Consumers write until each stands above what is migrated; the migration runs again and again meanwhile.
    fill(hosts, {("g0", "t", str(number)): b"900" for number in range(PARTITIONS)})
    client = client_of(hosts)
    went_back: list[tuple[int, int]] = []
    finished = threading.Event()

    def consume() -> None:
        try:
            last = [900] * PARTITIONS
            for offset in range(901, 1101):
                for number in range(PARTITIONS):
                    node = offset_node("g0", TopicPartition("t", number))
                    # As an old consumer: it sets what it has, and looks at nothing.
                    there = int(client.get(node)[0])
                    if there < last[number]:
                        went_back.append((there, last[number]))
                    if offset > there:
                        client.set(node, data_of(offset))
                    last[number] = max(offset, there)
        finally:
            finished.set()

    consumer = threading.Thread(target=consume)
    consumer.start()
    runs = 0
    try:
        while not finished.is_set() or runs == 0:
            list(Migration(source, ZooKeeperPlace(connection), ["g0"]).run())
            runs += 1
    finally:
        consumer.join()
        client.stop()
        client.close()
    assert went_back == []
    assert {int(data) for data in offsets_in(hosts).values()} == {1100}
    print(f"{runs} runs beside the consumer")


class Meddling(ZooKeeperPlace):
    """Has a consumer commit after the target was read, and before it is written."""

    def __init__(self, connection, times, offset):
        super().__init__(connection)
        self.connection = connection
        self.times, self.offset = times, offset

    def write(self, writes):
        def meddled():
            for each in writes:
                if self.times:
                    self.times -= 1
                    self.connection.set_data(offset_node(each.group, TopicPartition("t", 3)), data_of(self.offset))
                yield each

        yield from super().write(meddled())


@pytest.mark.parametrize(("offset", "kept"), [(500, {}), (MOVED, {"same": 1}), (2000, {"lower": 1})])
def test_a_group_that_changed_between_the_look_and_the_write_is_decided_again(source, hosts, connection, offset, kept):
    fill(hosts, {("g0", "t", str(number)): b"1" for number in range(PARTITIONS)})
    migration = Migration(source, Meddling(connection, 3, offset), ["g0"])
    list(migration.run())
    assert migration.report.committed == {"forward": PARTITIONS - len(kept)}
    assert migration.report.kept == kept
    assert int(offsets_in(hosts)["g0", "t", "3"]) == max(offset, MOVED)


def test_a_group_that_changes_again_and_again_is_refused_whole(source, hosts, connection):
    fill(hosts, {(group, "t", str(number)): b"1" for group in ("g0", "g1") for number in range(PARTITIONS)})
    migration = Migration(source, Meddling(connection, 10**6, 2), ["g0", "g1"])
    list(migration.run())
    assert (migration.report.committed, migration.report.refused) == ({}, 2 * PARTITIONS)
    assert "the group changed before each of 20 attempts to write it" in migration.report.examples[0].reason
    assert {int(data) for data in offsets_in(hosts).values()} == {1, 2}


@pytest.mark.parametrize("moment", list(Cut))
@pytest.mark.parametrize(
    ("operation", "after", "in_flight"),
    # The first request of many reads is the question whether there are such requests.
    [(OP_MULTI, 0, 4), (4, 0, 4), (8, 0, 4), (OP_MULTI_READ, 0, 64), (OP_MULTI_READ, 1, 64)],
)
def test_a_connection_that_breaks_within_it(source, ensemble, hosts, root, moment, operation, after, in_flight):
    fill(hosts, {("g5", "t", "0"): b"1"})
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            cut: list[int] = []

            def advance(done: int) -> None:
                # Once at the begin, once in the middle; reads and writes of others are outstanding.
                if len(cut) < 2 and migration.report.groups >= 1 + 5 * len(cut):
                    cut.append(done)
                    proxy.cut_next(operation, moment)

            proxy.cut_next(operation, moment, after)
            place = ZooKeeperPlace(connection, in_flight=in_flight)
            migration = Migration(source, place, source.groups(), advance=advance)
            list(migration.run())
    assert proxy.cuts >= 1
    report = migration.report
    # A position that a request of unknown outcome made is counted as what it was, and not as there already.
    assert (report.committed, report.kept) == ({"new": GROUPS * PARTITIONS - 1, "forward": 1}, {})
    assert report.groups == GROUPS
    assert set(offsets_in(hosts).values()) == {b"%d" % MOVED}
    assert len(offsets_in(hosts)) == GROUPS * PARTITIONS


def test_a_session_that_expires_within_it(source, ensemble, root, hosts, connection):
    fill(hosts, {})
    expired: list[int] = []
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=1.0)
        with ZooKeeperConnection(settings) as cut_off:

            def advance(done: int) -> None:
                if not expired:
                    expired.append(done)
                    outlast_session(cut_off, proxy, connection)

            migration = Migration(source, ZooKeeperPlace(cut_off, in_flight=4), source.groups(), advance=advance)
            list(migration.run())
    assert expired
    assert migration.report.committed == {"new": GROUPS * PARTITIONS}
    assert len(offsets_in(hosts)) == GROUPS * PARTITIONS


def test_an_ensemble_that_stays_silent_ends_it(source, monkeypatch):
    class Silent(ZooKeeperPlace):
        def prepare(self, *, dry_run):
            pass

        def read(self, groups):
            raise errors.ZooKeeperUnavailableError("nobody answers")
            yield

    monkeypatch.setattr(module, "PATIENCE", 0.2)
    with pytest.raises(errors.ZooKeeperUnavailableError, match="nobody answers"):
        list(Migration(source, Silent(None), ["g0"]).run())


def test_a_write_that_is_never_answered_is_refused_and_says_that_it_may_be_made(source, connection, hosts):
    fill(hosts, {})

    class Unknown(ZooKeeperPlace):
        def write(self, writes):
            for each in writes:
                yield Written(each, Fate.UNKNOWN)

    migration = Migration(source, Unknown(connection), ["g0"])
    with contextlib.suppress(StopIteration):
        list(migration.run())
    assert migration.report.refused == PARTITIONS
    assert "some may have been applied" in migration.report.examples[0].reason
