"""Where groups and partitions live: here, or at another node of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Node:
    """A node as clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Placement(Protocol):
    """Which node coordinates which group, and leads which partition."""

    @property
    def controller_id(self) -> int:
        """The node that clients ask to make topics."""

    def nodes(self) -> list[Node]:
        """All nodes that clients may talk to."""

    def coordinator_of(self, group_id: str) -> Node | None:
        """The node that coordinates a group; None: nobody does now."""


class OneNode:
    """A placement for a server that is alone: everything is here."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def controller_id(self) -> int:
        """See Placement."""
        return self._node.node_id

    def nodes(self) -> list[Node]:
        """See Placement."""
        return [self._node]

    def coordinator_of(self, group_id: str) -> Node | None:
        """See Placement."""
        return self._node
