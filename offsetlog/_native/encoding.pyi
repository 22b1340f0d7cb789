from typing import Any

def encode_key(key_type: int, fields: dict[str, Any]) -> bytes: ...
def encode_value(key_type: int, version: int, fields: dict[str, Any]) -> bytes: ...
def encode_batch(
    base_offset: int,
    timestamp: int,
    records: list[tuple[bytes | None, bytes | None]],
    *,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytes: ...
