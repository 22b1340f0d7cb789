"""One client's connection: frames in, answers out, in the order of the requests."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from offsetlog.errors import OffsetLogError, UnsupportedVersionError
from offsetlog.protocol import decode_request, encode_response
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.handlers.cluster import unsupported_api_versions
from offsetlog.server.node import NodeState

_log = logging.getLogger(__name__)

#: The first four bytes of a frame are its size, and the next two the key of the API.
SIZE_BYTES = 4
API_VERSIONS = 18


class _Place:
    # Where an answer goes: those before it are sent first.
    __slots__ = ("frame",)

    def __init__(self) -> None:
        self.frame: bytes | None = None


class Connection(asyncio.Protocol):
    """Frames of one connection, handled as they come.

    Args:
        node: of which the handlers answer.
        request_bytes_max: a larger request ends the connection before it is read.
        opened, closed: called with the connection.
    """

    def __init__(
        self,
        node: NodeState,
        request_bytes_max: int,
        opened: Callable[[Connection], None],
        closed: Callable[[Connection], None],
    ) -> None:
        self._node = node
        self._request_bytes_max = request_bytes_max
        self._opened = opened
        self._closed = closed
        self._received = bytearray()
        self._places: deque[_Place] = deque()
        self._transport: asyncio.Transport | None = None
        self._host = ""

    # ------------------------------------------------------------------------------------- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._host = str((transport.get_extra_info("peername") or ("",))[0])
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        self._places.clear()
        self._closed(self)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._received += data
        start = 0
        while self._transport is not None:
            end = self._end_of_frame(start)
            if end is None:
                break
            self._handle(bytes(self._received[start + SIZE_BYTES : end]))
            start = end
        del self._received[:start]
        self._send()

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._received) - start < SIZE_BYTES:
            return None
        size = int.from_bytes(self._received[start : start + SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._request_bytes_max:
            self._end(f"a request of {size} bytes")
            return None
        end = start + SIZE_BYTES + size
        return end if len(self._received) >= end else None

    def close(self) -> None:
        """Ends the connection; what was answered is sent."""
        if self._transport is not None:
            self._transport.close()

    def _end(self, reason: str) -> None:
        _log.info("%s: closed: %s", self._host, reason)
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # --------------------------------------------------------------------------- requests and answers

    def _handle(self, frame: bytes) -> None:
        place = _Place()
        try:
            request = decode_request(frame)
        except UnsupportedVersionError as failure:
            self._refuse_version(frame, place, str(failure))
            return
        except OffsetLogError as failure:
            self._end(str(failure))
            return
        handler = HANDLERS.get(request.api_key)
        if handler is None:
            self._end(f"API {request.api_key} is not served")
            return

        def send(message: Any) -> None:
            place.frame = encode_response(message, request.api_version, request.correlation_id)
            if self._places and self._places[0] is place:
                self._send()

        self._places.append(place)
        try:
            handler(self._node, Exchange(request, self._host, send))
        except Exception:
            _log.exception("%s: API %d", self._host, request.api_key)
            self._end("a handler failed")

    def _refuse_version(self, frame: bytes, place: _Place, reason: str) -> None:
        if int.from_bytes(frame[:2], "big") != API_VERSIONS:
            self._end(reason)
            return
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        place.frame = encode_response(unsupported_api_versions(), 0, correlation_id)
        self._places.append(place)

    def _send(self) -> None:
        frames = []
        while self._places and self._places[0].frame is not None:
            frames.append(self._places.popleft().frame)
        if frames and self._transport is not None:
            self._transport.write(b"".join(each for each in frames if each is not None))
