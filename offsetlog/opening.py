"""`offsetlog.open`: checks the arguments, opens a directory, and returns its store."""

from __future__ import annotations

import os
from typing import Literal
from uuid import UUID

from offsetlog import arguments
from offsetlog._native.files import FileSystem
from offsetlog._native.tickets import check_durability
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.errors import CorruptionWarning
from offsetlog.lifecycle.inspection import warn_of_damage
from offsetlog.lifecycle.open import OpenArguments, open_store
from offsetlog.one_position import Durability
from offsetlog.store import OffsetStore

#: Where a missing log may be created.
Create = Literal["new", "anywhere"]


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
        wait: whether to return only once everything is loaded.  With False the logs are opened and
            loaded in the background: a call about a group waits only for its log partition, which
            is loaded before the others; see `OffsetStore.progress` and `OffsetStore.wait_loaded`.
        lock_timeout: seconds to wait for a process that has the directory open for writing, as in a
            rolling restart; 0 does not wait.  An interrupt ends the wait.
        create: where a missing log may be created: "new" only in a directory that is missing or
            empty, "anywhere" also among other files.  A broker's directory counts as an existing
            log, and so does one of ours whose creation was interrupted.

    Raises:
        LockedError: a process, possibly this one, still has the directory open for writing after
            `lock_timeout`; the message names it if the system shows it.  The sink on Spark keeps a
            directory open only to be fast the next time, and gives it up when asked; the call waits
            for that as long as the sink says that it is at work.
        PartitionCountError: the directory has another number of partitions; nothing was changed.
        MissingFileError: `read_only`, and the directory does not exist or holds no partition of the
            offsets topic.
        InvalidArgumentError: an argument is refused (ArgumentTypeError, ConfigError), or the
            directory holds other files and no log; no directory was created.
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
    fs: FileSystem | None = None,
    background: bool = True,
    by_partition: bool = False,
    lock_seconds: float | None = None,
    stacklevel: int = 3,
) -> OffsetStore:
    """Opens a store as `open` does, for offsetlog's own commands, the sink on Spark and tests; not for programs.

    `fs` is the file port, None for the system's.  `background`, `by_partition` and `lock_seconds` are fields of
    OpenArguments.  `stacklevel` is the stack level of warnings, counted from here.
    """
    # Wrong arguments are refused before a directory is created.
    check_durability(durability)
    given = OpenArguments(
        path=arguments.checked_path(path),
        partitions=arguments.checked_partitions(partitions),
        durability=durability,
        read_only=read_only,
        config=arguments.checked_config(config),
        maintenance=arguments.checked_maintenance(maintenance),
        topic_id=arguments.checked_topic_id(topic_id),
        cluster=arguments.checked_cluster(cluster_id, node_id),
        wait=wait,
        fs=fs if fs is not None else FileSystem(),
        background=background,
        by_partition=by_partition,
        lock_seconds=lock_seconds,
        lock_timeout=arguments.checked_lock_timeout(lock_timeout),
        anywhere=arguments.checked_create(create),
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
