"""Reads a partition in several runs, on several threads, so that each byte is read only once; combines their states.

The engine releases the interpreter lock while it applies a run and while it combines two states.  If a run does not end
as planned, in most cases because of damage, the whole attempt ends.  Another reader then reads the partition from start
to end, and reports the problem and its position.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pyspark import TaskContext

from offsetlog._native.replay import MemoryAccount, Replay
from offsetlog._native.snapshot import StopFlag
from offsetlog.errors import CapacityError, ClosedError, CorruptionError
from offsetlog.spark.scan.bounds import batch_near
from offsetlog.spark.scan.files import Files, PartitionListing
from offsetlog.spark.scan.options import OFFSET_MAX

#: The most runs that are read at once, since each has a state of its own.
RUNS_MAX = 8


@dataclass(frozen=True, slots=True)
class Start:
    """The first batch of a run.

    Attributes:
        index: the index of the batch's segment in the listing.
        position: the position of the batch in the segment.
        offset: the base offset of the batch.
    """

    index: int
    position: int
    offset: int


@dataclass(slots=True)
class JoinedRuns:
    """The combined state of all runs.

    Attributes:
        replay: a replay whose state is the same as after applying all runs in order.
        refused: the records that a broker would not load, in the order of the log.
        count: the number of runs.
    """

    replay: Replay
    refused: list[CorruptionError] = field(default_factory=list)
    count: int = 1


#: The property of a task that contains the number of its executor's cores.  It is set if `spark.executor.cores` or a
#: resource profile is set.
_EXECUTOR_CORES = "resource.executor.cores"


class _NotAsPlannedError(Exception):
    """A run is damaged, or does not end where the next one begins."""


def _cpu_count() -> int:
    """Returns the number of cores; in a task, at most the cores of its executor (`spark.executor.cores`)."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    task = TaskContext.get()
    named = None if task is None else task.getLocalProperty(_EXECUTOR_CORES)
    # The affinity shows neither a container's quota nor the other executors of the machine.
    return min(there, int(named)) if named and named.isdecimal() and int(named) > 0 else there


def cut(files: Files, listing: PartitionListing, until: int, count: int) -> list[Start]:
    """Divides a log into `count` runs of about the same size, or fewer for a small log.  Returns their starts.

    The first run begins at the start of the log.

    Raises:
        StorageError: a file cannot be read.
    """
    sizes = [segment.size if segment.base_offset < until else 0 for segment in listing.segments]
    total = sum(sizes)
    starts = [Start(0, 0, -1)]
    for number in range(1, count):
        target, index = total * number // count, 0
        while index < len(sizes) - 1 and target >= sizes[index]:
            target -= sizes[index]
            index += 1
        found = batch_near(files, listing.segments[index], target)
        before = starts[-1].index, starts[-1].position
        if found is not None and found[1] < until and (index, found[0]) > before:
            starts.append(Start(index, *found))
    return starts


def replay_joined(
    files: Files,
    listing: PartitionListing,
    until: int,
    threads: int,
    begin: Callable[[bool, StopFlag, MemoryAccount], Replay],
    bytes_max: int,
) -> JoinedRuns | None:
    """Returns the state of a partition below a log offset; None if the partition must be read in one run.

    A key that is written again and again is in the states of many runs.  If the states together take too much memory,
    half as many runs are tried.

    Args:
        files: the file system of the partition.
        listing: the segments of the partition.
        until: the log offset at which the state ends.  Records at or above it are ignored.
        threads: the number of runs to read at once; a number above RUNS_MAX means RUNS_MAX.
        begin: a function that makes the replay of a run.  Its arguments are whether the run is not the first one, the
            stop signal, and the account of the memory.
        bytes_max: the memory that the states of all runs together may take, in bytes.

    Raises:
        MissingFileError, StorageError: a file was removed, or cannot be read.
    """
    count = min(threads, RUNS_MAX)
    while count > 1:
        starts = cut(files, listing, until, count)
        if len(starts) == 1:
            break
        try:
            return _read_runs(listing, until, starts, begin, MemoryAccount(bytes_max))
        except CapacityError:
            count = len(starts) // 2
        except _NotAsPlannedError:
            break
    return None


