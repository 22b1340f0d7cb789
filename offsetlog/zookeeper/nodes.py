"""A node as ZooKeeper answers it."""

from __future__ import annotations

from typing import NamedTuple


class NodeStat(NamedTuple):
    """The state of a node beside its bytes.

    Attributes:
        version: the number of changes of its bytes.
        modified_ms: the time of the last one, ms since 1970.
        created_zxid: the transaction that made the node; another one made a later node of that path.
        ephemeral_owner: the session that it goes with, 0 for none.
        children: the number of nodes below it.
        modified_zxid: the transaction that changed its bytes last, or made it.
        children_zxid: the one that made or removed a node directly below it last, or made it.
    """

    version: int
    modified_ms: int
    created_zxid: int
    ephemeral_owner: int
    children: int
    modified_zxid: int = 0
    children_zxid: int = 0


class Node(NamedTuple):
    """The bytes of a node, None where they are null, and its state."""

    data: bytes | None
    stat: NodeStat
