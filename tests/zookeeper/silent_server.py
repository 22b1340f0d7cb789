"""A server that takes connections and never answers a request, as a machine that hangs."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

#: The granted session time, longer than any test.
SESSION_MS = 3_600_000


class SilentServer:
    """Takes connections of clients.  Started and stopped by `with`.

    Args:
        grants_sessions: whether it answers what a connection begins with.
    """

    def __init__(self, *, grants_sessions: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._grants_sessions = grants_sessions
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for each in self._clients:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            if self._grants_sessions:
                # The version of the protocol, the session with its time and its password, and that writes are taken.
                body = struct.pack(">iiqi16s?", 0, SESSION_MS, 7, 16, b"p" * 16, False)
                with contextlib.suppress(OSError):
                    client.sendall(struct.pack(">i", len(body)) + body)
