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

    __slots__ = ("_send", "call", "request")

    def __init__(self, request: Request, host: str, send: Callable[[Any], None]) -> None:
        self.request = request
        self.call = Call(request.api_version, request.client_id, f"/{host}")
        self._send = send

    @property
    def version(self) -> int:
        """The version of the API that the client speaks."""
        return self.request.api_version

    def reply(self, message: Any) -> None:
        """Answers; once."""
        self._send(message)
