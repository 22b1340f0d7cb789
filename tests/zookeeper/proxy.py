"""A proxy between a client and a server of ZooKeeper that cuts connections at a chosen request."""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import threading
from typing import Self

#: The numbers of requests (ZooKeeper's ZooDefs.OpCode).
OP_CREATE, OP_DELETE, OP_SYNC, OP_MULTI = 1, 2, 9, 14
REQUEST_MAX = 1 << 24


class Cut(enum.Enum):
    """The moment at which the connection of a request is cut."""

    #: The server never sees the request.
    BEFORE = "before the request"
    #: The server sees the first half of its bytes.
    WITHIN = "within the request"
    #: The server carries it out, and the client never sees the answer.
    AFTER = "before the answer"


class CuttingProxy:
    """Hands bytes on between clients and one server; cuts the connection of the next request of a kind when asked.

    Started and stopped by `with`.  Threads of it end with their connections.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._wanted: tuple[int, Cut] | None = None
        self._open: set[socket.socket] = set()
        self.cuts = 0

    def cut_next(self, operation: int, moment: Cut) -> None:
        """Has the connection of the next request of this operation be cut."""
        with self._lock:
            self._wanted = (operation, moment)

    def cut_all(self) -> None:
        """Cuts every connection now."""
        with self._lock:
            for each in list(self._open):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port), 5.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            cut = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, cut), daemon=True).start()
            threading.Thread(target=self._answers, args=(server, client, cut), daemon=True).start()

    def _close(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._open -= set(sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _requests(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        try:
            first = True
            while (request := self._frame(client)) is not None:
                # The first frame of a connection is no request: it begins or goes on with the session.
                moment = None if first else self._moment_of(request)
                first = False
                if moment is Cut.BEFORE:
                    break
                if moment is Cut.WITHIN:
                    server.sendall(request[: len(request) // 2])
                    break
                if moment is Cut.AFTER:
                    # Set before it is sent, so that its answer never passes.
                    cut.set()
                    server.sendall(request)
                    # The answer's thread closes both once the answer is there.
                    return
                server.sendall(request)
        except OSError:
            pass
        self._close(client, server)

    def _answers(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        try:
            while piece := server.recv(1 << 16):
                if cut.is_set():
                    break
                client.sendall(piece)
        except OSError:
            pass
        self._close(client, server)

    @staticmethod
    def _frame(source: socket.socket) -> bytes | None:
        head = CuttingProxy._exactly(source, 4)
        if head is None:
            return None
        size = struct.unpack(">i", head)[0]
        assert 0 <= size <= REQUEST_MAX
        body = CuttingProxy._exactly(source, size)
        return None if body is None else head + body

    @staticmethod
    def _exactly(source: socket.socket, size: int) -> bytes | None:
        found = b""
        while len(found) < size:
            piece = source.recv(size - len(found))
            if not piece:
                return None
            found += piece
        return found

    def _moment_of(self, request: bytes) -> Cut | None:
        operation = struct.unpack_from(">i", request, 8)[0] if len(request) >= 12 else None
        with self._lock:
            if self._wanted is None or operation != self._wanted[0]:
                return None
            moment = self._wanted[1]
            self._wanted = None
            self.cuts += 1
            return moment
