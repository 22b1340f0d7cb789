"""`offsetlog.open`: checks the arguments, opens a directory, and returns the store of it.

`offsetlog.open_async` does the same for a coroutine.
"""

from __future__ import annotations

import os
import threading
from uuid import UUID

from offsetlog import arguments
from offsetlog._native.files import FileSystem
from offsetlog._native.tickets import check_durability
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.errors import ArgumentTypeError, CorruptionWarning
from offsetlog.lifecycle.inspection import warn_of_damage
from offsetlog.lifecycle.open import OpenArguments, open_store
from offsetlog.on_thread import on_thread
from offsetlog.store import OffsetStore
from offsetlog.types import Create, Durability


def open(  # noqa: A001  (offsetlog.open, like gzip.open)
    path: str | os.PathLike[str],
    partitions: int | None = None,
    durability: Durability = "disk",
    *,
    read_only: bool = False,
    config: StoreConfig | None = None,
    maintenance: MaintenanceConfig | None = None,
    topic_id: UUID | None = None,
    cluster_id: str | None = None,
    node_id: int = 1,
    wait: bool = True,
    lock_timeout: float = 0.0,
    create: Create = "new",
) -> OffsetStore:
    """Opens the store in a directory, which is made when it is not there.

    Args:
        path: a log directory: ours, or a Kafka broker's.
        partitions: partitions of the offsets topic.  Fixed by the directory once it is ours: None
            takes what it has (4 for a new one), another number is refused.  For a Kafka
            directory the number is needed at its first writable open.
        durability: the failure that a commit survives when it returns: "disk" the loss of power, "process" the
            end of the process.
        read_only: changes nothing, takes no lock, and can read what a running broker holds.  The
            store shows what was in the log when it was opened; `OffsetStore.refresh` reads it
            again.
        config: the settings; None for Kafka's defaults.
        maintenance: the store's automatic work to stay small; None for the defaults.
        topic_id: the topic's id in the cluster that the directory shall join.
        cluster_id: that cluster's id; `meta.properties` is written where it is missing.
        node_id: the broker's number in that file.
        wait: until everything is loaded.  With False the logs are opened and loaded in the
            background: a call about one group waits for its log partition only, which is loaded
            before the others; see `OffsetStore.progress` and `OffsetStore.wait_loaded`.
        lock_timeout: how many seconds to wait for a process that has the directory open for
            writing, as in a rolling restart; 0 does not wait.  An interrupt ends the wait in the
            main thread; a coroutine calls `open_async`, whose wait ends with its task.
        create: where a log that is missing may be made: "new" in a directory that is missing or
            empty, "anywhere" also among files that are none of a log, "never" nowhere.  A broker's
            directory is taken with each of them; one of ours that was only begun is not with
            "never".  Read-only nothing is made.

    Raises:
        LockedError: another process, or this one, has the directory open for writing, still after
            `lock_timeout`; names the process where the system tells.  One that keeps it open only
            to be fast the next time (the sink on Spark) gives it up; that is waited for as long as
            it says that it is at work.
        PartitionCountError: the directory has another number of partitions; nothing was changed.
        MissingFileError: read-only or with create="never", and there is no such directory, or no
            log of the offsets topic in it.
        InvalidArgumentError: one of its kinds (ArgumentTypeError, ConfigError), or the directory
            holds other files and no log; no directory was made.
        StorageError, CorruptionError, CapacityError: the directory cannot be read or trusted.

    Warns:
        CorruptionWarning: once, when a log is damaged: its sound part is served, but
            nobody knows which records are missing, and commits to that partition are refused.  So it is when the disk
            cannot read some of a log; where the state of a partition depends on the bytes, its
            callers get a StorageError.  `OffsetStore.problems` has all of it.
    """
    return open_with(
        path,
        partitions,
        durability,
        read_only=read_only,
        config=config,
        maintenance=maintenance,
        topic_id=topic_id,
        cluster_id=cluster_id,
        node_id=node_id,
        wait=wait,
        lock_timeout=lock_timeout,
        create=create,
        stacklevel=4,
    )


