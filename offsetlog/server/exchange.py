"""One request and its answer, as handlers see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog.coordinator.call import Call
from offsetlog.protocol import Request


class Exchange:
    """A request and its one answer, which the handler gives at once or later.

    Attributes:
        request: the request with its header; its message is None after `drop_message`.
        call: the request as the coordinator knows it.
        size: size of the request, in bytes.
    """

    __slots__ = (
        "_abandoned",
        "_end",
        "_ends_soon",
        "_is_abandoned",
        "_is_answered",
        "_is_waiting",
        "_send",
        "call",
        "request",
        "size",
    )

    def __init__(
        self,
        request: Request,
        host: str,
        send: Callable[[Any], None],
        end: Callable[[str], None],
        size: int = 0,
    ) -> None:
        self.request = request
        self.size = size
        self.call = Call(request.api_version, request.client_id, f"/{host}")
        self._send: Callable[[Any], None] | None = send
        self._end: Callable[[str], None] | None = end
        self._abandoned: Callable[[], None] | None = None
        self._is_answered = False
        self._is_waiting = False
        self._is_abandoned = False
        self._ends_soon = False

    @property
    def version(self) -> int:
        """The version of the API that the client speaks."""
        return self.request.api_version

    def reply(self, message: Any) -> None:
        """Sends the answer; call this once.  Has no effect if the connection has ended."""
        self._is_answered = True
        send, self._send, self._abandoned = self._send, None, None
        try:
            if send is not None:
                send(message)
        finally:
            self._finish()

    def reply_nothing(self) -> None:
        """Ends an exchange whose client expects no answer; call this instead of `reply`."""
        self.reply(None)

    def end(self, reason: str) -> None:
        """Ends the connection when earlier requests are answered; call this instead of `reply`."""
        end = self._end
        self._finish()
        if end is not None:
            end(reason)

    def _finish(self) -> None:
        # The callables refer to this exchange.  If they were kept, the cycle would keep the request
        # and the answer in memory until the garbage collector finds it.
        self._is_answered = True
        self._abandoned = self._send = self._end = None

    def wait(self, *, ends_soon: bool = False) -> None:
        """Holds later requests of the connection until this request is answered.

        Has no effect if the request is already answered.

        Call this for requests that wait for other clients, such as a fetch that waits for records.
        Otherwise any number of such requests could wait on one connection.

        Args:
            ends_soon: whether the request waits only for the server, and not for other clients.
                Before the server stops, it answers such a request.
        """
        self._is_waiting = True
        self._ends_soon = ends_soon

    @property
    def ends_soon(self) -> bool:
        """Whether the server answers this request before it stops."""
        return self._ends_soon

    @property
    def is_abandoned(self) -> bool:
        """Whether the connection has ended, so that no client waits for the answer."""
        return self._is_abandoned

    @property
    def is_waiting(self) -> bool:
        """Whether the next requests of the connection are held."""
        return self._is_waiting and not self._is_answered

    def drop_message(self) -> None:
        """Drops the request's message and keeps its header, to free memory while the request waits."""
        self.request = self.request._replace(message=None)

    def divert(self, take: Callable[[Any], None]) -> None:
        """Sends the answer to a function instead of the client."""
        self._send = take

    def on_abandoned(self, stop: Callable[[], None]) -> None:
        """Registers a function to call if the connection ends before the answer."""
        self._abandoned = stop

    def abandon(self) -> None:
        """Marks the exchange as abandoned, since its connection has ended."""
        self._is_abandoned = True
        stop = self._abandoned
        self._finish()
        if stop is not None:
            stop()
