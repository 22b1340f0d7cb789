"""Registers a broker in ZooKeeper from its properties."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from offsetlog.errors import ConfigError, InvalidArgumentError, OffsetLogError
from offsetlog.manager.properties import Setting, number
from offsetlog.manager.zookeeper.settings import from_properties
from offsetlog.zookeeper.cluster import ClusterClient
from offsetlog.zookeeper.cluster_records import BrokerRecord, Endpoint, check_broker_id
from offsetlog.zookeeper.connection import ZooKeeperConnection
from offsetlog.zookeeper.missing_nodes import ensure_root
from offsetlog.zookeeper.registration import BrokerRegistration

T = TypeVar("T")

#: Protocols of connections with a broker (Kafka's SecurityProtocol).
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BrokerSession:
    """A registered broker with its own connection; see `register_broker`.

    Attributes:
        connection: the connection to ZooKeeper.
        cluster: Kafka's directories in ZooKeeper.
        cluster_id: the id of the cluster.
        registration: the node of this broker.
    """

    def __init__(
        self,
        connection: ZooKeeperConnection,
        record: BrokerRecord,
        on_failure: Callable[[OffsetLogError], object] | None,
    ) -> None:
        self.connection = connection
        self.cluster = ClusterClient(connection)
        self.cluster_id = self.cluster.ensure_cluster_id()
        # The node of an earlier process of this broker exists until the session of that process expires.
        wait = 2 * connection.settings.session_timeout
        self.registration = BrokerRegistration(connection, record, wait=wait, on_failure=on_failure)
        self.registration.start()

    def close(self) -> None:
        """Removes the registration of the broker, and closes the connection.  A second call does nothing."""
        try:
            self.registration.close()
        finally:
            self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def register_broker(
    properties: Mapping[str, Setting], *, on_failure: Callable[[OffsetLogError], object] | None = None
) -> BrokerSession:
    """Registers a broker under /brokers/ids, and keeps it registered until it is closed.

    If the root of ``zookeeper.connect`` does not exist, the call creates it, as Kafka does.

    Args:
        properties: the broker's properties: ``zookeeper.connect``, its timeouts, credentials and TLS, ``broker.id``,
            ``advertised.listeners`` or ``listeners``, ``listener.security.protocol.map`` and ``broker.rack``.  Other
            properties are ignored.
        on_failure: called once if the registration is lost for good, for example to another broker; see
            BrokerRegistration.

    Raises:
        ConfigError: a property is missing or wrong; the message names it.
        BrokerIdTakenError: another broker has the id; or an earlier process of this broker still has it after twice the
            session timeout.
        ZooKeeperError: ZooKeeper refuses the credentials, or they lack a permission.
        ZooKeeperUnavailableError: no server answers.
    """
    record = record_from_properties(properties)
    connection = ZooKeeperConnection(from_properties(properties).connection)
    connection.start()
    try:
        ensure_root(connection)
        return BrokerSession(connection, record, on_failure)
    except BaseException:
        connection.close()
        raise


def record_from_properties(properties: Mapping[str, Setting]) -> BrokerRecord:
    """Creates a broker's record from its properties.  Raises ConfigError with the name of the property."""
    if "broker.id" not in properties:
        raise ConfigError("broker.id is missing: set it to the number of this broker in its cluster")
    name = "advertised.listeners" if "advertised.listeners" in properties else "listeners"
    if name not in properties:
        raise ConfigError(
            "advertised.listeners is missing: set it to this broker's address, for example PLAINTEXT://kafka1:9092"
        )
    protocols = _protocols(properties)
    endpoints = _named(
        name, lambda: tuple(Endpoint.parse(each.strip(), protocols) for each in str(properties[name]).split(","))
    )
    endpoints = tuple(_reachable(name, each) for each in endpoints)
    listeners = [each.listener for each in endpoints]
    if len({*listeners}) < len(listeners):
        raise ConfigError(f"{name} names a listener more than once: {', '.join(listeners)}")
    broker_id = number("broker.id", properties["broker.id"])
    _named("broker.id", lambda: check_broker_id(broker_id))
    rack = properties.get("broker.rack")
    given = None if rack is None else str(rack)
    return _named("broker.rack", lambda: BrokerRecord(broker_id=broker_id, endpoints=endpoints, rack=given))


def _named(name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except InvalidArgumentError as failure:
        raise ConfigError(f"{name}: {failure.message}") from failure


def _reachable(name: str, endpoint: Endpoint) -> Endpoint:
    """Returns an endpoint that clients can use.  The machine's name replaces an empty host, as in Kafka."""
    if endpoint.security_protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(
            f"{name}: the listener {endpoint.listener} has the unknown protocol {endpoint.security_protocol!r}; "
            f"map it to one of {', '.join(SECURITY_PROTOCOLS)} in listener.security.protocol.map"
        )
    if endpoint.host in ("0.0.0.0", "::"):
        raise ConfigError(
            f"{name}: clients cannot connect to {endpoint}; name in advertised.listeners a host that clients can reach"
        )
    return endpoint if endpoint.host else endpoint._replace(host=socket.getfqdn())


def _protocols(properties: Mapping[str, Setting]) -> dict[str, str] | None:
    name = "listener.security.protocol.map"
    if name not in properties:
        return None
    pairs = [each.strip().partition(":") for each in str(properties[name]).split(",")]
    for listener, colon, protocol in pairs:
        if not (listener and colon and protocol):
            raise ConfigError(f"{name} must look like INTERNAL:PLAINTEXT,EXTERNAL:SSL, not {properties[name]!r}")
    return {listener: protocol for listener, _, protocol in pairs}
