from collections.abc import Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, NamedTuple, Self, final

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem
from offsetlog._native.replay import Replay
from offsetlog._native.row_blocks import VIEWS as VIEWS
from offsetlog._native.row_blocks import view_schema as view_schema
from offsetlog.errors import OffsetLogError

# Batches are pyarrow's, which has no types.

class Skim(NamedTuple):
    position: int
    next_offset: int
    first_offset: int
    last_position: int
    batches: int
    max_timestamp: int
    marks: list[tuple[int, int]]
    damage: OffsetLogError | None

def skim(
    path: str | bytes | PathLike[str],
    *,
    file_system: FileSystem | None = ...,
    position: int = ...,
    limit: int = ...,
    until: int = ...,
    until_timestamp: int = ...,
    every: int = ...,
    check_crc: bool = ...,
    next_offset: int = ...,
    segment_base: int = ...,
    segment_limit: int = ...,
) -> Skim: ...
def batch_at(
    path: str | bytes | PathLike[str], position: int, *, file_system: FileSystem | None = ...
) -> tuple[int, int, int] | None: ...
def next_batch(
    path: str | bytes | PathLike[str],
    position: int,
    offset_min: int,
    *,
    limit: int = ...,
    file_system: FileSystem | None = ...,
) -> int | None: ...
def used_until(path: str | bytes | PathLike[str], position: int, *, file_system: FileSystem | None = ...) -> int: ...

@final
class Outcomes:
    @property
    def markers(self) -> int: ...
    @property
    def open(self) -> int: ...

def outcomes_of(
    segments: Iterable[tuple[str | bytes | PathLike[str], int, int]],
    *,
    first: int = ...,
    until: int = ...,
    horizon: int = ...,
    file_system: FileSystem | None = ...,
    decompressor: Decompressor | None = ...,
) -> Outcomes: ...

@final
class SegmentScan:
    needs_outcomes: bool
    outcomes: Outcomes | None
    def __init__(
        self,
        path: str | bytes | PathLike[str],
        view: str,
        columns: Sequence[str] | None = ...,
        *,
        log_partition: int = ...,
        file_system: FileSystem | None = ...,
        decompressor: Decompressor | None = ...,
        position: int = ...,
        limit: int = ...,
        first: int = ...,
        until: int = ...,
        group: str | None = ...,
        topic: str | None = ...,
        partition: int = ...,
        bucket: int = ...,
        buckets: int = ...,
        by_group: bool = ...,
        next_offset: int = ...,
        count_from: int = ...,
        outcomes: Outcomes | None = ...,
        segment_base: int = ...,
        segment_limit: int = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def position(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def present(self) -> int: ...
    def read(self, rows: int = ...) -> Any | None: ...
    def is_at_unused(self) -> bool: ...
    def skip(self) -> bool: ...

@final
class PositionScan:
    def __init__(self, replay: Replay, columns: Sequence[str] | None = ..., *, log_partition: int = ...) -> None: ...
    def read(self, rows: int = ...) -> Any | None: ...
