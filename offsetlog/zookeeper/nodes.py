"""A node as ZooKeeper returns it, and checks of paths."""

from __future__ import annotations

import re
from typing import NamedTuple

from offsetlog.errors import InvalidArgumentError

_PATH = re.compile(r"/|(?:/(?!\.\.?(?:/|\Z))[^/]+)+")


class NodeStat(NamedTuple):
    """The state of a node, without its bytes.

    Attributes:
        version: how many times the bytes of the node were changed.
        modified_ms: the time of the last change of its bytes, in ms since 1970.
        created_zxid: the number of the transaction that created this node.  If the node is removed and created again,
            it has another number.
        ephemeral_owner: the session with which the node ends; 0 if it is not ephemeral.
        children: the number of nodes directly below it.
        modified_zxid: the last transaction that changed its bytes; if there is none, the one that created the node.
        children_zxid: the last transaction that created or removed a node directly below it; if there is none, the one
            that created the node.
    """

    version: int
    modified_ms: int
    created_zxid: int
    ephemeral_owner: int
    children: int
    modified_zxid: int = 0
    children_zxid: int = 0


class Node(NamedTuple):
    """The bytes of a node (None for null) and its state."""

    data: bytes | None
    stat: NodeStat


def path_bytes(path: str) -> bytes:
    """Returns a path in the form in which requests contain it.

    The caller encodes the path here, because kazoo encodes it later on its own thread, and that thread would end with
    an error if the path cannot be encoded.

    Raises:
        InvalidArgumentError: the path is not UTF-8.
    """
    try:
        return path.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"no node can have the path {path!r}: it is not UTF-8") from None


def check_path(path: str) -> None:
    """Checks a path that is passed to kazoo's own calls.

    kazoo changes some invalid paths, and would then read another node.

    Raises:
        InvalidArgumentError: no node can have the path: a name in it is empty, "." or "..", or the path is not UTF-8.
    """
    # The path of every read is checked, so there is a quick check first, which nearly all paths
    # pass.
    if path.isascii() and path[:1] == "/" != path[-1:] and "//" not in path and "/." not in path:
        return
    path_bytes(path)
    if not _PATH.fullmatch(path):
        raise InvalidArgumentError(f"no node can have the path {path!r}: a name in it is empty, '.' or '..'")
