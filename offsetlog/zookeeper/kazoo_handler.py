"""The threads and sockets of a kazoo client.  They block no caller, and they end when they are closed."""

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
    """Wakes the thread that sends requests, at least once for each request, and never blocks the caller.

    kazoo itself uses a socket pair, and writes one byte for each request.  The pair has room for 278 bytes.  While no
    server is connected, no thread reads these bytes.  Once the pair is full, the caller of the next request would
    therefore block until a server is connected.  A doorbell replaces both ends of the pair.  If a byte does not fit,
    the doorbell keeps it, and writes it when another byte is read.  The doorbell has no lock, so callers never wait
    for each other.
    """

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._reading.setblocking(False)
        #: The bytes that did not fit and are kept back, one for each request.
        self._rest: deque[bytes] = deque()

    def fileno(self) -> int:
        """Returns the descriptor on which the sending thread waits; it is readable while a request is waiting."""
        return self._reading.fileno()

    def send(self, data: bytes) -> int:
        """Wakes the sending thread for a request.  Raises OSError if the doorbell is closed."""
        try:
            return self._writing.send(data)
        except BlockingIOError:
            self._rest.append(data)
        # All bytes may have been read before this one was kept back; then no later read would write it.  It is
        # therefore also written now.  An extra byte does no harm.  If the byte does not fit, there are other bytes to
        # read.
        with contextlib.suppress(BlockingIOError):
            self._writing.send(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Reads the byte of a request, or no bytes if no request is waiting.  Only one thread may call this."""
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
        """Frees the sockets.  A second call does nothing."""
        self._reading.close()
        self._writing.close()


class _TlsSocket(ssl.SSLSocket):
    """A connection that reports the TLS error with which the server ended it; kazoo itself would reconnect silently.

    In TLS 1.3, a server reports only after the handshake that it refuses the client's certificate, or that it requires
    one.
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
        connect_seconds: the seconds within which a server must accept a connection and complete the TLS handshake.
        tls: the TLS context of the connections; None for connections without TLS.
        ended: called with this object when the first of the client's threads ends, by that thread, as its last act.
            The threads that end later do not call it.

    Attributes:
        failure: the error with which the last attempt to connect failed, which includes a refusal by the server during
            the TLS handshake; None if the connection was made.
        has_ended: whether a thread of the client has ended.
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
        """Starts the two threads that run callbacks.  If one of them cannot be started, neither runs."""
        try:
            super().start()
        except BaseException:
            # `stop` does nothing unless `_running` is set, and a failed start may not have set it.
            self._running = True
            self.stop()
            raise

    def spawn(self, call: Callable[..., object], *given: Any, **named: Any) -> Any:
        """Starts a thread; if an exception ends the thread, it is logged."""

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
        """Whether the caller is a thread of the client.  Such a thread cannot wait until the client has ended."""
        return threading.current_thread() in self._threads

    # ------------------------------------------------------------------------------------------------------ sockets

    def create_socket_pair(self) -> tuple[Doorbell, Doorbell]:
        """Returns the two ends with which a caller wakes the thread that sends requests; see Doorbell."""
        bell = Doorbell()
        return bell, bell

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> socket.socket:
        """Connects with a server.

        This method replaces that of kazoo.  A connection attempt of kazoo cannot be ended early.  With TLS, kazoo
        also trusts the certificates of the system in addition to those that were given.

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
        """Ends the connection, even if threads wait for it, and prevents another connection.

        It is called when the client must end.
        """
        with self._lock:
            self._is_broken = True
            connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):  # the connection is closed already
                # The TLS socket's own method is not called, because it would change the object from which the client's
                # thread reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def select(
        self, reading: Sequence[Any], writing: Sequence[Any], failing: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Waits for sockets; returns those to read from and those to write to.

        A TLS socket may have decrypted bytes that were not read yet.  The system does not know of these bytes, but the
        socket counts as one to read from.
        """
        deciphered = [] if self._tls is None else [each for each in reading if _is_deciphered(each)]
        readable, writable, _ = wait_for_sockets(reading, writing, failing, 0 if deciphered else timeout)
        return [each for each in reading if each in readable or each in deciphered], writable, []


def _is_deciphered(each: Any) -> bool:
    return isinstance(each, ssl.SSLSocket) and each.pending() > 0
