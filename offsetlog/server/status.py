"""Health and readiness of a server.

The server registers its parts as they start.  Each request reads the present state of these parts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from offsetlog._native.front import Front
from offsetlog._native.request_metrics import RequestMetrics
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager
from offsetlog.server.connection_limits import OpenConnections
from offsetlog.server.disk import why_short, why_unwritable
from offsetlog.server.group_host import GroupHost
from offsetlog.topics.topic_logs import TopicLogs

#: The event loop counts as stuck if it does not run a call within this many seconds.
LOOP_SECONDS = 5.0
#: How many reasons are named; further ones are only counted.
REASONS_NAMED = 20


class Verdict(NamedTuple):
    """The result of a check: whether the server is healthy or ready, and the reasons, one per line."""

    good: bool
    text: str


@dataclass(slots=True, eq=False)
class ServerStatus:
    """The parts of a server that have started.  Any thread may read; only the event loop writes.

    Attributes:
        loop: the event loop of the server.
        connections: the open connections.
        requests: counters of requests.
        manager, front, groups, topics: None until they have started.
        is_listening: whether clients can connect.
        is_stopping: whether the server was asked to stop.
        directory: the log directory; with None, the disk is not checked.
        disk_reserve_bytes: bytes that should stay free on the directory's disk.
        started_at: start time, in seconds since 1970.
    """

    loop: asyncio.AbstractEventLoop
    connections: OpenConnections
    requests: RequestMetrics
    manager: LogManager | None = None
    front: Front | None = None
    groups: GroupHost | None = None
    topics: TopicLogs | None = None
    is_listening: bool = False
    is_stopping: bool = False
    directory: Path | None = None
    disk_reserve_bytes: int = 0
    started_at: float = field(default_factory=time.time)

    def loaded_part(self, partition: int) -> float:
        """Returns how much of a log partition is loaded, from 0 to 1; raises the errors of `OffsetManager.state`."""
        assert self.manager is not None
        if self.manager.state(partition) is PartitionState.ACTIVE:
            return 1.0
        replica = self.manager.replica(partition)
        progress = {} if replica is None else replica.partition.progress()
        total = progress.get("bytes_total", 0)
        return min(1.0, progress["bytes"] / total) if total else 0.0


def _in_lines(reasons: list[str]) -> str:
    more = len(reasons) - REASONS_NAMED
    named = reasons[:REASONS_NAMED]
    return "\n".join([*named, f"and {more} more"] if more > 0 else named)


# -------------------------------------------------------------------------------------------- healthy


def health(status: ServerStatus) -> Verdict:
    """Checks that the event loop responds, the logs accept writes, and the disk is writable and has enough free space.

    Do not call this on the event loop.
    """
    came_round = threading.Event()
    try:
        status.loop.call_soon_threadsafe(came_round.set)
    except RuntimeError:
        return Verdict(False, "the server has stopped")
    if not came_round.wait(LOOP_SECONDS):
        return Verdict(False, f"requests have not been handled for {LOOP_SECONDS:g} s")
    reasons = [*_disk_troubles(status), *_refusing_partitions(status), *_refusing_topics(status)]
    return Verdict(not reasons, _in_lines(reasons) or "healthy")


def _disk_troubles(status: ServerStatus) -> list[str]:
    if status.directory is None or status.manager is None or status.is_stopping:
        return []
    why = why_unwritable(status.directory) or why_short(
        status.directory, status.disk_reserve_bytes
    )
    return [] if why is None else [why]


def _refusing_partitions(status: ServerStatus) -> list[str]:
    manager = status.manager
    if manager is None or status.groups is None or status.is_stopping:
        return []
    found = []
    try:
        for number in range(manager.partitions):
            why = _why_refusing(manager, number, status.groups.failed_writes.get(number))
            if why is not None:
                found.append(f"log partition {number} accepts no writes: {why}")
    except ClosedError:
        return []    # the server began to stop in the meantime
    return found


def _why_refusing(manager: LogManager, number: int, failed_write: str | None) -> str | None:
    has_failed = manager.state(number) is PartitionState.FAILED
    failure = manager.open_partitions.failure_of(number)
    replica = manager.replica(number)
    partition = None if replica is None else replica.partition
    if partition is not None and (has_failed or partition.read_only):
        problems = partition.problems()
        failure = problems[0] if problems else failure
    elif not has_failed:
        return None
    return str(failure or failed_write or "it failed; see the server's log for the reason")


def _refusing_topics(status: ServerStatus) -> list[str]:
    if status.topics is None or status.is_stopping:
        return []
    return [
        f"{topic}-{number} accepts no records: {why}"
        for (topic, number), why in sorted(status.topics.unwritable().items())
    ]


# ---------------------------------------------------------------------------------------------- ready


def readiness(status: ServerStatus) -> Verdict:
    """Checks that the server listens, all log partitions are loaded, and its disk is not read-only.

    The reasons show the progress of loading.  A disk that is short of space still accepts writes,
    so it does not prevent readiness.
    """
    manager, groups = status.manager, status.groups
    if status.is_stopping:
        return Verdict(False, "stopping")
    if manager is None or groups is None:
        return Verdict(False, "the log directory is still being opened")
    try:
        count = manager.partitions
    except ClosedError:
        return Verdict(False, "stopping")
    loaded = set(groups.coordinator.loaded_partitions())
    unwritable = None if status.directory is None else why_unwritable(status.directory)
    if unwritable is not None:
        return Verdict(False, unwritable)
    if len(loaded) == count and status.is_listening:
        return Verdict(True, "ready")
    reasons = [f"{len(loaded)} of {count} log partitions are loaded"]
    if not status.is_listening:
        reasons.append("the server is not listening yet")
    reasons.extend(_how_far(status, number) for number in sorted(set(range(count)) - loaded))
    return Verdict(False, _in_lines(reasons))


def _how_far(status: ServerStatus, number: int) -> str:
    assert status.groups is not None
    failure = status.groups.failed_loads.get(number)
    if failure is not None:
        return f"log partition {number} could not be loaded: {failure}"
    if not status.groups.coordinator.loads(number):
        return f"log partition {number} is waiting to be loaded"
    try:
        return f"log partition {number}: {status.loaded_part(number):.0%} loaded"
    except OffsetLogError as failure:
        return f"log partition {number}: {failure}"


# ------------------------------------------------------------------------------- commits by group


def group_commits(status: ServerStatus) -> dict[str, int]:
    """Returns how many commits each group has made; do not call this on the event loop.

    The counts begin at the start of the server.  They are kept in a table of at most 65,536 groups
    (`offsetlog._native.front`).  When the table is full, the server drops counts; a dropped count
    begins at 0 again.  The answer is read in parts, and the event loop serves requests in between.

    Raises:
        TimeoutError: the event loop is stuck.
        ClosedError: the server has stopped.
    """
    front = status.front
    found: dict[str, int] = {}
    if front is None:
        return found
    part = 0
    while True:
        answer: Future[tuple[int, list[tuple[str, int]]]] = Future()
        try:
            status.loop.call_soon_threadsafe(_read_part, front, part, answer)
        except RuntimeError:
            raise ClosedError("the server has stopped") from None
        part, counts = answer.result(LOOP_SECONDS)
        found.update(counts)
        if part == 0:
            return found


def _read_part(
    front: Front, part: int, answer: Future[tuple[int, list[tuple[str, int]]]]
) -> None:
    answer.set_result(front.commit_counts(part))
