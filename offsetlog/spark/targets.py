"""Where positions of queries are committed to, and fetched from: a store of this process, or a Kafka cluster.

These values name one (`TargetLike`):

* an `OffsetStore` that is open: it is used, and stays open.
* a path, as an `os.PathLike` or a str: the store in that directory.
* a str of "host:port", or several with commas between: the bootstrap servers of a Kafka cluster.  A path that looks
  like this is given as a `pathlib.Path`.
* a dict: settings of confluent-kafka, with "bootstrap.servers" among them, as for TLS and SASL.
* a `Target` of your own.

A cluster is asked through confluent-kafka, which is loaded when it is needed.
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

# Errors of a cluster, or of librdkafka in its place, when the same request may succeed later.
_LATER = {
    "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_WAIT_CACHE",
    "_IN_PROGRESS", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION",
    "BROKER_NOT_AVAILABLE", "UNSTABLE_OFFSET_COMMIT", "THROTTLING_QUOTA_EXCEEDED",
    "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR",
}  # fmt: skip
# How a coordinator turns away who is no member of a group that has some.
_MEMBERS_ONLY = {
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "NON_EMPTY_GROUP", "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH",
}  # fmt: skip


class Target(ABC):
    """Something that keeps the positions of groups.  One thread uses it at a time."""

    #: Whether it takes positions of Kafka's topics only.
    kafka_only: bool = False

    @abstractmethod
    def commit(self, group: str, positions: Committed) -> dict[TopicPartition, OffsetLogError]:
        """Commits positions of a group; returns which were refused, and why; raises what refused them all."""

    @abstractmethod
    def fetch(self, group: str) -> Committed:
        """Returns the committed positions of a group."""

    @abstractmethod
    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[int]] | None:
        """Returns the partitions of topics, None where that is not known here."""

    def release(self) -> None:  # noqa: B027  (most have nothing to let go)
        """Lets go of what is not needed until the next call."""

    def close(self) -> None:  # noqa: B027
        """Lets go of everything that was opened here."""


TargetLike = OffsetStore | str | os.PathLike[str] | Mapping[str, Any] | Target


class StoreTarget(Target):
    """A store: one that is open, or a path, at which it is opened when it is needed.

    A store at a path is that of the whole process, and it is given up when somebody else asks for it; while another
    process of Spark holds it, as one that runs the sink, commits are handed to that one (`held_stores`).

    Args:
        store: the store or its path.
        durability: the failure that a commit survives; None for the store's own, "disk" at a path, whichever process
            has it open.
        read_only: a path is opened to be read only.
        hold: whether a path stays open until `close` or until somebody asks for it; else it is closed by `release`.
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
        # Whoever opened the store at the path may have chosen otherwise, in this process or in another.
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
        """Commits all or nothing; raises as `OffsetStore.commit` and `offsetlog.open`."""
        if not self._is_committed_elsewhere(group, positions):
            with self._opened() as store:
                store.commit(group, positions, durability=self._durability)
        return {}

    def _is_committed_elsewhere(self, group: str, positions: Committed) -> bool:
        if self._path is None or self._read_only or held_stores.is_held(self._path):
            return False
        return held_stores.commit_elsewhere(self._path, group, positions, self._durability)

    def fetch(self, group: str) -> Committed:
        """Returns the committed positions; raises as `OffsetStore.fetch` and `offsetlog.open`."""
        with self._opened() as store:
            return store.fetch(group)

    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[int]] | None:
        """Returns None: a store knows what was committed, not what there is."""
        return None

    def release(self) -> None:
        """Closes a store that was opened here and is not held."""
        if not self._hold:
            self.close()

    def close(self) -> None:
        """Closes a store that was opened here."""
        if self._path is None:
            return
        if self._store is not None:
            store, self._store = self._store, None
            store.close()
        if self._used:
            self._used = False
            held_stores.let_go(self._path)


class KafkaTarget(Target):
    """The groups of a Kafka cluster, through confluent-kafka's AdminClient: no member joins the group.

    Args:
        settings: of librdkafka, with "bootstrap.servers".
        timeout_seconds: how long the cluster may take for one answer.

    Raises:
        ConfigError: confluent-kafka is not there, or refuses a setting.
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
        # Each failure comes back as an error; librdkafka's own lines on stderr, one a second, would say it again.
        given = {"client.id": "offsetlog", "log_level": 2, **settings}
        try:
            self._admin: Any = confluent_kafka.admin.AdminClient(given)
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise ConfigError(f"confluent-kafka refuses the settings: {error}") from error

    def __str__(self) -> str:
        return f"the Kafka cluster at {self._servers}"

    def commit(self, group: str, positions: Committed) -> dict[TopicPartition, OffsetLogError]:
        """Commits each partition for itself, as Kafka does.

        Raises:
            ActiveGroupError: the group has active members; nothing was committed.
            ClusterUnavailableError: no answer in time: some may be committed.
            ClusterError: the request was refused as a whole.
            GroupError: the group is empty, or not text.
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
        """Returns the committed positions; raises ClusterError and its kinds, GroupError."""
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
        """Returns the partitions of topics, creating none; raises ClusterError and its kinds."""
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
            # librdkafka keeps the time by itself; what is added lets its own answer come first.
            return future.result(self._timeout_seconds + 5.0)
        except concurrent.futures.TimeoutError as error:
            raise ClusterUnavailableError(f"{self} did not answer about {about}", group=group) from error
        except self._kafka.KafkaException as error:
            raise self._error(error.args[0], group, about) from error

    def _error(self, error: Any, group: str | None, item: object = None) -> ClusterError:
        """Makes the error for one of Kafka's; `item` is the position, or says what was asked about."""
        code = error.name()
        key = item if isinstance(item, TopicPartition) else None
        about = f"{item.topic}:{item.partition}" if isinstance(item, TopicPartition) else item
        if code in _MEMBERS_ONLY:
            text = f"group {group!r} has active members, and Kafka takes its positions from them alone"
            return ActiveGroupError(text, code=code, group=group, item=key)
        kind = ClusterUnavailableError if code in _LATER else ClusterError
        where = f" for {about}" if about else ""
        return kind(f"{self} answered {code}{where}: {error.str()}", code=code, group=group, item=key)


def _checked_group(group: Any) -> str:
    if not isinstance(group, str) or not group:
        raise GroupError(f"Kafka has no group of the name {group!r}")
    return group


def is_bootstrap(text: str) -> bool:
    """Tells whether a str names the servers of a Kafka cluster ("host:port", with commas between) and not a path."""
    return all(_SERVER.fullmatch(server.strip()) for server in text.split(","))


def _store_path(path: str | os.PathLike[str]) -> Path:
    location = Location.of(path)
    if location.here is None:
        raise ConfigError(
            f"{str(location)!r}: a store is a directory of this machine; to commit to one on a server, "
            'name the server, as "host:port"'
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
    """Makes what a store, a path or a cluster stands for; opens and connects to nothing yet.

    Raises:
        ArgumentTypeError: it is none of them.
        ConfigError: as `KafkaTarget`; a URI that is no path of this machine.
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
        f'a store, a path, "host:port,..." or a dict of settings of confluent-kafka is wanted, not {named!r:.80}'
    )


@contextlib.contextmanager
def opened_target(named: TargetLike, *, read_only: bool = False) -> Iterator[Target]:
    """Makes a target, and closes afterwards what was opened for it; raises as `make_target`."""
    target = make_target(named, read_only=read_only)
    try:
        yield target
    finally:
        target.close()
