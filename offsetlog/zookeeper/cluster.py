"""A client of Kafka's own directories in ZooKeeper: brokers, topics, leaders, the controller, the cluster id.

A write names the version of the node that it replaces.  A write of a controller also names the controller's epoch.
The same transaction checks that no other controller was elected since, as in Kafka 3.9.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from offsetlog.clock import wall_ms
from offsetlog.errors import (
    ControllerMovedError,
    InvalidArgumentError,
    NodeExistsError,
    NodeVersionError,
    NoNodeError,
    UnknownOutcomeError,
    ZooKeeperUnavailableError,
)
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.cluster_records import (
    BROKER_IDS,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    TOPICS,
    BrokerRecord,
    ControllerRecord,
    PartitionState,
    TopicRecord,
    broker_node,
    check_broker_id,
    check_topic_name,
    cluster_id_in,
    cluster_id_json,
    controller_epoch_in,
    new_id,
    partitions_node,
    state_node,
    topic_node,
)
from offsetlog.zookeeper.connection import Answer, Node, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import partition_in, pipelined
from offsetlog.zookeeper.kafka_json import INT_MAX, corrupt
from offsetlog.zookeeper.missing_nodes import ensure_root, make_node, make_with_parents
from offsetlog.zookeeper.operations import Check, Create, Delete, Operation, SetData
from offsetlog.zookeeper.watches import Watch, read_children, read_node

K = TypeVar("K")
T = TypeVar("T")

#: Kafka's controller epoch before the first election; the first controller has epoch 1.
FIRST_CONTROLLER_EPOCH = 0
#: How many times a write is tried if another client writes first.
TRIES = 10


class Versioned(NamedTuple, Generic[T]):
    """A value and the version of its node; a conditional write names that version."""

    value: T
    version: int


class RegisteredBroker(NamedTuple):
    """A registered broker.

    Attributes:
        record: the data that the broker registered.
        session: the ZooKeeper session that owns the node; 0 for none.
        epoch: the number of this registration (Kafka's broker epoch); a later registration of the same id has a larger
            number.
        since_ms: when the broker registered, by ZooKeeper's clock, in ms since 1970.
    """

    record: BrokerRecord
    session: int
    epoch: int
    since_ms: int


class ControllerEpoch(NamedTuple):
    """A controller epoch and the version of its node; the controller's writes check that version."""

    value: int
    version: int


class ClusterClient:
    """Kafka's directories below the root of a connection; safe from any thread.

    A read sees the earlier writes of this connection.  It also sees the writes of other clients that were answered
    before `sync` was called.  If the root of the connection does not exist, reads find nothing, and calls that create
    nodes also create the root, as Kafka does when it starts.

    Every call raises ZooKeeperUnavailableError if no server answers.  It raises CorruptionError, with the path of the
    node, if the content of a node is not in Kafka's format.  If the answer to a write was lost, the write raises
    UnknownOutcomeError; read the node to find out whether the write was applied.

    Args:
        connection: the started connection.
        clock: returns the time of day in milliseconds, for registrations and elections.
    """

    def __init__(self, connection: ZooKeeperConnection, *, clock: Callable[[], int] = wall_ms) -> None:
        self.connection = connection
        self._clock = clock

    def sync(self) -> None:
        """Makes later reads see every write that was answered earlier, to any client."""
        self.connection.sync_async().result()

    def make_directories(self, *, root: bool = True) -> None:
        """Creates the nodes above brokers, topics and the cluster id if they are missing.

        Args:
            root: whether to create the root of the connection, too.  If it is False and the root is missing, the call
                raises NoNodeError.
        """
        if root:
            ensure_root(self.connection)
        for node in (BROKER_IDS, TOPICS):
            make_with_parents(self.connection, node)

    # ------------------------------------------------------------------------------------------------------ brokers

    def broker_ids(self) -> list[int]:
        """Returns the ids of the registered brokers, sorted."""
        return broker_ids_in(self._children(BROKER_IDS))

    def broker(self, broker_id: int) -> RegisteredBroker | None:
        """Returns a broker, or None if none is registered under the id."""
        check_broker_id(broker_id)
        node = self._get(broker_node(broker_id))
        return None if node is None else registered_broker(broker_id, node)

    def brokers(self) -> dict[int, RegisteredBroker]:
        """Returns the registered brokers by id."""
        ids = self.broker_ids()
        return {each: registered_broker(each, node) for each, node in self._get_many((n, broker_node(n)) for n in ids)}

    def watch_broker_ids(self) -> Watch[list[int]]:
        """Watches the ids of the registered brokers.

        If a broker leaves and returns between two reads, the watch does not report it.
        """
        return Watch(self.connection, self._read_broker_ids)

    def watch_brokers(self) -> Watch[dict[int, RegisteredBroker]]:
        """Watches the registered brokers by id.  If a broker has left and returned, it has a new epoch."""

        def read(watch: Callable[[Any], object]) -> dict[int, RegisteredBroker]:
            ids = self._read_broker_ids(watch)
            nodes = self._get_many(((each, broker_node(each)) for each in ids), watch)
            return {each: registered_broker(each, node) for each, node in nodes}

        return Watch(self.connection, read)

    def watch_broker(self, broker_id: int) -> Watch[RegisteredBroker | None]:
        """Watches one broker; the state is None while no broker is registered under the id."""
        check_broker_id(broker_id)
        return self._watch(broker_node(broker_id), partial(registered_broker, broker_id))

    def _read_broker_ids(self, watch: Callable[[Any], object]) -> list[int]:
        return broker_ids_in(read_children(self.connection, BROKER_IDS, watch))

    # ------------------------------------------------------------------------------------------------------- topics

    def topics(self) -> list[str]:
        """Returns the names of all topics, sorted."""
        return self._children(TOPICS)

    def topic(self, topic: str) -> Versioned[TopicRecord] | None:
        """Returns the assignment of a topic, or None if it does not exist."""
        check_topic_name(topic)
        node = self._get(topic_node(topic))
        return None if node is None else _topic_in(topic, node)

    def topic_records(self, topics: Iterable[str]) -> dict[str, Versioned[TopicRecord]]:
        """Returns the assignments of those topics that exist; makes many reads at a time."""
        asked = list(topics)
        for topic in asked:
            check_topic_name(topic)
        return {topic: _topic_in(topic, node) for topic, node in self._get_many((t, topic_node(t)) for t in asked)}

    def create_topic(self, record: TopicRecord) -> None:
        """Creates a topic.  The controller then creates the states of its partitions.

        Raises:
            NodeExistsError: a topic of this name exists.
            TooLargeError: the node does not fit into a request.
        """
        self._make_with_parents(TOPICS)
        self.connection.create(topic_node(record.topic), record.to_json())

    def set_topic(self, record: TopicRecord, version: int, epoch: ControllerEpoch) -> int:
        """Replaces the assignment of a topic; returns the new version of its node.

        Raises:
            NodeVersionError: the node has another version.
            NoNodeError: the topic does not exist.
            ControllerMovedError: another controller was elected since this epoch.
        """
        self._guarded([SetData(topic_node(record.topic), record.to_json(), version)], epoch)
        return version + 1

    def watch_topics(self) -> Watch[list[str]]:
        """Watches the names of all topics."""
        return Watch(self.connection, lambda watch: read_children(self.connection, TOPICS, watch))

    def watch_topic(self, topic: str) -> Watch[Versioned[TopicRecord] | None]:
        """Watches the assignment of a topic; the state is None while the topic does not exist."""
        check_topic_name(topic)
        return self._watch(topic_node(topic), partial(_topic_in, topic))

    # --------------------------------------------------------------------------------------------------- partitions

    def partition_state(self, topic: str, partition: int) -> Versioned[PartitionState] | None:
        """Returns the state of a partition (leader, in-sync set), or None before a controller has set it."""
        check_topic_name(topic)
        node = self._get(state_node(topic, partition))
        return None if node is None else _state_in(TopicPartition(topic, partition), node)

    def partition_states(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, Versioned[PartitionState]]:
        """Returns the states of those partitions that have one; makes many reads at a time."""
        asked = [TopicPartition(*each) for each in partitions]
        for topic in {each.topic for each in asked}:
            check_topic_name(topic)
        return {each: _state_in(each, node) for each, node in self._get_many((key, state_node(*key)) for key in asked)}

    def create_partition_states(self, topic: str, states: Mapping[int, PartitionState], epoch: ControllerEpoch) -> None:
        """Creates the state nodes of new partitions of a topic, all of them or none.  Each new node has version 0.

        Raises:
            NodeExistsError: one of the partitions already has a state.
            NoNodeError: the topic does not exist.
            ControllerMovedError: see `set_partition_state`.
            TooLargeError: the states do not fit into a request; create fewer at a time.
        """
        check_topic_name(topic)
        for state in states.values():
            self._check_epoch(state, epoch, topic_node(topic))
        if not states:
            return None
        above = partitions_node(topic)
        nodes = [f"{above}/{partition}" for partition in states]
        for _ in range(TRIES):
            has_above = self.connection.exists_async(above)
            there = [self.connection.exists_async(node) for node in nodes]
            missing = [] if has_above.result() is not None else [above]
            missing += [node for node, found in zip(nodes, there, strict=True) if found.result() is None]
            made = [Create(state_node(topic, number), state.to_json()) for number, state in states.items()]
            try:
                return self._guarded([*(Create(node) for node in missing), *made], epoch)
            except NodeExistsError as failure:
                if failure.node not in missing:
                    raise
        text = f"the nodes of {topic!r} were created and removed during every attempt; try again"
        raise NodeExistsError(text, node=above)

    def set_partition_state(
        self, topic: str, partition: int, state: PartitionState, version: int, epoch: ControllerEpoch
    ) -> int:
        """Replaces the state of a partition; returns the new version of its node.

        A leader that changes the in-sync set passes the `controller_epoch()` that it read when it became leader.

        Raises:
            NodeVersionError: the node has another version.
            NoNodeError: the partition has no state.
            ControllerMovedError: another controller was elected since this epoch, or the state has an older controller
                epoch.
            InvalidArgumentError: the state has a newer controller epoch than `epoch`.
        """
        check_topic_name(topic)
        node = state_node(topic, partition)
        self._check_epoch(state, epoch, node)
        self._guarded([SetData(node, state.to_json(), version)], epoch)
        return version + 1

    def watch_partition_state(self, topic: str, partition: int) -> Watch[Versioned[PartitionState] | None]:
        """Watches the state of a partition; the state is None while the partition has none."""
        check_topic_name(topic)
        return self._watch(state_node(topic, partition), partial(_state_in, TopicPartition(topic, partition)))

    # --------------------------------------------------------------------------------------------------- controller

    def controller(self) -> ControllerRecord | None:
        """Returns the broker that is the controller, or None if no broker is."""
        node = self._get(CONTROLLER)
        return None if node is None else ControllerRecord.from_json(node.data)

    def controller_epoch(self) -> ControllerEpoch | None:
        """Returns the epoch of the last elected controller, or None before the first election."""
        node = self._get(CONTROLLER_EPOCH)
        return None if node is None else ControllerEpoch(controller_epoch_in(node.data), node.stat.version)

    def elect_controller(self, broker_id: int) -> ControllerEpoch:
        """Makes a broker the controller until the session ends, and returns its epoch.

        Raises:
            ControllerMovedError: another broker is the controller, or was elected at the same time.  Watch the
                controller, and try again when there is none.
            CorruptionError: the last controller epoch is the highest that Kafka can read, so no other can follow.
            UnknownOutcomeError: it is unknown whether the broker was elected.  Call again to find out.
        """
        check_broker_id(broker_id)
        former = self.controller_epoch() or self._make_controller_epoch()
        if former.value == INT_MAX:
            reason = f"the controller epoch is {INT_MAX}, the highest that Kafka can read; no controller can be elected"
            raise corrupt(reason, CONTROLLER_EPOCH)
        epoch = ControllerEpoch(former.value + 1, former.version + 1)
        record = ControllerRecord(broker_id=broker_id, timestamp_ms=self._clock())
        writes: list[Operation] = [
            Create(CONTROLLER, record.to_json(), ephemeral=True),
            SetData(CONTROLLER_EPOCH, b"%d" % epoch.value, former.version),
        ]
        try:
            self.connection.multi(writes)
        except (NodeExistsError, NodeVersionError):
            raise self._moved(f"broker {broker_id} was not elected") from None
        except UnknownOutcomeError:
            if not self._was_elected(record, epoch):
                raise
        return epoch

    def resign_controller(self, epoch: ControllerEpoch) -> None:
        """Resigns as controller, so that another broker can be elected.

        Raises:
            ControllerMovedError: another broker was elected since this epoch; it stays the controller.
            NoNodeError: no broker is the controller any more.
        """
        self._guarded([Delete(CONTROLLER)], epoch)

    def watch_controller(self) -> Watch[ControllerRecord | None]:
        """Watches which broker is the controller; the state is None while no broker is."""
        return self._watch(CONTROLLER, lambda node: ControllerRecord.from_json(node.data))

    def _make_controller_epoch(self) -> ControllerEpoch:
        ensure_root(self.connection)
        with contextlib.suppress(NodeExistsError):
            self.connection.create(CONTROLLER_EPOCH, b"%d" % FIRST_CONTROLLER_EPOCH)
        found = self.controller_epoch()
        if found is None:
            raise NoNodeError(
                f"node {CONTROLLER_EPOCH} was removed after it was created; try again", node=CONTROLLER_EPOCH
            )
        return found

    def _was_elected(self, record: ControllerRecord, epoch: ControllerEpoch) -> bool:
        """Whether a broker won an election although the answer was lost; False if no server answers."""
        try:
            self.sync()
            node, now = self._get(CONTROLLER), self.controller_epoch()
        except ZooKeeperUnavailableError:
            return False
        is_ours = node is not None and (node.stat.ephemeral_owner, node.data) == (
            self.connection.session_id,
            record.to_json(),
        )
        return is_ours and now == epoch

    def _check_epoch(self, state: PartitionState, epoch: ControllerEpoch, node: str) -> None:
        if state.controller_epoch > epoch.value:
            text = f"controller epoch {state.controller_epoch} of the partition state is newer than {epoch.value}"
            raise InvalidArgumentError(f"{text}, the controller epoch of this write")
        if state.controller_epoch < epoch.value:
            text = f"{node}: controller epoch {state.controller_epoch} of the partition state is older than"
            text = f"{text} {epoch.value}, the current controller epoch"
            raise ControllerMovedError(text, node=node, epoch=epoch.value)

    def _guarded(self, writes: list[Operation], epoch: ControllerEpoch) -> None:
        try:
            self.connection.multi([Check(CONTROLLER_EPOCH, epoch.version), *writes])
        except (NodeVersionError, NoNodeError) as failure:
            if failure.node != CONTROLLER_EPOCH:
                raise
            raise self._moved(f"a write under controller epoch {epoch.value} was refused", writes[0].node) from None

    def _moved(self, what: str, node: str = CONTROLLER) -> ControllerMovedError:
        """Creates the error, which names the current controller and epoch."""
        try:
            self.sync()
            now, epoch = self.controller(), self.controller_epoch()
        except ZooKeeperUnavailableError as failure:
            # The refusal is certain, even if the current controller is unknown.
            return ControllerMovedError(f"{what} at {node}; the current controller is unknown: {failure}", node=node)
        number = None if epoch is None else epoch.value
        who = "no broker is the controller" if now is None else f"broker {now.broker_id} is the controller"
        text = f"{what} at {node}: {who}; the current controller epoch is {'unknown' if number is None else number}"
        return ControllerMovedError(text, node=node, controller_id=None if now is None else now.broker_id, epoch=number)

    # ------------------------------------------------------------------------------------------------------ cluster

    def cluster_id(self) -> str | None:
        """Returns the cluster id, or None if the cluster has none yet."""
        node = self._get(CLUSTER_ID)
        return None if node is None else cluster_id_in(node.data)

    def ensure_cluster_id(self) -> str:
        """Returns the cluster id.  If it is missing, creates it; concurrent callers all get the same id."""
        found = self.cluster_id()
        if found is not None:
            return found
        self._make_with_parents(CLUSTER_ID.rpartition("/")[0])
        make_node(self.connection, CLUSTER_ID, cluster_id_json(new_id()))
        self.sync()
        found = self.cluster_id()
        if found is None:
            raise NoNodeError(f"node {CLUSTER_ID} was removed after it was created; try again", node=CLUSTER_ID)
        return found

    # -------------------------------------------------------------------------------------------------------- nodes

    def _get(self, node: str) -> Node | None:
        try:
            return self.connection.get(node)
        except NoNodeError:
            return None

    def _children(self, node: str) -> list[str]:
        try:
            return self.connection.children(node)
        except NoNodeError:
            return []

    def _get_many(
        self, nodes: Iterable[tuple[K, str]], watch: Callable[[Any], object] | None = None
    ) -> Iterator[tuple[K, Node]]:
        def questions() -> Iterator[tuple[K, Callable[[], Answer[Node]]]]:
            for key, node in nodes:
                yield key, partial(self.connection.get_async, node, watch)

        for key, found in pipelined(questions(), 64):
            if found is not None:
                yield key, found

    def _watch(self, node: str, value: Callable[[Node], T]) -> Watch[T | None]:
        def read(watch: Callable[[Any], object]) -> T | None:
            found = read_node(self.connection, node, watch)
            return None if found is None else value(found)

        return Watch(self.connection, read)

    def _make_with_parents(self, node: str) -> None:
        ensure_root(self.connection)
        make_with_parents(self.connection, node)


def broker_ids_in(names: Iterable[str]) -> list[int]:
    """Parses the names of broker nodes; returns the ids, sorted.

    Raises:
        CorruptionError: a name is not a number; `path` names the node.
    """
    return sorted(partition_in(name, f"{BROKER_IDS}/{name}") for name in names)


def registered_broker(broker_id: int, node: Node) -> RegisteredBroker:
    """Parses a broker's node.  Raises CorruptionError if it does not hold a registration."""
    stat = node.stat
    record = BrokerRecord.from_json(broker_id, node.data)
    return RegisteredBroker(record, stat.ephemeral_owner, stat.created_zxid, stat.modified_ms)


def _topic_in(topic: str, node: Node) -> Versioned[TopicRecord]:
    return Versioned(TopicRecord.from_json(topic, node.data), node.stat.version)


def _state_in(key: TopicPartition, node: Node) -> Versioned[PartitionState]:
    return Versioned(PartitionState.from_json(key.topic, key.partition, node.data), node.stat.version)
