"""Group records as a broker writes them, appended to the log of a closed store: no call of a store writes them."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from conformance.oracle_records import SCHEMAS, Array, Nullable
from store import expiry_reference as reference

from offsetlog._native.encoding import encode_batch, encode_key, encode_value

Records = dict[tuple[int, str], bytes]


def _empty(type_: Any) -> Any:
    """Returns a possible field of the oracle's schema: a value of the newer kinds, which retention does not read."""
    if isinstance(type_, list):
        return {each.name: _empty(each.type) for each in type_ if each.tag is None}
    if isinstance(type_, Array):
        return []
    if isinstance(type_, Nullable):
        return None
    return {"string": "", "bytes": b"", "uuid": UUID(int=0)}.get(type_, 0)


def classic(protocol_type: str, state_ms: int, members: int, version: int = 3) -> Records:
    return {(2, ""): reference.classic_value(version, protocol_type, state_ms, members)}


def modern(kinds: list[int]) -> Records:
    return {
        (kind, "m" if kind in reference.MEMBER_TYPES else ""): encode_value(kind, 0, _empty(SCHEMAS[kind]))
        for kind in kinds
    }


def _key(group: str, kind: int, member: str) -> bytes:
    fields = {"group": group} if kind == 2 else {"groupId": group}
    if kind in reference.MEMBER_TYPES:
        fields["memberId"] = member
    return encode_key(kind, fields)


def _end_of(folder: Path) -> tuple[Path, int, int]:
    """The last segment, the log end offset, and the leader epoch there."""
    segments = sorted(folder.glob("[0-9]*.log"))
    end, epoch = int(segments[-1].stem), -1
    for segment in segments:
        content = segment.read_bytes()
        at = 0
        while at < len(content):
            base, size, epoch = struct.unpack_from(">qii", content, at)
            (delta,) = struct.unpack_from(">i", content, at + 23)
            end = max(end, base + delta + 1)
            at += 12 + size
    return segments[-1], end, epoch


def append(folder: Path, group: str, before: Records, after: Records) -> None:
    """Writes the records of a group to a partition's directory, and tombstones for those that it has no more.

    Deleted records come first, so that the kind of the group is that of its newest record.
    """
    segment, end, epoch = _end_of(folder)
    gone = [(_key(group, *key), None) for key in before if key not in after]
    written = [(_key(group, *key), value) for key, value in after.items()]
    if gone or written:
        batch = encode_batch(end, time.time_ns() // 1_000_000, [*gone, *written], leader_epoch=epoch)
        with segment.open("ab") as file:
            file.write(batch)
