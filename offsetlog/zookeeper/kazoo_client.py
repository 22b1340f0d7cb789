"""A kazoo client that answers every request, logs no credentials, and ends when closed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

#: Given to the threads of a client to end, once its connection is broken; they end later by themselves.
END_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Secret(str):
    """A credential; kazoo writes the repr of each request into its log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class _Requests(deque[Any]):
    """Requests in their order.

    Attributes:
        taken: the result object of the request taken out last, or None.
    """

    taken: Any = None

    def popleft(self) -> Any:
        found = super().popleft()
        self.taken = found[1]
        return found


class Client(KazooClient):  # type: ignore[misc]
    """A client whose requests are all answered when its connection ends.

    kazoo takes a request out of its lists before it reads the answer.  An answer that it cannot parse, such as one
    with an unknown error number, ends its thread, and this request would get no answer: it is in no list any more.
    """

    def _reset(self) -> None:
        super()._reset()
        self._queue: Any = _Requests()
        self._pending: Any = _Requests()

    def _notify_pending(self, state: Any) -> None:
        taken = self._queue.taken, self._pending.taken
        super()._notify_pending(state)
        for result in taken:
            # The others were answered, as a rule with what the server said.
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
        """Ends the client, without its session's consent where no server gives that within `patience` seconds.

        A thread of the client's own, as one that runs a callback, is not held up: the end comes once it is done.
        """
        thread = threading.Thread(target=self.discard, name="offsetlog-zookeeper-end", daemon=True)
        thread.start()
        if self.handler.is_own_thread():
            return
        thread.join(patience)
        if thread.is_alive():
            self.handler.break_connection()
            thread.join(END_SECONDS)
