"""Committed positions beside Kafka 4.3.0: any offset is stored, and each reads what the other wrote."""

from __future__ import annotations

import time

from broker import copy_template
from confluent_kafka.admin import AdminClient, NewTopic
from server.running import Client, RunningServer
from server.test_any_offset import EXPECTED, TOPIC, all_of, commit

from offsetlog.protocol.messages import FindCoordinatorRequest, OffsetFetchRequest, OffsetFetchRequestGroup

#: Errors of a coordinator that is not there yet: loading, not available, not this one.
NOT_YET = {14, 15, 16}


def wait_for_coordinator(client: Client, group: str = "g") -> None:
    """Waits until the coordinator of the group answers; the first question makes the topic of positions."""
    deadline = time.monotonic() + 60
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),))
    while time.monotonic() < deadline:
        client.ask(FindCoordinatorRequest(group, 0), 3)
        (answer,) = client.ask(asked, 9).groups
        if answer.error_code not in NOT_YET:
            return
        time.sleep(0.1)
    raise AssertionError(f"no coordinator of group {group!r} answered")


def client_of(bootstrap: str) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client((host, int(port)))


def test_kafka_answers_the_offsets_that_it_and_the_server_stored(kafka_template, kafka_broker, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "data")
    with kafka_broker(log_dir) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, len(EXPECTED), 1)])[TOPIC].result(30)
        with client_of(broker.bootstrap) as client:
            wait_for_coordinator(client)
            assert commit(client, EXPECTED) == {0}
            by_kafka = all_of(client)
    assert by_kafka == EXPECTED
    with RunningServer(log_dir, partitions=4) as running, Client(running.address) as client:
        wait_for_coordinator(client)
        assert all_of(client) == EXPECTED
        assert commit(client, EXPECTED, "of the server") == {0}
    with kafka_broker(log_dir) as broker, client_of(broker.bootstrap) as client:
        for group in ("g", "of the server"):
            wait_for_coordinator(client, group)
            assert all_of(client, group) == EXPECTED
