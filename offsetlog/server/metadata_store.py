"""The metadata of a cluster: its id, and its topics with their ids and settings.

A node keeps the metadata in one file with checksums, and appends each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from offsetlog._native.files import FileSystem, format_uuid, parse_uuid
from offsetlog.directory.checked_journal import CheckedJournal
from offsetlog.directory.log_directory import random_topic_id
from offsetlog.errors import CorruptionError, InvalidArgumentError
from offsetlog.topics.found_topics import CLUSTER_METADATA, FoundTopic

#: The topic whose partitions hold the positions.
OFFSETS_TOPIC = "__consumer_offsets"
#: Topics that only brokers write to.
INTERNAL_TOPICS = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state")

FILE = "offsetlog-metadata.json"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its name, its 16-byte id, its number of partitions, and its own settings."""

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_internal(self) -> bool:
        """Whether the topic is an internal topic of brokers."""
        return self.name in INTERNAL_TOPICS


class TopicListener(Protocol):
    """Is notified of changes of topics."""

    def put_topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        """A topic was added or changed."""

    def remove_topic(self, name: str) -> None:
        """A topic was removed."""


class MetadataStore(Protocol):
    """Keeps the topics and ids of a cluster; call every method on one event loop.

    A change is durable and visible when its call returns.  If it cannot be written, the call raises
    StorageError and has no effect.
    """

    @property
    def cluster_id(self) -> str:
        """The cluster's id: 22 characters that never change."""

    @property
    def node_id(self) -> int:
        """The id of this node."""

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name."""

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""

    def topic_of_id(self, topic_id: bytes) -> Topic | None:
        """The topic of this id."""

    def named_alike(self, name: str) -> str | None:
        """Returns the name of the topic that has the same name in metrics (see name_in_metrics) as `name`, or None."""

    @property
    def changing(self) -> asyncio.Lock:
        """The lock that a caller holds while it decides on a change and makes it."""

    async def put_topics(self, topics: Sequence[Topic]) -> None:
        """Adds topics, or replaces those with the same names.  Either all topics are written, or none."""

    async def remove_topic(self, name: str) -> None:
        """Removes a topic."""

    async def reserve_producer_ids(self, count: int, at_least: int) -> int:
        """Reserves `count` consecutive producer ids, all of them at least `at_least`; returns the first id."""

    def listen(self, listener: TopicListener) -> None:
        """Reports all topics to the listener now, and every later change."""


class FileMetadataStore:
    """The metadata of one node, in a file of its log directory.

    Args:
        path: the log directory.
        fs: the file port.
        node_id: this node's id, used if the file is new.
        cluster_id: the cluster's id, used if the file is new; None generates an id.
        offsets_topic: the offsets topic, with the topic id and the number of partitions that are
            recorded in the directory.  The settings of this topic are used if the file is new.

    Raises:
        CorruptionError: the file is truncated or was modified.
        UnsupportedVersionError: a later version wrote it.
        StorageError: the file cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        fs: FileSystem,
        *,
        node_id: int,
        cluster_id: str | None,
        offsets_topic: Topic,
    ) -> None:
        self._file = CheckedJournal(path / FILE, fs)
        self._topics: dict[str, Topic] = {}
        self._next_producer_id = 0
        self._listeners: list[TopicListener] = []
        self._changing = asyncio.Lock()
        if fs.exists(self._file.path):
            self._read()
        else:
            self._node_id = node_id
            self._cluster_id = cluster_id or format_uuid(random_topic_id())
        self._by_id = {topic.topic_id: topic for topic in self._topics.values()}
        self._by_name_in_metrics = {name_in_metrics(name): name for name in self._topics}
        known = self._topics.get(OFFSETS_TOPIC)
        if known is not None:
            offsets_topic = replace(offsets_topic, configs=known.configs)
        if known != offsets_topic:
            self._write([{"topic": _fields(offsets_topic)}])
            self._put(offsets_topic)

    def listen(self, listener: TopicListener) -> None:
        """See MetadataStore."""
        self._listeners.append(listener)
        for topic in self._topics.values():
            listener.put_topic(topic.name, topic.topic_id, topic.partitions)

    @property
    def cluster_id(self) -> str:
        """See MetadataStore."""
        return self._cluster_id

    @property
    def node_id(self) -> int:
        """See MetadataStore."""
        return self._node_id

    def topics(self) -> Mapping[str, Topic]:
        """See MetadataStore."""
        return MappingProxyType(self._topics)

    def topic(self, name: str) -> Topic | None:
        """See MetadataStore."""
        return self._topics.get(name)

    def topic_of_id(self, topic_id: bytes) -> Topic | None:
        """See MetadataStore."""
        return self._by_id.get(topic_id)

    def named_alike(self, name: str) -> str | None:
        """See MetadataStore."""
        return self._by_name_in_metrics.get(name_in_metrics(name))

    @property
    def changing(self) -> asyncio.Lock:
        """See MetadataStore."""
        return self._changing

    async def put_topics(self, topics: Sequence[Topic]) -> None:
        """See MetadataStore."""
        await self._write_later([{"topic": _fields(topic)} for topic in topics])
        for topic in topics:
            self._put(topic)
            for listener in self._listeners:
                listener.put_topic(topic.name, topic.topic_id, topic.partitions)

    def _put(self, topic: Topic) -> None:
        before = self._topics.get(topic.name)
        if before is not None:
            self._by_id.pop(before.topic_id, None)
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_name_in_metrics[name_in_metrics(topic.name)] = topic.name

    async def remove_topic(self, name: str) -> None:
        """See MetadataStore."""
        topic = self._topics.get(name)
        if topic is None:
            return
        await self._write_later([{"removed": name}])
        del self._topics[name]
        self._by_name_in_metrics.pop(name_in_metrics(name), None)
        self._by_id.pop(topic.topic_id, None)
        for listener in self._listeners:
            listener.remove_topic(name)

    async def reserve_producer_ids(self, count: int, at_least: int) -> int:
        """See MetadataStore."""
        first = max(self._next_producer_id, at_least)
        await self._write_later([{"next_producer_id": first + count}])
        self._next_producer_id = first + count
        return first

    # ------------------------------------------------------------------------------------------- file

    def _read(self) -> None:
        content, changes = self._file.read()
        try:
            self._cluster_id = str(content["cluster_id"])
            self._node_id = int(content["node_id"])
            for each in (content, *changes):
                self._next_producer_id = int(each.get("next_producer_id", self._next_producer_id))
            self._topics = {each["name"]: _topic(each) for each in content["topics"]}
            _follow(self._topics, changes)
            # An earlier version let clients create this topic; deleting it would delete the
            # brokers' log.
            self._topics.pop(CLUSTER_METADATA, None)
        except (ValueError, KeyError, TypeError, InvalidArgumentError) as failure:
            raise CorruptionError(f"not a metadata file of this server: {failure!r}", path=self._file.path) from failure

    async def _write_later(self, changes: Sequence[dict[str, Any]]) -> None:
        if changes:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._write, changes)

    def _write(self, changes: Sequence[dict[str, Any]]) -> None:
        if not self._file.append(changes):
            self._file.replace(self._content(changes))

    def _content(self, changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
        # The whole content of the file, including changes that are not made yet.
        topics = dict(self._topics)
        _follow(topics, changes)
        next_ids = (each["next_producer_id"] for each in changes if "next_producer_id" in each)
        return {
            "cluster_id": self._cluster_id,
            "node_id": self._node_id,
            "next_producer_id": next(next_ids, self._next_producer_id),
            "topics": [_fields(topic) for topic in topics.values()],
        }


def _follow(topics: dict[str, Topic], changes: Sequence[dict[str, Any]]) -> None:
    for change in changes:
        if "topic" in change:
            topic = _topic(change["topic"])
            topics[topic.name] = topic
        elif "removed" in change:
            topics.pop(change["removed"], None)
        elif "next_producer_id" not in change:
            raise ValueError(f"a change has only unknown fields: {sorted(change)}")


def _fields(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": format_uuid(topic.topic_id),
        "partitions": topic.partitions,
        "configs": dict(topic.configs),
    }


def _topic(fields: dict[str, Any]) -> Topic:
    return Topic(
        str(fields["name"]),
        parse_uuid(fields["topic_id"]),
        int(fields["partitions"]),
        MappingProxyType({str(key): str(value) for key, value in fields["configs"].items()}),
    )


def new_offsets_topic(topic_id: bytes, partitions: int, segment_bytes: int) -> Topic:
    """Makes the offsets topic with the settings that a broker gives it."""
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(segment_bytes),
    }
    return Topic(OFFSETS_TOPIC, topic_id, partitions, MappingProxyType(configs))


def name_in_metrics(name: str) -> str:
    """Returns the name of a topic in Kafka's metrics, where dots become underscores."""
    return name.replace(".", "_")


def with_partitions(topic: Topic, partitions: int) -> Topic:
    """Returns the topic with another number of partitions."""
    return replace(topic, partitions=partitions)


async def adopt(metadata: MetadataStore, found: Mapping[str, FoundTopic]) -> None:
    """Registers topics whose logs are already in the directory because a broker created them.

    A topic gets the topic id that its logs have.  If the logs have no id, or different ids, the topic keeps the id in
    the metadata, or gets a new id if the metadata has none.  Its number of partitions is the greater of the number
    found in the directory and the number in the metadata.
    """
    adopted = [_adopted(metadata.topic(name), name, each) for name, each in found.items()]
    await metadata.put_topics([each for each in adopted if each != metadata.topic(each.name)])


def _adopted(known: Topic | None, name: str, found: FoundTopic) -> Topic:
    topic_id = found.topic_id or (random_topic_id() if known is None else known.topic_id)
    if known is None:
        return Topic(name, topic_id, found.partitions)
    return replace(known, topic_id=topic_id, partitions=max(known.partitions, found.partitions))
