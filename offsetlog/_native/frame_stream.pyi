import asyncio
from collections import deque
from collections.abc import Callable

from typing_extensions import disjoint_base

from offsetlog._native.front import Front, Place

SEND_BYTES: int
ANSWERS_AHEAD_BYTES: int
SMALL_REQUEST_BYTES: int
TURN_SECONDS: float
SLOW_READER: int
NO_MEMORY: int
IN_FLIGHT: int
WAITING: int
CLOSING: int
PARKED: int
NEXT_TURN: int

@disjoint_base
class FrameStream:
    transport: asyncio.Transport | None
    fd: int
    @property
    def places(self) -> deque[Place]: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def received(self) -> bytes | bytearray: ...
    @property
    def held(self) -> int: ...
    @property
    def last_request(self) -> float: ...
    def __init__(
        self,
        front: Front | None,
        loop: asyncio.AbstractEventLoop,
        time: Callable[[], float],
        *,
        request_bytes_max: int,
        requests_in_flight_max: int,
    ) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def go_on(self) -> None: ...
    def begin_turn(self) -> None: ...
    def hold(self, reason: int) -> None: ...
    def release(self, reason: int) -> None: ...
    def answered(self, place: Place, frame: bytes) -> None: ...
    def settled(self, size: int) -> None: ...
    def send(self) -> None: ...
    def forget(self) -> deque[Place]: ...
