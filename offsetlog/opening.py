"""Opens the log partitions of a directory for a store: how many there are, and which are there."""

from __future__ import annotations

from pathlib import Path

from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.errors import ConfigError, MissingFileError, PartitionCountError
from offsetlog.logdir import LogDirectory, Properties, random_topic_id
from offsetlog.partitions import PartitionOpener, check_groups

#: Partitions of a new directory, as Kafka's `offsets.topic.num.partitions`.
PARTITIONS_DEFAULT = 50

#: How many partitions there are, what opens more of them, and those that are open, loaded if that was waited for.
Opened = tuple[int, PartitionOpener, list[Partition]]


def _agreed(asked: int | None, actual: int, path: Path) -> int:
    if asked is not None and asked != actual:
        raise PartitionCountError(asked=asked, actual=actual, path=path)
    return actual


def open_read_only(
    directory: LogDirectory, config: StoreConfig, partitions: int | None, *, wait: bool = True
) -> Opened:
    """Opens what is there for reading; changes nothing, and takes no lock."""
    if not directory.exists():
        raise MissingFileError("there is no such directory", path=directory.path)
    numbers = directory.partition_numbers()
    properties = directory.read_properties()
    if properties is not None:
        count = _agreed(partitions, properties.partitions, directory.path)
    elif numbers:
        count = partitions if partitions is not None else numbers[-1] + 1
    else:
        raise MissingFileError("there is no partition of the offsets topic in it", path=directory.path)
    if numbers and numbers[-1] >= count:
        raise PartitionCountError(asked=count, actual=numbers[-1] + 1, path=directory.path)
    opener = PartitionOpener(directory, directory.fs, config, writable=False)
    return count, opener, opener.open_all(numbers, wait=wait)


def open_writable(
    directory: LogDirectory,
    config: StoreConfig,
    partitions: int | None,
    topic_id: bytes | None,
    cluster: tuple[str, int] | None,
    *,
    wait: bool = True,
) -> Opened:
    """Takes the lock and opens what is there for writing; whoever calls lets the lock go after a failure."""
    directory.create()
    directory.lock()
    numbers = directory.partition_numbers()
    properties = directory.read_properties()
    if properties is not None:
        count = _agreed(partitions, properties.partitions, directory.path)
    elif numbers:
        count = _take_over(directory, config, partitions, numbers)
    else:
        count = partitions if partitions is not None else PARTITIONS_DEFAULT
    if numbers and numbers[-1] >= count:
        raise PartitionCountError(asked=count, actual=numbers[-1] + 1, path=directory.path)
    known = properties.topic_id if properties is not None else None
    if known is not None and topic_id is not None and known != topic_id:
        raise ConfigError("the directory's topic has another id", path=directory.path)
    directory.begin_writing()
    if cluster is not None:
        directory.join_cluster(*cluster)
    opener = PartitionOpener(directory, directory.fs, config, writable=True, topic_id=known or topic_id)
    opened = opener.open_all(numbers, wait=wait)
    if properties is None:
        if opener.topic_id is None:
            opener.topic_id = random_topic_id()
        directory.write_properties(Properties(count, opener.topic_id))
    return count, opener, opened


def _take_over(directory: LogDirectory, config: StoreConfig, partitions: int | None, numbers: list[int]) -> int:
    # A broker's directory: the number must be told, and every group must agree, before a byte of it is changed.
    if partitions is None:
        raise PartitionCountError(
            "a Kafka directory does not say how many partitions its topic has: partitions= must be given. It is "
            "the broker's offsets.topic.num.partitions (50 by default), and the PartitionCount that "
            "kafka-topics.sh --describe --topic __consumer_offsets prints",
            path=directory.path,
        )
    if numbers[-1] >= partitions:
        raise PartitionCountError(asked=partitions, actual=numbers[-1] + 1, path=directory.path)
    looked_at = PartitionOpener(directory, directory.fs, config, writable=False).open_all(numbers)
    try:
        check_groups(looked_at, partitions)
    finally:
        for partition in looked_at:
            partition.abandon()
    return partitions
