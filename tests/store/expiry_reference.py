"""Expiry, decided slowly and in plain Python from docs/format/coordinator.md §5.13; shares nothing with the
engine but the bytes.

Without a coordinator: a group with members is left alone, whatever state it was in.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Slot = tuple[str, int]


class Committed(NamedTuple):
    """A committed position: when, and the time at which its own record says that it expires (-1 for none)."""

    commit_ms: int
    expire_ms: int = -1


@dataclass
class Group:
    """A group: its positions, those that a transaction has a value for, and its own records by type and member."""

    positions: dict[Slot, Committed] = field(default_factory=dict)
    pending: set[Slot] = field(default_factory=set)
    records: dict[tuple[int, str], bytes] = field(default_factory=dict)
    #: The type of the record that was written last.
    newest_type: int = -1


def text(value: str) -> bytes:
    """A string of the old formats."""
    return struct.pack(">h", len(value.encode())) + value.encode()


def classic_value(version: int, protocol_type: str, state_ms: int, members: int) -> bytes:
    """A GroupMetadata value of version 0 to 3 (docs/format/records.md §3.4)."""
    out = struct.pack(">h", version) + text(protocol_type) + struct.pack(">ihh", 1, -1, -1)
    if version >= 2:
        out += struct.pack(">q", state_ms)
    out += struct.pack(">i", members)
    for number in range(members):
        out += text(f"m{number}")
        out += struct.pack(">h", -1) if version >= 3 else b""
        out += text("c") + text("/h")
        out += struct.pack(">i", 1) if version >= 1 else b""
        out += struct.pack(">iii", 1, 0, 0)
    return out


def _classic(value: bytes) -> tuple[str, int, int]:
    """Protocol type, time of the state (-1 unknown), members."""
    version, size = struct.unpack_from(">hh", value)
    name = value[4 : 4 + size].decode()
    at = 4 + size + 8
    state_ms = -1
    if version >= 2:
        (state_ms,) = struct.unpack_from(">q", value, at)
        at += 8
    (members,) = struct.unpack_from(">i", value, at)
    return name, state_ms, members


MEMBER_TYPES = {5, 7, 8, 10, 13, 14, 19, 21, 22}
SHARE_TYPES = {10, 11, 12, 13, 14, 15}


def _is_held(group: Group) -> bool:
    if any(kind in MEMBER_TYPES for kind, _ in group.records) or group.newest_type in SHARE_TYPES:
        return True
    classic = group.records.get((2, ""))
    return classic is not None and _classic(classic)[2] > 0


def expires_at(group: Group, slot: Slot, retention_ms: int) -> int | None:
    """When a position expires by its group's state; None for never."""
    if _is_held(group):
        return None
    position = group.positions[slot]
    if position.expire_ms >= 0:
        return position.expire_ms
    start = position.commit_ms
    if group.newest_type == 2:
        protocol_type, state_ms, _ = _classic(group.records[2, ""])
        if protocol_type and state_ms >= 0:
            start = state_ms
    return start + retention_ms


def rule_of(name: str, default: int | None, rules: Mapping[str, int | None]) -> tuple[str | None, int | None]:
    """The rule in force for a group, None for the default, and its retention."""
    if name in rules and not name.endswith("*"):
        return name, rules[name]
    fitting = [rule for rule in rules if rule.endswith("*") and name.startswith(rule[:-1])]
    if fitting:
        best = max(fitting, key=len)
        return best, rules[best]
    return None, default


class Outcome(NamedTuple):
    """The result of a check: positions that go, groups that become empty, positions that a transaction protects."""

    expired: set[tuple[str, str, int]]
    removed: set[str]
    protected: int


def check(groups: Mapping[str, Group], default: int | None, rules: Mapping[str, int | None], now: int) -> Outcome:
    """Returns the result of a check at `now`."""
    expired: set[tuple[str, str, int]] = set()
    removed: set[str] = set()
    protected = 0
    for name, group in groups.items():
        _, retention_ms = rule_of(name, default, rules)
        if retention_ms is None or not (group.positions or group.records):
            continue
        due = set()
        for slot in group.positions:
            at = expires_at(group, slot, retention_ms)
            if at is not None and at <= now:
                due.add(slot)
        protected += len(due & group.pending)
        gone = due - group.pending
        expired |= {(name, *slot) for slot in gone}
        if gone == set(group.positions) and not group.pending and not _is_held(group):
            removed.add(name)
    return Outcome(expired, removed, protected)