def _read_runs(
    listing: PartitionListing,
    until: int,
    starts: list[Start],
    begin: Callable[[bool, StopFlag, MemoryAccount], Replay],
    account: MemoryAccount,
) -> JoinedRuns:
    """Reads the runs that begin at `starts`, and combines their states.

    Raises:
        CapacityError: the states take too much memory together.
        _NotAsPlannedError: raised by `_apply`.
    """
    stop = StopFlag()
    runs = [JoinedRuns(begin(number > 0, stop, account)) for number in range(len(starts))]

    def read(number: int) -> None:
        try:
            following = starts[number + 1] if number + 1 < len(starts) else None
            _apply(runs[number], listing, starts[number], following, until)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(min(len(runs), _cpu_count())) as pool:
        try:
            _wait_for_all(pool, read, range(len(runs)))
        except BaseException:
            stop.set()
            raise
        while len(runs) > 1:
            later = [runs[at : at + 1] for at in range(1, len(runs) + 1, 2)]
            runs = runs[::2]
            list(pool.map(_join, runs, later))
    runs[0].count = len(starts)
    return runs[0]


def _wait_for_all(pool: ThreadPoolExecutor, work: Callable[[int], None], numbers: range) -> None:
    """Waits until every run has ended, and raises the most important failure of a run, if any.

    A CapacityError is the most important one.  The failure of a run that was only stopped is the least important.
    """
    futures = [pool.submit(work, number) for number in numbers]
    failures = [future.exception() for future in futures]
    futures.clear()

    def place(failure: BaseException | None) -> int:
        # A CapacityError leads to an attempt with fewer runs.
        return 0 if isinstance(failure, CapacityError) else 2 if isinstance(failure, ClosedError) else 1

    first = min(filter(None, failures), key=place, default=None)
    try:
        if first is not None:
            raise first
    finally:
        # A failure and the frame that holds it would refer to each other, and would keep the states of the runs in
        # memory.
        failures.clear()
        del first


def _join(earlier: JoinedRuns, later: list[JoinedRuns]) -> None:
    """Adds the state of the run in `later`, if any, to that of `earlier`; releases the memory of the later run."""
    while later:
        following = later.pop()
        earlier.replay.join(following.replay)
        earlier.refused += following.refused


def _apply(run: JoinedRuns, listing: PartitionListing, start: Start, following: Start | None, until: int) -> None:
    """Applies the batches from `start` up to the next run, or up to the end of the partition.

    Raises:
        _NotAsPlannedError: the run is damaged, or does not end where the next one begins.
    """
    bases = [segment.base_offset for segment in listing.segments]
    last = len(listing.segments) - 1 if following is None else following.index
    bound = until if following is None else min(following.offset, until)
    for index in range(start.index, last + 1):
        segment = listing.segments[index]
        if following is None and segment.base_offset >= until:
            break
        if following is not None and (index, 0) == (following.index, following.position):
            break
        position = start.position if index == start.index else 0
        limit = min([*bases, OFFSET_MAX][index + 1], segment.offset_limit)
        found = run.replay.apply(segment.path, position=position, until=bound, segment_limit=limit)
        run.refused += found["refused"]
        if found["damage"] is not None and run.replay.next_offset < until:
            raise _NotAsPlannedError
        if following is not None and found["position"] != _end(following, index, found["size"]):
            raise _NotAsPlannedError
    if following is not None and run.replay.next_offset > following.offset:
        raise _NotAsPlannedError


def _end(following: Start, index: int, size: int) -> int:
    """Returns the position in a segment of `size` bytes at which the run before `following` ends."""
    return following.position if index == following.index else size
