from typing import Any

from offsetlog._native.cleaner import CleanControl
from offsetlog._native.partition import Partition
from offsetlog.types import CleanShare

def survey(
    partition: Partition,
    *,
    now_ms: int,
    closes_active: bool,
    end_max: int = ...,
    holds: list[tuple[str, bool, int]] | None = None,
    delete_retention_ms: int = 86_400_000,
    map_bytes: int = ...,
    control: CleanControl | None = None,
) -> tuple[dict[str, Any], list[CleanShare]]: ...
