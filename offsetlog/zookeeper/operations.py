"""Writes to nodes, as values: one of them alone, or several that are made all or none."""

from __future__ import annotations

from typing import NamedTuple

#: A write that names no version is made whatever the node's version is.
ANY_VERSION = -1


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
