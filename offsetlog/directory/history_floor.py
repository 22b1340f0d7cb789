"""The floor of history: the lowest log offset whose state the log of a partition can still show.

The state at a log offset can be rebuilt if no record that it needs was cleaned away.  This is so at every log offset at
or above the floor.  Below the floor, it is so only at a log offset below which no record is missing.  Kafka's
`cleaner-offset-checkpoint` has the log offset at which the last complete pass of a cleaner ended.  A cleaner writes
that file after it has replaced the segments.  Our cleaner writes the file `offsetlog.history` in a partition's
directory before it replaces the segments.  `offsetlog.history` has the floor that the pass will leave, so the file is
right even if the pass stops halfway.  The file also has the lower floors of the groups whose history was kept
(`min_history`).

A cleaner calls `raise_floor` before it replaces the first segment.  Any code may call `read_floor`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offsetlog._native import timeline
from offsetlog._native.files import FileSystem, parse_directory_name
from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.errors import MissingFileError

#: The name of the file in a partition's directory; Kafka ignores it.
FLOOR_FILE = "offsetlog.history"

_FORMAT = 1
#: The floor if the file cannot be understood.  It is above every log offset.
_UNKNOWN = 2**63 - 1

#: A group's name, or "prefix*" for every group whose name begins with the prefix, and a log offset.
Hold = tuple[str, int]


def _matches(pattern: str, name: str) -> bool:
    # `name` is a group or a pattern.  A pattern stands for the groups that no more specific pattern
    # matches.
    if pattern == name:
        return True
    return pattern.endswith("*") and name.removesuffix("*").startswith(pattern[:-1])


@dataclass(frozen=True, slots=True)
class HistoryFloor:
    """The floors of one partition.

    Attributes:
        end: the log has the states of every group at this log offset and above; 0 if it was never
            cleaned.
        groups: the groups whose history was kept for longer, by name or by "prefix*", each with a log offset below
            `end`.  The log has the states of such a group from that log offset on.  A group's own name takes precedence
            over a prefix, and a longer prefix over a shorter one.
        foreign: the log offset at which another cleaner, such as Kafka's, ended; 0 if none has run.  Such a cleaner
            drops a value of an open transaction as soon as a later value of a transaction has the same key, although
            neither takes effect before its transaction ends.
    """

    end: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)
    foreign: int = 0

    def of(self, group: str | None) -> int:
        """Returns the floor of one group; for None, the floor of all groups together."""
        if group is None:
            return self.end
        if group in self.groups:
            return self.groups[group]
        known = [
            pattern for pattern in self.groups if pattern.endswith("*") and _matches(pattern, group)
        ]
        return self.groups[max(known, key=len)] if known else self.end

    def raised(self, end: int, holds: Iterable[Hold] = ()) -> HistoryFloor:
        """Returns the floors after a pass of a cleaner.

        Args:
            end: the log offset that the pass reached: no record at or above it caused another record to be dropped.
            holds: names or prefixes of groups, each with a log offset.  No record of such a group at or above the
                log offset was dropped or caused another record to be dropped.  If several entries match a group,
                the lowest log offset applies.
        """
        held = list(holds)
        named = {*self.groups, *(pattern for pattern, _ in held)}
        groups = {}
        for name in named:
            limit = min([end, *(offset for pattern, offset in held if _matches(pattern, name))])
            groups[name] = max(self.of(name), limit)
        highest = max(self.end, end)
        # An entry that changes nothing is dropped, unless it exempts a group from a prefix with a
        # lower floor.
        kept = {
            name: floor
            for name, floor in groups.items()
            if floor < highest or any(_matches(other, name) for other in groups if other != name)
        }
        return HistoryFloor(highest, kept, self.foreign)

    @property
    def is_unknown(self) -> bool:
        """Whether `offsetlog.history` could not be understood."""
        return self.end == _UNKNOWN

    def lifted(self, holds: Iterable[Hold]) -> tuple[int, int] | None:
        """Returns the log offsets (first, end) of the history of groups that `holds` no longer keeps.

        Earlier cleans kept this history.  If `holds` still keeps all of it, first and end are both the lowest log
        offset that is kept.  If no group's history was kept, the result is None.
        """
        held = list(holds)
        found = []
        for name, floor in self.groups.items():
            if floor < self.end:
                limit = min(
                    [self.end, *(offset for pattern, offset in held if _matches(pattern, name))]
                )
                found.append((floor, max(floor, limit)))
        if not found:
            return None
        lifted = [each for each in found if each[1] > each[0]]
        if not lifted:
            return min(found)
        return min(floor for floor, _ in lifted), max(limit for _, limit in lifted)

    def unheld(self, patterns: Iterable[str], limit: int) -> list[str]:
        """Returns the groups and prefixes whose history earlier cleans kept and the next clean would drop.

        Args:
            patterns: the groups and prefixes ("prefix*") that have a minimum history in the settings.  The result omits
                them.
            limit: all groups keep records at or above this log offset.
        """
        known = list(patterns)
        lower = [name for name, floor in self.groups.items() if floor < min(self.end, limit)]
        return sorted(
            name for name in lower if not any(_matches(pattern, name) for pattern in known)
        )

    def at_least(self, checkpoint: int) -> HistoryFloor:
        """Returns the floors, with a cleaner's checkpoint taken into account.

        A checkpoint above `end` was written by another program's cleaner, which kept no group's history.
        """
        return self if checkpoint <= self.end else HistoryFloor(checkpoint, foreign=checkpoint)


def _is_offset(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _UNKNOWN


def _parsed(content: bytes) -> HistoryFloor:
    # If the file cannot be understood, nothing is guessed, because any state may be gone.
    try:
        entries: Any = json.loads(content)
        end, groups, foreign = entries["end"], dict(entries["groups"]), entries["foreign"]
        if entries["format"] == _FORMAT and all(map(_is_offset, [end, *groups.values(), foreign])):
            return HistoryFloor(end, groups, foreign)
    except (ValueError, KeyError, TypeError):
        pass
    return HistoryFloor(_UNKNOWN)


def read_floor(fs: FileSystem, directory: Path) -> HistoryFloor:
    """Returns the floors that our cleaner recorded in a partition's directory."""
    try:
        return _parsed(fs.read_file(directory / FLOOR_FILE))
    except MissingFileError:
        return HistoryFloor()


