"""One request and its answer, as handlers see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog.coordinator.call import Call
from offsetlog.protocol import Request


class Exchange:
    """A request, and the one answer that its handler gives, at once or later.

    Attributes:
        request: with its header.
        call: the request as the coordinator knows it.
    """

    __slots__ = ("_abandoned", "_end", "_send", "call", "request")

    def __init__(
        self,
        request: Request,
        host: str,
        send: Callable[[Any], None],
        end: Callable[[str], None],
    ) -> None:
        self.request = request
        self.call = Call(request.api_version, request.client_id, f"/{host}")
        self._send = send
        self._end = end
        self._abandoned: Callable[[], None] | None = None

    @property
    def version(self) -> int:
        """The version of the API that the client speaks."""
        return self.request.api_version

    def reply(self, message: Any) -> None:
        """Answers; once."""
        self._abandoned = None
        self._send(message)

    def reply_nothing(self) -> None:
        """Says that the client waits for no answer; in place of `reply`."""
        self._send(None)

    def end(self, reason: str) -> None:
        """Ends the connection; in place of `reply`."""
        self._end(reason)

    def on_abandoned(self, stop: Callable[[], None]) -> None:
        """Has a function called if the connection ends before the answer."""
        self._abandoned = stop

    def abandon(self) -> None:
        """The connection has ended."""
        stop, self._abandoned = self._abandoned, None
        if stop is not None:
            stop()
