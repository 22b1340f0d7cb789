"""A request on its way through the coordinator, whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Call:
    """The context of a request besides its fields; the answer names the call.

    Attributes:
        version: of the API, for the few rules that differ by version.
        client_id: from the request's header.
        client_host: "/" and the address, as brokers record it.
        answered: set by the coordinator: a call is answered once, in time or with a timeout.
    """

    version: int
    client_id: str | None = None
    client_host: str = "/127.0.0.1"
    answered: bool = False
