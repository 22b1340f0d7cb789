"""The ways to compute the state of a partition, and the keys whose values differ between two of them.

The ways are live commits, a load, a replay of the files, a replay of the records that the cleaner would keep, and a
snapshot with the log after it.  All apply records with the same code, so they must give the same state
(docs/digest.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from offsetlog._native.cleaner import replay_cleaned
from offsetlog._native.files import format_uuid
from offsetlog._native.log_view import LogView
from offsetlog._native.partition import Partition
from offsetlog._native.replay import Replay
from offsetlog._native.snapshot import Snapshot
from offsetlog._native.state_diff import LiveComparison, compare, compare_snapshot
from offsetlog.cancellation import Control
from offsetlog.errors import OffsetLogError
from offsetlog.types import Digest, Way
from offsetlog.verify.findings import KeyDifference, Place

#: How many of the differing keys are named.
KEYS_NAMED = 20

#: Memory for the keys of a cleaning: more than enough for the live ones, and some for deleted
#: ones.
CLEANER_MAP_BYTES = 64 << 20
BYTES_PER_KEY = 48

#: The ways to compute a state, with the text that names each of them in a problem.
WAYS = {
    "live": "the commits of this store",
    "loaded": "loading the partition",
    "replay": "a replay of its files",
    "cleaned": "a replay of the records that the cleaner would keep",
    "snapshot": "its snapshot and the log after it",
}

_POSITION = (
    "offset",
    "log_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "expire_timestamp",
    "topic_id",
)
_RECORD = ("bytes", "xxh3_128", "log_offset", "timestamp")

Sums = tuple[int, int, int]
Row = tuple[Any, ...]
#: Replays a log up to a log offset.  The segments are those of a view; None stands for the present files.
ReplayTo = Callable[[int, LogView | None], Replay]


def replay_files(
    replay: Replay, paths: Iterable[str | Path], *, since: int = 0, until: int = 2**63 - 1
) -> list[OffsetLogError]:
    """Applies the records of a log from log offset `since` up to, but not including, `until`.

    Bytes that cannot be read are skipped.  Returns the errors for these bytes, and for records that were refused.

    Raises:
        MissingFileError, StorageError, CapacityError: a file could not be opened.
    """
    failures: list[OffsetLogError] = []
    for path in paths:
        position: int | None = 0
        while position is not None:
            step = replay.apply(
                path, position=position, since=since, until=until, unreadable=True
            )
            failures += step["refused"]
            position = None
            if step["damage"] is not None and replay.next_offset < until:
                failures.append(step["damage"])
                position = replay.skip(path, step["position"], unreadable=True)
    return failures


def replay_cleaned_log(
    partition: Partition, replay: Replay, paths: Iterable[str | Path], end: int, control: Control
) -> str:
    """Replays the records that the cleaner would keep if it ran now, and the rest of the log up to `end`.

    Args:
        partition: a loaded partition, writable or read-only; it is not changed.
        replay: an empty replay.
        paths: the files of the log, or the files of the replay's view.
        end: a log offset up to which the partition has applied its log.
        control: lets the caller stop the call; `replay` must have been made with the flag of this control.

    Returns:
        The reason why the replay could not be made; "" if it was made.

    Raises:
        ClosedError: the replay was stopped.
        StateError, StorageError, CapacityError, MissingFileError.
    """
    control.renew()
    found = replay_cleaned(
        partition,
        replay,
        now_ms=time.time_ns() // 1_000_000,
        end_max=end,
        map_bytes=CLEANER_MAP_BYTES + BYTES_PER_KEY * partition.count(),
        control=control.clean,
    )
    control.check()
    if found["quarantined"]:
        return f"the cleaner would not rewrite a damaged segment: {found['quarantine'][0][1].message}"
    if found["truncated"]:
        return "the log was truncated meanwhile"
    replay_files(replay, paths, since=found["sink_end"], until=end)
    return ""


class WaysCheck:
    """The ways to compute the state of one partition, compared one after another.

    Attributes:
        ways: the ways that were used, and those that could not be used.
    """

    def __init__(self, place: Place, path: str | Path) -> None:
        self._place = place
        self._path = path
        self.ways: list[Way] = []

    def went(self, name: str, sums: Sums, end: int) -> None:
        """Records that a way gave the state up to the log offset `end`, with the physical digest of that state."""
        self.ways.append(Way(self._place.log_partition, name, end, Digest(*sums)))

    def left_out(self, name: str, why: str) -> None:
        """Records a way that could not be used."""
        self.ways.append(Way(self._place.log_partition, name, -1, None, why))

    def differ(
        self, left: str, right: str, rows: list[Row], count: int, *, at_least: bool = False
    ) -> None:
        """Reports that two ways give different states, with the keys that differ."""
        keys = tuple(_key(row, left, right) for row in rows[:KEYS_NAMED])
        many = f"{'at least ' if at_least else ''}{count} key{'' if count == 1 else 's'}"
        differing = (
            f"{many} differ{'s' if count == 1 else ''}"
            if count
            else "the keys that differ have been committed again meanwhile"
        )
        self._place.problem(
            "digest",
            f"the state from {WAYS[left]} differs from the state from {WAYS[right]}: {differing}",
            self._path,
            keys=keys,
        )

    def differ_live(
        self, left: str, right: str, partition: Partition, replay: Replay, cut: int, again: ReplayTo
    ) -> None:
        """Does the work of `differ` for an open partition, whose state changes while it is compared.

        Only keys that really differed at the log offset `cut` are reported.

        Args:
            left: the way in which the partition's state was computed.
            right: the way in which the state of `replay` was computed.
            partition: the open partition.
            replay: the state after the records below `cut`, which differs.
            cut: the log offset of both states when they differed.
            again: computes the state of `replay` a second time.
        """
        found = LiveComparison(partition, replay, cut)
        if found.count > 0:
            applied, view = found.read()
            try:
                found.settle(again(applied, view))
            finally:
                if view is not None:
                    view.close()
        self.differ(left, right, found.rows(KEYS_NAMED), found.count, at_least=found.left_out > 0)

    def differ_replayed(self, left: str, right: str, one: Replay | Snapshot, other: Replay) -> None:
        """Does the work of `differ` for two states that do not change."""
        if isinstance(one, Snapshot):
            rows, left_out = compare_snapshot(one, other, limit=KEYS_NAMED)
        else:
            rows, left_out = compare(one, other, limit=KEYS_NAMED)
        self.differ(left, right, rows, len(rows) + left_out)


def _key(row: Row, left: str, right: str) -> KeyDifference:
    kind, producer_id, group, topic, partition, key, one, other = row
    names = _POSITION if key is None else _RECORD
    return KeyDifference(
        kind,
        producer_id,
        group,
        topic,
        partition,
        key,
        (left, right),
        (_side(names, one), _side(names, other)),
    )


def _side(names: tuple[str, ...], side: Row | None) -> dict[str, Any] | None:
    if side is None:
        return None
    fields = dict(zip(names, side, strict=True))
    if fields.get("topic_id") is not None:
        fields["topic_id"] = format_uuid(fields["topic_id"])
    if "xxh3_128" in fields:
        fields["xxh3_128"] = f"{fields['xxh3_128']:032x}"
    return fields
