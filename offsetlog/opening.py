"""Implements `offsetlog.open`: checks the arguments, opens a directory, and returns its store.

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
    """Opens the store in a directory.  By default, a directory that does not exist is created.

    Args:
        path: a log directory, of offsetlog or of a Kafka broker.
        partitions: the number of partitions of the offsets topic.  In a directory of offsetlog it never changes: None
            means the number that the directory has (4 in a new directory), and a different number is refused.  A Kafka
            directory needs the number when it is first opened for writing.
        durability: the failure that a commit survives once its call has returned: "disk" for a loss of power, "process"
            for the end of the process.
        read_only: whether the call changes nothing and takes no lock, so that it can be used beside a running broker.
            The store shows the contents of the log at the time of the opening; `OffsetStore.refresh` reads the log
            again.
        config: the settings; None for the defaults.
        maintenance: the settings of the automatic work that keeps the store small; None for the defaults.
        topic_id: the id of the topic in the cluster that the directory is to join.
        cluster_id: the id of that cluster.  The file `meta.properties` is written if it is missing.
        node_id: the broker's number in `meta.properties`.
        wait: whether the call waits until everything is loaded.  If False, the call only opens the logs, which are then
            loaded in the background.  A call about one group waits only for its log partition, which is loaded next;
            see `OffsetStore.progress` and `OffsetStore.wait_loaded`.
        lock_timeout: how many seconds to wait until a process that has the directory open for writing closes it, as in
            a rolling restart; 0 to not wait.  In the main thread, an interrupt ends the wait.  A coroutine calls
            `open_async`, whose wait ends when its task is cancelled.
        create: where a missing log may be created.  "new": in a directory that is missing or empty.  "anywhere": also
            in a directory that has other files.  "never": nowhere, not even in a directory of offsetlog whose creation
            was interrupted.  The directory of a broker that has a log can be opened with each of these values.  A
            read-only store creates nothing.

    Raises:
        LockedError: after `lock_timeout`, another process or another store of this process still has the directory open
            for writing.  The message names the process if the system shows it.  The sink on Spark keeps a directory
            open between batches, and releases it when another process requests it.  The call waits for that release as
            long as the sink reports that it is working.
        PartitionCountError: the directory has another number of partitions; nothing was changed.
        MissingFileError: the directory does not exist or has no log of the offsets topic, and the call must not create
            one because of `read_only` or create="never".
        InvalidArgumentError: an argument is not valid (its subclasses ArgumentTypeError and ConfigError may be raised),
            or the directory has other files and no log.  No directory was created.
        StorageError, CorruptionError, CapacityError: the directory cannot be read or trusted.

    Warns:
        CorruptionWarning: once, if a log is damaged or the disk cannot read a part of it.  The undamaged part is
            served, but it is unknown which records are missing, and commits to that log partition are refused.  If the
            state of a partition depends on bytes that the disk cannot read, calls about the partition raise
            StorageError.  `OffsetStore.problems` lists everything that was found.
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
    of `open`.  Tasks of any event loop may call this function, even concurrently.

    A timeout or an interrupt cancels the task, too.  A cancelled call stops waiting for the lock.  If the holder of the
    lock is already releasing it, the cancelled call waits for at most one second.  A log partition that is being read
    is read to its end.  Then the call closes the directory and releases its lock.

    Raises:
        asyncio.CancelledError: the task was cancelled.  Nothing is open.
        RuntimeError: the system refused to start a thread.  Nothing is open.
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
    """Opens a store as `open` does.  Only offsetlog's own commands, its sink on Spark and its tests call this function.

    `fs` is the FileSystem to use; None means the real one.  `stop`, `background`, `by_partition` and `lock_seconds` are
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
