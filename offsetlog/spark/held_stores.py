"""Stores that stay open between two uses, so that an epoch or a listener's commit costs only its own write.

A process has one handle of each store, and one thread at a time uses the handle.  Between two uses the store stays
open; this module says that it rests.  A resting store is closed when it has rested for a given time, or as soon as
another process asks for it (`offsetlog.directory.lock_holder`; `offsetlog.open` asks by itself).  Another process that
asks for the store is therefore never kept out by a resting store.

Spark runs the sink in a process of its own.  A listener, in the driver or in another process of the machine, may find
that the sink's process has the store open.  The listener then sends its commit to that process, so that the store need
not be closed and opened again for each commit.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsetlog import errors
from offsetlog.config import MaintenanceConfig
from offsetlog.directory import lock_holder
from offsetlog.directory.log_directory import LOCK
from offsetlog.errors import ClosedError, InvalidArgumentError, OffsetLogError, StorageError
from offsetlog.opening import open_with
from offsetlog.store import OffsetStore
from offsetlog.types import Durability, OffsetAndMetadata, TopicPartition

#: How long a store rests before it is closed if no other process asks for it, in seconds.
KEEP_SECONDS = 10.0

# How long the socket address of a process may stay in use after the process has released the lock, in seconds.
_ADDRESS_SECONDS = 2.0

# The longest time that the thread of a resting store waits before it checks whether a use has changed the end of the
# rest.
_LOOK_SECONDS = 5.0

Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class Opening:
    """Arguments of `offsetlog.open`.

    `use_store` opens a store again only if the store was closed, or if `partitions` differs from its number of
    partitions.  A store that stays open keeps the maintenance of the use that opened it.  The durability of an open
    store does not matter, because each commit has a durability of its own.
    """

    path: Path
    partitions: int | None = None
    durability: Durability = "disk"
    maintenance: MaintenanceConfig | None = None


@contextlib.contextmanager
def use_store(
    opening: Opening, keep_seconds: float | None = KEEP_SECONDS, lock_seconds: float | None = None
) -> Iterator[OffsetStore]:
    """Yields the process's handle of a store; opens the store first if it is not open.  Waits for other threads' uses.

    If the use fails with anything but an InvalidArgumentError, the store is closed, since its state may be unknown.

    Args:
        opening: how to open the store if it is not open.
        keep_seconds: how long the store rests, that is, stays open without a use.  With 0, it is closed after this use;
            with None, it rests without limit.  If the store was opened with another `maintenance`, a value other than 0
            has no effect.
        lock_seconds: how long to wait for another process that has the store open; None: no limit.

    Raises:
        OffsetLogError: raised by `offsetlog.open`.
    """
    held = _held_at(opening.path)
    with held.mutex:
        store = held.take(opening, lock_seconds)
        try:
            with lock_holder.used_here(opening.path / LOCK):
                yield store
        except InvalidArgumentError:
            held.keep(keep_seconds, opening)
            raise
        except BaseException as failure:
            held.close_after(failure)
            raise
        held.keep(keep_seconds, opening)


def is_held(path: str | os.PathLike[str]) -> bool:
    """Returns whether this process has a store open, either in use or resting."""
    found = _held.get(_key(path))
    return found is not None and found.store is not None


def let_go(path: str | os.PathLike[str]) -> None:
    """Closes a store that this process has open, after the uses in progress; otherwise does nothing."""
    found = _held.get(_key(path))
    if found is not None:
        with found.mutex:
            found.close()


def commit_elsewhere(
    path: str | os.PathLike[str], group: str, positions: Committed, durability: Durability | None
) -> bool:
    """Commits like `OffsetStore.commit`, through another process that has the store open.

    If the process that has the store open is using it, this call waits until that use has ended.

    Returns:
        Whether the other process committed the positions.  False if no other process has the store open, if a position
        has a topic id, or if the other process did not answer.  If it did not answer, the positions may or may not be
        committed; it is safe to commit them again.

    Raises:
        OffsetLogError: the other process refused the commit.
    """
    if any(value.topic_id is not None for value in positions.values()):
        return False
    rows = [[*key, *value[:5]] for key, value in positions.items()]
    request = {"commit": group, "positions": rows, "durability": durability}
    answer = lock_holder.ask(Path(path) / LOCK, json.dumps(request).encode())
    if answer is None:
        return False
    failure: dict[str, str] = json.loads(answer)
    if failure:
        raise _error_of(failure["error"], failure["message"])
    return True


def _error_of(name: str, message: str) -> OffsetLogError:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, OffsetLogError):
        with contextlib.suppress(TypeError):  # the class takes other arguments
            return kind(message)
    return OffsetLogError(f"{name}: {message}")


class _HeldStore:
    """The handle of one store.  The caller of a method must hold `mutex`; only reading `store` needs no lock."""

    def __init__(self, path: Path) -> None:
        self.mutex = threading.Lock()
        self.store: OffsetStore | None = None
        self.requests: lock_holder.Requests | None = None
        self._path = path
        self._opening: Opening | None = None
        self._rests_until: float | None = None

    def take(self, opening: Opening, lock_seconds: float | None) -> OffsetStore:
        """Returns the open store."""
        if self.store is not None and not _serves(self.store, opening):
            self.close()
        if self.store is None:
            self.store = open_with(
                opening.path,
                opening.partitions,
                opening.durability,
                maintenance=opening.maintenance,
                lock_seconds=lock_seconds,
                create="anywhere",  # files staged by tasks may be there before the log
            )
            self._opening = opening
            self._rests_until = None
            self._listen()
        return self.store

    def _listen(self) -> None:
        # Listens from the beginning, so that a process that asks during the first use waits until that use has ended.
        # If listening fails, the store is closed after the use.
        try:
            self.requests = _requests_for(self._path / LOCK)
            threading.Thread(target=self._work, args=(self.requests,), name="offsetlog-held-store", daemon=True).start()
        except Exception:
            self._stop_listening()
        except BaseException:
            self.close()
            raise

    def keep(self, seconds: float | None, opening: Opening) -> None:
        """Lets the store rest after a use.  Closes it if `seconds` is 0, or if other processes cannot ask for it."""
        if self.requests is None or seconds == 0:
            self.close()
        # Without this condition, a listener could keep a store open that nobody cleans, or a sink could close the store
        # of a listener too early.
        elif self._opening is not None and self._opening.maintenance == opening.maintenance:
            self._rests_until = None if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        """Closes the store, and only then stops answering.  A process that asks meanwhile therefore gets the store."""
        try:
            self._close_store()
        finally:
            self._stop_listening()

    def close_after(self, failure: BaseException, request: lock_holder.Request | None = None) -> None:
        """Closes the store after a failure.  If closing the store fails, too, adds a note to the first failure."""
        try:
            self._close_store()
        except Exception as second:
            failure.add_note(f"closing the store failed, too: {second}")
        finally:
            if request is not None:
                request.answer(_answer_of(failure))
            self._stop_listening()

    def _close_store(self) -> None:
        store, self.store = self.store, None
        self._opening = None
        if store is not None:
            store.close()

    def _stop_listening(self) -> None:
        requests, self.requests = self.requests, None
        if requests is not None:
            requests.close()

    def _work(self, requests: lock_holder.Requests) -> None:
        try:
            while self.requests is requests:
                self._work_once(requests)
        finally:
            # A store whose thread no longer answers would lock all other processes out.
            with self.mutex:
                if self.requests is requests:
                    self._close_resting()

    def _work_once(self, requests: lock_holder.Requests) -> None:
        until = self._rests_until
        left = _LOOK_SECONDS if until is None else until - time.monotonic()
        request = requests.next(min(max(left, 0.01), _LOOK_SECONDS))
        with self.mutex:
            if self.requests is not requests:  # the use that this thread waited for has closed it
                return
            if request is not None:
                self._answer(request)
            elif self._rests_until is not None and time.monotonic() >= self._rests_until:
                self._close_resting()

    def _answer(self, request: lock_holder.Request) -> None:
        if not request.is_waiting():  # the caller may have given up
            return
        if request.content == lock_holder.RELEASE:
            self._close_resting()
            return
        try:
            self._commit(request.content)
        except InvalidArgumentError as failure:
            request.answer(_answer_of(failure))
        except Exception as failure:  # as in `use_store`
            self.close_after(failure, request)
        else:
            request.answer(b"{}")

    def _close_resting(self) -> None:
        # Everything has been written already.  If the close fails, the next open finds the problem.
        with contextlib.suppress(OffsetLogError):
            self.close()

    def _commit(self, content: bytes) -> None:
        group, positions, durability = _read_commit(content)
        if self.store is None:
            raise ClosedError("the store is closed")
        self.store.commit(group, positions, durability=durability)


def _serves(store: OffsetStore, opening: Opening) -> bool:
    return not store.closed and (opening.partitions is None or opening.partitions == store.partitions)


def _requests_for(lock_file: Path) -> lock_holder.Requests:
    end = time.monotonic() + _ADDRESS_SECONDS
    while True:
        try:
            return lock_holder.Requests(lock_file)
        except StorageError as failure:
            if failure.errno != errno.EADDRINUSE or time.monotonic() >= end:
                raise
        time.sleep(0.005)


def _answer_of(failure: BaseException) -> bytes:
    message = "; ".join([str(failure), *getattr(failure, "__notes__", ())])
    return json.dumps({"error": type(failure).__name__, "message": message}).encode()


def _read_commit(content: bytes) -> tuple[str, dict[TopicPartition, OffsetAndMetadata], Durability | None]:
    try:
        asked: dict[str, Any] = json.loads(content)
        rows = [(TopicPartition(*row[:2]), OffsetAndMetadata(*row[2:])) for row in asked["positions"]]
        return asked["commit"], dict(rows), asked["durability"]
    except (ValueError, TypeError, KeyError, RecursionError) as failure:
        raise InvalidArgumentError(f"the request cannot be read: {failure!r}") from failure


#: The handles by path; only a fork empties the dict.  It needs no lock, since a handle is found or created in one step,
#: and each handle has its own mutex.
_held: dict[str, _HeldStore] = {}


def _key(path: str | os.PathLike[str]) -> str:
    return os.path.realpath(path)


def _held_at(path: str | os.PathLike[str]) -> _HeldStore:
    return _held.setdefault(_key(path), _HeldStore(Path(path)))


# At exit, this function runs before the engine's own handler, which warns of open stores.
@atexit.register
def _close_all() -> None:
    for path in list(_held):
        let_go(path)


def _forget_after_fork() -> None:
    for held in _held.values():
        if held.requests is not None:
            held.requests.forget()
    _held.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
