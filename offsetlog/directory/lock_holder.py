"""A directory's lock that its holder gives up when it is asked for it.

A process that keeps a store open only to be fast the next time must not keep others out.  While it holds the lock it
listens on a Unix socket, and whoever finds the lock taken asks there before failing.  The socket is in Linux's abstract
namespace, so that a killed process leaves nothing that has to be removed; its name is made of the device and the inode
of the lock file.  Both sides deal with processes of their own user only, and messages are bounded.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

from offsetlog.errors import StorageError

#: The request to give up the lock, and the answer once that is done.
RELEASE = b"release"
RELEASED = b"released"

#: The longest message, in bytes.
MESSAGE_BYTES_MAX = 64 << 20

# How long a peer may take to send a message, in seconds.
_PEER_SECONDS = 10.0
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")


class Request:
    """A message of another process, which waits for its answer."""

    def __init__(self, peer: socket.socket, content: bytes) -> None:
        self.content = content
        self._peer = peer

    def answer(self, content: bytes) -> None:
        """Answers, and ends the connection; a peer that has gone is no error."""
        with contextlib.suppress(OSError), self._peer:
            _send(self._peer, content)


class LockHolder:
    """The socket of a process that holds a directory's lock.  `close` may be called from any thread.

    Args:
        lock_file: the directory's lock, which is held.

    Raises:
        StorageError: another process listens for this lock file.
    """

    def __init__(self, lock_file: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(_address(lock_file))
            self._socket.listen()
        except OSError as failure:
            self._socket.close()
            raise StorageError(
                f"no socket for requests of the lock: {failure.strerror}", errno=failure.errno, path=str(lock_file)
            ) from failure

    def wait(self, timeout_seconds: float) -> Request | None:
        """Waits for a request; None after the timeout, where it came from another user, or was none.

        Raises:
            OSError: the socket was closed.
        """
        self._socket.settimeout(timeout_seconds)
        try:
            peer, _ = self._socket.accept()
        except TimeoutError:
            return None
        try:
            if _is_own_user(peer):
                peer.settimeout(_PEER_SECONDS)
                return Request(peer, _receive(peer))
        except OSError:  # it sent no request
            pass
        peer.close()
        return None

    def close(self) -> None:
        """Stops listening; a `wait` under way ends."""
        # A close alone would not wake it.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forget(self) -> None:
        """Closes this process's copy of the socket, in a child made by fork."""
        self._socket.close()


def ask(lock_file: Path, content: bytes, timeout_seconds: float = _PEER_SECONDS) -> bytes | None:
    """Sends a request to the holder of a lock.

    Args:
        lock_file: the lock.
        content: the request, at most MESSAGE_BYTES_MAX.
        timeout_seconds: how long each step may take, the holder's work included.

    Returns:
        The answer; None where nobody listens, or the holder did not answer in time.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
            holder.settimeout(timeout_seconds)
            holder.connect(_address(lock_file))
            if not _is_own_user(holder):
                return None
            _send(holder, content)
            return _receive(holder)
    except OSError:
        return None


def _address(lock_file: Path) -> bytes:
    found = os.stat(lock_file)
    return f"\0offsetlog-lock-{found.st_dev:x}-{found.st_ino:x}".encode()


def _is_own_user(peer: socket.socket) -> bool:
    _, user, _ = _CREDENTIALS.unpack(
        peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return bool(user == os.geteuid())


def _send(peer: socket.socket, content: bytes) -> None:
    peer.sendall(_LENGTH.pack(len(content)))
    peer.sendall(content)


def _receive(peer: socket.socket) -> bytes:
    (size,) = _LENGTH.unpack(_receive_exactly(peer, _LENGTH.size))
    if size > MESSAGE_BYTES_MAX:
        raise OSError(f"a message of {size} bytes, which is more than {MESSAGE_BYTES_MAX}")
    return _receive_exactly(peer, size)


def _receive_exactly(peer: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        data = peer.recv(min(size - len(found), 1 << 20))
        if not data:
            raise ConnectionError("the other side has gone")
        found += data
    return bytes(found)
