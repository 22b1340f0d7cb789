"""A session with a ZooKeeper ensemble.  A write is applied, or it is refused, or its outcome is unknown.

The client library kazoo keeps the session alive.  It connects to another server when one fails, and starts a new
session when one expires.  This module limits every wait, and has one error for each kind of failure.  It also
distinguishes a write that was refused from a write whose outcome is unknown.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Self, TypeVar

from offsetlog.errors import (
    ClosedError,
    ConfigError,
    OffsetLogError,
    TooLargeError,
    UnknownOutcomeError,
    ZooKeeperError,
    ZooKeeperUnavailableError,
)
from offsetlog.missing_library import missing_library
from offsetlog.zookeeper import acl as access
from offsetlog.zookeeper.acl import OPEN, Acl
from offsetlog.zookeeper.kazoo_errors import KazooErrors
from offsetlog.zookeeper.nodes import Node as Node
from offsetlog.zookeeper.nodes import NodeStat as NodeStat
from offsetlog.zookeeper.nodes import check_path
from offsetlog.zookeeper.operations import Create, Delete, Operation, SetData
from offsetlog.zookeeper.requests import Found, Multi, MultiRead, Read, ReadNames
from offsetlog.zookeeper.tls import TlsSettings

T = TypeVar("T")
U = TypeVar("U")

_log = logging.getLogger(__name__)

#: The seconds between the end of a client and the start of the next one.  The pause is needed because the cause may
#: persist.
REPLACE_SECONDS = 0.5
#: The largest value of this pause, which doubles with each refusal of the credentials in a row.
REPLACE_SECONDS_MAX = 30.0

#: The seconds between two checks whether the servers accept the credentials.
ASK_SECONDS = 0.05

#: The size of the largest request that a server accepts by default (`jute.maxbuffer`).
REQUEST_BYTES_MAX = 0xFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Settings of a connection to an ensemble.

    Attributes:
        hosts: the servers, followed by the root of all paths, such as "zk1:2181,zk2:2181/kafka" (`zookeeper.connect`).
        session_timeout: the seconds after which the ensemble ends a session whose client is silent
            (`zookeeper.session.timeout.ms`).  The servers may raise or lower it to their own limits.
        connection_timeout: the seconds for which `start` waits for a server (`zookeeper.connection.timeout.ms`).
        request_timeout: the seconds for which a request waits for its answer; a reconnect is included.
        request_bytes_max: the size in bytes of the largest write request, which is the servers' `jute.maxbuffer`.
        auth: the credentials, as pairs of scheme and credential, such as ("digest", "user:password").
        acl: the permissions of nodes that this connection creates.
        tls: the settings of TLS; None for connections without TLS.

    Raises:
        ConfigError: a time or `request_bytes_max` is not above 0; or the list of hosts is malformed; or a host name is
            invalid; or the list of hosts or a credential is not UTF-8.
    """

    hosts: str
    session_timeout: float = 18.0
    connection_timeout: float = 18.0
    request_timeout: float = 30.0
    request_bytes_max: int = REQUEST_BYTES_MAX
    auth: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    acl: tuple[Acl, ...] = OPEN
    tls: TlsSettings | None = None

    def __post_init__(self) -> None:
        for name in ("session_timeout", "connection_timeout", "request_timeout", "request_bytes_max"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, not {getattr(self, name)!r}")
        if not self.hosts.strip() or self.hosts.lstrip().startswith("/"):
            raise ConfigError(f"{self.hosts!r} is not a list of hosts such as zk1:2181,zk2:2181/kafka")
        # Otherwise kazoo's sending thread would end with an error at each attempt to encode them.
        if not _is_utf8(self.hosts):
            raise ConfigError(f"the list of hosts {self.hosts!r} is not UTF-8")
        for host in self.hosts.partition("/")[0].split(","):
            _check_host(host.strip())
        if not all(_is_utf8(text) for pair in self.auth for text in pair):
            raise ConfigError("the credentials for ZooKeeper are not UTF-8")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_host(host: str) -> None:
    # The same check as the resolver's.  One invalid name would end kazoo's thread with an error, whatever the other
    # hosts are.
    name = host.rpartition(":")[0] or host
    try:
        is_possible = b"\0" not in name.encode("idna")
    except UnicodeError:
        is_possible = False
    if not is_possible:
        raise ConfigError(f"the list of hosts contains {host!r}, which is not an address such as zk1:2181")


class Answer(Generic[T]):
    """The future answer of an asynchronous call."""

    __slots__ = ("_deadline", "_failed", "_overdue", "_read", "_result")

    def __init__(
        self,
        result: Any,
        read: Callable[[Any], T],
        failed: Callable[[BaseException], OffsetLogError],
        overdue: Callable[[], OffsetLogError],
        timeout: float,
    ) -> None:
        self._result = result
        self._read = read
        self._failed = failed
        self._overdue = overdue
        self._deadline = time.monotonic() + timeout

    def done(self) -> bool:
        """Whether the answer has come."""
        return bool(self._result.ready())

    def wait(self) -> bool:
        """Waits for the answer, at most for `request_timeout` since the call; returns whether the answer has come."""
        # Most answers have come by the time they are needed, and then no lock is taken.
        return bool(self._result.ready() or self._result.wait(max(0.0, self._deadline - time.monotonic())))

    def result(self) -> T:
        """Waits for the answer, at most for `request_timeout` since the call; returns the answer or raises its error.

        Raises:
            UnknownOutcomeError: the call was a write, and the connection broke, or no server answered in time.
            ZooKeeperUnavailableError: the call was a read, and the connection broke, or no server answered in time.
            Also the errors of the call itself.
        """
        result = self._result
        if not self.wait():
            raise self._overdue()
        if result.exception is not None:
            raise self._failed(result.exception) from result.exception
        return self._read(result.value)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Registers a function that is called with this object when the answer comes.

        A thread of the connection calls the function, so the function must not block.  If the connection breaks before
        the answer comes, the request fails, and the function is called then.  If the answer comes while the connection
        is being closed, the function may not be called.
        """
        self._result.rawlink(lambda _: callback(self))


def _kazoo() -> Any:
    try:
        import kazoo.client
        import kazoo.exceptions
        import kazoo.protocol.states
        import kazoo.retry
    except ModuleNotFoundError:
        raise missing_library("a connection to ZooKeeper", "kazoo") from None
    return kazoo


def _stat_of(stat: Any) -> NodeStat:
    return NodeStat(stat.version, stat.mtime, stat.czxid, stat.ephemeralOwner, stat.numChildren, stat.mzxid, stat.pzxid)


def _node_of(found: tuple[bytes | None, Any]) -> Node:
    return Node(found[0], _stat_of(found[1]))


class ZooKeeperConnection:
    """A session with an ensemble; safe from any thread.

    If the session expires, a new session replaces it.  If a thread of the kazoo client fails, a new client replaces
    the client.  While the servers refuse the credentials, the connection tries to reconnect less and less often, and
    calls raise the error of the refusal.

    The requests of one connection are executed in the order of their calls.  A read sees the earlier writes of this
    connection; after a `sync_async`, it also sees the earlier writes of other clients.  No call waits until a server
    accepts its request.  While no server is connected, the connection keeps the request until a server is connected.
    If the session ends first, the request fails.

    Args:
        settings: the settings of the connection.

    Raises:
        ConfigError: kazoo is not installed, or a TLS file cannot be read.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self._kazoo = _kazoo()
        self._errors = KazooErrors(self._kazoo.exceptions)
        self._tls = None if settings.tls is None else settings.tls.context()
        #: How many times in a row servers have refused the credentials.
        self._refusals = 0
        #: This lock is held during a whole start; `_lock` is only ever held for a moment.
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._client: Any = None
        # The root in the form in which kazoo writes it before each path of its own requests.
        self._root = "".join(f"/{name}" for name in settings.hosts.partition("/")[2].split("/") if name)
        self._acl = access.encoded(settings.acl)
        self._acl_bytes_more = max(0, access.stored_bytes_max(settings.acl, settings.auth) - len(access.encoded(OPEN)))
        self._reads_many: bool | None = None
        self._is_probe_lost = False
        self._listeners: list[Callable[[str], object]] = []

    # --------------------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Begins the session.  A second call does nothing; a call by another thread at the same time waits.

        Raises:
            ClosedError: the connection was closed during the call.
            ConfigError: kazoo refuses the list of hosts.
            ZooKeeperError: the servers refuse the credentials.
            ZooKeeperUnavailableError: no server answered within `connection_timeout`.
        """
        with self._starting:
            if self._client is None:
                self._start()

    def _start(self) -> None:
        self._closing.clear()
        self._refusals = 0
        client = self._new_client()
        try:
            # kazoo's `start` is not called, because it warns if the root does not exist, and only the caller knows
            # whether that matters.
            if not self._is_let_in(client, client.start_async()):
                raise self.refusal or self._unreachable(client)
            with self._lock:
                if self._closing.is_set():
                    raise ClosedError("the connection to ZooKeeper was closed during its start")
                self._client = client
        except BaseException:
            client.handler.break_connection()
            client.end(0.0)
            raise
        if client.handler.has_ended:
            self._thread_ended(client.handler)

    def _is_let_in(self, client: Any, connected: threading.Event) -> bool:
        """Waits for a connection, and returns whether there is one.

        If the settings have credentials, it also waits until a server has answered a request.
        """
        deadline = time.monotonic() + self.settings.connection_timeout
        while not self._refusals and connected.wait(max(0.0, deadline - time.monotonic())):
            if not self.settings.auth:
                return True
            answer = client.sync_async("/")
            if answer.wait(max(0.0, deadline - time.monotonic())) and answer.exception is None:
                return True
            # The deadline is checked here, because the wait for a set event returns at once.  A check that fails at
            # once is not repeated without a pause.
            if time.monotonic() >= deadline or self._closing.wait(ASK_SECONDS):
                break
        return False

    def _unreachable(self, client: Any) -> ZooKeeperUnavailableError:
        text = f"ZooKeeper at {self.settings.hosts} did not answer within {self.settings.connection_timeout:g} s"
        failure = client.handler.failure
        return ZooKeeperUnavailableError(text if failure is None else f"{text}; the last connection failed: {failure}")

    def _new_client(self) -> Any:
        from offsetlog.zookeeper.kazoo_client import Client, Secret
        from offsetlog.zookeeper.kazoo_handler import ClientHandler

        settings = self.settings
        retry = self._kazoo.retry.KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0)
        # As in ZooKeeper's own client, each server gets a share of the session timeout, so that the session survives a
        # silent server.
        connect_seconds = min(settings.connection_timeout, settings.session_timeout / (settings.hosts.count(",") + 1))
        handler = ClientHandler(connect_seconds, self._tls, self._thread_ended)
        try:
            client = Client(
                hosts=settings.hosts,
                handler=handler,
                timeout=settings.session_timeout,
                connection_retry=retry,
                auth_data=[(scheme, Secret(credential)) for scheme, credential in settings.auth] or None,
                use_ssl=self._tls is not None,
            )
        except ValueError as failure:
            text = f"{settings.hosts!r} is not a list of hosts such as zk1:2181,zk2:2181/kafka: {failure}"
            raise ConfigError(text) from None
        client.add_listener(partial(self._state_changed, client))
        return client

    def _thread_ended(self, handler: Any) -> None:
        # kazoo's thread ends when it is stopped, and also after an error that it does not know, or when its credentials
        # are refused.  This method runs on that thread, which cannot wait for its own end.
        client = self._client
        while client is not None and client.handler is handler:
            try:
                threading.Thread(target=self._replace, args=(client,), name="offsetlog-zookeeper", daemon=True).start()
                return
            except RuntimeError:
                _log.exception("cannot start the thread that replaces a failed ZooKeeper client; trying again")
                if self._closing.wait(REPLACE_SECONDS):
                    return

    def _replace(self, ended: Any) -> None:
        is_closing = self._closing.wait(min(REPLACE_SECONDS * 2 ** min(self._refusals, 10), REPLACE_SECONDS_MAX))
        # Requests that were made when the thread was ending have no answer yet.
        ended._notify_pending(self._kazoo.protocol.states.KeeperState.CLOSED)
        ended.discard()
        while not (is_closing or self._is_replaced(ended)):
            is_closing = self._closing.wait(REPLACE_SECONDS)

    def _is_replaced(self, ended: Any) -> bool:
        """Replaces a client that has ended; returns whether that client is no longer the current one."""
        new = None
        with self._lock:
            if self._client is not ended:
                return True
            try:
                _log.warning("the client of ZooKeeper at %s failed; starting a new session", self.settings.hosts)
                # The client is set before its threads begin, because they may end at once.
                self._client = new = self._new_client()
                new.start_async()
                return True
            except Exception:
                _log.exception("cannot create a ZooKeeper client; trying again")
                self._client = ended
        if new is not None:
            new.discard()
        return False

    def close(self) -> None:
        """Ends the session, and with it the ephemeral nodes of the session.  A second call does nothing.

        The call waits for at most `connection_timeout` seconds until the servers have answered.  If they do not
        answer, the session ends when it expires.  If a callback of this connection makes the call, the call returns at
        once, and the session ends after the callback.
        """
        self._closing.set()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.end(self.settings.connection_timeout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def session_id(self) -> int:
        """The id of the session, which is the owner of its ephemeral nodes; 0 if no session exists."""
        session = self._open().client_id
        return 0 if session is None else int(session[0])

    @property
    def is_connected(self) -> bool:
        """Whether a server is connected now.  While none is connected, requests wait until one is."""
        client = self._client
        return client is not None and bool(client.connected)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or not started, so that every call raises ClosedError."""
        return self._client is None

    @property
    def last_zxid(self) -> int:
        """The greatest transaction number (zxid) that any answer has contained; later reads see this transaction."""
        return int(self._open().last_zxid)

    def add_state_listener(self, listener: Callable[[str], object]) -> None:
        """Registers a listener that is called with "connected", "suspended" or "lost" when the state changes.

        "suspended" means that no server is connected, but the session may still exist.  "lost" means that the session
        has ended.  A thread of the connection calls the listener.  The same thread also sends all requests and reads
        all answers, so the listener must not wait for anything.
        """
        self._listeners.append(listener)

    def remove_state_listener(self, listener: Callable[[str], object]) -> None:
        """Removes a listener.  If the listener is not registered, the call does nothing."""
        with contextlib.suppress(ValueError):
            self._listeners.remove(listener)

    def _state_changed(self, client: Any, state: str) -> None:
        if client.client_state == self._kazoo.protocol.states.KeeperState.AUTH_FAILED:
            self._refused()
        elif self._refusals and client.connected:
            # The client now sends its credentials, and this request after them.
            client.sync_async("/").rawlink(self._answered)
        self._notify(str(state).lower())

    def _notify(self, state: str) -> None:
        for listener in list(self._listeners):
            listener(state)

    def _refused(self) -> None:
        self._refusals += 1
        if self._refusals == 1 and self._client is not None:
            _log.error("%s", self.refusal)

    def _answered(self, result: Any) -> None:
        if result.exception is None:
            self._refusals = 0
            _log.warning("ZooKeeper at %s accepts the credentials again", self.settings.hosts)
            self._notify("connected")

    @property
    def refusal(self) -> ZooKeeperError | None:
        """The error that all calls raise while the servers refuse the credentials; None while they do not."""
        if not self._refusals:
            return None
        schemes = ", ".join(sorted(dict(self.settings.auth)))
        text = f"ZooKeeper at {self.settings.hosts} refuses the credentials of this connection (scheme: {schemes})"
        advice = "correct the credentials, or configure the servers to accept this scheme"
        return ZooKeeperError(f"{text}; {advice}", node="/")

    def _open(self) -> Any:
        client = self._client
        if client is None:
            raise ClosedError("the connection to ZooKeeper is closed")
        return client

    def _asked(self) -> Any:
        """Returns the client for a request."""
        client, refusal = self._open(), self.refusal
        if refusal is not None:
            raise refusal
        return client

    # -------------------------------------------------------------------------------------------------------- reads

    # Each call raises InvalidArgumentError if no node can have the path: kazoo would read another node, or its thread
    # would end with an error.

    def get_async(self, node: str, watch: Callable[[Any], object] | None = None) -> Answer[Node]:
        """Reads a node; the answer raises NoNodeError if it does not exist.

        `watch` is called once, when the node is changed or removed.
        """
        check_path(node)
        return self._read(node, self._asked().get_async(node, watch), _node_of)

    def get(self, node: str) -> Node:
        """Reads a node.  Raises NoNodeError."""
        return self.get_async(node).result()

    def exists_async(self, node: str, watch: Callable[[Any], object] | None = None) -> Answer[NodeStat | None]:
        """Reads the state of a node; the answer is None if the node does not exist.

        `watch` is called once, when the node is next created, changed or removed.
        """
        check_path(node)
        result = self._asked().exists_async(node, watch)
        return self._read(node, result, lambda found: None if found is None else _stat_of(found))

    def exists(self, node: str) -> NodeStat | None:
        """Returns the state of a node, or None if it does not exist."""
        return self.exists_async(node).result()

    def children_async(self, node: str, watch: Callable[[Any], object] | None = None) -> Answer[list[str]]:
        """Reads the sorted names of the nodes below a node; the answer raises NoNodeError if the node does not exist.

        `watch` is called once, when a node below it is created or removed, or the node itself is removed.
        """
        check_path(node)
        return self._read(node, self._asked().get_children_async(node, watch), sorted)

    def children(self, node: str) -> list[str]:
        """Returns the sorted names of the nodes below a node.  Raises NoNodeError."""
        return self.children_async(node).result()

    def listing_async(self, node: str) -> Answer[tuple[list[str], NodeStat]]:
        """Reads the sorted names of the nodes below a node, and its state.  The answer raises NoNodeError."""
        check_path(node)
        result = self._asked().get_children_async(node, include_data=True)
        return self._read(node, result, lambda found: (sorted(found[0]), _stat_of(found[1])))

    def read_many_async(self, reads: Sequence[Read]) -> Answer[list[Found | ZooKeeperError]]:
        """Sends many reads in one request; the answer has the result or the error of each read, in order.

        Servers before 3.6 do not support such requests; see `reads_many`.
        """
        client = self._asked()
        result = client.handler.async_result()
        client._call(MultiRead(self._root, reads), result)
        errors = self._kazoo.exceptions

        def one(read: Read, answer: Found | int) -> Found | ZooKeeperError:
            if not isinstance(answer, int):
                return answer
            refusal = self._errors.refusal_of(errors.EXCEPTIONS.get(answer, errors.ZookeeperError)(), read.node)
            if isinstance(refusal, ZooKeeperUnavailableError):
                raise refusal
            return refusal

        def found(answers: list[Found | int]) -> list[Found | ZooKeeperError]:
            return [one(read, answer) for read, answer in zip(reads, answers, strict=True)]

        return self._read(reads[0].node, result, found)

    def reads_many(self) -> bool:
        """Returns whether the servers support requests with many reads.  The first call asks the servers.

        A server before 3.6 refuses the request of the first call and closes the connection; kazoo then reconnects.

        Raises:
            ZooKeeperUnavailableError: the connection broke, or no server answers.  After two such failures, further
                calls return False.
        """
        if self._reads_many is None:
            try:
                self.read_many_async([ReadNames("/")]).result()
                self._reads_many = True
            except ZooKeeperUnavailableError:
                if self._is_probe_lost:
                    self._reads_many = False
                self._is_probe_lost = True
                raise
            except ZooKeeperError:
                self._reads_many = False
                with contextlib.suppress(ZooKeeperError):
                    self.exists("/")
        return self._reads_many

    def sync_async(self) -> Answer[None]:
        """Makes the server catch up with all writes that any server has answered, so that later reads see them."""
        return self._read("/", self._asked().sync_async("/"), lambda _: None)

    def _read(self, node: str, result: Any, read: Callable[[Any], U]) -> Answer[U]:
        def overdue() -> OffsetLogError:
            text = f"ZooKeeper did not answer within {self.settings.request_timeout:g} s"
            return ZooKeeperUnavailableError(text, node=node)

        return Answer(
            result, read, lambda failure: self._errors.refusal_of(failure, node), overdue, self.settings.request_timeout
        )

    # ------------------------------------------------------------------------------------------------------- writes

    def multi_async(self, operations: Sequence[Operation]) -> Answer[None]:
        """Applies all writes or none.

        Raises:
            TooLargeError: the request is larger than `request_bytes_max`; nothing was sent.
        The answer raises:
            NoNodeError, NodeExistsError, NodeVersionError, NodeNotEmptyError: one of the writes could not be applied,
                so none was applied.  The error names the node of that write.
            UnknownOutcomeError: it is unknown whether the writes were applied.
        """
        return self.send_async(self._multi_of(operations))

    def new_multi(self) -> Multi:
        """Returns an empty request for `send_async`."""
        return Multi(self._root, self._acl, self._acl_bytes_more)

    def send_async(self, multi: Multi) -> Answer[None]:
        """Sends a request; its writes are all applied, or none of them.  The errors are those of `multi_async`."""
        if multi.size > self.settings.request_bytes_max:
            raise TooLargeError(
                f"the request with {len(multi.nodes)} writes has {multi.size} bytes; ZooKeeper accepts at most "
                f"{self.settings.request_bytes_max} bytes (jute.maxbuffer)"
            )
        client = self._asked()
        result = client.handler.async_result()
        client._call(multi, result)
        return self._write(multi.nodes, result)

    def request_size(self, operations: Sequence[Operation]) -> int:
        """Returns an upper bound of the size in bytes of a request with these writes; see `request_bytes_max`."""
        return self._multi_of(operations).size

    def _multi_of(self, operations: Iterable[Operation]) -> Multi:
        multi = self.new_multi()
        for each in operations:
            multi.add(each)
        return multi

    def multi(self, operations: Sequence[Operation]) -> None:
        """Applies all of the writes or none, and waits for the answer; raises the errors of `multi_async`."""
        self.multi_async(operations).result()

    def create(self, node: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        """Creates a node, whose parent must exist.  Raises NodeExistsError, NoNodeError, UnknownOutcomeError."""
        self.multi([Create(node, data, ephemeral)])

    def set_data(self, node: str, data: bytes, version: int = -1) -> None:
        """Replaces the bytes of a node.  Raises NoNodeError, NodeVersionError, UnknownOutcomeError."""
        self.multi([SetData(node, data, version)])

    def delete(self, node: str, version: int = -1) -> None:
        """Removes a node.  Raises NoNodeError, NodeVersionError, NodeNotEmptyError, UnknownOutcomeError."""
        self.multi([Delete(node, version)])

    def _write(self, nodes: list[str], result: Any) -> Answer[None]:
        node = nodes[0]

        def unknown(why: str) -> OffsetLogError:
            text = f"{why} after a write to {node} was sent; the write may or may not have been applied"
            return UnknownOutcomeError(text, node=node)

        def failed(failure: BaseException, at: str = node) -> OffsetLogError:
            if self._errors.is_refusal(failure):
                return self._errors.refusal_of(failure, at)
            return unknown(f"ZooKeeper failed ({type(failure).__name__})")

        def read(codes: list[int]) -> None:
            # The write that failed has an error of its own; the writes before it were rolled back.
            kinds = self._kazoo.exceptions
            for code, at in zip(codes, nodes, strict=False):
                if code not in (kinds.RolledBackError.code, kinds.RuntimeInconsistency.code):
                    raise failed(kinds.EXCEPTIONS.get(code, kinds.ZookeeperError)(), at)
            if codes:
                raise unknown("ZooKeeper reported that a request failed, but did not say which of its writes failed,")

        def overdue() -> OffsetLogError:
            return unknown(f"ZooKeeper did not answer within {self.settings.request_timeout:g} s")

        return Answer(result, read, failed, overdue, self.settings.request_timeout)
