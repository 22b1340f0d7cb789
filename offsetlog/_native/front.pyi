import asyncio
from collections.abc import Callable
from typing import Any, Self, final

from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.messages import Request
from offsetlog.errors import OffsetLogError

ADMISSIONS_MAX: int

@final
class Place:
    exchange: Any
    @property
    def requests(self) -> int: ...

@final
class Front:
    is_off: bool
    metrics: Any
    received_bytes: int
    sent_bytes: int
    def __new__(
        cls,
        manager: ManagerCore,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        *,
        metadata_units_max: int,
        refused: Callable[[Request, OffsetLogError], bytes],
    ) -> Self: ...
    @property
    def commits(self) -> int: ...
    @property
    def fetches(self) -> int: ...
    @property
    def heartbeats(self) -> int: ...
    def admit(
        self, group: str, generation: int, member_id: str, group_instance_id: str | None
    ) -> None: ...
    def revoke(self, group: str) -> list[tuple[str, float]]: ...
    def set_led(self, number: int, is_led: bool) -> None: ...
    @property
    def admissions(self) -> int: ...
    def count_commit(self, group: str) -> None: ...
    def commit_counts(self, part: int) -> tuple[int, list[tuple[str, int]]]: ...
    def put_topic(self, name: str, topic_id: bytes, partitions: int) -> None: ...
    def remove_topic(self, name: str) -> None: ...
