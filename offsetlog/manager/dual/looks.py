"""Tracks running reads of both storages, to find changes that a read may have seen in only one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Look:
    """One read of a group.

    Attributes:
        is_disturbed: whether a commit began during the read.  The read may then have seen the
            commit in only one of the storages, and a difference between them is no error.
        went_back: whether a position was lowered during the read, so that the larger value may be
            out of date.
    """

    __slots__ = ("is_disturbed", "went_back")

    def __init__(self) -> None:
        self.is_disturbed = self.went_back = False


class Looks:
    """Keeps the running reads.  A change of a group marks the running reads of that group.  Thread-safe.

    Only running reads are kept, so the memory does not grow with the number of groups.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, set[Look]] = {}
        self._going_back: dict[str, int] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """Number of running reads."""
        return self._count

    @contextmanager
    def at(self, group: str) -> Iterator[Look]:
        """Registers a read for the duration of the block, so that changes mark it."""
        look = Look()
        with self._lock:
            look.is_disturbed = look.went_back = group in self._going_back
            self._under_way.setdefault(group, set()).add(look)
            self._count += 1
        try:
            yield look
        finally:
            with self._lock:
                self._count -= 1
                self._under_way[group].discard(look)
                if not self._under_way[group]:
                    del self._under_way[group]

    def disturb(self, group: str) -> None:
        """Marks the running reads of a group as disturbed; call this when a commit to the group begins."""
        if self._under_way:  # needs no lock: a read that begins from now on sees that the commit is under way
            with self._lock:
                for look in self._under_way.get(group, ()):
                    look.is_disturbed = True

    def disturb_all(self, is_meant: Callable[[str], bool]) -> None:
        """Marks the running reads of all groups for which `is_meant` is true as disturbed.

        The caller is about to drop the known values of these groups.
        """
        with self._lock:
            for group, looks in self._under_way.items():
                if is_meant(group):
                    for look in looks:
                        look.is_disturbed = True

    @contextmanager
    def going_back(self, group: str) -> Iterator[None]:
        """Marks every read of a group that runs during the block; the block lowers positions."""
        with self._lock:
            self._going_back[group] = self._going_back.get(group, 0) + 1
            self._mark_back(group)
        try:
            yield
        finally:
            with self._lock:
                self._going_back[group] -= 1
                if self._going_back[group] == 0:
                    del self._going_back[group]
                self._mark_back(group)

    def _mark_back(self, group: str) -> None:
        for look in self._under_way.get(group, ()):
            look.is_disturbed = look.went_back = True
