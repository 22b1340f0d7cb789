"""Knows which node serves each group and partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Node:
    """A node and the address at which clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Placement(Protocol):
    """Knows the node that coordinates a group, and the node that leads a partition."""

    @property
    def controller_id(self) -> int:
        """The id of the node that clients ask to create topics."""

    def nodes(self) -> list[Node]:
        """All nodes that clients may talk to."""

    def coordinator_of(self, group_id: str) -> Node | None:
        """Returns the node that coordinates a group, or None if no node does at present."""


class OneNode:
    """The placement on a single server, which serves everything itself."""

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
