"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the coordinator has them (docs/format/coordinator.md)."""

from __future__ import annotations

from offsetlog.server.exchange import Exchange
from offsetlog.server.node import NodeState


def join_group(node: NodeState, exchange: Exchange) -> None:
    """Answers when the rebalance that it begins or joins completes."""
    node.groups.run(exchange, node.groups.coordinator.join)


def sync_group(node: NodeState, exchange: Exchange) -> None:
    """Answers when the leader's assignment is stored."""
    node.groups.run(exchange, node.groups.coordinator.sync)


def heartbeat(node: NodeState, exchange: Exchange) -> None:
    """Answers at once."""
    node.groups.run(exchange, node.groups.coordinator.heartbeat)


def leave_group(node: NodeState, exchange: Exchange) -> None:
    """Answers when an empty group is stored so, else at once."""
    node.groups.run(exchange, node.groups.coordinator.leave)
