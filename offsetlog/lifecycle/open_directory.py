"""Opens the log partitions of a directory, and determines how many partitions the topic has."""

from __future__ import annotations

import threading
from pathlib import Path

from offsetlog._native.codec import partition_for
from offsetlog._native.partition import Partition
from offsetlog.config import (
    KAFKA_PARTITIONS_DEFAULT,
    PARTITIONS_DEFAULT,
    PARTITIONS_MAX,
    StoreConfig,
)
from offsetlog.directory.listing import OWN_FILES
from offsetlog.directory.log_directory import TOPIC, LogDirectory, Properties
from offsetlog.errors import ConfigError, DiskFullError, MissingFileError, PartitionCountError, StorageError
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.lifecycle.partition_opener import PartitionOpener, ReplicaOptions
from offsetlog.types import Create

#: The number of partitions of the topic, None if unknown, and the owner of the open ones.
Opened = tuple[int | None, OpenPartitions]


def _agreed(asked: int | None, actual: int, path: Path) -> int:
    if asked is not None and asked != actual:
        raise PartitionCountError(asked=asked, actual=actual, path=path)
    return actual


def _check_highest(directory: LogDirectory, numbers: list[int]) -> None:
    # If the number is unknown, memory is allocated by the highest existing number.
    if numbers[-1] >= PARTITIONS_MAX:
        raise PartitionCountError(
            f"{TOPIC}-{numbers[-1]} cannot be a partition: a topic has at most {PARTITIONS_MAX} partitions",
            actual=numbers[-1] + 1,
            path=directory.path,
        )


def open_read_only(
    directory: LogDirectory,
    config: StoreConfig,
    partitions: int | None,
    *,
    wait: bool = True,
    by_partition: bool = False,
    isolate: bool = False,
) -> Opened:
    """Opens the existing partitions for reading.  Changes nothing, and takes no lock.

    Args:
        directory: the log directory.
        config: the settings.
        partitions: the number of partitions of the topic; None to derive it from the directory.
        wait: whether the call returns only when everything is loaded.
        by_partition: whether the caller uses only the numbers of log partitions, and never looks up a group.  The
            number of partitions is then not derived from the directory.  It stays unknown unless `partitions` or a file
            of the directory states it.
        isolate: whether the other partitions are opened if the disk cannot read one partition.

    Raises:
        PartitionCountError: the number of partitions is wrong, or cannot be derived from the directory.  With a wrong
            number, a lookup would search the wrong partition and find nothing.
    """
    if not directory.exists():
        raise MissingFileError("the directory does not exist", path=directory.path)
    # The order matters: a writer creates a partition's directory before it adds the partition to the properties.
    try:
        properties = directory.known_properties()
    except StorageError:
        directory.partition_numbers()  # a file, instead of a directory, gets its own error here
        raise
    numbers = directory.partition_numbers()
    if properties is not None:
        count = _agreed(partitions, properties.partitions, directory.path)
    elif numbers:
        count = partitions if partitions is not None else numbers[-1] + 1
    else:
        raise MissingFileError(
            "the directory holds no partition of the offsets topic", path=directory.path
        )
    if numbers and numbers[-1] >= count:
        raise PartitionCountError(asked=count, actual=numbers[-1] + 1, path=directory.path)
    existing = None if properties is None else properties.existing
    opened = OpenPartitions(PartitionOpener(directory, config, writable=False, existing=existing))
    if by_partition and properties is None and partitions is None:
        _check_highest(directory, numbers)
        opened.open_all(numbers, wait=wait, isolate=isolate)
        return None, opened
    if properties is None and not wait:
        _inspect_groups(directory, config, count, numbers, guessed=partitions is None)
    opened.open_all(numbers, wait=wait, isolate=isolate)
    if properties is None and wait:
        try:
            _check_count(directory, opened.readable(), count, guessed=partitions is None)
        except BaseException:
            opened.abandon()
            raise
    return count, opened


def _check_count(
    directory: LogDirectory, opened: list[Partition], count: int, *, guessed: bool
) -> None:
    # A broker's directory does not record its number of partitions, and may lack some of them.
    try:
        _check_groups(opened, count)
    except PartitionCountError as failure:
        if not guessed:
            raise
        raise _cannot_tell(directory, failure.message) from None
    if not guessed:
        return
    if len(opened) < count:
        raise _cannot_tell(directory, f"the directory holds {len(opened)} of at least {count} partitions")
    # These may be the first few of fifty partitions: with few groups or one partition, any number may fit.
    for likely in _likely_counts(directory, opened):
        if count < likely and _fit(opened, likely):
            raise _cannot_tell(directory, f"the groups in the directory fit both {count} and {likely} partitions")


