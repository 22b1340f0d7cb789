"""A server of ZooKeeper 3.4, beside which old consumers ran: it does not know requests of many reads."""

from __future__ import annotations

import os

import pytest

from offsetlog.zookeeper.acl import Acl
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.group_nodes import read_groups
from offsetlog.zookeeper.operations import Create
from tests.maven_packages import packages_or_skip

from .ensemble import Ensemble

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    class_path = os.pathsep.join(str(jar) for jar in packages_or_skip("kafka-0.9"))
    with Ensemble(tmp_path_factory.mktemp("zookeeper-3.4"), 1, class_path=class_path) as running:
        yield running


def test_groups_are_read_one_node_after_the_other(old):
    settings = ConnectionSettings(hosts=old.hosts)
    with ZooKeeperConnection(settings) as connection:
        for node in ("", "/g", "/g/offsets", "/g/offsets/t"):
            connection.create(f"/consumers{node}")
        connection.multi([Create(f"/consumers/g/offsets/t/{number}", b"%d" % number) for number in range(100)])
        session = connection.session_id
        # The server closes the connection over the question; the next requests have another one, of the same session.
        assert not connection.reads_many()
        groups = list(read_groups(connection, ["g", "nobody"]))
        assert [(each.group, each.has_group, each.stood_together) for each in groups] == [
            ("g", True, True),
            ("nobody", False, True),
        ]
        assert {each.partition: each.data for each in groups[0].offsets} == {str(n): b"%d" % n for n in range(100)}
        assert connection.session_id == session


def test_the_largest_write_fits_into_what_a_server_keeps_of_it(old):
    # It puts a name and a digest in the place of "auth", for each node, and reads its log again after a restart.
    settings = ConnectionSettings(
        hosts=old.hosts, auth=(("digest", "somebody:secret"),), acl=(Acl("auth", "", 31), Acl("world", "anyone", 1))
    )
    with ZooKeeperConnection(settings) as connection:
        connection.create("/large")
        multi = connection.new_multi()
        while multi.size < settings.request_bytes_max - 200:
            multi.create(f"/large/{len(multi.nodes)}")
        connection.send_async(multi).result()
        old.kill_server(0)
        old.start_server(0)
        old.wait_until_answering()
        assert connection.exists("/large").children == len(multi.nodes)
