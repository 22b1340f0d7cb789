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
    """Opens the store in a directory, which is created if it does not exist.

    Args:
        path: a log directory, of offsetlog or of a Kafka broker.
        partitions: the number of partitions of the offsets topic.  It never changes in a directory
            of offsetlog: None takes the directory's number (4 for a new one), and another number is
            refused.  A Kafka directory needs it the first time it is opened for writing.
        durability: the event that a commit survives once the call returns: "disk" a loss of power, "process" the
            end of the process.
        read_only: changes nothing and takes no lock; works beside a running broker.  The store
            shows the contents of the log at the time of opening; `OffsetStore.refresh` reads it
            again.
        config: the settings; None for Kafka's defaults.
        maintenance: settings of the automatic work that keeps the store small; None for the defaults.
        topic_id: the topic's id in the cluster that the directory is to join.
        cluster_id: that cluster's id; `meta.properties` is written if it is missing.
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
        LockedError: a process, possibly this one, still has the directory open for writing after
            `lock_timeout`; the message names it if the system shows it.  The sink on Spark keeps a
            directory open only to be fast the next time, and gives it up when asked; the call waits
            for that as long as the sink says that it is at work.
        PartitionCountError: the directory has another number of partitions; nothing was changed.
        MissingFileError: read-only or with create="never", and there is no such directory, or no
            log of the offsets topic in it.
        InvalidArgumentError: one of its kinds (ArgumentTypeError, ConfigError), or the directory
            holds other files and no log; no directory was made.
        StorageError, CorruptionError, CapacityError: the directory cannot be read or trusted.

    Warns:
        CorruptionWarning: once, if a log is damaged: its sound part is served, but it is unknown which records are
            missing, and commits to that partition are refused.  The same holds if the disk cannot read part of a log;
            if the state of a partition depends on those bytes, calls about it raise StorageError.
            `OffsetStore.problems` lists everything found.
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
    """Opens a store as `open` does, for offsetlog's own commands, the sink on Spark and tests; not for programs.

    `fs` is the file port, None for that of the system.  `stop`, `background`, `by_partition` and `lock_seconds` are
    fields of OpenArguments.  `stacklevel` is that of warnings, counted from here.
    """
    # Wrong arguments are refused before a directory is created.
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
    except CorruptionWarning:  # a warnings filter turned it into an error
        store.close()
        raise
    return store
