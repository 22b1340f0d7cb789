"""Stores that live as stores do, and that nothing harmed: no open and no check reports a loss.

Each directory has a few lives: a process commits, deletes, ends transactions, compacts and takes snapshots in small
segments, and closes its store, ends without, or is killed at a moment that nobody chose.  Between two lives the
directory is copied, moved, or replaced by a copy of an earlier time, all of it.  After each life the state is that of
plain dicts, and nobody is accused.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from depth import by_depth, first_seed

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition
from offsetlog.directory.log_directory import PROPERTIES
from offsetlog.verify import verify

GROUPS = ("g0", "g1", "g2", "g3", "g4")
NUMBERS = 30
APPENDS: tuple[Literal["auto", "written"], ...] = ("auto", "written")
BY_HAND = MaintenanceConfig(enabled=False)

State = dict[tuple[str, int], int]


def _config(draw: random.Random) -> StoreConfig:
    return StoreConfig(
        segment_bytes=draw.choice((4096, 8192)),
        batch_bytes_max=2048,
        segment_index_bytes=4096,
        extend_bytes_min=4096,
        extend_bytes_max=draw.choice((4096, 16384)),
        append=draw.choice(APPENDS),
    )


def _opened(path: Path, config: StoreConfig, *, read_only: bool = False) -> offsetlog.OffsetStore:
    """Opens it; a report of damage or loss is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        partitions = None if path.exists() else 2
        return offsetlog.open(path, partitions=partitions, config=config, maintenance=BY_HAND, read_only=read_only)


# ------------------------------------------------------------------------------------------ what a process does


@dataclass(frozen=True)
class Deed:
    """Something that a process does with its store, and what plain dicts look like afterwards."""

    do: Callable[[offsetlog.OffsetStore], object]
    change: State = field(default_factory=dict)
    gone: frozenset[tuple[str, int]] = frozenset()

    def applied(self, state: State) -> State:
        return {key: value for key, value in {**state, **self.change}.items() if key not in self.gone}


def _draw_change(draw: random.Random, group: str, value: int) -> State:
    return {(group, number): value for number in draw.sample(range(NUMBERS), draw.randrange(1, 8))}


def _offsets(change: State) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): value for (_, number), value in change.items()}


def _run_transaction(store: offsetlog.OffsetStore, group: str, change: State, *, is_aborted: bool) -> None:
    with store.transaction(group, 900) as transaction:
        transaction.commit(_offsets(change))
        if is_aborted:
            transaction.abort()


def _draw_deed(draw: random.Random, value: int) -> Deed:
    group, kind = draw.choice(GROUPS), draw.random()
    change = _draw_change(draw, group, value)
    if kind < 0.55:
        number = draw.randrange(NUMBERS)
        return Deed(lambda store: store.commit_one(group, "t", number, value), {(group, number): value})
    if kind < 0.75:
        return Deed(lambda store: store.commit(group, _offsets(change)), change)
    if kind < 0.85:
        is_aborted = draw.random() < 0.3
        return Deed(
            lambda store: _run_transaction(store, group, change, is_aborted=is_aborted), {} if is_aborted else change
        )
    if kind < 0.90:
        return Deed(lambda store: store.delete(group, list(_offsets(change))), gone=frozenset(change))
    if kind < 0.92:
        return Deed(lambda store: store.delete(group), gone=frozenset((group, number) for number in range(NUMBERS)))
    if kind < 0.95:
        return Deed(lambda store: store.flush())
    return Deed(lambda store: store.compact() if kind < 0.98 else store.snapshot())


def _draw_deeds(draw: random.Random, value: int) -> list[Deed]:
    return [_draw_deed(draw, value + i) for i in range(draw.randrange(10, 90))]


# ------------------------------------------------------------------------------------------ lives


