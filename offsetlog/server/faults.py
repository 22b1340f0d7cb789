"""The port through which tests of clients inject faults into answers.

A server in production has none; `offsetlog.pytest` sets one.
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

    Every request passes through it: a server with faults uses no shortcut for any connection.
    """

    def around(self, handler: Handler, exchange: Exchange) -> Handler:
        """Returns the function that handles a request: `handler` itself, or a replacement."""
