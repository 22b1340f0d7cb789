"""Stores that stay open between two uses: an epoch, or a commit of a listener, then costs what it writes.

A process has one handle of each store, and one thread at a time uses it.  A store that rests is given up as soon as
anybody asks for it (`offsetlog.directory.lock_holder`), which `offsetlog.open` does by itself, and it is closed when it
has rested for long enough.  So nobody has to know of it, and it keeps nobody out.

Spark runs the sink in a process of its own.  A listener in the driver, or in another process of the machine, that finds
the store held there hands its commit over, so that the store does not change hands with each of them.
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

#: How long a store that nobody asks for rests before it is closed, in seconds.
KEEP_SECONDS = 10.0

# How long the address of a holder that has given up the lock may be in use still, in seconds.
_ADDRESS_SECONDS = 2.0

# The longest that the thread of a resting store waits at a time: another use may have changed until when it rests.
_LOOK_SECONDS = 5.0

Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments of `offsetlog.open`, which says what they mean.

    A store that is open already serves every use that asks for no other number of partitions: the durability is an
    argument of each commit, and of two kinds of maintenance the one it was opened with goes on.
    """

    path: Path
    partitions: int | None = None
    durability: Durability = "disk"
    maintenance: MaintenanceConfig | None = None


@contextlib.contextmanager
def use_store(
    opening: Opening, keep_seconds: float | None = KEEP_SECONDS, lock_seconds: float | None = None
) -> Iterator[OffsetStore]:
    """Gives the process's handle of a store, opened where it is not; other threads that want it wait.

    A failure other than an InvalidArgumentError closes the store, since its state may be unknown.

    Args:
        opening: how the store is opened where it is not open.
        keep_seconds: how long the store rests before it is closed; 0: it is closed after the use; None: no limit.  One
            that was opened with other maintenance rests for as long as its own uses say.
        lock_seconds: how long another process that holds the store may take to give it up; None: no limit.

    Raises:
        OffsetLogError: as `offsetlog.open`.
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
    """Whether this process holds a store, which may rest."""
    found = _held.get(_key(path))
    return found is not None and found.store is not None


def let_go(path: str | os.PathLike[str]) -> None:
    """Closes a store that rests here, after the uses under way; does nothing where there is none."""
    found = _held.get(_key(path))
    if found is not None:
        with found.mutex:
            found.close()


def commit_elsewhere(
    path: str | os.PathLike[str], group: str, positions: Committed, durability: Durability | None
) -> bool:
    """Commits through another process that holds the store, as `OffsetStore.commit`; waits for its use under way.

    Returns:
        False where no process holds it, or its answer did not come; then the positions may be committed, which does no
        harm when they are committed again.

    Raises:
        OffsetLogError: the refusal of the commit there.
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
        with contextlib.suppress(TypeError):  # its arguments are others
            return kind(message)
    return OffsetLogError(f"{name}: {message}")


class _HeldStore:
    """The handle of one store.  Every method and attribute is used under `mutex` alone, but for a look at `store`."""

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
                create="anywhere",  # the files that tasks have staged lie there before the log does
            )
            self._opening = opening
            self._rests_until = None
            self._listen()
        return self.store

    def _listen(self) -> None:
        # From the beginning: whoever asks during the first use waits for its end.  Without this it is closed after it.
        try:
            self.requests = _requests_for(self._path / LOCK)
            threading.Thread(target=self._work, args=(self.requests,), name="offsetlog-held-store", daemon=True).start()
        except Exception:
            self._stop_listening()
        except BaseException:
            self.close()
            raise

    def keep(self, seconds: float | None, opening: Opening) -> None:
        """Lets the store rest for so long after a use; it is closed now where nobody could ask for it."""
        if self.requests is None or seconds == 0:
            self.close()
        # Otherwise a listener would keep a store open in which nothing is cleaned, or a sink close that of a listener.
        elif self._opening is not None and self._opening.maintenance == opening.maintenance:
            self._rests_until = None if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        """Closes the store, and only then ends the answers: whoever asks meanwhile waits, and gets it."""
        try:
            self._close_store()
        finally:
            self._stop_listening()

    def close_after(self, failure: BaseException, request: lock_holder.Request | None = None) -> None:
        """Closes the store after a failure, which stays the one that is seen where closing fails, too."""
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
            # A store that nobody answers for would keep everybody out.
            with self.mutex:
                if self.requests is requests:
                    self._close_resting()

    def _work_once(self, requests: lock_holder.Requests) -> None:
        until = self._rests_until
        left = _LOOK_SECONDS if until is None else until - time.monotonic()
        request = requests.next(min(max(left, 0.01), _LOOK_SECONDS))
        with self.mutex:
            if self.requests is not requests:  # closed by the use that this waited for
                return
            if request is not None:
                self._answer(request)
            elif self._rests_until is not None and time.monotonic() >= self._rests_until:
                self._close_resting()

    def _answer(self, request: lock_holder.Request) -> None:
        if not request.is_waiting():  # it may have done it otherwise by now
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
        # Everything was written before; the next open finds what fails here.
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
        raise InvalidArgumentError(f"a request that cannot be read: {failure!r}") from failure


#: By path.  Never emptied but after a fork: a handle is found and made in one step, and guarded by its own mutex.
_held: dict[str, _HeldStore] = {}


def _key(path: str | os.PathLike[str]) -> str:
    return os.path.realpath(path)


def _held_at(path: str | os.PathLike[str]) -> _HeldStore:
    return _held.setdefault(_key(path), _HeldStore(Path(path)))


# Before the engine's own end of a process, which warns of stores that are open.
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
