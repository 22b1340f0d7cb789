"""The order of work in a group: what touches the same positions is done in the order in which it was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from offsetlog.manager.work import Work
from offsetlog.types import TopicPartition


class _Turn:
    __slots__ = ("after", "before", "keys", "work")

    def __init__(self, work: Work[Any], keys: frozenset[TopicPartition] | None) -> None:
        self.work = work
        self.keys = keys
        self.before = 0
        self.after: list[_Turn] = []

    def follow(self, others: Iterable[_Turn]) -> None:
        for each in dict.fromkeys(others):
            each.after.append(self)
            self.before += 1


class _Group:
    def __init__(self) -> None:
        self.unfinished: dict[_Turn, None] = {}
        self.last_of_all: _Turn | None = None
        self.last: dict[TopicPartition, _Turn] = {}

    def add(self, turn: _Turn) -> None:
        if turn.keys is None:
            turn.follow(self.unfinished)
            self.last_of_all, self.last = turn, {}
        else:
            found = [self.last[key] for key in turn.keys if key in self.last]
            turn.follow(found if self.last_of_all is None else [*found, self.last_of_all])
            self.last.update(dict.fromkeys(turn.keys, turn))
        self.unfinished[turn] = None

    def remove(self, turn: _Turn) -> list[_Turn]:
        del self.unfinished[turn]
        if self.last_of_all is turn:
            self.last_of_all = None
        for key in turn.keys or ():
            if self.last.get(key) is turn:
                del self.last[key]
        for each in turn.after:
            each.before -= 1
        return [each for each in turn.after if each.before == 0]


class Turns:
    """Has work wait for that of its group which was asked for before and touches the same keys.

    A storage may refuse a write and have it sent again, after others, so that an older offset could take the place of
    a newer one.  Safe from any thread; no lock is held while work is done.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        self._turns: dict[Work[Any], tuple[str, _Turn]] = {}

    def add(self, group: str, keys: Iterable[TopicPartition] | None, work: Work[Any]) -> bool:
        """Takes up work, with all keys of its group for None; returns whether it has its turn at once."""
        turn = _Turn(work, None if keys is None else frozenset(keys))
        with self._lock:
            self._groups.setdefault(group, _Group()).add(turn)
            self._turns[work] = group, turn
            return turn.before == 0

    def is_busy(self, group: str) -> bool:
        """Whether any work of a group has not ended."""
        with self._lock:
            return group in self._groups

    def end(self, work: Work[Any]) -> list[Work[Any]]:
        """Takes out work that has ended, or was never taken up; returns the work whose turn it is now."""
        with self._lock:
            group, turn = self._turns.pop(work, (None, None))
            if group is None or turn is None:
                return []
            of_group = self._groups[group]
            following = of_group.remove(turn)
            if not of_group.unfinished:
                del self._groups[group]
            return [each.work for each in following]
