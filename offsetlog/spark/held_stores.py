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
from offsetlog.opening import open as open_store
from offsetlog.store import Durability, OffsetStore
from offsetlog.types import OffsetAndMetadata, TopicPartition

#: How long a store that nobody asks for rests before it is closed, in seconds.
KEEP_SECONDS = 10.0

# A commit that is handed over may wait for an epoch that is being published.
_HAND_OVER_SECONDS = 60.0

# The longest that the thread of a resting store waits at a time: another use may have changed until when it rests.
_LOOK_SECONDS = 5.0

Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments of `offsetlog.open`, which tells what they mean."""

    path: Path
    partitions: int | None = None
    durability: Durability = "disk"
    maintenance: MaintenanceConfig | None = None


@contextlib.contextmanager
def use_store(opening: Opening, keep_seconds: float | None = KEEP_SECONDS) -> Iterator[OffsetStore]:
    """Gives the process's handle of a store, opened where it is not; other threads that want it wait.

    A failure other than an InvalidArgumentError closes the store, since its state may be unknown.

    Args:
        opening: how the store is opened.  One that is open in another way is closed first.
        keep_seconds: how long the store rests before it is closed; 0: it is closed after the use; None: no limit.

    Raises:
        OffsetLogError: as `offsetlog.open`.
    """
    held = _held_at(opening.path)
    with held.mutex:
        store = held.take(opening)
        try:
            yield store
        except InvalidArgumentError:
            held.keep(keep_seconds)
            raise
        except BaseException as failure:
            held.close_after(failure)
            raise
        held.keep(keep_seconds)


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
    """Commits through another process that holds the store, as `OffsetStore.commit`.

    Returns:
        False where no process holds it, or its answer did not come; then the positions may be committed, which does no
        harm when they are committed again.

    Raises:
        OffsetLogError: what the commit was refused with there.
    """
    if any(value.topic_id is not None for value in positions.values()):
        return False
    rows = [[*key, *value[:5]] for key, value in positions.items()]
    request = {"commit": group, "positions": rows, "durability": durability}
    answer = lock_holder.ask(Path(path) / LOCK, json.dumps(request).encode(), _HAND_OVER_SECONDS)
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
        self.listening: lock_holder.LockHolder | None = None
        self._path = path
        self._opening: Opening | None = None
        self._rests_until: float | None = None

    def take(self, opening: Opening) -> OffsetStore:
        """Returns the open store."""
        if self.store is not None and (self.store.closed or self._opening != opening):
            self.close()
        if self.store is None:
            self.store = open_store(
                opening.path, opening.partitions, opening.durability, maintenance=opening.maintenance
            )
            self._opening = opening
            self._rests_until = None
            self._listen()
        return self.store

    def _listen(self) -> None:
        # From the beginning: who asks during the first use waits for its end.
        with contextlib.suppress(StorageError):
            self.listening = lock_holder.LockHolder(self._path / LOCK)
            threading.Thread(
                target=self._serve, args=(self.listening,), name="offsetlog-held-store", daemon=True
            ).start()

    def keep(self, seconds: float | None) -> None:
        """Lets the store rest for so long; it is closed now where nobody could ask for it."""
        if self.listening is None or seconds == 0:
            self.close()
        else:
            self._rests_until = None if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        """Closes the store, and ends the thread that answers requests for it."""
        listening, self.listening = self.listening, None
        store, self.store = self.store, None
        self._opening = None
        if listening is not None:
            listening.close()
        if store is not None:
            store.close()

    def close_after(self, failure: BaseException) -> None:
        """Closes the store after a failure, which stays the one that is seen where closing fails, too."""
        try:
            self.close()
        except Exception as second:
            failure.add_note(f"closing the store failed, too: {second}")

    def _serve(self, listening: lock_holder.LockHolder) -> None:
        while True:
            until = self._rests_until
            try:
                left = _LOOK_SECONDS if until is None else until - time.monotonic()
                request = listening.wait(min(max(left, 0.01), _LOOK_SECONDS))
            except OSError:  # the store was closed
                return
            with self.mutex:
                if self.listening is not listening:  # the use that this waited for has failed
                    return
                if request is not None:
                    self._answer(request)
                elif self._rests_until is not None and time.monotonic() >= self._rests_until:
                    self._close_resting()

    def _answer(self, request: lock_holder.Request) -> None:
        if request.content == lock_holder.RELEASE:
            self._close_resting()
            request.answer(lock_holder.RELEASED)
        else:
            request.answer(json.dumps(self._commit(request.content)).encode())

    def _close_resting(self) -> None:
        # What fails here was written before, and is found by the next open.
        with contextlib.suppress(OffsetLogError):
            self.close()

    def _commit(self, content: bytes) -> dict[str, str]:
        try:
            group, positions, durability = _read_commit(content)
            if self.store is None:
                raise ClosedError("the store is closed")
            self.store.commit(group, positions, durability=durability)
        except InvalidArgumentError as failure:
            return _answer_of(failure)
        except OffsetLogError as failure:  # as in `use_store`
            self.close_after(failure)
            return _answer_of(failure)
        return {}


def _answer_of(failure: Exception) -> dict[str, str]:
    message = "; ".join([str(failure), *getattr(failure, "__notes__", ())])
    return {"error": type(failure).__name__, "message": message}


def _read_commit(content: bytes) -> tuple[str, dict[TopicPartition, OffsetAndMetadata], Durability | None]:
    try:
        asked: dict[str, Any] = json.loads(content)
        rows = [(TopicPartition(*row[:2]), OffsetAndMetadata(*row[2:])) for row in asked["positions"]]
        return asked["commit"], dict(rows), asked["durability"]
    except (ValueError, TypeError, KeyError) as failure:
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
        if held.listening is not None:
            held.listening.forget()
    _held.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
