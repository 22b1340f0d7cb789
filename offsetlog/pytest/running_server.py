"""A server in this process, on a thread with its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from offsetlog.config import MaintenanceConfig
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.errors import ClosedError, InvalidArgumentError
from offsetlog.manager.executor import ThreadExecutor
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.protocol import APIS, Request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsRequestTopicConfig,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from offsetlog.pytest.faults import FaultMenu
from offsetlog.pytest.virtual_clock import VirtualClock, VirtualExecutor
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.node import TopicDefaults
from offsetlog.server.server import Server, ServerSettings
from offsetlog.types import Committed, Key, OffsetAndMetadata, TopicPartition

_T = TypeVar("_T")

#: How long a call from a test may take before it fails, in seconds.
CALL_SECONDS = 30.0
#: How long a group without members keeps its positions, as in Kafka.
RETENTION_SECONDS = 7 * 24 * 3600.0
#: The time between two checks for expired positions, in milliseconds, besides the check at each end of
#: `advance`: Kafka's ten minutes would be five million checks in a hundred years without commits.
EXPIRY_CHECK_MS = 24 * 3600 * 1000
#: The first rebalance does not wait for more members; in Kafka it waits three seconds.
NO_DELAY = CoordinatorConfig(initial_rebalance_delay=0)
#: How far one call can advance the time, in seconds; more is probably a wrong unit.
ADVANCE_SECONDS_MAX = 100 * 366 * 24 * 3600.0


class Group(NamedTuple):
    """A group, with the values that Kafka's tools show.

    Attributes:
        state: "Empty", "PreparingRebalance", "CompletingRebalance", "Stable" or "Dead".
        protocol_type: "consumer" for consumers, "" if no member has ever joined.
        members: the client id of each member, in any order.
    """

    state: str
    protocol_type: str
    members: tuple[str, ...]


class OffsetlogServer:
    """A real server that listens on a free loopback port until it is stopped.

    The server answers commits without waiting for the disk.  Any thread may use the object.  If it is used as a context
    manager, the server is stopped at the end of the block.

    Args:
        path: the log directory, which is new or belonged to a server that was stopped.
        log_partitions: the number of log partitions; by default the number that the directory has, or 4 in a new
            directory.
        topic_partitions: the number of partitions of a topic that is created without a number.
        auto_create: whether a topic is created when a client asks for it.
        retention_seconds: how long the positions of a group without members are kept, in seconds; None to keep them
            forever.
        coordinator: the settings of groups.

    Attributes:
        path: the log directory.
        host: the address on which the server listens.
        port: the port on which the server listens.
        faults: the faults that a test can put in force.

    Raises:
        StorageError, CorruptionError, LockedError, ConfigError: the directory cannot be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        log_partitions: int | None = None,
        topic_partitions: int = 1,
        auto_create: bool = True,
        retention_seconds: float | None = RETENTION_SECONDS,
        coordinator: CoordinatorConfig = NO_DELAY,
    ) -> None:
        self.path = path
        retention_ms = None if retention_seconds is None else round(retention_seconds * 1000)
        manager = ManagerSettings(
            path=path,
            partitions=log_partitions,
            durability="process",
            accept_while_loading=False,
            maintenance=MaintenanceConfig(
                enabled=False,
                retention_ms=retention_ms,
                retention_check_interval_ms=EXPIRY_CHECK_MS,
            ),
        )
        settings = ServerSettings(
            manager=manager,
            port=0,
            coordinator=coordinator,
            topics=TopicDefaults(topic_partitions, auto_create),
        )
        self._loop = asyncio.new_event_loop()
        self._clock = VirtualClock(self._loop)
        self.faults = FaultMenu(self._clock)
        executor = VirtualExecutor(ThreadExecutor(2), self._clock)
        self._manager = LogManager(manager, executor=executor, clock=self._clock.store_clock)
        self._server = Server(
            settings, manager=self._manager, clock=self._clock, faults=self.faults
        )
        self._lock = threading.Lock()
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="offsetlog-server", daemon=True
        )
        self._thread.start()
        try:
            self.host, self.port = self._run(self._start())
        except BaseException:
            self._end_loop()
            raise

    async def _start(self) -> tuple[str, int]:
        address = await self._server.start()
        await self._server.node.groups.settle()
        return address

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the server, for the setting `bootstrap.servers` of clients."""
        return f"{self.host}:{self.port}"

    # ------------------------------------------------------------------------------- topics and groups

    def create_topic(
        self, name: str, partitions: int | None = None, *, configs: dict[str, str] | None = None
    ) -> None:
        """Creates a topic.

        Args:
            name: the name of the topic.
            partitions: the number of partitions; None for the server's `topic_partitions`.
            configs: the settings of the topic, by Kafka's names.

        Raises:
            InvalidArgumentError: the topic exists, or the name or a setting is wrong.
            ClosedError: the server is stopped.
        """
        own = tuple(
            CreateTopicsRequestTopicConfig(each, value) for each, value in (configs or {}).items()
        )
        count = -1 if partitions is None else partitions
        topic = CreateTopicsRequestTopic(name, count, -1, configs=own)
        (made,) = self._run(self._ask(CreateTopicsRequest((topic,)))).topics
        if made.error_code:
            reason = made.error_message or f"error {made.error_code}"
            raise InvalidArgumentError(f"topic {name!r} was not created: {reason}")

    def committed(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of a group; faults do not affect this call.

        Raises:
            ClosedError: the server is stopped.
        """
        self._check_runs()
        return dict(self._manager.fetch(group))

    def groups(self) -> dict[str, Group]:
        """Returns all groups that have members or positions, by id.

        Raises:
            ClosedError: the server is stopped.
        """
        return self._run(self._groups())

    async def _groups(self) -> dict[str, Group]:
        names = tuple(each.group_id for each in (await self._ask(ListGroupsRequest())).groups)
        described = (await self._ask(DescribeGroupsRequest(names))).groups
        return {
            each.group_id: Group(
                each.group_state,
                each.protocol_type,
                tuple(member.client_id for member in each.members),
            )
            for each in described
        }

    def fence(self, group: str, offsets: Mapping[Key, Committed] | None = None) -> int:
        """Ends the generation of a group, which may be running, and sets positions in the same batch.

        After the call, the server refuses the commits and heartbeats of the group's members, so the members join again
        and read the positions.  Faults do not affect this call.

        Args:
            group: the group's id.  If the group does not exist, it is created.
            offsets: the positions to set; None changes no position.

        Returns:
            The new generation.

        Raises:
            InvalidArgumentError: a position is not valid; nothing was changed.
            ClosedError: the server is stopped.
        """
        self._check_runs()
        return self._manager.fence(group, offsets)

    async def _ask(self, message: Any) -> Any:
        # As if a client sent it, except that faults do not apply.
        api = next(each for each in APIS.values() if each.request is type(message))
        answer: asyncio.Future[Any] = self._loop.create_future()
        request = Request(api.key, api.last_version, 0, "offsetlog.pytest", message)

        def refuse(reason: str) -> None:
            answer.set_exception(InvalidArgumentError(f"{api.name} was refused: {reason}"))

        exchange = Exchange(request, self.host, answer.set_result, refuse)
        HANDLERS[api.key](self._server.node, exchange)
        return await answer

    # ------------------------------------------------------------------------------------------- time

    def advance(self, seconds: float) -> None:
        """Moves the server's clock ahead.  Returns when everything that is due by then has happened.

        During the call, members that send no heartbeat lose their sessions.  If the time is longer than the session
        timeout, all members lose them.  Rebalances end, and slow requests are handled.  At the end, positions expire,
        and topics delete old segments.  Groups that have neither members nor positions are removed once a day.  Before
        and after the call, the clock runs with real time.

        Args:
            seconds: how far to move the clock, at least 0.

        Raises:
            InvalidArgumentError: the time is negative, or more than a hundred years.
            ClosedError: the server is stopped.
        """
        if not 0 <= seconds <= ADVANCE_SECONDS_MAX:
            raise InvalidArgumentError(
                f"seconds must be from 0 to {ADVANCE_SECONDS_MAX:.0f}, not {seconds}"
            )
        self._run(self._advance(seconds))

    async def _advance(self, seconds: float) -> None:
        await self._clock.advance(seconds, self._server.node.groups.settle)
        await self._server.node.groups.expiry.expire(also_bare=False)
        await self._server.topic_sweep.run()

    # ---------------------------------------------------------------------------------- start and stop

    def stop(self) -> None:
        """Stops the server.  Another server can use its directory afterwards.  A second call does nothing."""
        with self._lock:
            if self._is_stopped:
                return
            self.faults.release()
            try:
                self._run(self._stop())
            finally:
                self._is_stopped = True
                self._end_loop()

    async def _stop(self) -> None:
        self._clock.close()
        await self._server.stop()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            self._check_runs()
        except ClosedError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def _check_runs(self) -> None:
        if self._is_stopped:
            raise ClosedError(f"the server of {self.path} is stopped; start a new server with the same path")

    def _end_loop(self) -> None:
        ended = asyncio.run_coroutine_threadsafe(self._loop.shutdown_default_executor(), self._loop)
        ended.result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<OffsetlogServer: {self.bootstrap_servers}, {self.path}>"


class ServerFactory:
    """Starts servers, and stops those that are still running at the end of its `with` block.

    Args:
        make_path: a function that creates an empty directory and returns its path.
    """

    def __init__(self, make_path: Callable[[], Path]) -> None:
        self._make_path = make_path
        self._servers: list[OffsetlogServer] = []

    def __call__(self, path: Path | None = None, **settings: Any) -> OffsetlogServer:
        """Starts a server.

        Args:
            path: the log directory; None for a new one.
            settings: the other arguments of OffsetlogServer, which raises the same errors.
        """
        server = OffsetlogServer(self._make_path() if path is None else path, **settings)
        self._servers.append(server)
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for server in reversed(self._servers):
            server.stop()
