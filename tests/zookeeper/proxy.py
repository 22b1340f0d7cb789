"""A proxy between a client and a server of ZooKeeper that cuts connections at a chosen request."""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from offsetlog.zookeeper.connection import ZooKeeperConnection

PATIENCE = 60.0

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


class _Link:
    """The two connections of one client; the thread that is last to leave closes them."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self._lock = threading.Lock()
        self._users = 2

    def cut(self) -> None:
        for each in (self.client, self.server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        self.cut()
        with self._lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            self.client.close()
            self.server.close()


class CuttingProxy:
    """Hands bytes on between clients and one server; cuts the connection of the next request of a kind when asked.

    Started and stopped by `with`.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._wanted: tuple[int, Cut] | None = None
        self._spared = 0
        self._links: list[_Link] = []
        self._threads: list[threading.Thread] = []
        self._is_refusing = False
        self.cuts = 0

    def refuse(self, is_refusing: bool) -> None:
        """Cuts all connections and refuses new ones, or takes them again."""
        with self._lock:
            self._is_refusing = is_refusing
        if is_refusing:
            self.cut_all()

    def cut_next(self, operation: int, moment: Cut, after: int = 0) -> None:
        """Has the connection of the next request of this operation be cut, or of one after so many others of it."""
        with self._lock:
            self._wanted = (operation, moment)
            self._spared = after

    def cut_all(self) -> None:
        """Cuts every connection now."""
        with self._lock:
            links = list(self._links)
        for each in links:
            each.cut()

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that waits in accept() is woken by a shutdown, and not by a close.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut_all()
        for each in self._threads:
            each.join()

    def _run(self, call: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=call, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

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
            link = _Link(client, server)
            with self._lock:
                self._links.append(link)
                is_refused = self._is_refusing
            if is_refused:
                link.cut()
            is_silent = threading.Event()
            self._run(self._requests, link, is_silent)
            self._run(self._answers, link, is_silent)

    def _requests(self, link: _Link, is_silent: threading.Event) -> None:
        try:
            # The first frame of a connection is no request: it begins or goes on with the session.
            link.server.sendall(self._frame(link.client) or b"")
            while (request := self._frame(link.client)) is not None:
                moment = self._moment_of(request)
                if moment is Cut.BEFORE:
                    break
                if moment is Cut.WITHIN:
                    link.server.sendall(request[: len(request) // 2])
                    break
                if moment is Cut.AFTER:
                    # Set before it is sent, so that its answer never passes; the other thread cuts once that is there.
                    is_silent.set()
                link.server.sendall(request)
        except OSError:
            pass
        link.leave()

    def _answers(self, link: _Link, is_silent: threading.Event) -> None:
        try:
            while piece := link.server.recv(1 << 16):
                if is_silent.is_set():
                    break
                link.client.sendall(self._passed_on(piece))
        except OSError:
            pass
        link.leave()

    def _passed_on(self, piece: bytes) -> bytes:
        """Returns what a client gets in the place of bytes of a server."""
        return piece

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
            if self._spared > 0:
                self._spared -= 1
                return None
            moment = self._wanted[1]
            self._wanted = None
            self.cuts += 1
            return moment


class Answering(CuttingProxy):
    """Answers the next request of a connection that waits for one with an error number, whatever the server said."""

    code: int | None = None

    def _passed_on(self, piece: bytes) -> bytes:
        if self.code is None:
            return piece
        # The length, the number of the request and that of the transaction come before the error.
        changed = piece[:16] + struct.pack(">i", self.code) + piece[20:]
        self.code = None
        return changed


def outlast_session(connection: ZooKeeperConnection, proxy: CuttingProxy, other: ZooKeeperConnection) -> None:
    """Keeps a connection from its servers until they have ended its session, and waits for the next session.

    Args:
        connection: through the proxy.
        proxy: the only way of the connection.
        other: to the same root, past the proxy.
    """
    session, gone, lost, again = connection.session_id, threading.Event(), threading.Event(), threading.Event()

    def listen(state: str) -> None:
        if state == "lost":
            lost.set()
        elif state == "connected" and lost.is_set():
            again.set()

    node = f"/session-{session}"
    connection.create(node, ephemeral=True)
    other.sync_async().result()  # its server may lack what another one answered
    assert other.exists_async(node, lambda _: gone.set()).result() is not None
    connection.add_state_listener(listen)
    try:
        proxy.refuse(True)
        assert gone.wait(PATIENCE)
        proxy.refuse(False)
        assert again.wait(PATIENCE)
    finally:
        proxy.refuse(False)
        connection.remove_state_listener(listen)
    assert connection.session_id != session