def raise_floor(
    fs: FileSystem,
    directory: Path,
    checkpoint: int,
    end: int,
    holds: Iterable[Hold] = (),
    *,
    log_end: int | None = None,
) -> HistoryFloor:
    """Records durably that a pass will clean a partition; the pass may replace segments only after this call.

    Args:
        fs: the file port.
        directory: the partition's directory.
        checkpoint: the cleaner's checkpoint before the pass, -1 or 0 for none.
        end: as in `HistoryFloor.raised`; may be higher than the end that the pass reaches.
        holds: as in `HistoryFloor.raised`.
        log_end: the present log end offset.  If the file `offsetlog.history` cannot be understood, this offset becomes
            the floor: every floor in the file was below it.  From then on, history is kept for later commits.

    Raises:
        StorageError: nothing was recorded.
    """
    known = read_floor(fs, directory)
    if known.is_unknown and log_end is not None:
        known = HistoryFloor(log_end, foreign=log_end)
    floor = known.at_least(checkpoint).raised(end, holds)
    content = {
        "format": _FORMAT,
        "end": floor.end,
        "groups": dict(sorted(floor.groups.items())),
        "foreign": floor.foreign,
    }
    fs.replace_file(directory / FLOOR_FILE, (json.dumps(content) + "\n").encode())
    return floor


def cutoff_offset(partition: Partition | Path, timestamp_ms: int) -> int:
    """Returns the log offset below which a log can be cleaned without losing a state at or after a time.

    The result is the end of the longest prefix of the log whose timestamps are all <= the time.  If transactions are
    open at the end of this prefix, the result is the log offset at which the oldest of them began: the records of a
    transaction take effect only when it ends, which is after the prefix.

    Args:
        partition: an open partition, which may be used from any thread; or a partition's directory, which is only read.
        timestamp_ms: the time, in milliseconds since 1970.

    Raises:
        MissingFileError, StorageError, CorruptionError, CapacityError, StateError.
    """
    if isinstance(partition, Partition):
        return timeline.open_since(partition, timeline.cutoff(partition, timestamp_ms))
    parsed = parse_directory_name(partition.name)
    fs = FileSystem()
    if not fs.exists(partition):
        raise MissingFileError("the directory does not exist", path=partition)
    number = parsed[1] if parsed is not None else 0
    opened = Partition(partition, number, fs, None, StoreConfig(), writable=False)
    try:
        return cutoff_offset(opened, timestamp_ms)
    finally:
        opened.abandon()
