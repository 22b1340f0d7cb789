"""The port through which tests of clients inject faults into answers.

A server in production has no faults; `offsetlog.pytest` gives them to its servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from offsetlog.server.exchange import Exchange

if TYPE_CHECKING:
    from offsetlog.server.node import NodeState

#: The same type as in `offsetlog.server.handlers`, which cannot be imported here because handlers
#: use the node.
Handler = Callable[["NodeState", Exchange], None]


class Faults(Protocol):
    """Decides how each request is handled; called on the event loop, once for each request.

    Every request passes through this object.  A server that has faults therefore does not use the
    faster paths for requests.
    """

    def around(self, handler: Handler, exchange: Exchange) -> Handler:
        """Returns the function that handles a request: `handler` itself, or a replacement."""
