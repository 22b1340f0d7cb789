"""The nodes in which Kafka keeps a cluster in ZooKeeper: paths, values and their JSON.

The client reads nodes of Kafka 0.8.2 to 3.9, and ignores fields that it does not know.  It writes nodes as Kafka 3.9
does, with the same bytes (docs/format/brokers.md §15.2.1).  If a node has any other content, the client raises
CorruptionError with the path of the node.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from offsetlog.errors import InvalidArgumentError, TopicError, UnsupportedVersionError
from offsetlog.zookeeper.consumer_offsets import PARTITION_MAX, is_node_name, partition_in
from offsetlog.zookeeper.kafka_json import INT_MAX, Fields, corrupt, immutable_map, mutable_map, written

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"

#: No leader, for example because no replica of the partition is alive.
NO_LEADER = -1
#: The largest numbers of partitions and endpoints in one node.  A node with more is refused before it is decoded.
PARTITIONS_MAX = 200_000
ENDPOINTS_MAX = 1_000

_ENDPOINT = re.compile(r"([^:/\s]{1,255})://\[?([0-9a-zA-Z\-%._:]{0,255}?)\]?:(-?[0-9]{1,5})")
_UUID = re.compile(r"[0-9A-Za-z_-]{22}")
_EPOCH = re.compile(rb"[0-9]{1,10}")
# Control characters, and unpaired surrogates.
_NOT_IN_RACKS = re.compile("[\u0000-\u001f\u007f\ud800-\udfff]")


class Endpoint(NamedTuple):
    """One address at which clients reach a broker.

    Attributes:
        listener: the name of the listener, such as "PLAINTEXT" or "INTERNAL".
        host: a host name or IP address.
        port: the port, from 0 to 65535.
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
    """

    listener: str
    host: str
    port: int
    security_protocol: str

    @classmethod
    def parse(cls, text: str, protocols: Mapping[str, str] | None = None) -> Endpoint:
        """Parses an endpoint such as "PLAINTEXT://kafka1:9092".

        Args:
            text: the endpoint.
            protocols: the security protocol of each listener.  By default, the name of a listener is that of its
                protocol.

        Raises:
            InvalidArgumentError: the text is not an endpoint, or its listener has no security protocol.
        """
        parts = _ENDPOINT.fullmatch(text)
        if parts is None or not 0 <= int(parts[3]) <= 65535:
            raise InvalidArgumentError(f"{text[:80]!r} is not an endpoint such as PLAINTEXT://kafka1:9092")
        listener, host, port = parts.groups()
        protocol = protocols.get(listener) if protocols else listener
        if protocol is None:
            raise InvalidArgumentError(f"the map of security protocols has no entry for the listener {listener!r}")
        return cls(listener, host, int(port), protocol)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """The data with which a broker registers in /brokers/ids/ID.

    Attributes:
        broker_id: the id of the broker.
        endpoints: the addresses of the broker, at least one.
        rack: the rack of the broker, or None.
        features: the supported versions of each feature, such as {"x": {"min_version": 1, "max_version": 3}}.
        jmx_port: the port for JMX, or -1 for none.
        timestamp_ms: when the broker registered, in ms since 1970; -1 if the node contains no time.
        version: the version of the JSON that was read, from 1 to 5; the client writes version 5.

    Raises:
        InvalidArgumentError: a value cannot be stored in a node.
    """

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    jmx_port: int = -1
    timestamp_ms: int = -1
    version: int = 5

    def __post_init__(self) -> None:
        check_broker_id(self.broker_id)
        if not 0 < len(self.endpoints) <= ENDPOINTS_MAX:
            raise InvalidArgumentError(f"broker {self.broker_id} must have 1 to {ENDPOINTS_MAX} endpoints")
        for each in self.endpoints:
            if not _ENDPOINT.fullmatch(str(each)) or not 0 <= each.port <= 65535:
                raise InvalidArgumentError(f"{str(each)!r} is not an endpoint such as PLAINTEXT://kafka1:9092")
        if self.rack is not None and _NOT_IN_RACKS.search(self.rack):
            raise InvalidArgumentError(f"the rack {self.rack!r} contains control characters or is not UTF-8")

    @property
    def address(self) -> str:
        """The first endpoint, such as "kafka1:9092"."""
        return str(self.endpoints[0]).partition("://")[2]

    def to_json(self) -> bytes:
        """Returns the bytes of the node in version 5.

        For old clients, the node contains the first PLAINTEXT endpoint a second time.
        """
        plain = next((each for each in self.endpoints if each.security_protocol == "PLAINTEXT"), None)
        entries: dict[str, object] = {
            "version": 5,
            "host": None if plain is None else plain.host,
            "port": -1 if plain is None else plain.port,
            "endpoints": [str(each) for each in self.endpoints],
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
            "listener_security_protocol_map": immutable_map(
                (each.listener, each.security_protocol) for each in self.endpoints
            ),
            "features": {name: dict(versions) for name, versions in self.features.items()},
        }
        if self.rack is not None:
            entries["rack"] = self.rack
        return written(mutable_map(entries.items()))

    @classmethod
    def from_json(cls, broker_id: int, data: bytes | None) -> BrokerRecord:
        """Parses a node of version 1 to 5, or a node of a later version if it has the same fields.

        Raises:
            CorruptionError: the node does not hold a broker's registration.
        """
        node = broker_node(broker_id)
        fields = Fields.parse(data, node)
        version = fields.integer("version", 1)
        if version == 1:
            host, port = fields.text("host"), fields.integer("port", 0, 65535)
            endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", host, port, "PLAINTEXT"),)
        else:
            endpoints = _endpoints_in(fields)
        try:
            return cls(
                broker_id=broker_id,
                endpoints=endpoints,
                rack=fields.text("rack") if fields.has("rack") else None,
                features=_features_in(fields),
                jmx_port=fields.integer("jmx_port", -1, 65535, default=-1),
                timestamp_ms=fields.number_in_text("timestamp", default=-1),
                version=version,
            )
        except InvalidArgumentError as failure:
            raise corrupt(f"the node does not hold a broker's registration: {failure}", node) from None


def _endpoints_in(fields: Fields) -> tuple[Endpoint, ...]:
    texts = fields.texts("endpoints")
    if len(texts) > ENDPOINTS_MAX:
        raise corrupt(f"the node names {len(texts)} endpoints; the limit is {ENDPOINTS_MAX}", fields.node)
    protocols = fields.objects("listener_security_protocol_map")
    named = {name: protocols.text(name) for name in protocols.values}
    try:
        return tuple(Endpoint.parse(text, named) for text in texts)
    except InvalidArgumentError as failure:
        raise corrupt(failure.message, fields.node) from None


def _features_in(fields: Fields) -> Mapping[str, Mapping[str, int]]:
    features = fields.objects("features")
    named = {name: features.objects(name) for name in features.values}
    return {
        name: {label: versions.integer(label, 0, 32767) for label in versions.values}
        for name, versions in named.items()
    }


class Assignment(NamedTuple):
    """The brokers that keep one partition.

    Attributes:
        replicas: the ids of the brokers; the preferred leader is the first.
        adding: the replicas that a reassignment adds; `replicas` contains them, too.
        removing: the replicas that a reassignment removes; `replicas` contains them, too.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic as stored in /brokers/topics/TOPIC.

    Attributes:
        topic: the name of the topic.
        partitions: the brokers of each partition.
        topic_id: the id of the topic, 22 characters of base64; None in clusters before Kafka 2.8.
        version: the version of the JSON that was read, from 1 to 3; the client writes version 3.
    """

    topic: str
    partitions: Mapping[int, Assignment]
    topic_id: str | None = None
    version: int = 3

    def __post_init__(self) -> None:
        check_topic_name(self.topic)
        if self.topic_id is not None and not _UUID.fullmatch(self.topic_id):
            text = f"{self.topic_id!r} is not a topic id, which has 22 characters of URL-safe base64"
            raise InvalidArgumentError(text)
        for partition, assignment in self.partitions.items():
            if not 0 <= partition <= PARTITION_MAX:
                raise InvalidArgumentError(f"{partition} is not a partition number")
            if len(set(assignment.replicas)) != len(assignment.replicas):
                raise InvalidArgumentError(f"partition {partition} repeats a replica: {list(assignment.replicas)}")

    def to_json(self) -> bytes:
        """Returns the bytes of the node, version 3."""
        numbered = [(str(partition), each) for partition, each in self.partitions.items()]
        entries: dict[str, object] = {
            "version": 3,
            "partitions": mutable_map((name, list(each.replicas)) for name, each in numbered),
            "adding_replicas": mutable_map((name, list(each.adding)) for name, each in numbered if each.adding),
            "removing_replicas": mutable_map((name, list(each.removing)) for name, each in numbered if each.removing),
        }
        if self.topic_id is not None:
            entries["topic_id"] = self.topic_id
        return written(mutable_map(entries.items(), buckets=8))

    @classmethod
    def from_json(cls, topic: str, data: bytes | None) -> TopicRecord:
        """Parses a node of any version.  Raises CorruptionError if it does not hold a topic."""
        node = topic_node(topic)
        fields = Fields.parse(data, node)
        partitions = fields.objects("partitions")
        if len(partitions.values) > PARTITIONS_MAX:
            raise corrupt(f"the node has {len(partitions.values)} partitions; the limit is {PARTITIONS_MAX}", node)
        adding, removing = fields.objects("adding_replicas"), fields.objects("removing_replicas")
        found = {
            partition_in(name, node): Assignment(
                partitions.integers(name), adding.integers(name, []), removing.integers(name, [])
            )
            for name in partitions.values
        }
        try:
            return cls(
                topic=topic,
                partitions=found,
                topic_id=fields.text("topic_id") if fields.has("topic_id") else None,
                version=fields.integer("version", 1),
            )
        except InvalidArgumentError as failure:
            raise corrupt(f"the node does not hold a topic: {failure}", node) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of a partition, as stored in /brokers/topics/TOPIC/partitions/N/state.

    Attributes:
        leader: the id of the broker that leads the partition, or NO_LEADER.
        leader_epoch: the number of this leadership.
        isr: the ids of the replicas that are in sync.
        controller_epoch: the epoch of the controller that set the state.
        recovery_state: 1 if the leader was elected uncleanly and is recovering, 0 otherwise.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery_state: int = 0

    def __post_init__(self) -> None:
        for name in ("leader", "leader_epoch", "controller_epoch", "recovery_state"):
            low = NO_LEADER if name == "leader" else 0
            if not low <= getattr(self, name) <= INT_MAX:
                raise InvalidArgumentError(f"{name} must be from {low} to {INT_MAX}, not {getattr(self, name)!r}")
        for each in self.isr:
            check_broker_id(each)

    def to_json(self) -> bytes:
        """Returns the bytes of the node, version 1."""
        entries: dict[str, object] = {
            "version": 1,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "controller_epoch": self.controller_epoch,
            "isr": list(self.isr),
        }
        if self.recovery_state:
            entries["leader_recovery_state"] = self.recovery_state
        return written(immutable_map(entries.items()))

    @classmethod
    def from_json(cls, topic: str, partition: int, data: bytes | None) -> PartitionState:
        """Parses a node.  Raises CorruptionError if it does not hold a partition's state."""
        fields = Fields.parse(data, state_node(topic, partition))
        return cls(
            leader=fields.integer("leader", NO_LEADER),
            leader_epoch=fields.integer("leader_epoch"),
            isr=fields.integers("isr"),
            controller_epoch=fields.integer("controller_epoch"),
            recovery_state=fields.integer("leader_recovery_state", 0, 127, default=0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRecord:
    """The broker that is the controller, as stored in /controller.

    Attributes:
        broker_id: the id of the broker.
        timestamp_ms: when the controller was elected, in ms since 1970; -1 if the node contains no time.
        kraft_epoch: the epoch of a KRaft controller that took over; -1 for none.
        version: the version of the JSON that was read, 1 or 2; the client writes version 2.
    """

    broker_id: int
    timestamp_ms: int
    kraft_epoch: int = -1
    version: int = 2

    def to_json(self) -> bytes:
        """Returns the bytes of the node, version 2."""
        return written(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_epoch,
            }
        )

    @classmethod
    def from_json(cls, data: bytes | None) -> ControllerRecord:
        """Parses a node.  Raises CorruptionError if it does not hold a controller."""
        fields = Fields.parse(data, CONTROLLER)
        return cls(
            broker_id=fields.integer("brokerid"),
            timestamp_ms=fields.number_in_text("timestamp", default=-1),
            kraft_epoch=fields.integer("kraftControllerEpoch", -1, default=-1),
            version=fields.integer("version", 1),
        )


def controller_epoch_in(data: bytes | None) -> int:
    """Parses /controller_epoch.  Raises CorruptionError if it does not hold a number."""
    if data is None:
        raise corrupt("the node is empty, but must hold a controller epoch", CONTROLLER_EPOCH)
    if not _EPOCH.fullmatch(data) or int(data) > INT_MAX:
        raise corrupt(f"the node must hold a controller epoch, not {data[:40]!r}", CONTROLLER_EPOCH)
    return int(data)


def cluster_id_in(data: bytes | None) -> str:
    """Parses the id in /cluster/id.

    Raises:
        CorruptionError: the node does not hold a cluster id.
        UnsupportedVersionError: the version in the node is not "1".
    """
    fields = Fields.parse(data, CLUSTER_ID)
    version = fields.values.get("version")
    if version not in ("1", 1) or isinstance(version, bool):
        text = "the version of the cluster id is not 1, the only supported version"
        raise UnsupportedVersionError(text, path=CLUSTER_ID)
    found = fields.text("id")
    if not _UUID.fullmatch(found):
        raise corrupt(f"{found[:60]!r} is not a cluster id, which has 22 characters of URL-safe base64", CLUSTER_ID)
    return found


def cluster_id_json(cluster_id: str) -> bytes:
    """Returns the bytes of /cluster/id."""
    if not _UUID.fullmatch(cluster_id):
        raise InvalidArgumentError(f"{cluster_id!r} is not a cluster id, which has 22 characters of URL-safe base64")
    return written({"version": "1", "id": cluster_id})


def new_id() -> str:
    """Returns a new cluster or topic id: a random UUID in 22 characters that do not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def check_broker_id(broker_id: int) -> None:
    """Raises InvalidArgumentError if the value is not a valid broker id."""
    if not 0 <= broker_id <= INT_MAX:
        raise InvalidArgumentError(f"{broker_id!r} is not a broker id, which is a number from 0 to {INT_MAX}")


def check_topic_name(topic: str) -> None:
    """Raises TopicError if no node can have the topic's name."""
    if not is_node_name(topic):
        raise TopicError(f"the topic {topic!r} cannot be kept in ZooKeeper: no node can have this name")


def broker_node(broker_id: int) -> str:
    """Returns the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_node(topic: str) -> str:
    """Returns the path of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def partitions_node(topic: str) -> str:
    """Returns the path above the partitions of a topic."""
    return f"{TOPICS}/{topic}/partitions"


def state_node(topic: str, partition: int) -> str:
    """Returns the path of the state of a partition."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"
