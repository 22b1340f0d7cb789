"""Implements `with` and `async with` for a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from offsetlog.errors import ClosedError
from offsetlog.on_thread import on_thread


class StoreContext(ABC):
    """Closes a store at the end of a `with` or an `async with`."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the store is closed, or this process is a forked child of the one that opened it."""

    @abstractmethod
    def close(self) -> None:
        """Closes the store.  A load that is in progress stops soon."""

    @abstractmethod
    def _load(self) -> None:
        """Waits until everything is loaded."""

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """Waits, on a thread, until everything is loaded.  If that fails, closes the store.

        Raises:
            RuntimeError: the system refused to start a thread for the wait.
        """
        self._check_open()
        try:
            await on_thread(self._load, self.close)
        except BaseException:
            await on_thread(self.close)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the store on a thread.  Waits until it is closed, even if the task is cancelled.

        If the system refuses to start a thread, the close runs on the thread of the loop and blocks it.
        """
        await on_thread(self.close)

    def _check_open(self) -> None:
        # A closed store is refused here, not at the first commit.
        if self.closed:
            raise ClosedError("the store is closed")
