"""The floor of history: how far back the log of a partition says what was committed.

The state at a log offset can be made from the log when nothing that it needs was cleaned away: at
every offset that is not below the floor, and wherever no record is missing below it.  Kafka's
`cleaner-offset-checkpoint` says where the last complete pass of a cleaner ended, and it says so
after the segments were replaced.  The file `offsetlog.history` of a partition's directory says
more, and says it before: the states that our cleaner is about to drop, also when it stops in the
middle, and the lower floors of groups whose history was kept (`min_history`).

The one who cleans calls `raise_floor` before the first segment is replaced.  Everybody may call
`read_floor`.
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

#: In a partition's directory; Kafka ignores the name.
FLOOR_FILE = "offsetlog.history"

_FORMAT = 1
#: Above every log offset: the possible claim of a file that cannot be understood.
_UNKNOWN = 2**63 - 1

#: The name of a group, or "prefix*" for every group that begins so, and a log offset.
Hold = tuple[str, int]


def _matches(pattern: str, name: str) -> bool:
    # `name` is a group, or itself a pattern, which stands for the groups that nothing more
    # particular names.
    if pattern == name:
        return True
    return pattern.endswith("*") and name.removesuffix("*").startswith(pattern[:-1])


@dataclass(frozen=True, slots=True)
class HistoryFloor:
    """The floors of one partition.

    Attributes:
        end: the log has the states at this log offset and above, of every group; 0 if it was never
            cleaned.
        groups: by group, or "prefix*", a lower offset down to which the log has the states of these
            groups.  The name of a group counts before a prefix, and a longer prefix before a
            shorter one.
        foreign: where another cleaner ended, as Kafka's, which lets values of transactions
            supersede others that were open there: values that count only from their ends on. 0 where
            there was none.
    """

    end: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)
    foreign: int = 0

    def of(self, group: str | None) -> int:
        """Returns the floor of one group, or with None that of all groups together."""
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
            end: nothing at or above it decided what went.
            holds: groups of which nothing at or above an offset was touched, or decided; the lowest
                that fits counts.
        """
        held = list(holds)
        named = {*self.groups, *(pattern for pattern, _ in held)}
        groups = {}
        for name in named:
            limit = min([end, *(offset for pattern, offset in held if _matches(pattern, name))])
            groups[name] = max(self.of(name), limit)
        highest = max(self.end, end)
        # An entry that adds nothing goes, unless it keeps a group out of a prefix with a lower
        # floor.
        kept = {
            name: floor
            for name, floor in groups.items()
            if floor < highest or any(_matches(other, name) for other in groups if other != name)
        }
        return HistoryFloor(highest, kept, self.foreign)

    @property
    def is_unknown(self) -> bool:
        """Whether the file could not be understood."""
        return self.end == _UNKNOWN

    def lifted(self, holds: Iterable[Hold]) -> tuple[int, int] | None:
        """Returns what was held back of any group below `end`, and need not be by these holds: from where up to where.

        Where all of it is held back still, both are where it begins; None where nothing is.
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
        """Returns the groups, and prefixes, of which a pass would let go what was held back until now.

        Args:
            patterns: groups, or "prefix*", about which there is a word: not these.
            limit: records at or above, which all groups keep, stay as well.
        """
        known = list(patterns)
        lower = [name for name, floor in self.groups.items() if floor < min(self.end, limit)]
        return sorted(
            name for name in lower if not any(_matches(pattern, name) for pattern in known)
        )

    def at_least(self, checkpoint: int) -> HistoryFloor:
        """Returns the floors where a cleaner's checkpoint is known besides.

        One above ours is of a cleaner that came after us and kept no history of any group.
        """
        return self if checkpoint <= self.end else HistoryFloor(checkpoint, foreign=checkpoint)


def _is_offset(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _UNKNOWN


def _parsed(content: bytes) -> HistoryFloor:
    # Nothing is guessed about a file that cannot be understood: any state may be gone.
    try:
        entries: Any = json.loads(content)
        end, groups, foreign = entries["end"], dict(entries["groups"]), entries["foreign"]
        if entries["format"] == _FORMAT and all(map(_is_offset, [end, *groups.values(), foreign])):
            return HistoryFloor(end, groups, foreign)
    except (ValueError, KeyError, TypeError):
        pass
    return HistoryFloor(_UNKNOWN)


def read_floor(fs: FileSystem, directory: Path) -> HistoryFloor:
    """Returns what our cleaner recorded in a partition's directory."""
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
    """Records durably that a pass will clean a partition, which may replace nothing before.

    Args:
        fs: the file port.
        directory: of the partition.
        checkpoint: the cleaner's checkpoint before the pass, -1 or 0 for none.
        end: as for `HistoryFloor.raised`; may be higher than what the pass will come to.
        holds: as for `HistoryFloor.raised`.
        log_end: where the log ends now.  Whatever a file said that cannot be understood lies below:
            later commits are kept again.

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
    """Returns the log offset below which a cleaner may clean and yet spoil no state of a time or later.

    The longest prefix of the log whose timestamps are all <= the time ends there.  Where
    transactions were open at that end, the offset is the one where the oldest of them began: their
    records take effect at their ends, which the prefix does not have.

    Args:
        partition: an open partition, from any thread; or a partition's directory, which is only
            read.
        timestamp_ms: milliseconds since 1970.

    Raises:
        MissingFileError, StorageError, CorruptionError, CapacityError, StateError.
    """
    if isinstance(partition, Partition):
        return timeline.open_since(partition, timeline.cutoff(partition, timestamp_ms))
    parsed = parse_directory_name(partition.name)
    fs = FileSystem()
    if not fs.exists(partition):
        raise MissingFileError("there is no such directory", path=partition)
    number = parsed[1] if parsed is not None else 0
    opened = Partition(partition, number, fs, None, StoreConfig(), writable=False)
    try:
        return cutoff_offset(opened, timestamp_ms)
    finally:
        opened.abandon()
