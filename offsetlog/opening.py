"""`offsetlog.open`: checks the arguments, opens a directory, and returns the store of it.

`offsetlog.open_async` opens a store in a coroutine, without blocking the event loop.
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
    """Opens the store in a directory, which by default is created if it does not exist.

    Args:
        path: a log directory, of offsetlog or of a Kafka broker.
        partitions: the number of partitions of the offsets topic.  It never changes in a directory
            of offsetlog: None means the directory's number (4 in a new directory), and a different
            number is refused.  A Kafka directory needs the number when it is opened for writing for
            the first time.
        durability: the failure that a commit survives once its call returns: "disk" for a loss of power, "process" for
            the end of the process.
        read_only: changes nothing and takes no lock; works beside a running broker.  The store
            shows the contents of the log at the time of opening; `OffsetStore.refresh` reads it
            again.
        config: the settings; None for the defaults.
        maintenance: settings of the automatic work that keeps the store small; None for the defaults.
        topic_id: the topic's id in the cluster that the directory is to join.
        cluster_id: that cluster's id; `meta.properties` is written if it is missing.
        node_id: the broker's number in that file.
        wait: whether to wait until everything is loaded.  With False, the call only opens the logs;
            they are then loaded in the background.  A call about one group waits only for its log
            partition, which is loaded next; see `OffsetStore.progress` and
            `OffsetStore.wait_loaded`.
        lock_timeout: how many seconds to wait for a process that has the directory open for
            writing, as in a rolling restart; 0 does not wait.  An interrupt ends the wait in the
            main thread; a coroutine calls `open_async`, whose wait ends with its task.
        create: where a missing log may be made: "new" in a directory that is missing or empty,
            "anywhere" also in a directory with other files, "never" nowhere.  A broker's directory
            is opened with each of the three.  With "never", a directory of offsetlog whose creation
            was interrupted is refused.  A read-only store makes nothing.

    Raises:
        LockedError: a process, possibly this one, still has the directory open for writing after
            `lock_timeout`; the message names the process if the system shows it.  The sink on Spark
            keeps a directory open between batches, and releases it when another process asks.  The
            call waits for that release while the sink reports that it is working.
        PartitionCountError: the directory has another number of partitions; nothing was changed.
        MissingFileError: the call is read-only or has create="never", and the directory does not
            exist or has no log of the offsets topic.
        InvalidArgumentError: an argument is not valid (also ArgumentTypeError, ConfigError), or the
            directory holds other files and no log; no directory was made.
        StorageError, CorruptionError, CapacityError: the directory cannot be read or trusted.

    Warns:
        CorruptionWarning: once, if a log is damaged or the disk cannot read part of it.  The sound part is served, but
            it is unknown which records are missing, and commits to that log partition are refused.  If the state of a
            partition depends on bytes that the disk cannot read, calls about it raise StorageError.
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

    The usual form is `async with await offsetlog.open_async(path, lock_timeout=30) as store:`.  The arguments are those
    of `open`.  Tasks of any event loop can call this function, also concurrently.

    If the task is cancelled, also by a timeout or an interrupt, the call stops waiting for the lock,
    or waits at most a second for a holder that is releasing it.  A log partition that is being read
    is read to its end.  Then the directory is closed and its lock released.

    Raises:
        asyncio.CancelledError: the task was cancelled; nothing is open.
        RuntimeError: the system refused to start a thread; nothing is open.
        OffsetLogError: see `open`.

    Warns:
        CorruptionWarning: see `open`.
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
    """Opens a store as `open` does; only for offsetlog's own commands, its sink on Spark and its tests.

    `fs` is the FileSystem to use, None for the real one.  `stop`, `background`, `by_partition` and `lock_seconds` are
    fields of OpenArguments.  `stacklevel` is the stack level of warnings, counted from this function.
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
