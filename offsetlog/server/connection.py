"""One client's connection: frames in, answers out, in the order of the requests."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from typing import Any

from offsetlog.errors import OffsetLogError, UnsupportedVersionError
from offsetlog.protocol import decode_request, encode_response
from offsetlog.server.connection_limits import OpenConnections
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.handlers.cluster import unsupported_api_versions
from offsetlog.server.node import NodeState

_log = logging.getLogger(__name__)

#: The first four bytes of a frame are its size, and the next two the key of the API.
SIZE_BYTES = 4
API_VERSIONS = 18

#: Requests up to this size take nothing from the memory that all connections share.
SMALL_REQUEST_BYTES = 64 << 10
#: Answers to the requests of one read are sent together, but no more than this at a time.
SEND_BYTES = 64 << 10


class _Place:
    # Where an answer goes: those before it are sent first.
    __slots__ = ("exchange", "frame")

    def __init__(self) -> None:
        self.frame: bytes | None = None
        self.exchange: Exchange | None = None


class Connection(asyncio.Protocol):
    """Frames of one connection, handled as they come.

    It reads no further while it waits for memory, while too many requests wait for their answers,
    or while its client does not read the answers that it has.

    Args:
        node: of which the handlers answer.
        connections: those of the server, with their limits.
    """

    def __init__(self, node: NodeState, connections: OpenConnections) -> None:
        self._node = node
        self._connections = connections
        self._limits = connections.limits
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._places: deque[_Place] = deque()
        self._transport: asyncio.Transport | None = None
        self._host = ""
        self._last_request = self._loop.time()
        self._memory_taken = 0
        self._awaited_memory = 0
        self._unsent = 0
        self._is_reader_slow = False
        self._is_held = False

    # ------------------------------------------------------------------------------------- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._host = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._connections.admit(self, self._host):
            transport.abort()
            self._transport = None
            return
        own = transport.get_extra_info("socket")
        if own is not None:
            # A client that is gone without a word while it waits for an answer is found so.
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        for place in self._places:
            if place.exchange is not None:
                place.exchange.abandon()
        self._places.clear()
        self._received.clear()
        self._connections.remove(self)
        self._connections.memory.leave(self._take_awaited_memory)
        self._give_memory_back()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._received += data
        self._go_on()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol: the client does not read."""
        self._is_reader_slow = True

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol: the client has read what was held for it."""
        self._is_reader_slow = False
        self._release()

    def is_idle(self, since: float) -> bool:
        """Whether no request has been whole since then, and none waits for its answer."""
        return self._last_request < since and (not self._places or self._is_reader_slow)

    def close(self) -> None:
        """Ends the connection; what was answered is sent."""
        if self._transport is not None:
            self._transport.close()

    def end(self, reason: str) -> None:
        """Ends the connection at once."""
        _log.info("%s: closed: %s", self._host, reason)
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # ----------------------------------------------------------------------------------------- frames

    def _go_on(self) -> None:
        start = 0
        while self._transport is not None and not self._must_hold():
            end = self._end_of_frame(start)
            if end is None:
                break
            self._last_request = self._loop.time()
            self._handle(bytes(self._received[start + SIZE_BYTES : end]))
            self._give_memory_back()
            start = end
            if self._unsent >= SEND_BYTES:
                self._send()
        del self._received[:start]
        self._send()
        if self._transport is not None and self._must_hold() and not self._is_held:
            self._is_held = True
            self._transport.pause_reading()

    def _must_hold(self) -> bool:
        return (
            self._is_reader_slow
            or self._awaited_memory > 0
            or len(self._places) >= self._limits.requests_in_flight_max
        )

    def _release(self) -> None:
        if self._is_held and not self._must_hold() and self._transport is not None:
            self._is_held = False
            self._transport.resume_reading()
            # Not now: an answer may be what releases it, in the middle of another's request.
            self._loop.call_soon(self._go_on)

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._received) - start < SIZE_BYTES:
            return None
        size = int.from_bytes(self._received[start : start + SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._limits.request_bytes_max:
            self.end(f"a request of {size} bytes")
            return None
        end = start + SIZE_BYTES + size
        if len(self._received) >= end:
            return end
        if size > SMALL_REQUEST_BYTES and self._memory_taken == 0:
            self._take_memory(size)
        return None

    def _take_memory(self, size: int) -> None:
        if self._connections.memory.take(size, self._take_awaited_memory):
            self._memory_taken = size
        else:
            self._awaited_memory = size

    def _take_awaited_memory(self) -> None:
        self._memory_taken, self._awaited_memory = self._awaited_memory, 0
        self._release()

    def _give_memory_back(self) -> None:
        taken, self._memory_taken = self._memory_taken, 0
        if taken:
            self._connections.memory.give_back(taken)

    # --------------------------------------------------------------------------- requests and answers

    def _handle(self, frame: bytes) -> None:
        place = _Place()
        try:
            request = decode_request(frame)
        except UnsupportedVersionError as failure:
            self._refuse_version(frame, place, str(failure))
            return
        except OffsetLogError as failure:
            self.end(str(failure))
            return
        handler = HANDLERS.get(request.api_key)
        if handler is None:
            self.end(f"API {request.api_key} is not served")
            return

        def send(message: Any) -> None:
            frame = b""
            if message is not None:
                frame = encode_response(message, request.api_version, request.correlation_id)
            self._answer(place, frame)
            if self._places and self._places[0] is place:
                self._send()
                self._release()

        place.exchange = Exchange(request, self._host, send, self.end)
        self._places.append(place)
        try:
            handler(self._node, place.exchange)
        except Exception:
            _log.exception("%s: API %d", self._host, request.api_key)
            self.end("a handler failed")

    def _refuse_version(self, frame: bytes, place: _Place, reason: str) -> None:
        if int.from_bytes(frame[:2], "big") != API_VERSIONS:
            self.end(reason)
            return
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        self._answer(place, encode_response(unsupported_api_versions(), 0, correlation_id))
        self._places.append(place)

    def _answer(self, place: _Place, frame: bytes) -> None:
        place.frame = frame
        self._unsent += len(frame)

    def _send(self) -> None:
        frames: list[bytes] = []
        while self._places and (frame := self._places[0].frame) is not None:
            self._places.popleft()
            frames.append(frame)
        self._unsent -= sum(map(len, frames))
        if frames and self._transport is not None:
            self._transport.write(b"".join(frames))
