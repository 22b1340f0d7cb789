"""The targets to which positions are committed, and from which they are fetched: a store, or a Kafka cluster.

A target is named by one of these values (`TargetLike`):

* An open `OffsetStore`.  The target uses the store, and leaves it open.
* A path, as an `os.PathLike` or a str.  The target is the store in that directory.
* A str of "host:port", or of several of these separated by commas: the bootstrap servers of a Kafka cluster.  To name a
  path that looks like this, give it as a `pathlib.Path`.
* A dict: settings of confluent-kafka, including "bootstrap.servers", e.g. for TLS and SASL.
* A `Target` of your own.

Clusters are reached through confluent-kafka, which is imported on first use.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import offsetlog
from offsetlog.errors import (
    ActiveGroupError,
    ArgumentTypeError,
    ClusterError,
    ClusterUnavailableError,
    ConfigError,
    GroupError,
    OffsetLogError,
)
from offsetlog.missing_library import missing_library
from offsetlog.spark import held_stores
from offsetlog.spark.location import Location
from offsetlog.store import OffsetStore
from offsetlog.types import Durability, OffsetAndMetadata, TopicPartition

Committed = dict[TopicPartition, OffsetAndMetadata]

#: How long a cluster may take for one answer, in seconds.
TIMEOUT_SECONDS = 10.0

_SERVER = re.compile(r"(?:[A-Z_]+://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")

# Errors, of a cluster or of librdkafka itself, after which the same request may succeed later.
_LATER = {
    "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_WAIT_CACHE",
    "_IN_PROGRESS", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION",
    "BROKER_NOT_AVAILABLE", "UNSTABLE_OFFSET_COMMIT", "THROTTLING_QUOTA_EXCEEDED",
    "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR",
}  # fmt: skip
# Errors with which a coordinator refuses a client that is not a member of a group with members.
_MEMBERS_ONLY = {
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "NON_EMPTY_GROUP", "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH",
}  # fmt: skip


class Target(ABC):
    """A store or a cluster that keeps the positions of groups.  One thread uses it at a time."""

    #: Whether this target accepts only positions of Kafka topics.
    kafka_only: bool = False

    @abstractmethod
    def commit(self, group: str, positions: Committed) -> dict[TopicPartition, OffsetLogError]:
        """Commits positions of a group.

        The result contains the refused positions with the reasons.  If the whole commit failed, this method raises.
        """

    @abstractmethod
    def fetch(self, group: str) -> Committed:
        """Returns the committed positions of a group."""

    @abstractmethod
    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[int]] | None:
        """Returns the partitions of each topic; None if the target does not know them."""

    def release(self) -> None:  # noqa: B027  (most have nothing to release)
        """Releases resources that are not needed until the next call."""

    def close(self) -> None:  # noqa: B027
        """Releases everything that this target opened."""


TargetLike = OffsetStore | str | os.PathLike[str] | Mapping[str, Any] | Target


class StoreTarget(Target):
    """An open store, or the store at a path, which is opened when it is needed.

    All targets of a process share the store at a path, and close it when another process asks for it.  If another Spark
    process has the store open, such as one that runs the sink, commits are sent to that process (`held_stores`).

    Args:
        store: the store or its path.
        durability: the failure that a commit survives.  For an open store, None means the store's own setting.  For a
            path, None means "disk", even if the store was opened with another durability.
        read_only: whether the store at a path is opened read-only.
        hold: how long the store at a path stays open.  With True, it stays open until `close` is called or another
            process asks for it.  With False, `release` closes it, too.
    """

    def __init__(
        self,
        store: OffsetStore | Path,
        *,
        durability: Durability | None = None,
        read_only: bool = False,
        hold: bool = True,
    ) -> None:
        self._path = None if isinstance(store, OffsetStore) else store
        self._store = store if isinstance(store, OffsetStore) else None
        # The store at the path may have been opened with another durability, in this process or in another.
        self._durability = durability if self._path is None or durability is not None else "disk"
        self._read_only = read_only
        self._hold = hold
        self._used = False

    def __str__(self) -> str:
        return f"the store in {self._path if self._store is None else self._store.path}"

    @contextlib.contextmanager
    def _opened(self) -> Iterator[OffsetStore]:
        if self._store is None and self._read_only:
            assert self._path is not None
            self._store = offsetlog.open(self._path, read_only=True)
        if self._store is not None:
            yield self._store
            return
        assert self._path is not None
        self._used = True
        with held_stores.use_store(held_stores.Opening(self._path), None) as store:
            yield store

    def commit(self, group: str, positions: Committed) -> dict[TopicPartition, OffsetLogError]:
        """Commits all positions or none; raises the errors of `OffsetStore.commit` and `offsetlog.open`."""
        if not self._is_committed_elsewhere(group, positions):
            with self._opened() as store:
                store.commit(group, positions, durability=self._durability)
        return {}

    def _is_committed_elsewhere(self, group: str, positions: Committed) -> bool:
        if self._path is None or self._read_only or held_stores.is_held(self._path):
            return False
        return held_stores.commit_elsewhere(self._path, group, positions, self._durability)

    def fetch(self, group: str) -> Committed:
        """Returns the committed positions; raises the errors of `OffsetStore.fetch` and `offsetlog.open`."""
        with self._opened() as store:
            return store.fetch(group)

    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[int]] | None:
        """Returns None, because a store does not know which partitions a topic has."""
        return None

    def release(self) -> None:
        """Closes the store if this target opened it and `hold` is False."""
        if not self._hold:
            self.close()

    def close(self) -> None:
        """Closes the store if this target opened it."""
        if self._path is None:
            return
        if self._store is not None:
            store, self._store = self._store, None
            store.close()
        if self._used:
            self._used = False
            held_stores.let_go(self._path)


class KafkaTarget(Target):
    """The groups of a Kafka cluster.  Commits through confluent-kafka's AdminClient, without joining the group.

    Args:
        settings: settings of librdkafka, with "bootstrap.servers".
        timeout_seconds: how long the cluster may take for one answer.

    Raises:
        ConfigError: confluent-kafka is not installed, or refuses a setting.
    """

    kafka_only = True

    def __init__(self, settings: Mapping[str, Any], *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        try:
            import confluent_kafka.admin
        except ImportError as error:
            raise missing_library("a Kafka cluster as the target", "confluent_kafka") from error
        if not any(settings.get(name) for name in ("bootstrap.servers", "metadata.broker.list")):
            raise ConfigError('the settings of a Kafka cluster lack "bootstrap.servers"')
        self._servers = settings.get("bootstrap.servers") or settings.get("metadata.broker.list")
        self._timeout_seconds = timeout_seconds
        self._kafka: Any = confluent_kafka
        # Each failure is raised as an error.  Without this setting, librdkafka would also print it on stderr every
        # second.
        given = {"client.id": "offsetlog", "log_level": 2, **settings}
        try:
            self._admin: Any = confluent_kafka.admin.AdminClient(given)
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise ConfigError(f"confluent-kafka refuses the settings: {error}") from error

    def __str__(self) -> str:
        return f"the Kafka cluster at {self._servers}"

    def commit(self, group: str, positions: Committed) -> dict[TopicPartition, OffsetLogError]:
        """Commits each partition independently, as Kafka does.

        Raises:
            ActiveGroupError: the group has active members.  Nothing was committed.
            ClusterUnavailableError: the cluster did not answer in time.  Some of the positions may be committed.
            ClusterError: the whole request was refused.
            GroupError: the group is empty, or not a str.
        """
        kafka = self._kafka
        asked = [
            kafka.TopicPartition(key.topic, key.partition, value.offset, metadata=value.metadata)
            for key, value in positions.items()
        ]
        request = kafka.ConsumerGroupTopicPartitions(_checked_group(group), asked)
        answer = self._one(
            lambda: self._admin.alter_consumer_group_offsets([request], request_timeout=self._timeout_seconds), group
        )
        refused: dict[TopicPartition, OffsetLogError] = {}
        for each in answer.topic_partitions:
            if each.error is not None:
                key = TopicPartition(each.topic, each.partition)
                refused[key] = self._error(each.error, group, key)
        for error in refused.values():
            if isinstance(error, ActiveGroupError):
                raise error
        return refused

    def fetch(self, group: str) -> Committed:
        """Returns the committed positions; raises ClusterError and its subclasses, and GroupError."""
        request = self._kafka.ConsumerGroupTopicPartitions(_checked_group(group))
        answer = self._one(
            lambda: self._admin.list_consumer_group_offsets([request], request_timeout=self._timeout_seconds), group
        )
        found: Committed = {}
        for each in answer.topic_partitions:
            key = TopicPartition(each.topic, each.partition)
            if each.error is not None:
                raise self._error(each.error, group, key)
            if each.offset >= 0:
                epoch = -1 if each.leader_epoch is None else each.leader_epoch
                found[key] = OffsetAndMetadata(each.offset, each.metadata or "", epoch)
        return found

    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[int]] | None:
        """Returns the partitions of topics, without creating topics; raises ClusterError and its subclasses."""
        wanted = self._kafka.TopicCollection(list(topics))
        found = {}
        for topic, future in self._asked(
            lambda: self._admin.describe_topics(wanted, request_timeout=self._timeout_seconds), None
        ).items():
            described = self._result(future, None, f"topic {topic!r}")
            found[topic] = sorted(partition.id for partition in described.partitions)
        return found

    def _asked(self, ask: Any, group: str | None) -> dict[Any, Any]:
        try:
            futures: dict[Any, Any] = ask()
        except self._kafka.KafkaException as error:
            raise self._error(error.args[0], group) from error
        except (TypeError, ValueError) as error:
            raise ClusterError(f"confluent-kafka refuses the request: {error}", group=group) from error
        return futures

    def _one(self, ask: Any, group: str) -> Any:
        [future] = self._asked(ask, group).values()
        return self._result(future, group, f"group {group!r}")

    def _result(self, future: Any, group: str | None, about: str) -> Any:
        try:
            # librdkafka has the same timeout.  The added time lets librdkafka's own error arrive first.
            return future.result(self._timeout_seconds + 5.0)
        except concurrent.futures.TimeoutError as error:
            raise ClusterUnavailableError(f"{self} did not answer about {about}", group=group) from error
        except self._kafka.KafkaException as error:
            raise self._error(error.args[0], group, about) from error

    def _error(self, error: Any, group: str | None, item: object = None) -> ClusterError:
        """Converts an error of Kafka.  `item` is the position, or names the subject of the request."""
        code = error.name()
        key = item if isinstance(item, TopicPartition) else None
        about = f"{item.topic}:{item.partition}" if isinstance(item, TopicPartition) else item
        if code in _MEMBERS_ONLY:
            text = f"group {group!r} has active members, and Kafka accepts commits only from them; stop the members"
            return ActiveGroupError(text, code=code, group=group, item=key)
        kind = ClusterUnavailableError if code in _LATER else ClusterError
        where = f" for {about}" if about else ""
        return kind(f"{self} answered {code}{where}: {error.str()}", code=code, group=group, item=key)


def _checked_group(group: Any) -> str:
    if not isinstance(group, str) or not group:
        raise GroupError(f"{group!r} cannot be the name of a Kafka group: a name must be a str and not empty")
    return group


def is_bootstrap(text: str) -> bool:
    """Returns whether a str names the servers of a Kafka cluster ("host:port", separated by commas), not a path."""
    return all(_SERVER.fullmatch(server.strip()) for server in text.split(","))


def _store_path(path: str | os.PathLike[str]) -> Path:
    location = Location.of(path)
    if location.here is None:
        raise ConfigError(
            f"{str(location)!r}: a store must be a directory on this machine; to commit to a store on a server, "
            'give the server as "host:port"'
        )
    return location.here


def make_target(
    named: TargetLike,
    *,
    durability: Durability | None = None,
    read_only: bool = False,
    hold: bool = True,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Target:
    """Makes the target for a store, a path or a cluster; does not open the store or connect to the cluster yet.

    Raises:
        ArgumentTypeError: `named` is not one of the values that name a target.
        ConfigError: raised by `KafkaTarget`; or a URI is not a path on this machine.
    """
    if isinstance(named, Target):
        return named
    if isinstance(named, OffsetStore):
        return StoreTarget(named, durability=durability)
    if isinstance(named, Mapping):
        return KafkaTarget(named, timeout_seconds=timeout_seconds)
    if isinstance(named, str) and named and is_bootstrap(named):
        return KafkaTarget({"bootstrap.servers": named}, timeout_seconds=timeout_seconds)
    if isinstance(named, str | os.PathLike):
        return StoreTarget(_store_path(named), durability=durability, read_only=read_only, hold=hold)
    raise ArgumentTypeError(
        f'the target must be a store, a path, "host:port,..." or a dict of confluent-kafka settings, not {named!r:.80}'
    )


@contextlib.contextmanager
def opened_target(named: TargetLike, *, read_only: bool = False) -> Iterator[Target]:
    """Yields a target, and then closes what was opened for it; raises the errors of `make_target`."""
    target = make_target(named, read_only=read_only)
    try:
        yield target
    finally:
        target.close()
