"""A request that the coordinator handles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Call:
    """The context of a request besides its fields; an answer is sent for the Call of its request.

    Attributes:
        version: the API version, for the few rules that differ by version.
        client_id: the client id from the request's header.
        client_host: "/" followed by the address, as brokers record it.
        answered: set by the coordinator when it answers; it answers each call once, with the result
            or a timeout.
    """

    version: int
    client_id: str | None = None
    client_host: str = "/127.0.0.1"
    answered: bool = False
