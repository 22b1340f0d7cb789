"""Opens the log partitions of a directory for a store: how many there are, and which are there."""

from __future__ import annotations

from pathlib import Path

from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.directory.log_directory import LogDirectory, Properties, random_topic_id
from offsetlog.errors import ConfigError, MissingFileError, PartitionCountError
from offsetlog.lifecycle.partition_opener import PartitionOpener, check_groups

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
    """Opens what is there for reading; changes nothing, and takes no lock.

    Raises:
        PartitionCountError: the number is another, or cannot be told from what is there: whoever looked for a group in
            the wrong partition would be answered that there is nothing.
    """
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
    if properties is not None:
        return count, opener, opener.open_all(numbers, wait=wait)
    if not wait:
        _look_at_groups(directory, config, count, numbers, guessed=partitions is None)
    opened = opener.open_all(numbers, wait=wait)
    try:
        if wait:
            _check_count(directory, opened, count, guessed=partitions is None)
    except BaseException:
        for partition in opened:
            partition.abandon()
        raise
    return count, opener, opened


def _check_count(directory: LogDirectory, opened: list[Partition], count: int, *, guessed: bool) -> None:
    # A broker's directory does not say how many partitions there are, and need not have all of them.
    try:
        check_groups(opened, count)
    except PartitionCountError as failure:
        if not guessed:
            raise
        raise _cannot_tell(directory, failure.message) from None
    if not guessed:
        return
    if len(opened) < count:
        raise _cannot_tell(directory, f"of {count} that there are at least, {len(opened)} are here")
    # The first few of fifty, say: with few groups, or one partition, any number may fit.
    if count < PARTITIONS_DEFAULT and any(partition.groups() for partition in opened):
        try:
            check_groups(opened, PARTITIONS_DEFAULT)
        except PartitionCountError:
            return
        raise _cannot_tell(directory, f"its groups fit {count} and {PARTITIONS_DEFAULT}")


def _cannot_tell(directory: LogDirectory, why: str) -> PartitionCountError:
    return PartitionCountError(
        f"how many partitions the offsets topic has cannot be told from this directory: {why}. The number has to be "
        "given: partitions= in a call, --partitions on the command line",
        path=directory.path,
    )


def _look_at_groups(
    directory: LogDirectory, config: StoreConfig, count: int, numbers: list[int], *, guessed: bool
) -> None:
    looked_at = PartitionOpener(directory, directory.fs, config, writable=False).open_all(numbers)
    try:
        _check_count(directory, looked_at, count, guessed=guessed)
    finally:
        for partition in looked_at:
            partition.abandon()


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
    _look_at_groups(directory, config, partitions, numbers, guessed=False)
    return partitions
