"""Opens a store: creates its parts, and closes them again if one of them fails."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from offsetlog._native.files import FileSystem
from offsetlog._native.store_core import StoreCore
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.directory.lock_owner import WAITING_ADVICE, is_held_here
from offsetlog.directory.log_directory import LOCK, LogDirectory
from offsetlog.errors import LockedError
from offsetlog.lifecycle.awaitable_tickets import TicketWaiter
from offsetlog.lifecycle.close import StoreCloser
from offsetlog.lifecycle.open_directory import Opened, open_read_only, open_writable
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.maintenance.retention import Expirer, Retention
from offsetlog.maintenance.scheduler import Maintenance
from offsetlog.types import Create


@dataclass(frozen=True, slots=True)
class OpenArguments:
    """The arguments of `offsetlog.open`, checked.

    Attributes:
        path: the log directory.
        partitions: the number of partitions of the offsets topic; None to use the number of the directory.
        durability: the durability of the commits that do not specify one.
        read_only: whether the store must not write.
        config: the settings.
        maintenance: the settings of maintenance.
        topic_id: the topic id for new partition directories; None to use the id of the directory.
        cluster: the cluster's id and the broker's number in the cluster; None without a cluster.
        wait: whether the open waits until everything is loaded.
        fs: the file system to use.
        background: whether the store starts threads of its own.
        by_partition: whether callers use the store only by the numbers of log partitions.  The number of partitions
            then stays unknown unless the caller passes it, and calls that need it are refused.
        lock_seconds: how long to wait for a process that releases the lock on request, in seconds; None for no limit.
        lock_timeout: how long to wait for a process that does not release the lock on request, in seconds.
        stop: an Event that ends the wait for the lock when it is set; None if the wait cannot be stopped.
        create: where a missing log may be created.
    """

    path: Path
    partitions: int | None
    durability: str
    read_only: bool
    config: StoreConfig
    maintenance: MaintenanceConfig
    topic_id: bytes | None
    cluster: tuple[str, int] | None
    wait: bool
    fs: FileSystem
    background: bool
    by_partition: bool
    lock_seconds: float | None = None
    lock_timeout: float = 0.0
    stop: threading.Event | None = None
    create: Create = "new"


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of an open store."""

    directory: LogDirectory
    core: StoreCore
    partitions: OpenPartitions
    expirer: Expirer
    maintenance: Maintenance
    closer: StoreCloser


def open_store(given: OpenArguments) -> StoreParts:
    """Opens the store in a directory; see `offsetlog.open`.  After a failure, nothing is open."""
    directory = LogDirectory(given.path, given.fs)
    try:
        parts = _open_parts(given, directory)
    except BaseException:
        directory.unlock()
        raise
    if given.background and not given.read_only:
        try:
            parts.closer.keep_checkpoints(parts.core)
            parts.maintenance.start()
        except BaseException:  # a thread could not be started
            parts.closer.close(parts.core)
            raise
    return parts


def _open_writable(given: OpenArguments, directory: LogDirectory) -> Opened:
    try:
        return open_writable(
            directory,
            given.config,
            given.partitions,
            given.topic_id,
            given.cluster,
            wait=given.wait,
            by_partition=given.by_partition,
            lock_seconds=given.lock_seconds,
            lock_timeout=given.lock_timeout,
            stop=given.stop,
            create=given.create,
        )
    except LockedError as failure:
        reading = "to read it nevertheless, open it with read_only=True"
        is_here = is_held_here(directory.path / LOCK)
        writing = "to write, use that store (any thread can) or close that store" if is_here else WAITING_ADVICE
        raise failure.advise(f"{reading}; {writing}") from None


def _open_parts(given: OpenArguments, directory: LogDirectory) -> StoreParts:
    waiter = TicketWaiter()
    expirer = Expirer(Retention.of(given.maintenance))
    if given.read_only:
        count, partitions = open_read_only(
            directory,
            given.config,
            given.partitions,
            wait=given.wait,
            by_partition=given.by_partition,
            isolate=True,
        )
    else:
        count, partitions = _open_writable(given, directory)
    core: StoreCore | None = None
    try:
        # The cleaner's checkpoints are read only now, when the path is known to be a log directory
        # and the lock keeps other processes from cleaning it.
        maintenance = Maintenance(directory, given.maintenance, expirer, read_only=given.read_only)
        core = StoreCore(
            count,
            partitions,
            waiter,
            given.durability,
            given.config.metadata_max_units,
            read_only=given.read_only,
            background=given.background,
            flush_interval_ms=given.config.flush_interval_ms or 0,
        )
        for partition in partitions.readable() if given.wait else ():
            core.attach(partition)
        maintenance.attach(core, partitions.all())
    except BaseException:
        if core is not None:
            core.close()
        partitions.abandon()
        raise
    closer = StoreCloser(directory, partitions, waiter, maintenance, read_only=given.read_only)
    closer.watch(core)
    return StoreParts(directory, core, partitions, expirer, maintenance, closer)
