"""A request that the coordinator handles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Call:
    """The context of one request, apart from the request's fields.  The answer is sent to the Call of its request.

    Attributes:
        version: the API version, which a few rules depend on.
        client_id: the client id from the request's header.
        client_host: "/" followed by the client's address, as brokers record it.
        answered: whether the coordinator has answered the call.  It answers each call only once, with the result or a
            timeout.
    """

    version: int
    client_id: str | None = None
    client_host: str = "/127.0.0.1"
    answered: bool = False