@dataclass
class Directory:
    """A directory, the states that it may have, and an earlier copy of it with the states of that one.

    A process that was killed leaves two states: its last deed may have been done or not.
    """

    path: Path
    draw: random.Random
    states: list[State] = field(default_factory=lambda: [{}])
    value: int = 0
    copy: Path | None = None
    states_of_copy: list[State] = field(default_factory=list)

    def live(self) -> str:
        """Lets a process work here, and returns how it ended."""
        config, end = _config(self.draw), self.draw.choice(("closed", "closed", "ended", "killed"))
        deeds = _draw_deeds(self.draw, self.value + 1)
        self.value += len(deeds)
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads; the child uses none of theirs
            process = os.fork()
        if process == 0:
            os.close(reader)
            _be_process(self.path, config, deeds, writer, is_closed=end == "closed")
        os.close(writer)
        if end == "killed":
            time.sleep(self.draw.random() * 0.04)
            os.kill(process, signal.SIGKILL)
        with open(reader, "rb") as pipe:
            said = pipe.read()
        os.waitpid(process, 0)
        assert b"E" not in said, "a process could not do what it should, see its traceback"
        begun, done = said.count(b"b"), said.count(b"d")
        for deed in deeds[:done]:
            self.states = [deed.applied(state) for state in self.states]
        self.states += [deeds[done].applied(state) for state in self.states if begun > done]
        return end

    def settle(self) -> None:
        """Opens and closes it, and checks everything."""
        config = _config(self.draw)
        for read_only in (True, False):
            # A process may have been killed before it wrote the first file.
            if read_only and (self.draw.random() < 0.5 or not (self.path / PROPERTIES).exists()):
                continue
            with _opened(self.path, config, read_only=read_only) as store:
                assert store.problems() == []
                assert (store.health().partitions, store.health().directory) == ((), ())
                found = {
                    (group, place.topic, place.partition): value.offset
                    for group in store.groups()
                    for place, value in store.fetch(group).items()
                }
            assert found in [{(group, "t", number): value for (group, number), value in state.items()}
                             for state in self.states]
            self.states = [{(group, number): value for (group, _, number), value in found.items()}]

    def be_moved(self) -> str:
        """Copies, moves or restores all of it, or leaves it; returns which."""
        deed = self.draw.choice(("left", "left", "copied", "moved", "restored"))
        if deed == "copied":
            self.copy = self.path.with_name(f"copy-{self.value}")
            shutil.copytree(self.path, self.copy)
            self.states_of_copy = deepcopy(self.states)
        elif deed == "moved":
            self.path = self.path.rename(self.path.with_name(f"moved-{self.value}"))
        elif deed == "restored" and self.copy is not None:
            shutil.rmtree(self.path)
            shutil.copytree(self.copy, self.path)
            self.states = deepcopy(self.states_of_copy)
        return deed


def _be_process(path: Path, config: StoreConfig, deeds: list[Deed], pipe: int, *, is_closed: bool) -> None:
    # Never returns.  Says of each deed when it begins and when it is done.
    try:
        store = _opened(path, config)
        for left in {each.producer_id for each in store.transactions()}:
            store.abort_transaction(left)
        for deed in deeds:
            os.write(pipe, b"b")
            deed.do(store)
            os.write(pipe, b"d")
        if is_closed:
            store.close()
    except BaseException:
        import traceback

        traceback.print_exc()
        os.write(pipe, b"E")
    os.kill(os.getpid(), signal.SIGKILL)


# ------------------------------------------------------------------------------------------ the test


def test_nobody_is_accused(tmp_path: Path):
    seed, ends = first_seed(), []
    directories = by_depth(gate=15, long=1000)
    for number in range(directories):
        draw = random.Random(f"{seed} {number}")
        folder = tmp_path / "folder"
        folder.mkdir()
        directory = Directory(folder / "store", draw)
        try:
            for _ in range(draw.randrange(2, 6)):
                ends.append(directory.live())
                if draw.random() < 0.7:
                    directory.settle()
                if directory.path.exists():
                    directory.be_moved()
            directory.settle()
            assert verify(directory.path).problems == []
        except Exception:
            print(f"seed {seed}, directory {number}: {ends[-6:]}")
            raise
        shutil.rmtree(folder)
    print(f"seed {seed}: {directories} directories, {len(ends)} lives, {ends.count('killed')} of them killed")
    assert {"closed", "ended", "killed"} == set(ends)
