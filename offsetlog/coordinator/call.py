"""A request that the coordinator handles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Call:
    """The context of a request beside its fields; answers refer to it.

    Attributes:
        version: version of the API, for the few rules that differ by version.
        client_id: client id from the request's header.
        client_host: "/" followed by the address, as brokers record it.
        answered: set by the coordinator, which answers each call once, in time or with a timeout.
    """

    version: int
    client_id: str | None = None
    client_host: str = "/127.0.0.1"
    answered: bool = False
