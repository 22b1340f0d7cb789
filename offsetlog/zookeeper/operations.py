"""The writes to nodes, as values.  A request has one or more writes; either all of them are applied or none."""

from __future__ import annotations

from typing import NamedTuple

#: The version that matches every version of a node.
ANY_VERSION = -1


class Create(NamedTuple):
    """Creates a node, whose parent must exist.

    Attributes:
        node: the path of the node.
        data: the bytes of the node.
        ephemeral: whether the node ends with the session.
    """

    node: str
    data: bytes = b""
    ephemeral: bool = False


class SetData(NamedTuple):
    """Replaces the bytes of a node.

    Attributes:
        node: the path of the node.
        data: the new bytes of the node.
        version: the version that the node must have.
    """

    node: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Removes a node that has no children.

    Attributes:
        node: the path of the node.
        version: the version that the node must have.
    """

    node: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Changes nothing, but fails the whole request if the node has another version.

    Attributes:
        node: the path of the node.
        version: the version that the node must have.
    """

    node: str
    version: int


Operation = Create | SetData | Delete | Check
