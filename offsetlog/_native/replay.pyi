from collections.abc import Iterable
from os import PathLike
from typing import Any, Self, final

from typing_extensions import disjoint_base

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem
from offsetlog._native.log_view import LogView
from offsetlog._native.snapshot import StopFlag

BATCH_FIELDS: list[tuple[str, str]]

def parse_producer_snapshot(content: bytes) -> list[tuple[int, int, int, int, int]]: ...
def parse_transaction_index(content: bytes, base_offset: int) -> list[tuple[int, int, int, int]]: ...
def check_index(content: bytes, *, time: bool, base_offset: int, log_size: int, next_offset: int) -> None: ...

@final
class MemoryAccount:
    bytes_max: int
    def __new__(cls, bytes_max: int) -> Self: ...
    @property
    def used(self) -> int: ...

@disjoint_base
class Replay:
    next_offset: int
    batches: int
    records: int
    records_below: int
    def __init__(
        self,
        file_system: FileSystem | None = ...,
        decompressor: Decompressor | None = ...,
        view: LogView | None = ...,
        stop: StopFlag | None = ...,
        *,
        bucket: int = ...,
        buckets: int = ...,
        by_group: bool = ...,
        run: bool = ...,
        account: MemoryAccount | None = ...,
    ) -> None: ...
    def apply(
        self,
        path: str | bytes | PathLike[str],
        *,
        position: int = ...,
        snapshots: Iterable[int] = ...,
        batches: bool = ...,
        since: int = ...,
        until: int = ...,
        segment_limit: int = ...,
        unreadable: bool = ...,
    ) -> dict[str, Any]: ...
    def skip(self, path: str | bytes | PathLike[str], position: int, *, unreadable: bool = ...) -> int | None: ...
    def used(self, path: str | bytes | PathLike[str], position: int) -> int: ...
    def join(self, later: Replay) -> None: ...
    def producers_now(self) -> list[tuple[int, int, int, int, int]]: ...
    @property
    def memory(self) -> int: ...
    @property
    def group_record_count(self) -> int: ...
    @property
    def position_count(self) -> int: ...
    def groups(self) -> list[bytes]: ...
    def pending_groups(self) -> set[bytes]: ...
    def transactions(self) -> list[tuple[int, int, int, int, int, list[bytes]]]: ...
    def positions(self, group: bytes) -> list[tuple[str, int, int, int, str, int, int, bytes | None, int]]: ...
    def pending(
        self, producer_id: int
    ) -> list[tuple[bytes, str, int, int, int, str, int, int, bytes | None, int]]: ...
    def group_records(self) -> list[tuple[bytes, bytes, int]]: ...
    def digest(self, *, physical: bool = ...) -> tuple[int, int, int]: ...
