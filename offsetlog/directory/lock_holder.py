"""Lets the holder of a directory's lock release it on request.

A process that keeps an idle store open, only to make its next use fast, must not lock others out.  While the process
holds the lock, it listens on a Unix socket.  Another process that finds the lock taken sends a request there before it
fails.  The socket is in Linux's abstract namespace, so a killed process leaves nothing to remove.  Its name contains
the device and the inode of the lock file.  Both sides accept only processes of their own user, and the length of
messages is limited.

The holder may have to finish its present work before it can answer.  Until then it keeps reporting that it is working,
and the asking process waits as long as these reports arrive.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from offsetlog.errors import StorageError

#: The request to release the lock, and the answer once the lock is released.
RELEASE = b"release"
RELEASED = b"released"

#: A report that the holder is working.  The holder may send it any number of times before the answer.
WORKING = b"working"

#: The longest message, in bytes.
MESSAGE_BYTES_MAX = 64 << 20

# How long the other side may take to send a message, in seconds.
_PEER_SECONDS = 10.0
# How often a working holder reports, and how long it may be silent before it counts as stuck, in seconds.
_SAY_SECONDS = 1.0
_SILENT_SECONDS = 30.0
# The pause before trying again to take a lock whose holder ended while it was asked, in seconds.
_AGAIN_SECONDS = 0.01
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")


class Request:
    """A request of another process that waits for an answer.  Any thread may use it."""

    def __init__(self, peer: socket.socket, content: bytes) -> None:
        self.content = content
        self._peer = peer
        self._sending = threading.Lock()
        self._has_ended = False

    def answer(self, content: bytes) -> None:
        """Sends the answer and closes the connection; does not fail if the other side has closed it."""
        with self._sending, contextlib.suppress(OSError), self._peer:
            self._has_ended = True
            self._peer.settimeout(_PEER_SECONDS)
            _send(self._peer, content)

    def drop(self) -> None:
        """Closes the connection without an answer."""
        with self._sending:
            self._end()

    def say_working(self) -> bool:
        """Reports that the holder is working; returns whether the other side still waits."""
        with self._sending:
            if not self._is_there():
                return False
            try:
                self._peer.send(_LENGTH.pack(len(WORKING)) + WORKING, socket.MSG_NOSIGNAL)
            except OSError:  # the other side has gone, or does not read
                self._end()
            return not self._has_ended

    def is_waiting(self) -> bool:
        """Whether the request is unanswered and the other side still waits."""
        with self._sending:
            return self._is_there()

    def _is_there(self) -> bool:
        if self._has_ended:
            return False
        try:
            self._peer.settimeout(0)
            if self._peer.recv(1, socket.MSG_PEEK) == b"":
                self._end()
        except BlockingIOError:
            pass
        except OSError:
            self._end()
        return not self._has_ended

    def _end(self) -> None:
        self._has_ended = True
        self._peer.close()

    def forget(self) -> None:
        """Closes this process's copy of the connection, in a child made by fork."""
        self._peer.close()


