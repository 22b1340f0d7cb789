"""One client's connection, which takes memory for its requests and passes them to handlers."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from functools import partial
from typing import Any, cast

from offsetlog._native.frame_stream import (
    CLOSING,
    NO_MEMORY,
    PARKED,
    SLOW_READER,
    WAITING,
    FrameStream,
)
from offsetlog._native.front import Place
from offsetlog.errors import OffsetLogError, UnsupportedVersionError
from offsetlog.protocol import Request, decode_request, encode_response
from offsetlog.server.answer_errors import first_error
from offsetlog.server.connection_limits import OpenConnections
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.handlers.cluster import unsupported_api_versions
from offsetlog.server.node import NodeState

_log = logging.getLogger(__name__)

API_VERSIONS = 18
#: Limit for the elements in all arrays of one request.  A handler answers all of them in one
#: iteration of the event loop, during which no other connection is served.
ENTRIES_MAX = 100_000


class Connection(FrameStream, asyncio.Protocol):
    """Reads the requests of one client connection and passes them to their handlers.

    A connection handles no further request while one of these holds:

    * it waits for memory;
    * too many of its requests wait for their answers;
    * its last request waits for other clients or for the disk (`Exchange.wait`);
    * its client does not read the answers already sent.

    Args:
        node: the node whose handlers answer.
        connections: the server's open connections, with their limits.
    """

    def __init__(self, node: NodeState, connections: OpenConnections) -> None:
        limits = connections.limits
        super().__init__(
            node.front,
            asyncio.get_running_loop(),
            node.groups.now,
            request_bytes_max=limits.request_bytes_max,
            requests_in_flight_max=limits.requests_in_flight_max,
        )
        self._node = node
        self._connections = connections
        self._host = ""
        self._waiting: Place | None = None
        # The time by `perf_counter` when a request above 64 KiB began to arrive or last got memory;
        # None if no such request is arriving.
        self._arriving_since: float | None = None
        self._parked_bytes = 0

    # ------------------------------------------------------------------------------------- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        # The transports of uvloop are not subclasses of asyncio.Transport.
        self.transport = cast("asyncio.Transport", transport)
        self._host = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._connections.admit(self, self._host):
            self.transport.abort()
            self.transport = None
            return
        own = transport.get_extra_info("socket")
        if own is not None:
            # Keep-alive probes find clients that vanish without closing the connection while they
            # wait for an answer.
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if transport.get_extra_info("ssl_object") is None:
                # With TLS, direct writes to the socket would bypass the encryption.
                self.fd = own.fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.transport = None
        self._waiting = None
        for place in self.forget():
            if place.exchange is not None:
                place.exchange.abandon()
        self._connections.remove(self)
        self._connections.unread.release(self)
        self.taken()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol: called when the client does not read its answers."""
        self.hold(SLOW_READER)
        if self.transport is not None:
            self.unread(self.transport.get_write_buffer_size())

    def unread(self, size: int) -> None:
        """See FrameStream."""
        self._connections.unread.hold(self, size)

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol: called when the client has read its unread answers."""
        self._connections.unread.release(self)
        self.release(SLOW_READER)

    def is_idle(self, since: float) -> bool:
        """Returns whether the connection is idle: no complete request has arrived since the time `since`.

        The connection is not idle while one of its requests waits for memory or for its answer.  A request does not
        count as waiting for its answer while the client leaves earlier answers unread.
        """
        is_waiting = bool(self.places) and not self.held & SLOW_READER
        return self.last_request < since and not is_waiting and not self.held & NO_MEMORY

    def close(self) -> None:
        """Accepts no more requests, and ends the connection when the accepted ones are answered.

        A request that waits for other clients gets no answer; its client repeats it on another
        connection.
        """
        if self.transport is None:
            return
        self.hold(CLOSING)
        if self._waiting is not None and not self._waiting.exchange.ends_soon:
            waiting, self._waiting = self._waiting, None
            waiting.exchange.abandon()
            self.answered(waiting, b"")
        if not self.places:
            self.drained()

    def drained(self) -> None:
        """See FrameStream."""
        if self.transport is not None:
            self.fd = -1
            self.transport.close()

    def end(self, reason: str) -> None:
        """Ends the connection at once."""
        self._log_end(reason)
        if self.transport is not None:
            self.transport.abort()
            self.transport = None

    def _log_end(self, reason: str) -> None:
        fields = {"client": self._host, "reason": reason}
        _log.info("%s: connection closed: %s", self._host, reason, extra=fields)

    # ----------------------------------------------------------------------------------------- frames

    def refuse_size(self, size: int) -> None:
        """See FrameStream."""
        self._log_end(f"the request has an invalid size of {size} bytes")
        self.hold(CLOSING)

    def refuse(self, place: Place, reason: str) -> None:
        """Ends the connection instead of answering a request, once earlier requests are answered.

        No later request may be answered, because the client would take that answer for the answer
        to this request.  If later requests have already arrived, the connection ends at once.
        """
        if self.transport is None:
            return
        if self.places[-1] is not place:
            self.end(reason)
            return
        self._log_end(reason)
        self.hold(CLOSING)
        self.answered(place, b"")

    def expect(self, arrived: int) -> None:
        """See FrameStream."""
        if self._arriving_since is None:
            self._arriving_since = time.perf_counter()
        if not self._connections.memory.arrived(self, arrived):
            self.hold(NO_MEMORY)

    def read_on(self) -> None:
        """See Arriving."""
        self._arriving_since = time.perf_counter()
        self.release(NO_MEMORY)

    def is_slow(self, since: float) -> bool:
        """See Arriving."""
        return self._arriving_since is not None and self._arriving_since < since

    def taken(self) -> None:
        """See FrameStream."""
        if self._arriving_since is not None:
            self._arriving_since = None
            self._connections.memory.release(self)

    def parked(self, size: int) -> None:
        """See FrameStream: counts a commit that waits for a flush; if no memory is left, stops reading requests."""
        self._parked_bytes += size
        if not self._connections.memory.add(size):
            self.hold(PARKED)

    def unparked(self, size: int) -> None:
        """See FrameStream."""
        self._parked_bytes -= size
        memory = self._connections.memory
        memory.give_back(size)
        if self.held & PARKED and (memory.left > 0 or not self._parked_bytes):
            self.release(PARKED)

    # --------------------------------------------------------------------------- requests and answers

    def handle(self, frame: bytes, place: Place) -> None:
        """See FrameStream."""
        try:
            request = decode_request(frame)
        except UnsupportedVersionError as failure:
            self._refuse_version(frame, place, str(failure))
            return
        except OffsetLogError as failure:
            self.refuse(place, str(failure))
            return
        handler = HANDLERS.get(request.api_key)
        if handler is None:
            self.refuse(place, f"API {request.api_key} is not served")
            return
        entries = _entries(request.message)
        if entries > ENTRIES_MAX:
            text = f"the request has {entries} entries; the limit is {ENTRIES_MAX}"
            self.refuse(place, f"API {request.api_key}: {text}")
            return

        # The event loop's time cannot be used, because it does not advance within one iteration of
        # the loop.
        began = time.perf_counter()
        # The message is not kept, because a client can make it very large.
        header = request._replace(message=None)
        send = partial(self._send_answer, place, header, began)
        end = partial(self.refuse, place)
        exchange = place.exchange = Exchange(request, self._host, send, end, len(frame))
        if self._node.faults is not None:
            handler = self._node.faults.around(handler, exchange)
        try:
            handler(self._node, exchange)
            if exchange.is_waiting:
                self._waiting = place
                self.hold(WAITING)
        except Exception:
            fields = {"client": self._host, "api": request.api_key}
            _log.exception("%s: the handler of API %d failed", self._host, request.api_key, extra=fields)
            self.refuse(place, "the request handler failed")

    def _send_answer(self, place: Place, header: Request, began: float, message: Any) -> None:
        answer = self._encoded(message, header)
        if answer is None:
            return
        seconds = time.perf_counter() - began
        self._node.metrics.answered(header.api_key, seconds, first_error(message))
        self.answered(place, answer)
        if self._waiting is place:
            self._waiting = None
            self.release(WAITING)

    def _encoded(self, message: Any, request: Request) -> bytes | None:
        # Returns None if the message cannot be encoded.  This ends only this connection, although
        # another client's request or a timer may have caused the answer.
        if message is None:
            return b""
        try:
            return encode_response(message, request.api_version, request.correlation_id)
        except OffsetLogError as failure:
            fields = {"client": self._host, "api": request.api_key}
            _log.warning("%s: cannot encode the answer: %s", self._host, failure, extra=fields)
            self.end("the answer cannot be encoded")
            return None

    def _refuse_version(self, frame: bytes, place: Place, reason: str) -> None:
        if int.from_bytes(frame[:2], "big") != API_VERSIONS:
            self.refuse(place, reason)
            return
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        self.answered(place, encode_response(unsupported_api_versions(), 0, correlation_id))


def _entries(values: tuple[Any, ...]) -> int:
    # Counts the elements of all arrays in a message.  A struct is an instance of a tuple's
    # subclass.
    return sum(
        _entries(each) + (len(each) if type(each) is tuple else 0)
        for each in values
        if isinstance(each, tuple)
    )
