from typing import Any

from typing_extensions import disjoint_base

# The arrays are pyarrow's and numpy's.

@disjoint_base
class RowEncoder:
    def __init__(self, keys: Any, values: Any, timestamps: Any, own: Any) -> None: ...
    def batch(
        self,
        start: int,
        count: int,
        base_offset: int,
        *,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = 0,
        transactional: bool = False,
        control: bool = False,
        log_append_time: bool = False,
        delete_horizon: int = -1,
    ) -> bytes: ...
