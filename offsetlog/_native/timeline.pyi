from typing import Any, NamedTuple, TypeAlias, final

from offsetlog._native.partition import Partition

# offset, leader epoch, metadata, commit timestamp, expire timestamp, topic id, log offset
_Value: TypeAlias = tuple[int, int, bytes, int, int, bytes | None, int]

class Facts(NamedTuple):
    first_missing: int | None
    missing_end: int
    max_timestamp: int
    last_timestamp: int | None
    passed_over: int
    refused: int

class Batch(NamedTuple):
    first: int
    next: int
    timestamp: int

def bounds(partition: Partition) -> tuple[int, int]: ...
def last_segment_base(partition: Partition) -> int: ...
def cutoff(partition: Partition, timestamp_ms: int) -> int: ...
def open_since(partition: Partition, offset: int) -> int: ...
def ended_by(partition: Partition, offset: int, until: int) -> int: ...
def survey(partition: Partition, start: int, until: int) -> Facts: ...
def next_batch(partition: Partition, start: int) -> Batch | None: ...
def events(
    partition: Partition, group: str, topic: str | None, number: int, until: int
) -> tuple[list[tuple[Any, ...]], Facts]: ...
def tombstones(
    partition: Partition, group: str | None, until: int, since_ms: int
) -> tuple[list[tuple[bytes, bytes, int, int, int, int, _Value | None]], Facts]: ...

@final
class Pasts:
    facts: Facts
    def __init__(self, partition: Partition, group: str | None, cuts: list[int] | tuple[int, ...]) -> None: ...
    def rows(self) -> dict[tuple[bytes, int], _Value]: ...
    def changes(self) -> list[tuple[bytes, bytes, int, _Value | None, _Value | None]]: ...

@final
class GroupNow:
    rows: dict[tuple[bytes, int], _Value]
    def __init__(self, partition: Partition, group: str) -> None: ...
    def commit(
        self, partition: Partition, group: str, changes: list[tuple[bytes, int, _Value | None]]
    ) -> tuple[int, int, int, int] | None: ...
