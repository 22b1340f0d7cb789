"""Creates missing nodes, even if other clients do so at the same time; also a connection's root."""

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
    """Creates a node unless it exists; retries if the answer was lost.

    Raises:
        NoNodeError: its parent does not exist.
        UnknownOutcomeError: every answer was lost.
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

    A connection cannot see above its root, so this function opens another one temporarily.

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
    _log.warning("ZooKeeper at %s had no node /%s; created it", servers, root)


def _paths(names: Iterable[str]) -> Iterator[str]:
    """Yields the path of each node on the way, from the top."""
    path = ""
    for name in filter(None, names):
        path = f"{path}/{name}"
        yield path
