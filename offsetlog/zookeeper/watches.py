"""Permanent watches.  They deliver the latest state after changes, even if connections break or sessions expire.

A watch of ZooKeeper itself fires once, and ends with the connection.  Here, each time such a watch fires, the node is
read, and the same read sets the next watch, so that no change is missed.  If a state is replaced before it is read, it
is skipped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

from offsetlog.errors import ClosedError, NoNodeError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.zookeeper.connection import Node, ZooKeeperConnection

T = TypeVar("T")

#: Seconds between two tries to read while no server answers; a new connection ends the wait.
RETRY_SECONDS = 0.5

_log = logging.getLogger(__name__)


class Watch(Generic[T]):
    """The states of one thing in ZooKeeper, one after the other, beginning with the current one.

    Only one thread may use `next` and the iterator; any thread may call `close`.  If a watch is not closed, its
    connection keeps it in memory.

    Args:
        connection: a started connection.
        read: reads the state, and passes the given function to ZooKeeper as the watch.
    """

    def __init__(self, connection: ZooKeeperConnection, read: Callable[[Callable[[Any], object]], T]) -> None:
        self._connection = connection
        self._read = read
        self._condition = threading.Condition()
        self._is_due = True
        self._is_closed = False
        self._seen: tuple[T] | None = None
        connection.add_state_listener(self._state_changed)

    def next(self, timeout: float | None = None) -> T:
        """Waits until the state differs from the one that was returned before; returns it.

        Raises:
            TimeoutError: the state did not change within `timeout` seconds.  If a read has begun, the call may take
                longer.
            ClosedError: the watch, or its connection, is closed.
            CorruptionError: the content of the node is wrong.  The next call waits until the node changes.
            ZooKeeperError: ZooKeeper refuses the read, or it refuses the credentials of the connection.  The next call
                waits until the node or the connection changes.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._wait_until_due(deadline)
            if not (self._connection.is_connected or self._connection.is_closed):
                refusal = self._connection.refusal
                if refusal is not None:
                    self._seen = None
                    raise refusal
                self._retry_later(deadline)
                continue
            try:
                state = self._read(self._changed)
            except ZooKeeperUnavailableError:
                # The watch that the read set in ZooKeeper is lost, and so is its event.
                self._retry_later(deadline)
                continue
            except OffsetLogError:
                self._seen = None
                raise
            if self._seen is None or self._seen[0] != state:
                self._seen = (state,)
                return state

    def __iter__(self) -> Iterator[T]:
        """Yields each state until the watch is closed; raises the errors of `next`."""
        while True:
            try:
                state = self.next()
            except ClosedError:
                return
            yield state

    def close(self) -> None:
        """Ends the watch; a call that waits then raises ClosedError.  A second call does nothing."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._connection.remove_state_listener(self._state_changed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until_due(self, deadline: float | None) -> None:
        with self._condition:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._condition.wait_for(lambda: self._is_due or self._is_closed, left):
                raise TimeoutError("nothing changed within the timeout")
            if self._is_closed:
                raise ClosedError("the watch is closed")
            # Reset before the read, so that a later change sets it again.
            self._is_due = False

    def _retry_later(self, deadline: float | None) -> None:
        with self._condition:
            left = RETRY_SECONDS if deadline is None else min(RETRY_SECONDS, deadline - time.monotonic())
            self._condition.wait_for(lambda: self._is_due or self._is_closed, max(0.0, left))
            self._is_due = True
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("ZooKeeper did not answer within the timeout")

    def _changed(self, _: object = None) -> None:
        with self._condition:
            self._is_due = True
            self._condition.notify_all()

    def _state_changed(self, state: str) -> None:
        # A lost session counts, too: the connection may be closed, and the next read raises that.
        if state != "suspended":
            self._changed()


class Watcher(Generic[T]):
    """Calls a function with each state of a watch, on a thread of its own, until it is closed.

    Args:
        watch: the watch, which is closed together with this object.
        callback: called with each state, one call at a time.  If it raises an error, the error is logged, and the
            watcher waits for the next state.
        failed: called with each error of a read, such as CorruptionError.  By default, these errors are logged.
    """

    def __init__(
        self,
        watch: Watch[T],
        callback: Callable[[T], object],
        failed: Callable[[OffsetLogError], object] | None = None,
    ) -> None:
        self._watch = watch
        self._callback = callback
        self._failed = failed or (lambda failure: _log.warning("cannot read a watched node: %s", failure))
        self._thread = threading.Thread(target=self._run, name="offsetlog-zookeeper-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch, and waits until a running callback has ended; a call by the callback itself does not wait."""
        self._watch.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            try:
                call, given = self._callback, self._watch.next()
            except ClosedError:
                return
            except OffsetLogError as failure:
                call, given = self._failed, failure  # type: ignore[assignment]
            try:
                call(given)
            except Exception:
                _log.exception("the callback of a watch failed")


def read_node(connection: ZooKeeperConnection, node: str, watch: Callable[[Any], object]) -> Node | None:
    """Reads a node (None if it does not exist), and sets a watch for its creation or its next change."""
    while True:
        try:
            return connection.get_async(node, watch).result()
        except NoNodeError:
            # A read of a missing node sets no watch.
            if connection.exists_async(node, watch).result() is None:
                return None


def read_children(connection: ZooKeeperConnection, node: str, watch: Callable[[Any], object]) -> list[str]:
    """Reads the names of a node's children (none if it does not exist), and sets a watch for the next change."""
    while True:
        try:
            return connection.children_async(node, watch).result()
        except NoNodeError:
            if connection.exists_async(node, watch).result() is None:
                return []