async def open_async(
    path: str | os.PathLike[str],
    partitions: int | None = None,
    durability: Durability = "disk",
    *,
    read_only: bool = False,
    config: StoreConfig | None = None,
    maintenance: MaintenanceConfig | None = None,
    topic_id: UUID | None = None,
    cluster_id: str | None = None,
    node_id: int = 1,
    wait: bool = True,
    lock_timeout: float = 0.0,
    create: Create = "new",
) -> OffsetStore:
    """Opens the store in a directory as `open` does, without blocking the event loop.

    `async with await offsetlog.open_async(path, lock_timeout=30) as store:`.  The arguments are those
    of `open`.  Any event loop can call it, and many tasks at the same time.

    A task that is cancelled, also by a timeout or an interrupt, waits for the lock no longer, or at
    most a second for a holder that gives it up.  A log partition that is being read is read to its
    end.  Then the directory is closed, and its lock free.

    Raises:
        asyncio.CancelledError: the task was cancelled; nothing is open.
        RuntimeError: the system gives no thread; nothing is open.
        OffsetLogError: as `open`.

    Warns:
        CorruptionWarning: as `open`.
    """
    stop = threading.Event()
    opened: list[OffsetStore] = []

    def open_on_thread() -> None:
        store = open_with(
            path,
            partitions,
            durability,
            read_only=read_only,
            config=config,
            maintenance=maintenance,
            topic_id=topic_id,
            cluster_id=cluster_id,
            node_id=node_id,
            wait=False,
            lock_timeout=lock_timeout,
            create=create,
            stop=stop,
        )
        opened.append(store)

    try:
        await on_thread(open_on_thread, stop.set)
        if wait:
            await on_thread(opened[0]._load, opened[0].close)
    except BaseException:
        for store in opened:
            await on_thread(store.close)
        raise
    return opened[0]


def open_with(
    path: str | os.PathLike[str],
    partitions: int | None = None,
    durability: Durability = "disk",
    *,
    read_only: bool = False,
    config: StoreConfig | None = None,
    maintenance: MaintenanceConfig | None = None,
    topic_id: UUID | None = None,
    cluster_id: str | None = None,
    node_id: int = 1,
    wait: bool = True,
    lock_timeout: float = 0.0,
    create: Create = "new",
    stop: threading.Event | None = None,
    fs: FileSystem | None = None,
    background: bool = True,
    by_partition: bool = False,
    lock_seconds: float | None = None,
    stacklevel: int = 3,
) -> OffsetStore:
    """Opens a store as `open` does, for our own commands, the sink on Spark and tests: not for programs.

    `fs` is the file port, None for that of the system.  `stop`, `background`, `by_partition` and `lock_seconds` are
    fields of OpenArguments.  `stacklevel` is that of warnings, counted from here.
    """
    # Arguments that are wrong are refused before a directory is made.
    check_durability(durability)
    if durability is None:  # which means the store's, in calls of one
        raise ArgumentTypeError('durability must be "process" or "disk", not None')
    given = OpenArguments(
        path=arguments.checked_path(path),
        partitions=arguments.checked_partitions(partitions),
        durability=durability,
        read_only=arguments.checked_flag("read_only", read_only),
        config=arguments.checked_config(config),
        maintenance=arguments.checked_maintenance(maintenance),
        topic_id=arguments.checked_topic_id(topic_id),
        cluster=arguments.checked_cluster(cluster_id, node_id),
        wait=arguments.checked_flag("wait", wait),
        fs=fs if fs is not None else FileSystem(),
        background=background,
        by_partition=by_partition,
        lock_seconds=lock_seconds,
        lock_timeout=arguments.checked_lock_timeout(lock_timeout),
        stop=stop,
        create=arguments.checked_create(create),
    )
    parts = open_store(given)
    store = OffsetStore.__new__(OffsetStore)
    store._take(given, parts)
    try:
        if wait:
            warn_of_damage(parts.core, parts.partitions, store.path, stacklevel=stacklevel)
    except CorruptionWarning:  # made an error by a filter
        store.close()
        raise
    return store
