from collections.abc import Iterable
from typing import final

import pyarrow

from offsetlog._native.partition import Partition

REASONS: tuple[str, ...]

@final
class ExpiryRules:
    def __init__(self, rules: list[tuple[str, bool, int | None]], default_ms: int | None) -> None: ...

@final
class ExpiryStop:
    is_set: bool
    def set(self) -> None: ...

@final
class ExpiringRows:
    def __len__(self) -> int: ...
    def add(
        self, partition: Partition, rules: ExpiryRules, until_ms: int, stop: ExpiryStop | None = None
    ) -> dict[str, int]: ...
    def groups(self) -> list[str]: ...
    def to_arrow(self, rule_names: list[str]) -> pyarrow.Table: ...

def newest_timestamp(partition: Partition) -> int: ...
def expire(partition: Partition, rules: ExpiryRules, now_ms: int, stop: ExpiryStop | None = None) -> dict[str, int]: ...
def expire_group(
    partition: Partition,
    rules: ExpiryRules,
    now_ms: int,
    group: str,
    subscribed: Iterable[str] | None = None,
    stop: ExpiryStop | None = None,
) -> dict[str, int]: ...
def expiring_schema() -> pyarrow.Schema: ...
