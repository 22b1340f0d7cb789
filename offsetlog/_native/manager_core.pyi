from collections.abc import Callable, Mapping
from typing import final

from offsetlog._native.completion import Completion
from offsetlog._native.parking import Parking, PendingWrite
from offsetlog._native.quotas import Quotas
from offsetlog._native.replica import Replica
from offsetlog._native.store_core import StoreCore
from offsetlog.types import Committed, Key, OffsetAndMetadata, OtherKey, Position, TopicPartition

@final
class ManagerCore:
    core: StoreCore
    quotas: Quotas | None
    alone: bool
    short_of_replicas: set[int]
    fenced_by: (
        Callable[
            [str, dict[TopicPartition, int | OffsetAndMetadata], float | None], Completion[int]
        ]
        | None
    )
    appended: Callable[[int], object] | None
    check_epoch: Callable[[int, int], object]
    def __init__(
        self,
        core: StoreCore,
        durability: str,
        timeout: float,
        alone: bool,
        quotas: Quotas | None,
        settle: Callable[[int, int], object],
        flush: Callable[[int], object],
        check_lease: Callable[[int], object],
        *,
        for_watermark: list[Parking],
        for_disk: list[Parking],
    ) -> None: ...
    def report_written(self, number: int) -> int: ...
    def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: str | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> Position: ...
    def commit_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: str | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> PendingWrite[Position]: ...
    def commit_any_async(
        self, group: str, offsets: dict[TopicPartition, OffsetAndMetadata], timeout: float | None
    ) -> PendingWrite[Position]: ...
    def fence(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None,
        timeout: float | None,
    ) -> int: ...
    def fence_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None,
        timeout: float | None,
    ) -> Completion[int]: ...
    def delete_async(
        self, group: str, keys: list[TopicPartition], timeout: float | None
    ) -> PendingWrite[int]: ...
    def delete_unanswered(
        self, group: str, keys: list[TopicPartition]
    ) -> tuple[int, int, int]: ...
    def delete_group_async(self, group: str, timeout: float | None) -> PendingWrite[int]: ...
    def write_group_records_async(
        self,
        group: str,
        records: list[tuple[bytes, bytes | None]],
        offsets: Mapping[Key, Committed] | None,
        timeout: float | None,
    ) -> PendingWrite[int]: ...
    def check_timeout(self, timeout: float | None) -> None: ...
    def wait_for(
        self, number: int, end_offset: int, term: int, timeout: float | None
    ) -> None: ...
    def park(
        self, number: int, end_offset: int, term: int, count: int, timeout: float | None
    ) -> PendingWrite[int]: ...
    def park_written(self, number: int) -> PendingWrite[int] | None: ...
    def delete(self, group: str, keys: list[TopicPartition], timeout: float | None) -> int: ...
    def delete_group(self, group: str, timeout: float | None) -> int: ...
    def set_replica(self, number: int, replica: Replica | None) -> None: ...
    def detach(self, number: int) -> None: ...
    def replica(self, number: int) -> Replica | None: ...
    def listen_to_moves(self, listener: Callable[[int], object] | None) -> None: ...
    def attend(self, number: int) -> None: ...
    def disregard(self, number: int) -> None: ...
    def advance(self, partition: int, epoch: int, offset: int) -> int: ...
