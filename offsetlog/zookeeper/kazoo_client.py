"""A kazoo client that answers every request, that logs no credentials, and that ends when it is closed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

#: The seconds to wait for the threads of a client whose connection is broken; after that they end by themselves.
END_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Secret(str):
    """A credential with a repr that hides it, because kazoo logs the repr of each request."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class _Requests(deque[Any]):
    """Requests in their order.

    Attributes:
        taken: the result object of the request that was taken from the queue last, or None.
    """

    taken: Any = None

    def popleft(self) -> Any:
        found = super().popleft()
        self.taken = found[1]
        return found


class Client(KazooClient):  # type: ignore[misc]
    """A client whose requests are all answered when its connection ends.

    kazoo takes a request out of its lists before it reads the answer.  If kazoo cannot parse the answer, for example
    because it has an unknown error number, the thread of kazoo ends.  Without this class, the request would then get
    no answer, because it is no longer in any list.
    """

    def _reset(self) -> None:
        super()._reset()
        self._queue: Any = _Requests()
        self._pending: Any = _Requests()

    def _notify_pending(self, state: Any) -> None:
        taken = self._queue.taken, self._pending.taken
        super()._notify_pending(state)
        for result in taken:
            # Requests that are ready were answered, usually by the server.
            if result is not None and not result.ready():
                result.set_exception(ConnectionLoss())

    def discard(self) -> None:
        """Ends the session, and frees the client's resources."""
        try:
            self.stop()
        except Exception:
            _log.exception("the session of a ZooKeeper client could not be ended")
        try:
            self.close()
        except Exception:
            _log.exception("the resources of a ZooKeeper client could not be freed")

    def end(self, patience: float) -> None:
        """Ends the client.  If the session has not ended after `patience` seconds, the call breaks the connection.

        If a thread of the client makes this call, for example in a callback, the call returns at once, and the client
        ends after the callback.
        """
        thread = threading.Thread(target=self.discard, name="offsetlog-zookeeper-end", daemon=True)
        thread.start()
        if self.handler.is_own_thread():
            return
        thread.join(patience)
        if thread.is_alive():
            self.handler.break_connection()
            thread.join(END_SECONDS)
