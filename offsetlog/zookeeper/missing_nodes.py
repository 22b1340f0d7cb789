"""Creates missing nodes and the root of a connection, even if other clients create them at the same time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from offsetlog.errors import NodeExistsError, UnknownOutcomeError
from offsetlog.zookeeper.connection import ZooKeeperConnection

#: The number of tries to create a node while the answers are lost.
TRIES = 10

_log = logging.getLogger(__name__)


def make_node(connection: ZooKeeperConnection, node: str, data: bytes = b"") -> None:
    """Creates a node if it does not exist.  If the answer is lost, the call tries again.

    Raises:
        NoNodeError: the parent of the node does not exist.
        UnknownOutcomeError: the answers of all tries were lost.
    """
    for left in reversed(range(TRIES)):
        try:
            connection.create(node, data)
        except NodeExistsError:
            return
        except UnknownOutcomeError:
            if left:
                continue
            raise
        return


def make_with_parents(connection: ZooKeeperConnection, node: str) -> None:
    """Creates a node and its missing parents.  Raises NoNodeError if the root does not exist."""
    if connection.exists(node) is None:
        for each in _paths(node.split("/")):
            make_node(connection, each)


def ensure_root(connection: ZooKeeperConnection) -> None:
    """Creates the root of a connection if it does not exist, as Kafka does at its start.

    A connection cannot see the nodes above its root, so this function opens another connection for a short time.

    Raises:
        ZooKeeperError: ZooKeeper does not permit this connection to create the root.
        ZooKeeperUnavailableError, UnknownOutcomeError: no server answers.
    """
    if connection.exists("/") is not None:
        return
    servers, _, root = connection.settings.hosts.partition("/")
    with ZooKeeperConnection(replace(connection.settings, hosts=servers)) as above:
        for each in _paths(root.split("/")):
            make_node(above, each)
    connection.sync_async().result()
    _log.warning("ZooKeeper at %s had no node /%s; the node was created", servers, root)


def _paths(names: Iterable[str]) -> Iterator[str]:
    """Yields the paths of the nodes that lead to a node, from the top."""
    path = ""
    for name in filter(None, names):
        path = f"{path}/{name}"
        yield path