class LockHolder:
    """The listening socket of a process that holds a directory's lock.  Any thread may call `close`.

    Args:
        lock_file: the lock file of the directory, held by this process.

    Raises:
        StorageError: another process listens for this lock file already.
    """

    def __init__(self, lock_file: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(_address(lock_file))
            self._socket.listen()
        except OSError as failure:
            self._socket.close()
            raise StorageError(
                f"cannot listen for requests to give up the lock: {failure.strerror}",
                errno=failure.errno,
                path=str(lock_file),
            ) from failure

    def wait(self, timeout_seconds: float) -> Request | None:
        """Waits for a request; returns None after the timeout, or if the request was malformed or from another user.

        Raises:
            OSError: the socket was closed.
        """
        self._socket.settimeout(timeout_seconds)
        try:
            peer, _ = self._socket.accept()
        except TimeoutError:
            return None
        with contextlib.ExitStack() as unless_received:
            unless_received.enter_context(peer)
            with contextlib.suppress(OSError):  # it sent no valid request
                if _is_own_user(peer):
                    peer.settimeout(_PEER_SECONDS)
                    request = Request(peer, _receive(peer))
                    unless_received.pop_all()
                    return request
        return None

    def close(self) -> None:
        """Stops listening; a `wait` in progress ends."""
        # A close alone would not wake a waiting `accept`.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forget(self) -> None:
        """Closes this process's copy of the socket, in a child made by fork."""
        self._socket.close()


class Requests:
    """The requests for a lock that this process holds, in order of arrival.

    A thread receives the requests, and reports to each sender that the holder is working until the request is answered.

    Args:
        lock_file: the lock file of the directory, held by this process.

    Raises:
        StorageError: another process listens for this lock file already.
        RuntimeError: the thread cannot be started.
    """

    def __init__(self, lock_file: Path) -> None:
        self._holder = LockHolder(lock_file)
        self._changed = threading.Condition()
        self._waiting: list[Request] = []
        self._closed = threading.Event()
        try:
            threading.Thread(target=self._take_in, name="offsetlog-lock-requests", daemon=True).start()
        except BaseException:
            self._holder.close()
            raise

    def _take_in(self) -> None:
        while not self._closed.is_set():
            try:
                request = self._holder.wait(_SAY_SECONDS)
            except Exception:
                # The socket was closed; or memory or files ran out for this request, and a smaller or later request may
                # succeed.
                if not self._closed.is_set():
                    time.sleep(_AGAIN_SECONDS)
                request = None
            with self._changed:
                if request is not None and self._closed.is_set():
                    request.drop()
                elif request is not None:
                    self._waiting.append(request)
                    self._changed.notify_all()
                self._waiting = [each for each in self._waiting if each.say_working()]

    def next(self, timeout_seconds: float) -> Request | None:
        """Returns the oldest unanswered request; None after the timeout or a `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed.is_set(), timeout_seconds)
            self._waiting = [each for each in self._waiting if each.is_waiting()]
            return self._waiting[0] if self._waiting else None

    def close(self) -> None:
        """Stops listening; call this after the lock was released.

        Answers the waiting requests to release the lock, and closes the connections of all other requests.
        """
        with self._changed:
            self._closed.set()
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        self._holder.close()
        for request in waiting:
            if request.content == RELEASE:
                request.answer(RELEASED)
            else:
                request.drop()

    def forget(self) -> None:
        """Closes this process's copies of the socket and connections, in a child made by fork."""
        self._holder.forget()
        for request in list(self._waiting):
            request.forget()


# The addresses of locks that this thread is using; a request for one of them would wait for this thread itself.
_own_uses = threading.local()


@contextlib.contextmanager
def used_here(lock_file: Path) -> Iterator[None]:
    """In this context, `ask` and `release` send no request for the lock when the thread that entered it calls them.

    That thread holds the lock, so it could not answer its own request.
    """
    uses: set[bytes] = _own_uses.__dict__.setdefault("addresses", set())
    address = _address(lock_file)
    uses.add(address)
    try:
        yield
    finally:
        uses.discard(address)


def ask(lock_file: Path, content: bytes, timeout_seconds: float | None = None) -> bytes | None:
    """Sends a request to the holder of a lock, and waits as long as the holder reports that it is working.

    Args:
        lock_file: the lock.
        content: the request, at most MESSAGE_BYTES_MAX.
        timeout_seconds: the longest wait for the answer, including the holder's work; None for no limit.

    Returns:
        The answer; None if no process of this user listens, the holder did not answer in time, or this thread holds the
        lock.
    """
    try:
        return _exchange(lock_file, content, timeout_seconds, None)
    except OSError:
        return None


def release(
    lock_file: Path, timeout_seconds: float | None = None, stop: threading.Event | None = None
) -> bool:
    """Asks the holder of a lock to release it, and waits as `ask` does, until `stop` is set.

    Returns:
        Whether the holder released the lock or ended; another process may have taken the lock since.
    """
    try:
        return _exchange(lock_file, RELEASE, timeout_seconds, stop) == RELEASED
    except ConnectionRefusedError:  # no process listens
        return False
    except ConnectionError:
        time.sleep(_AGAIN_SECONDS)
        return True
    except OSError:
        return False


def _exchange(
    lock_file: Path, content: bytes, timeout_seconds: float | None, stop: threading.Event | None
) -> bytes | None:
    end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    address = _address(lock_file)
    if address in _own_uses.__dict__.get("addresses", ()):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        holder.settimeout(_seconds_left(end))
        holder.connect(address)
        if not _is_own_user(holder):
            return None
        _send(holder, content)
        answer = WORKING
        while answer == WORKING:
            # A working holder reports every second, so the wait ends within a second of `stop`.
            if stop is not None and stop.is_set():
                return None
            holder.settimeout(_seconds_left(end))
            answer = _receive(holder)
        return answer


def _seconds_left(end: float | None) -> float:
    left = _SILENT_SECONDS if end is None else min(end - time.monotonic(), _SILENT_SECONDS)
    if left <= 0:
        raise TimeoutError("the holder of the lock did not answer in time")
    return left


def _address(lock_file: Path) -> bytes:
    found = os.stat(lock_file)
    return f"\0offsetlog-lock-{found.st_dev:x}-{found.st_ino:x}".encode()


def _is_own_user(peer: socket.socket) -> bool:
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())


def _send(peer: socket.socket, content: bytes) -> None:
    peer.sendall(_LENGTH.pack(len(content)))
    peer.sendall(content)


def _receive(peer: socket.socket) -> bytes:
    (size,) = _LENGTH.unpack(_receive_exactly(peer, _LENGTH.size))
    if size > MESSAGE_BYTES_MAX:
        raise OSError(f"the other side announced a message of {size} bytes; the limit is {MESSAGE_BYTES_MAX}")
    return _receive_exactly(peer, size)


def _receive_exactly(peer: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        data = peer.recv(min(size - len(found), 1 << 20))
        if not data:
            raise ConnectionError("the other side closed the connection within a message")
        found += data
    return bytes(found)
