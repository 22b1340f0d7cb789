"""Turns: work on the same positions of a group runs in the order in which it came."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from offsetlog.manager.work import Work
from offsetlog.types import TopicPartition


class _Turn:
    """The turn of one piece of work.

    Attributes:
        work: the work.
        keys: the positions that the work touches; None for all positions of the group.
        number: the place of the turn in the order of the turns of its group.
        before: the turns that must end before this turn.
        after: the turns that wait for this turn, in order.
    """

    __slots__ = ("after", "before", "keys", "number", "work")

    def __init__(self, work: Work[Any], keys: frozenset[TopicPartition] | None) -> None:
        self.work = work
        self.keys = keys
        self.number = 0
        self.before: set[_Turn] = set()
        self.after: dict[_Turn, None] = {}

    def follow(self, others: Iterable[_Turn]) -> None:
        for each in others:
            each.after[self] = None
            self.before.add(each)

    def touches(self, other: _Turn) -> bool:
        return self.keys is None or other.keys is None or not self.keys.isdisjoint(other.keys)

    def last_before(self, key: TopicPartition) -> _Turn | None:
        """Returns the last of the earlier turns that touch this position, or None."""
        named = [each for each in self.before if each.keys is not None and key in each.keys]
        return max(named, key=lambda each: each.number, default=None)


class _Group:
    """The turns of a group.

    For each of its positions, a turn waits for the last earlier turn that touches this position.
    """

    def __init__(self) -> None:
        self.unfinished: dict[_Turn, None] = {}
        self.last_of_all: _Turn | None = None
        self.last: dict[TopicPartition, _Turn] = {}
        self._numbers = itertools.count()

    def add(self, turn: _Turn) -> None:
        turn.number = next(self._numbers)
        if turn.keys is None:
            turn.follow(self.unfinished)
        else:
            found = [self.last[key] for key in turn.keys if key in self.last]
            turn.follow(found if self.last_of_all is None else [*found, self.last_of_all])
        self.unfinished[turn] = None
        self._set_last(turn)

    def _set_last(self, turn: _Turn) -> None:
        if turn.keys is None:
            self.last_of_all, self.last = turn, {}
        else:
            self.last.update(dict.fromkeys(turn.keys, turn))

    def remove(self, turn: _Turn) -> list[_Turn]:
        """Removes a turn; returns the turns that need not wait any longer.

        A turn that waited for the removed turn now waits for the turns for which the removed turn
        waited, if they touch one of its positions.
        """
        del self.unfinished[turn]
        for earlier in turn.before:
            del earlier.after[turn]
        for later in turn.after:
            later.before.discard(turn)
            later.follow(each for each in turn.before if each.touches(later))
        self._restore_last(turn)
        return [each for each in turn.after if not each.before]

    def _restore_last(self, turn: _Turn) -> None:
        for key in turn.keys or ():
            if self.last.get(key) is turn:
                earlier = turn.last_before(key)
                if earlier is None:
                    del self.last[key]
                else:
                    self.last[key] = earlier
        if self.last_of_all is turn:
            self.last_of_all = None
            if turn.before:
                self.last = {}
                for each in self.unfinished:
                    self._set_last(each)


class Turns:
    """Makes work wait for the earlier work of its group that touches the same positions.

    A write may be refused and sent again.  If it were sent again after later writes of the same
    positions, it could replace a newer offset by an older one.  Thread-safe; no lock is held while
    work runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        self._turns: dict[Work[Any], tuple[str, _Turn]] = {}
        self._beginning = threading.local()

    def add(self, group: str, keys: Iterable[TopicPartition] | None, work: Work[Any]) -> bool:
        """Adds work that touches some positions (None: all of its group).

        Returns whether the work may begin at once.
        """
        turn = _Turn(work, None if keys is None else frozenset(keys))
        with self._lock:
            self._groups.setdefault(group, _Group()).add(turn)
            self._turns[work] = group, turn
            return not turn.before

    def is_busy(self, group: str) -> bool:
        """Whether a group has unfinished work."""
        with self._lock:
            return group in self._groups

    def groups(self) -> list[str]:
        """Returns the groups with unfinished work."""
        with self._lock:
            return list(self._groups)

    def leave(self, work: Work[Any]) -> list[Work[Any]] | None:
        """Removes work that waits for its turn; the work then never runs.

        Returns:
            The work that may begin now; pass it to `begin`.  None if the given work was not
            waiting.
        """
        with self._lock:
            _, turn = self._turns.get(work, (None, None))
            return None if turn is None or not turn.before else self._taken_out(work)

    def end(self, work: Work[Any]) -> list[Work[Any]]:
        """Removes work that has ended; returns the work that may begin now.  Ignores unknown work."""
        with self._lock:
            return self._taken_out(work)

    def _taken_out(self, work: Work[Any]) -> list[Work[Any]]:
        group, turn = self._turns.pop(work, (None, None))
        if group is None or turn is None:
            return []
        of_group = self._groups[group]
        following = of_group.remove(turn)
        if not of_group.unfinished:
            del self._groups[group]
        return [each.work for each in following]

    def pass_on(self, work: Work[Any]) -> None:
        """Removes work that has ended, and begins the work that may begin now."""
        self.begin(self.end(work))

    def begin(self, works: Iterable[Work[Any]]) -> None:
        """Begins the work whose turn has come.

        Work may end as soon as it begins, and then pass its turn to the next work.  The next work
        begins in the loop of the outermost call of this method, not in a nested call, so thousands
        of turns in a row are possible.
        """
        ready: deque[Work[Any]] | None = getattr(self._beginning, "ready", None)
        if ready is not None:
            ready.extend(works)
            return
        self._beginning.ready = ready = deque(works)
        interrupt: BaseException | None = None
        try:
            while ready:
                try:
                    ready.popleft().go_on()
                except BaseException as failure:  # otherwise the others would never have their turns
                    interrupt = interrupt or failure
        finally:
            self._beginning.ready = None
        if interrupt is not None:
            raise interrupt
