"""kazoo's client, which answers every request: also the one that its thread was busy with when an error ended it."""

from __future__ import annotations

from collections import deque
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss


class _Requests(deque[Any]):
    """Requests in their order.

    Attributes:
        taken: the result of the last one that was taken out, None for none.
    """

    taken: Any = None

    def popleft(self) -> Any:
        found = super().popleft()
        self.taken = found[1]
        return found


class Client(KazooClient):  # type: ignore[misc]
    """A client whose requests are all answered when its connection ends.

    kazoo takes a request out of its lists before it reads the answer.  What it cannot read, as the number of an error
    that it does not know, ends its thread, and nobody would answer this request: it is in no list any more.
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
