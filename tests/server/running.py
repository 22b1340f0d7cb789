"""A server on a thread of its own, and plain sockets that carry frames to it."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any, Self

from offsetlog._native.clocks import ManualClock
from offsetlog._native.files import FileSystem
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.protocol import APIS, decode_response, encode_request
from offsetlog.server.clock import LoopClock
from offsetlog.server.event_loop import new_event_loop
from offsetlog.server.server import Server, ServerSettings

SECONDS = 20


class _DayThatStands(LoopClock):
    """The loop's clock, with the time of day of a test."""

    def __init__(self, loop: asyncio.AbstractEventLoop, day: ManualClock) -> None:
        super().__init__(loop)
        self._day = day

    def now_ms(self) -> int:
        return self._day.milliseconds


class RunningServer:
    """A server that listens on a free port of loopback until it is stopped.

    Args:
        path: its log directory.
        partitions: of the topic of positions.
        durability: when a commit, and a producer, is answered.
        fs: of the log directory; None: the system's.
        clock: the time of day, which stands still; None: the system's.
        kept: further settings of the manager.
        more: further settings of the server.
    """

    def __init__(
        self,
        path: Path,
        durability: str = "process",
        partitions: int = 50,
        *,
        fs: FileSystem | None = None,
        clock: ManualClock | None = None,
        kept: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        coordinator = CoordinatorConfig(initial_rebalance_delay=0)
        settings = {"port": 0, "coordinator": coordinator, **more}
        manager = ManagerSettings(
            path=path, partitions=partitions, durability=durability, accept_while_loading=False, **(kept or {})
        )
        given = ServerSettings(**{"manager": manager, **settings})
        self.loop = new_event_loop()
        self.server = Server(
            given,
            manager=LogManager(given.manager, fs=fs, clock=clock),
            clock=None if clock is None else _DayThatStands(self.loop, clock),
        )
        self._thread = threading.Thread(target=self.loop.run_forever, name="server")
        self._thread.start()
        try:
            self.address = self._run(self.server.start())
        except BaseException:
            self._end()
            raise

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def stop(self) -> None:
        """Stops it as SIGTERM does."""
        try:
            self._run(self.server.stop())
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Client:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next frame without its size; None: the connection was closed."""
        size = self._exactly(4)
        return None if size is None else self._exactly(int.from_bytes(size, "big"))

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            data += more
        return data

    def ask(self, message: Any, version: int, correlation_id: int = 7) -> Any:
        """Sends a request and returns its answer."""
        self.send(encode_request(message, version, correlation_id, "test"))
        frame = self.receive()
        assert frame is not None
        api = next(each for each in APIS.values() if each.request is type(message))
        got, answer = decode_response(api.response, version, frame)
        assert got == correlation_id
        return answer

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
