from collections.abc import Callable
from typing import Any, Self, final

from offsetlog._native.partition import Partition
from offsetlog._native.replay import Replay
from offsetlog.errors import OffsetLogError

@final
class Compressor:
    def __new__(cls) -> Self: ...

@final
class CleanControl:
    def stop(self) -> None: ...
    @property
    def stopped(self) -> bool: ...
    def progress(self) -> dict[str, int]: ...

def clean(
    partition: Partition,
    control: CleanControl,
    *,
    now_ms: int,
    first_dirty: int = -1,
    end_max: int = ...,
    holds: list[tuple[str, bool, int]] | None = None,
    delete_retention_ms: int = 86_400_000,
    map_bytes: int = ...,
    bytes_per_second: int = 0,
    raise_floor: Callable[[int], object] | None = None,
) -> tuple[dict[str, Any], OffsetLogError | None]: ...
def replay_cleaned(
    partition: Partition,
    into: Replay,
    *,
    now_ms: int,
    end_max: int = ...,
    delete_retention_ms: int = 86_400_000,
    map_bytes: int = ...,
    control: CleanControl | None = None,
) -> dict[str, Any]: ...
def roll(partition: Partition) -> None: ...
def log_facts(partition: Partition, ages: bool = False) -> dict[str, Any]: ...
