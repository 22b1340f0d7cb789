"""The required contents of a store, kept in plain dicts by the rules of docs/format/loading.md §6.4.  Shares nothing
with the engine.

Each log partition has a history of atoms: changes that are there whole or not at all.  The state is what the first k
of them make; after a crash k may be any number from what was acknowledged to what was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Key(NamedTuple):
    group: str
    topic: str
    partition: int


class Value(NamedTuple):
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Put(NamedTuple):
    """Commits positions; inside the transaction of `producer` unless that is None."""

    values: Mapping[Key, Value]
    producer: int | None = None


class Erase(NamedTuple):
    keys: frozenset[Key]


class End(NamedTuple):
    producer: int
    commit: bool


Atom = Put | Erase | End


def java_hash(text: str) -> int:
    """The hash of a Java string, over its UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def log_partition(group: str, count: int) -> int:
    return (java_hash(group) & 0x7FFFFFFF if java_hash(group) == -(1 << 31) else abs(java_hash(group))) % count


@dataclass
class State:
    """Values with the place of their record in the history, which orders them as log offsets do."""

    positions: dict[Key, tuple[Value, int]] = field(default_factory=dict)
    pending: dict[int, dict[Key, tuple[Value, int]]] = field(default_factory=dict)

    def apply(self, atom: Atom, place: int) -> None:
        match atom:
            case Put(values, None):
                self.positions.update({key: (value, place) for key, value in values.items()})
            case Put(values, int(producer)):
                self.pending.setdefault(producer, {}).update({key: (value, place) for key, value in values.items()})
            case Erase(keys):
                for mine in (self.positions, *self.pending.values()):
                    for key in keys:
                        mine.pop(key, None)
            case End(producer, commit):
                for key, (value, written) in self.pending.pop(producer, {}).items():
                    if commit and (key not in self.positions or self.positions[key][1] < written):
                        self.positions[key] = (value, written)

    def contents(self) -> dict[Key, Value]:
        return {key: value for key, (value, _) in self.positions.items()}


@dataclass
class History:
    """One log partition: `done` atoms are of calls that returned, `durable` of them are acknowledged as "disk"."""

    atoms: list[Atom] = field(default_factory=list)
    done: int = 0
    durable: int = 0
    state: State = field(default_factory=State)
    #: A crash left contents that a shorter history explains as well: a value that came and went may never have come.
    is_doubtful: bool = False

    def finish(self) -> None:
        """The call returned: what it tried counts."""
        for place in range(self.done, len(self.atoms)):
            self.state.apply(self.atoms[place], place)
        self.done = len(self.atoms)

    def forget(self) -> None:
        """The call was refused: nothing of it counts."""
        del self.atoms[self.done :]

    def after(self, count: int) -> State:
        state = State()
        for place, atom in enumerate(self.atoms[:count]):
            state.apply(atom, place)
        return state

    def last_values(self) -> dict[Key, Value]:
        """The value that each position had last, be it there or not."""
        state, last = State(), dict[Key, Value]()
        for place, atom in enumerate(self.atoms[: self.done]):
            state.apply(atom, place)
            last.update(state.contents())
        return last

    def settle(
        self,
        contents: Mapping[Key, Value],
        open_producers: Iterable[int],
        least: int,
        pending: Mapping[int, Mapping[Key, Value]] | None = None,
    ) -> bool:
        """After a crash: takes the longest prefix, of at least `least` atoms, that explains the contents.

        Prefixes may differ in nothing but what is pending; without `pending` that is not looked at.

        Returns whether one does.
        """
        for count in range(len(self.atoms), least - 1, -1):
            state = self.after(count)
            if set(state.pending) != set(open_producers):
                continue
            waiting = {
                producer: {key: value for key, (value, _) in mine.items()}
                for producer, mine in state.pending.items()
                if mine
            }
            if state.contents() == contents and pending in (None, waiting):
                shorter = (self.after(fewer).contents() for fewer in range(least, count))
                self.is_doubtful = self.is_doubtful or any(each == contents for each in shorter)
                del self.atoms[count:]
                self.done = self.durable = count
                self.state = state
                return True
        return False


class Reference:
    """All log partitions of a store."""

    def __init__(self, count: int) -> None:
        self.histories = [History() for _ in range(count)]

    def of(self, group: str) -> History:
        return self.histories[log_partition(group, len(self.histories))]

    def contents(self) -> dict[Key, Value]:
        return {key: value for history in self.histories for key, value in history.state.contents().items()}

    def group(self, group: str) -> dict[Key, Value]:
        return {key: value for key, value in self.of(group).state.contents().items() if key.group == group}

    def has(self, key: Key) -> bool:
        """Whether a tombstone would find anything: a committed or a pending value."""
        state = self.of(key.group).state
        return key in state.positions or any(key in values for values in state.pending.values())

    def keys_of(self, group: str) -> frozenset[Key]:
        """Everything a deletion of the group finds."""
        state = self.of(group).state
        known = [*state.positions, *(key for values in state.pending.values() for key in values)]
        return frozenset(key for key in known if key.group == group)

    def open_producers(self) -> set[int]:
        return {producer for history in self.histories for producer in history.state.pending}

    def add(self, group: str, *atoms: Atom) -> History:
        """Notes atoms that a call is about to try."""
        history = self.of(group)
        history.atoms.extend(atoms)
        return history

    def done(self, *, disk: Iterable[History] = ()) -> None:
        """The call returned.  The histories of `disk` are acknowledged as durable."""
        for history in self.histories:
            history.finish()
        for history in disk:
            history.durable = history.done

    def refused(self) -> None:
        for history in self.histories:
            history.forget()
