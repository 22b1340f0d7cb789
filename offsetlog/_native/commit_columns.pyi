from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from offsetlog._native.store_core import StoreCore
from offsetlog.errors import OffsetLogError

FLAWS: dict[int, tuple[type[OffsetLogError], str]]

def commit_arrow(core: StoreCore, batch: Any, *, durability: str | None = None) -> int: ...
def write_in_transaction(
    core: StoreCore,
    batch: Any,
    producer_id: int,
    producer_epoch: int,
    admit: Callable[[int], bool],
    *,
    pool: Executor | None = None,
) -> int: ...
