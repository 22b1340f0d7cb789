"""The threads and sockets of one kazoo client: they block no caller, and end when closed."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from offsetlog.zookeeper.polling import wait_for_sockets

_log = logging.getLogger(__name__)


class Doorbell:
    """Wakes the thread that sends requests, at least once for each; it never has the caller wait.

    kazoo takes both ends of a socket pair for that, and writes a byte for each request.  The pair holds 278 of them:
    with no server connected nobody reads, and the caller of the next request would wait until there is one.  Here the
    bytes that do not fit are put off, and written as others are read.  It takes the place of both ends, without a lock:
    those who ask would wait for each other.
    """

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._reading.setblocking(False)
        #: Calls that were put off, one byte each.
        self._rest: deque[bytes] = deque()

    def fileno(self) -> int:
        """Returns what to wait on: it is readable while a request was not taken."""
        return self._reading.fileno()

    def send(self, data: bytes) -> int:
        """Rings for a request.  Raises OSError where it is closed."""
        try:
            return self._writing.send(data)
        except BlockingIOError:
            self._rest.append(data)
        # All may have been read before it was put off, and nobody would look for it then.  One byte more than there are
        # requests does no harm; without room for it, there is something to read.
        with contextlib.suppress(BlockingIOError):
            self._writing.send(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Takes a request; returns nothing where there is none.  For one thread."""
        try:
            found = self._reading.recv(size)
        except BlockingIOError:
            return b""
        if self._rest:
            data = self._rest.popleft()
            try:
                self._writing.send(data)
            except BlockingIOError:
                self._rest.append(data)
        return found

    def close(self) -> None:
        """Frees it.  A second call does nothing."""
        self._reading.close()
        self._writing.close()


class _TlsSocket(ssl.SSLSocket):
    """A connection that keeps what the server said when it ended it: kazoo makes another, and says nothing of it.

    In TLS 1.3 a server refuses the certificate of a client, or its lack, after the handshake.
    """

    note: Callable[[ssl.SSLError], object]

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failure:
            self.note(failure)
            raise


class ClientHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Runs the threads of a client, and opens its connections.

    Args:
        connect_seconds: that one server has to take a connection, the TLS handshake included.
        tls: with which connections are made, None for plain ones.
        ended: called with this, by the first thread of the client that ends, as its last act.

    Attributes:
        failure: why the last connection could not be made, None where it was; also that a server refused it within TLS.
        has_ended: whether a thread has ended.
    """

    def __init__(
        self, connect_seconds: float, tls: ssl.SSLContext | None, ended: Callable[[ClientHandler], object]
    ) -> None:
        super().__init__()
        self.failure: OSError | None = None
        self.has_ended = False
        self._connect_seconds = connect_seconds
        self._tls = tls
        if tls is not None:
            tls.sslsocket_class = _TlsSocket
        self._ended = ended
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._is_broken = False

    # ------------------------------------------------------------------------------------------------------ threads

    def start(self) -> None:
        """Starts the threads that call back: both, or neither."""
        try:
            super().start()
        except BaseException:
            # The stop does nothing for a handler that did not come so far.
            self._running = True
            self.stop()
            raise

    def spawn(self, call: Callable[..., object], *given: Any, **named: Any) -> Any:
        """Starts a thread; an exception that ends it is logged."""

        def run() -> None:
            self._threads.add(threading.current_thread())
            try:
                call(*given, **named)
            except Exception:
                _log.exception("a thread of a ZooKeeper client failed")
            finally:
                if not self.has_ended:
                    self.has_ended = True
                    self._ended(self)

        return super().spawn(run)

    def is_own_thread(self) -> bool:
        """Whether the caller is a thread of the client, which cannot wait for its own end."""
        return threading.current_thread() in self._threads

    # ------------------------------------------------------------------------------------------------------ sockets

    def create_socket_pair(self) -> tuple[Doorbell, Doorbell]:
        """Returns what a caller wakes the sending thread with; see Doorbell."""
        bell = Doorbell()
        return bell, bell

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> socket.socket:
        """Connects with a server.

        kazoo's own does not end before its time, and its TLS trusts the certificates of the system beside those that it
        is given.

        Raises:
            OSError: the connection failed or timed out, or the client is shutting down.
        """
        seconds = self._connect_seconds if timeout is None else min(timeout, self._connect_seconds)
        family = socket.getaddrinfo(*address, 0, socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.settimeout(seconds)
            if self._tls is not None:
                made = secure = self._tls.wrap_socket(made, server_hostname=hostname)
                assert isinstance(secure, _TlsSocket)
                secure.note = self._refused
            with self._lock:
                if self._is_broken:
                    raise OSError("the client is shutting down")
                self._connection = made
            made.connect(address)
        except BaseException as failure:
            made.close()
            if isinstance(failure, OSError):
                self.failure = failure
            raise
        if not isinstance(self.failure, ssl.SSLError):
            self.failure = None
        return made

    def _refused(self, failure: ssl.SSLError) -> None:
        self.failure = failure

    def break_connection(self) -> None:
        """Ends the connection, whatever is waited for there, and makes no other: for a client that is being ended."""
        with self._lock:
            self._is_broken = True
            connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):  # it is closed already
                # Not the one of a TLS socket, which would change what the client's thread reads with.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def select(
        self, reading: Sequence[Any], writing: Sequence[Any], failing: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Waits for sockets; returns those to read from and those to write to.

        One whose TLS has deciphered more than was read is ready, which the system cannot know.
        """
        deciphered = [] if self._tls is None else [each for each in reading if _is_deciphered(each)]
        readable, writable, _ = wait_for_sockets(reading, writing, failing, 0 if deciphered else timeout)
        return [each for each in reading if each in readable or each in deciphered], writable, []


def _is_deciphered(each: Any) -> bool:
    return isinstance(each, ssl.SSLSocket) and each.pending() > 0