def _likely_counts(directory: LogDirectory, opened: list[Partition]) -> list[int]:
    """Returns the default partition counts of programs that may have created the directory; none without groups."""
    if not any(partition.groups() for partition in opened):
        return []
    is_ours = any(
        name.startswith(OWN_FILES) for each in opened for name in directory.fs.list(each.path)
    )
    return [PARTITIONS_DEFAULT, KAFKA_PARTITIONS_DEFAULT] if is_ours else [KAFKA_PARTITIONS_DEFAULT]


def _fit(opened: list[Partition], count: int) -> bool:
    try:
        _check_groups(opened, count)
    except PartitionCountError:
        return False
    return True


def _cannot_tell(directory: LogDirectory, why: str) -> PartitionCountError:
    return PartitionCountError(
        f"cannot tell how many partitions the offsets topic has: {why}. "
        "Give the number: partitions= in a call, --partitions on the command line",
        path=directory.path,
    )


def _inspect_groups(
    directory: LogDirectory, config: StoreConfig, count: int, numbers: list[int], *, guessed: bool
) -> None:
    inspected = OpenPartitions(PartitionOpener(directory, config, writable=False))
    inspected.open_all(numbers)
    try:
        _check_count(directory, inspected.all(), count, guessed=guessed)
    finally:
        inspected.abandon()


def open_writable(
    directory: LogDirectory,
    config: StoreConfig,
    partitions: int | None,
    topic_id: bytes | None,
    cluster: tuple[str, int] | None,
    *,
    wait: bool = True,
    by_partition: bool = False,
    replication: ReplicaOptions | None = None,
    lock_seconds: float | None = None,
    lock_timeout: float = 0.0,
    stop: threading.Event | None = None,
    create: Create = "anywhere",
) -> Opened:
    """Takes the lock, for which it waits as `LogDirectory.lock` does, and opens the existing partitions for writing.

    `create` says where a missing log may be created.  With `replication`, the logs are opened but not loaded.  If the
    call fails, the caller must release the lock.

    In a directory that Kafka wrote, the call creates the file `offsetlog.properties` with the number of partitions and
    its origin.  If `by_partition` is true and `partitions` is None, the call does not create the file, and the number
    stays unknown.
    """
    if create != "anywhere":
        directory.check_is_none_of_its_parts()
    if create == "never":
        directory.check_holds_log()
    elif create == "new":
        directory.check_is_related()
    directory.create()
    directory.lock(lock_seconds, lock_timeout, stop)
    numbers = directory.partition_numbers()
    properties = directory.known_properties()
    count: int | None = None
    if properties is not None:
        count = _agreed(partitions, properties.partitions, directory.path)
    elif not numbers:
        count = partitions if partitions is not None else PARTITIONS_DEFAULT
    elif by_partition and partitions is None:
        _check_highest(directory, numbers)
    else:
        count = _take_over(directory, config, partitions, numbers)
    if count is not None and numbers and numbers[-1] >= count:
        raise PartitionCountError(asked=count, actual=numbers[-1] + 1, path=directory.path)
    known = properties.topic_id if properties is not None else None
    if known is not None and topic_id is not None and known != topic_id:
        raise ConfigError("topic_id differs from the id of the topic in the directory", path=directory.path)
    directory.begin_writing()
    if cluster is not None:
        directory.join_cluster(*cluster)
    existing = None if properties is None else properties.existing
    opener = PartitionOpener(
        directory,
        config,
        writable=True,
        topic_id=known or topic_id,
        existing=existing,
        replication=replication,
    )
    opened = OpenPartitions(opener)
    if replication is not None:
        opened.open_logs(numbers)
    else:
        opened.open_all(numbers, wait=wait, isolate=True)
    try:
        kept = properties
        if properties is None and count is not None:
            kept = Properties(count, opener.settled_topic_id(), from_broker=bool(numbers))
        opener.adopt(opened.all(), kept)
    except DiskFullError:
        # The entries written so far are true, and the next open writes the others.
        if properties is None:
            opened.abandon()
            raise
    except BaseException:
        opened.abandon()
        raise
    return count, opened


def _take_over(
    directory: LogDirectory, config: StoreConfig, partitions: int | None, numbers: list[int]
) -> int:
    # For a broker's directory the number must be given, and every group must agree with it, before a
    # byte is changed.
    if partitions is None:
        raise PartitionCountError(path=directory.path)
    if numbers[-1] >= partitions:
        raise PartitionCountError(asked=partitions, actual=numbers[-1] + 1, path=directory.path)
    _inspect_groups(directory, config, partitions, numbers, guessed=False)
    return partitions


def _check_groups(partitions: list[Partition], count: int) -> None:
    """Raises PartitionCountError if a group is not in the partition in which it would be with `count` partitions."""
    for partition in partitions:
        for group in partition.groups():
            if partition_for(group, count) != partition.number:
                raise PartitionCountError(
                    f"with partitions={count} the group {group!r} would be in "
                    f"{TOPIC}-{partition_for(group, count)}, but it is in {TOPIC}-{partition.number}",
                    asked=count,
                    path=partition.path,
                )
