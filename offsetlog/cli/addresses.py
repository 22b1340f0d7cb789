"""Parses addresses typed by a user: HOST:PORT, [::1]:PORT."""

from __future__ import annotations

from typing import NamedTuple

from offsetlog.errors import InvalidArgumentError


class Address(NamedTuple):
    """A host and a port; the host of an IPv6 address has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Reads HOST:PORT.

    Raises:
        InvalidArgumentError: the text is not HOST:PORT.
    """
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and int(port) <= 65535
    if not host or not is_port:
        raise InvalidArgumentError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092, with a port up to 65535")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
