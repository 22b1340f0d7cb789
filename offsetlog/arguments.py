"""Checks the arguments of a store's calls before anything is done."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from offsetlog.config import PARTITIONS_MAX, MaintenanceConfig, StoreConfig
from offsetlog.errors import ArgumentTypeError, ConfigError, InvalidArgumentError
from offsetlog.moments import parse_moment, parse_past_moment, parse_time
from offsetlog.shown_values import shown
from offsetlog.types import Create, PartitionKey, TopicPartition, key_of

if TYPE_CHECKING:
    from typing_extensions import Buffer


# A year, in seconds: longer than any caller waits.
_LOCK_TIMEOUT_MAX = 366 * 86400


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def checked_number(name: str, value: int, low: int, high: int) -> int:
    """Checks that a number is from `low` to `high`, and returns it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be an int, not {_kind(value)}")
    if not low <= value <= high:
        raise ConfigError(f"{name} must be from {low} to {high}, not {shown(value)}")
    return value


def checked_flag(name: str, value: bool) -> bool:
    """Checks that a value is True or False, and returns it.

    A text such as "no" is refused, because it would count as true.
    """
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{name} must be True or False, not {_kind(value)}")
    return value


def checked_epoch(epoch: int, low: int = -1) -> int:
    """Checks that a leader epoch is from `low` to 2**31 - 1, and returns it."""
    return checked_number("the leader epoch", epoch, low, 2**31 - 1)


def checked_place(epoch: int, offset: int, low: int = 0) -> None:
    """Raises an error if a leader epoch or a log offset is out of range or not an int."""
    checked_epoch(epoch)
    checked_number("the log offset", offset, low, 2**63 - 1)


def checked_buffer(buffer: Buffer, *, writable: bool = False) -> memoryview:
    """Returns the bytes of a buffer; raises ArgumentTypeError unless the buffer is contiguous."""
    try:
        view = memoryview(buffer).cast("B")
    except (TypeError, ValueError, BufferError) as refused:
        raise ArgumentTypeError(
            f"the bytes must be a contiguous buffer, not {_kind(buffer)}: {refused}"
        ) from None
    if writable and view.readonly:
        raise ArgumentTypeError(f"the buffer must be writable, but the {_kind(buffer)} is read-only")
    return view


