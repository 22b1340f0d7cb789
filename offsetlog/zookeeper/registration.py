"""Keeps a broker registered in /brokers/ids while its process lives, even if sessions expire.

The node is ephemeral: it ends with the session, and shows other brokers which brokers are alive.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

from offsetlog.clock import wall_ms
from offsetlog.errors import (
    BrokerIdTakenError,
    ClosedError,
    CorruptionError,
    NodeExistsError,
    NoNodeError,
    OffsetLogError,
    UnknownOutcomeError,
    ZooKeeperUnavailableError,
)
from offsetlog.zookeeper.cluster import ClusterClient, registered_broker
from offsetlog.zookeeper.cluster_records import BrokerRecord, broker_node
from offsetlog.zookeeper.connection import Answer, Node, ZooKeeperConnection
from offsetlog.zookeeper.operations import Delete
from offsetlog.zookeeper.watches import Watch, Watcher, read_node

#: The seconds between two tries to create the node after the connection broke.
RETRY_SECONDS = 0.1

_log = logging.getLogger(__name__)


class BrokerRegistration:
    """The node of one broker; safe from any thread.

    Args:
        connection: the started connection, which must outlive the registration.
        record: the data of the broker.  Each registration gets the time at which it is made.
        wait: how many seconds to wait until an existing node with the same endpoints is removed.  Such a node is left
            by a broker that was killed and starts again; it is removed when the earlier session expires.
        on_failure: called once, on a separate thread, if the registration is lost for good.  The argument is
            BrokerIdTakenError if another broker has the id; otherwise it is the error with which ZooKeeper refuses the
            registration.  After that, the registration is not tried again, and the broker should stop.
        clock: returns the time of day in milliseconds.
    """

    def __init__(
        self,
        connection: ZooKeeperConnection,
        record: BrokerRecord,
        *,
        wait: float = 0.0,
        on_failure: Callable[[OffsetLogError], object] | None = None,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self.record = record
        self.node = broker_node(record.broker_id)
        self._connection = connection
        self._wait = wait
        self._on_failure = on_failure
        self._clock = clock
        self._watch: Watch[Node | None] | None = None
        self._watcher: Watcher[Node | None] | None = None
        self._closed = threading.Event()
        self._condition = threading.Condition()
        self._data = b""
        self._sessions: set[int] = set()
        self._epoch: int | None = None
        self._failure: OffsetLogError | None = None

    @property
    def epoch(self) -> int | None:
        """The number of the current registration (Kafka's broker epoch); None while the broker is not registered."""
        return self._epoch

    @property
    def failure(self) -> OffsetLogError | None:
        """The error because of which the registration was lost for good, or None."""
        return self._failure

    def wait_until_registered(self, after: int = -1, timeout: float | None = None) -> int:
        """Waits until there is a registration with an epoch above `after`; returns its epoch.

        Raises:
            BrokerIdTakenError: another broker has taken the id.
            ZooKeeperError: the servers refuse to renew the registration.
            TimeoutError: the broker was not registered within `timeout` seconds.
        """

        def is_over() -> bool:
            return self._failure is not None or (self._epoch is not None and self._epoch > after)

        with self._condition:
            if not self._condition.wait_for(is_over, timeout):
                raise TimeoutError(f"broker {self.record.broker_id} was not registered within the timeout")
            if self._failure is not None:
                raise self._failure
            assert self._epoch is not None
            return self._epoch

    def start(self) -> None:
        """Registers the broker; from now on, keeps it registered.

        If the call fails, it leaves no node.

        Raises:
            BrokerIdTakenError: another broker has the id, or an earlier process of this broker still has it after
                `wait`.
            ClosedError: the registration was closed during the call.
            ZooKeeperError: the servers refuse the credentials or the registration.
            ZooKeeperUnavailableError: no server answers.
        """
        ClusterClient(self._connection).make_directories()
        self._watch = Watch(self._connection, lambda watch: read_node(self._connection, self.node, watch))
        try:
            self._claim(self._watch)
        except BaseException:
            self._watch.close()
            self._remove(None)
            raise
        self._watcher = Watcher(self._watch, self._changed)

    def close(self) -> None:
        """Removes the node, and ends the registration.  A second call does nothing.

        If no server is connected, the node is removed once a server is connected, or when its session ends.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        if self._watch is not None:
            self._watch.close()
        if self._watcher is not None:
            self._watcher.close()
        with self._condition:
            epoch, self._epoch = self._epoch, None
        # This is done even if no registration was seen, because the node may exist although the watch has not seen it
        # yet.
        self._remove(epoch)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _claim(self, watch: Watch[Node | None]) -> None:
        deadline = time.monotonic() + self._wait
        patience = self._connection.settings.request_timeout
        silent = ZooKeeperUnavailableError(f"ZooKeeper did not answer within {patience:g} s", node=self.node)
        holder: Node | None = None
        while True:
            left = patience if holder is None else max(0.0, deadline - time.monotonic())
            try:
                node = watch.next(left)
            except TimeoutError:
                if holder is not None:
                    raise self._taken(holder) from None
                raise silent from None
            holder = None
            if node is None:
                if not self._create(time.monotonic() + patience):
                    raise silent
            elif self._is_mine(node):
                return self._registered(node)
            elif self._is_former(node):
                holder = node
            else:
                raise self._taken(node)

    def _is_former(self, node: Node) -> bool:
        """Whether a node looks like the node of an earlier process of this broker."""
        try:
            found = BrokerRecord.from_json(self.record.broker_id, node.data)
        except CorruptionError:
            return False
        return found.endpoints == self.record.endpoints

    def _changed(self, node: Node | None) -> None:
        if node is None:
            with self._condition:
                self._epoch = None
            try:
                self._create()
            except ClosedError:
                return
            except OffsetLogError as failure:
                self._lost(failure)
        elif self._is_mine(node):
            self._registered(node)
        elif node.stat.ephemeral_owner not in self._sessions:
            self._lost(self._taken(node))
        # Otherwise the node belongs to one of this object's expired sessions, and will be removed.

    def _create(self, until: float = math.inf) -> bool:
        """Creates the node if none exists.  If one exists, the watch shows to whom the node belongs.

        Returns:
            True if a node exists; False if this was not known by the time `until`.
        """
        # All tries write the same bytes, because a try whose answer was lost may have succeeded.  The bytes are set
        # before the first try, because the watch may see the node before the answer comes.
        self._data = data = replace(self.record, timestamp_ms=self._clock()).to_json()
        while not self._closed.is_set():
            self._sessions.add(self._connection.session_id)
            try:
                self._connection.create(self.node, data, ephemeral=True)
            except NodeExistsError:
                return True
            except NoNodeError:
                # The parent was removed; if it is the root, this call raises.
                ClusterClient(self._connection).make_directories(root=False)
            except (UnknownOutcomeError, ZooKeeperUnavailableError):
                if self._stands(data):
                    return True
                if time.monotonic() >= until:
                    return False
                self._closed.wait(RETRY_SECONDS)
            else:
                return True
        return False

    def _stands(self, data: bytes) -> bool:
        """Whether a write of these bytes has created the node although its answer was lost."""
        try:
            self._connection.sync_async().result()
            found = self._connection.get(self.node)
        except OffsetLogError:
            return False
        return found.data == data and found.stat.ephemeral_owner == self._connection.session_id

    def _is_mine(self, node: Node) -> bool:
        return node.data == self._data and node.stat.ephemeral_owner == self._connection.session_id

    def _registered(self, node: Node) -> None:
        with self._condition:
            self._sessions.add(node.stat.ephemeral_owner)
            self._epoch = node.stat.created_zxid
            self._condition.notify_all()
        _log.info("broker %d is registered with epoch %d", self.record.broker_id, node.stat.created_zxid)

    def _lost(self, failure: OffsetLogError) -> None:
        with self._condition:
            self._epoch, self._failure = None, failure
            self._condition.notify_all()
        _log.error("%s", failure)
        assert self._watch is not None
        self._watch.close()
        if self._on_failure is not None:
            self._on_failure(failure)

    def _taken(self, node: Node) -> BrokerIdTakenError:
        broker_id, stat = self.record.broker_id, node.stat
        try:
            holder = registered_broker(broker_id, node).record.address
        except CorruptionError:
            holder = None
        text = (
            f"the broker id {broker_id} is taken by {holder or 'a node without a registration'} at {self.node}, with "
            f"session {stat.ephemeral_owner:#x}, since {_moment_of(stat.modified_ms)}; stop the owner of the node, "
            "or give this broker another id"
        )
        return BrokerIdTakenError(
            text,
            node=self.node,
            broker_id=broker_id,
            holder=holder,
            session=stat.ephemeral_owner,
            since_ms=stat.modified_ms,
        )

    def _remove(self, epoch: int | None) -> None:
        """Removes the node of this registration, if it exists; the connection may stay open.

        Args:
            epoch: the epoch of the registration; None if the epoch is not known yet.
        """
        if not self._data:
            return
        removed: list[Answer[None]] = []

        def found(answer: Answer[Node]) -> None:
            try:
                node = answer.result()
                if self._is_mine(node) or node.stat.created_zxid == epoch:
                    removed.append(self._connection.multi_async([Delete(self.node, node.stat.version)]))
            except OffsetLogError as failure:
                _log.debug("the node of broker %d was not removed: %s", self.record.broker_id, failure)

        try:
            answer = self._connection.get_async(self.node)
            if not self._connection.is_connected:
                # Do not wait.  Either the client sends the request to the next server, or the session ends, and the
                # request and the node end with it.
                answer.add_done_callback(found)
                return
            answer.wait()
            found(answer)
            for each in removed:
                each.result()
        except OffsetLogError:
            _log.debug("the node of broker %d could not be removed", self.record.broker_id, exc_info=True)


def _moment_of(time_ms: int) -> str:
    """Returns a time of ZooKeeper's clock as text, even if it is out of range."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms after 1970"
