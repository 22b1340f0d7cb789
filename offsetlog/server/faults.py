"""The port through which requests are answered otherwise than a healthy server would answer them.

A server has none. Tests of clients set one (`offsetlog.pytest`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from offsetlog.server.exchange import Exchange

if TYPE_CHECKING:
    from offsetlog.server.node import NodeState

#: As in `offsetlog.server.handlers`, which cannot be imported here: handlers use the node.
Handler = Callable[["NodeState", Exchange], None]


class Faults(Protocol):
    """Decides how each request is handled; called on the event loop, once for each.

    Every request passes it, so no connection of a server that has one takes a shorter way.
    """

    def around(self, handler: Handler, exchange: Exchange) -> Handler:
        """Returns what handles a request: `handler` itself, or something in its place."""
