"""OffsetFetch of members of modern groups, which the server keeps and does not run."""

from __future__ import annotations

import pytest

from offsetlog.coordinator.coordinator import OtherGroup
from offsetlog.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)

from .running import Client, RunningServer
from .test_life import commit, made


def answer(client: Client, version: int, member_id: str | None, epoch: int) -> tuple[int, list[int]]:
    """The error of the group, and the offsets in it."""
    topics = (OffsetFetchRequestGroupTopic("orders", partition_indexes=(1,)),)
    groups = (OffsetFetchRequestGroup("g", member_id, epoch, topics),)
    (group,) = client.ask(OffsetFetchRequest(groups=groups), version).groups
    return group.error_code, [each.committed_offset for topic in group.topics for each in topic.partitions]


@pytest.mark.parametrize(
    ("group_type", "is_checked"), [("consumer", True), ("streams", True), ("share", False), ("", False)]
)
def test_member_and_epoch_count_in_modern_groups(tmp_path, group_type, is_checked):
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        made(client, "orders")
        assert commit(client, "g", "orders", 5) == 0
        if group_type:
            coordinator = server.server.node.groups.coordinator
            partition = server.server.node.manager.partition_for("g")
            others = {"g": OtherGroup(group_type, True)}
            server.loop.call_soon_threadsafe(coordinator.loaded, partition, [], 0.0, others)
        refused = (25, []) if is_checked else (0, [5])
        assert answer(client, 9, None, -1) == (0, [5])
        assert answer(client, 9, "unknown", 7) == refused
        assert answer(client, 9, "", -1) == refused
        assert answer(client, 9, None, 0) == refused
        # Older versions have neither.
        assert answer(client, 8, "unknown", 7) == (0, [5])
