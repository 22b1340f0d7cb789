from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, SupportsIndex, final

from offsetlog._native.partition import Partition
from offsetlog._native.tickets import Ticket
from offsetlog.types import Committed, Key, OffsetAndMetadata, OtherKey, PartitionKey, Position

class _PartitionOwner(Protocol):
    def all(self) -> list[Partition]: ...
    def make(self, number: int) -> Partition: ...
    def loading(self, wait: bool) -> list[int]: ...
    def loaded(self, number: int) -> Partition | None: ...

@final
class StoreCore:
    is_count_known: bool
    read_only: bool
    closed: bool
    closer: object
    def __init__(
        self,
        count: int | None,
        owner: _PartitionOwner,
        waiter: Callable[[Ticket], Awaitable[None]],
        durability: str | None,
        metadata_units_max: int,
        *,
        read_only: bool = False,
        background: bool = True,
        flush_interval_ms: int = 0,
    ) -> None: ...
    @property
    def count(self) -> int: ...
    def attach(self, partition: Partition) -> None: ...
    def replace_all(self, fresh: list[Partition]) -> None: ...
    def partition(self, number: int) -> Partition | None: ...
    def attached(self, wait: bool = True) -> list[Partition]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def scratch_bytes(self) -> int: ...
    def number_of(self, group: str) -> int: ...
    def ready(self, number: int) -> Partition: ...
    def wait_durable(self, number: int, end_offset: int, term: int, durability: str | None) -> None: ...
    def wait_durable_all(self, waits: list[tuple[int, int, int]], durability: str | None) -> None: ...
    def commit_one(
        self,
        group: str,
        topic: str | PartitionKey,
        partition: Committed | None = None,
        offset: Committed | None = None,
        metadata: str = "",
        leader_epoch: int = -1,
        *,
        monotonic: bool = False,
        durability: str | None = None,
    ) -> int: ...
    def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, Committed | None] | None = None,
        monotonic: bool = False,
        durability: str | None = None,
    ) -> Position: ...
    def commit_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, Committed | None] | None = None,
        monotonic: bool = False,
        durability: str | None = None,
    ) -> Ticket: ...
    def commit_transactional(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        producer_id: int,
        producer_epoch: int,
    ) -> Position: ...
    def delete(
        self, group: str, partitions: Iterable[PartitionKey] | None, *, durability: str | None = None
    ) -> int: ...
    def fetch_one(
        self, group: str, topic: str | PartitionKey, partition: SupportsIndex | None = None
    ) -> OffsetAndMetadata | None: ...
