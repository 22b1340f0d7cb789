"""Writes to nodes, as values: one of them alone, or several that are made all or none."""

from __future__ import annotations

from typing import NamedTuple

#: A write that names no version is made whatever the node's version is.
ANY_VERSION = -1

#: The bytes that an operation takes in a request beside its node and its data: header, lengths, version, flags, ACL.
_OVERHEAD = 64
#: Those of the request itself.
_REQUEST_OVERHEAD = 64


class Create(NamedTuple):
    """Makes a node; the one above it must be there.

    Attributes:
        node: its path.
        data: its bytes.
        ephemeral: whether it goes with the session.
    """

    node: str
    data: bytes = b""
    ephemeral: bool = False


class SetData(NamedTuple):
    """Replaces the bytes of a node.

    Attributes:
        node: its path.
        data: its bytes.
        version: that it must have.
    """

    node: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Removes a node that has none below it.

    Attributes:
        node: its path.
        version: that it must have.
    """

    node: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Changes nothing, and fails the others where the node has another version.

    Attributes:
        node: its path.
        version: that it must have.
    """

    node: str
    version: int


Operation = Create | SetData | Delete | Check


def request_size(operations: list[Operation]) -> int:
    """Returns at least the bytes of a request of all these operations; the root of the connection is not counted."""
    size = _REQUEST_OVERHEAD
    for each in operations:
        size += _OVERHEAD + len(each.node.encode())
        if isinstance(each, Create | SetData):
            size += len(each.data)
    return size