def checked_producer_id(producer_id: int) -> int:
    """Checks that a producer id is from 0 to 2**63 - 1, and returns it."""
    return checked_number("producer_id", producer_id, 0, 2**63 - 1)


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a log directory."""
    if isinstance(path, str | os.PathLike):
        plain = os.fspath(path)
        if isinstance(plain, str):
            if not plain or "\0" in plain:
                raise ArgumentTypeError(f"the path must not be empty or contain a NUL, but is {plain!r}")
            return Path(plain)
    raise ArgumentTypeError(
        f"the path must be a str or an os.PathLike of str, not {_kind(path)}"
        + ("; os.fsdecode converts bytes to a str" if isinstance(path, bytes) else "")
    )


def checked_partitions(partitions: int | None) -> int | None:
    """Returns the requested number of partitions; None if the caller requested none."""
    if partitions is None:
        return None
    return checked_number("partitions", partitions, 1, PARTITIONS_MAX)


def checked_config(config: StoreConfig | None) -> StoreConfig:
    """Returns the given settings; the default settings if `config` is None."""
    if config is None:
        return StoreConfig()
    if not isinstance(config, StoreConfig):
        raise ArgumentTypeError(f"config must be a StoreConfig or None, not {_kind(config)}")
    return config


def checked_maintenance(maintenance: MaintenanceConfig | None) -> MaintenanceConfig:
    """Returns the given settings of maintenance; the default settings if `maintenance` is None."""
    if maintenance is None:
        return MaintenanceConfig()
    if not isinstance(maintenance, MaintenanceConfig):
        raise ArgumentTypeError(
            f"maintenance must be a MaintenanceConfig or None, not {_kind(maintenance)}"
        )
    return maintenance


def checked_topic_id(topic_id: UUID | None) -> bytes | None:
    """Returns the bytes of a topic id; None if `topic_id` is None."""
    if topic_id is None:
        return None
    if not isinstance(topic_id, UUID):
        raise ArgumentTypeError(f"topic_id must be a uuid.UUID or None, not {_kind(topic_id)}")
    return topic_id.bytes


def checked_cluster(cluster_id: str | None, node_id: int) -> tuple[str, int] | None:
    """Returns the cluster's id and the broker's number in the cluster; None if `cluster_id` is None."""
    checked_number("node_id", node_id, 0, 2**31 - 1)
    if cluster_id is None:
        return None
    if not isinstance(cluster_id, str):
        raise ArgumentTypeError(f"cluster_id must be a str or None, not {_kind(cluster_id)}")
    if not cluster_id or not cluster_id.isprintable() or cluster_id != cluster_id.strip():
        raise ConfigError(
            f"cluster_id must not be empty, and must be printable text without spaces at its ends, not {cluster_id!r}"
        )
    return cluster_id, node_id


def checked_lock_timeout(lock_timeout: float) -> float:
    """Returns the time to wait for a lock, in seconds."""
    if isinstance(lock_timeout, bool) or not isinstance(lock_timeout, int | float):
        raise ArgumentTypeError(
            f"lock_timeout must be a number of seconds (0 to not wait), not {_kind(lock_timeout)}"
        )
    if not 0 <= lock_timeout <= _LOCK_TIMEOUT_MAX:
        raise ConfigError(
            f"lock_timeout must be from 0 to {_LOCK_TIMEOUT_MAX} seconds, not {shown(lock_timeout)}"
        )
    return lock_timeout


def checked_create(create: Create) -> Create:
    """Checks and returns the value of `create`, which says where a missing log may be created."""
    wanted = 'create must be "never", "new" or "anywhere"'
    if not isinstance(create, str):
        raise ArgumentTypeError(f"{wanted}, not {_kind(create)}")
    if create not in ("never", "new", "anywhere"):
        raise ConfigError(f"{wanted}, not {create!r}")
    return create


def listed_numbers(numbers: Iterable[int] | None) -> list[int] | None:
    """Returns the numbers of log partitions as a list.  Returns None, which means all log partitions, for None."""
    if numbers is None:
        return None
    listed = _listed(
        numbers, "the log partitions must be a list of int", single=(str, bytes, bytearray)
    )
    for number in listed:
        if isinstance(number, bool) or not isinstance(number, int):
            raise ArgumentTypeError(f"the number of a log partition must be an int, not {_kind(number)}")
    return listed


def checked_ratio(ratio: float) -> float:
    """Checks that a ratio is from 0 to 1, and returns it."""
    if isinstance(ratio, bool) or not isinstance(ratio, int | float):
        raise ArgumentTypeError(f"ratio must be a number, not {_kind(ratio)}")
    if not 0 <= ratio <= 1:
        raise ConfigError(f"ratio must be from 0 to 1, not {shown(ratio)}")
    return ratio


def checked_retention_time(delete_retention_ms: int | None) -> int | None:
    """Returns how long tombstones are kept, in milliseconds.

    Returns None, which means the store's setting, for None.
    """
    return (
        None
        if delete_retention_ms is None
        else checked_number("delete_retention_ms", delete_retention_ms, 0, 2**63 - 1)
    )


def checked_progress(progress: Any) -> Any:
    """Returns the function that is called with the progress; None if there is none."""
    if progress is not None and not callable(progress):
        raise ArgumentTypeError(f"progress must be callable or None, not {_kind(progress)}")
    return progress


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checked_time(name: str, moment: datetime) -> int:
    """Returns a time as milliseconds since 1970, rounded down, so that a larger number always means a later time."""
    if not isinstance(moment, datetime):
        raise ArgumentTypeError(f"{name} must be a datetime, not {_kind(moment)}")
    if moment.utcoffset() is None:
        raise InvalidArgumentError(
            f"{name}={moment.isoformat()} has no time zone: use moment.astimezone() if it is local time, "
            "or moment.replace(tzinfo=datetime.UTC) if it is UTC"
        )
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parsed_time(name: str, moment: datetime | str) -> datetime:
    """Returns a time as a datetime.  Text is parsed as in commands (offsetlog/moments.py)."""
    return parse_time(moment, name) if isinstance(moment, str) else moment


def parsed_moment(name: str, moment: datetime | int | str | None) -> datetime | int | None:
    """Returns a moment as `checked_moment` does.  Returns None, which means now, for None and "now"."""
    if isinstance(moment, str):
        moment = parse_moment(moment, name)
    return None if moment is None else checked_moment(name, moment)


def checked_moment(name: str, moment: datetime | int | str) -> datetime | int:
    """Checks and returns a moment: a time with its time zone, or a log offset.  Text is parsed as in commands."""
    if isinstance(moment, str):
        moment = parse_past_moment(moment, name)
    if isinstance(moment, int) and not isinstance(moment, bool):
        return checked_number(name, moment, 0, 2**63 - 1)
    if not isinstance(moment, datetime):
        raise ArgumentTypeError(
            f"{name} must be a datetime with a time zone, a log offset, or text such as '2h ago', not {_kind(moment)}"
        )
    checked_time(name, moment)
    return moment


def time_of(timestamp_ms: int) -> datetime | None:
    """Converts milliseconds since 1970 to a datetime in UTC; returns None if a datetime cannot hold the time."""
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None


def _listed(values: Any, wanted: str, *, single: type | tuple[type, ...]) -> list[Any]:
    # A str and a TopicPartition are iterable too: their parts would be looked up one by one, and
    # the answer would be empty.
    if isinstance(values, single) or not isinstance(values, Iterable):
        given = f"the one {shown(values)}" if isinstance(values, TopicPartition) else _kind(values)
        raise ArgumentTypeError(f"{wanted}, not {given}")
    return list(values)


def listed_groups(groups: Iterable[str]) -> list[str]:
    """Returns names of groups as a list.  Raises ArgumentTypeError if a single name is passed."""
    return _listed(
        groups, 'the groups must be a list of str, such as ["group"]', single=(str, bytes, bytearray)
    )


def listed_topics(topics: Iterable[str]) -> list[str]:
    """Returns names of topics as a list.

    Raises ArgumentTypeError if a single name is passed, or an item is not a name.
    """
    wanted = 'the topics must be a list of str, such as ["topic"]'
    listed = _listed(topics, wanted, single=(str, bytes, bytearray))
    for topic in listed:
        if not isinstance(topic, str):
            raise ArgumentTypeError(f"{wanted}; {shown(topic)} is not one", item=topic)
    return listed


def listed_keys(keys: Iterable[PartitionKey]) -> list[TopicPartition]:
    """Returns topic partitions as a list.

    Raises ArgumentTypeError if a single topic partition is passed, or an item is not a topic partition.
    """
    wanted = 'the partitions must be a list of TopicPartition, such as [TopicPartition("topic", 0)]'
    listed = _listed(keys, wanted, single=(str, bytes, bytearray, TopicPartition))
    for index, key in enumerate(listed):
        if isinstance(key, tuple) and len(key) == 2:
            topic, partition = key
            if type(topic) is str and type(partition) is int:
                continue  # it is plain already, as nearly all are
        named = key_of(key)
        if named is None or not _has_hash(named):
            raise ArgumentTypeError(f"{wanted}; {shown(key)} is not one", item=key)
        listed[index] = named
    return listed


def _has_hash(key: TopicPartition) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def distinct_keys(keys: Iterable[PartitionKey]) -> list[TopicPartition]:
    """Returns the list that `listed_keys` returns, without repetitions."""
    return list(dict.fromkeys(listed_keys(keys)))
