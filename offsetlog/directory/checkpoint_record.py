"""`offsetlog.checkpoints`: a record of a log directory's checkpoints as this library last wrote them.

If a checkpoint no longer matches the record, a broker that used the directory or a bad disk changed it.  The record has
the hash of each checkpoint's content.  While a checkpoint is replaced, the record has the hashes of the old and of the
new content, because the record is published before the checkpoint.  A missing checkpoint has the hash "-".

    offsetlog checkpoints 1
    recovery-point-offset-checkpoint 1b64c0ffee25a3f0 -
    topic 50 cRIUQhvmRXe2OSsLVzI9dQ
    existing 0-3,7
    cleaned 3 130
    others 3 130
    check 60a1f3b29cd0e847

The lines have these contents:

* `topic`: the number of partitions, and the topic id or "-".
* `existing`: the log partitions whose directories must exist.
* `cleaned`: the number of a log partition, and the log offset that this library wrote for it to the cleaner's
  checkpoint.  If the checkpoint has another log offset, another program's cleaner wrote it.
* `others`: the number of a log partition with losses on which another program worked, and the log offset up to which
  that program cleaned it.  -1 means that the program cleaned nothing.  With this line, the next open judges the losses
  in the same way as the last one.

The lines `topic` and `existing` repeat `offsetlog.properties`, in case that file is damaged or lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import xxhash

from offsetlog._native.files import format_uuid, parse_uuid
from offsetlog.config import PARTITIONS_MAX
from offsetlog.directory import partition_list
from offsetlog.errors import CorruptionError

NAME = "offsetlog.checkpoints"
_TITLE = "offsetlog checkpoints 1"
_MISSING = "-"


def hash_of(content: bytes | None) -> str:
    """Returns the hash of a checkpoint's content; None stands for a missing checkpoint."""
    return _MISSING if content is None else xxhash.xxh3_64_hexdigest(content)


@dataclass(slots=True)
class CheckpointRecord:
    """The contents of the record.  Not thread-safe.

    Attributes:
        hashes: the hashes that each checkpoint may have, by the checkpoint's name.
        others: the log offsets up to which another program cleaned log partitions, by log partition.
        cleaned: the log offsets up to which log partitions were cleaned according to the cleaner's checkpoint, by log
            partition.
        existing: the log partitions whose directories must exist.
        partitions: the topic's number of partitions, None if unknown, for example in a record of an earlier version.
        topic_id: the topic's id, None if unknown.
    """

    hashes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)
    cleaned: dict[int, int] = field(default_factory=dict)
    existing: frozenset[int] = frozenset()
    partitions: int | None = None
    topic_id: bytes | None = None

    def is_as_left(self, name: str, content: bytes | None) -> bool:
        """Returns whether a checkpoint is unchanged since this library wrote it."""
        return hash_of(content) in self.hashes.get(name, (_MISSING,))

    def format(self) -> bytes:
        """Returns the bytes of the file."""
        lines = [_TITLE]
        lines += [f"{name} {' '.join(hashes)}" for name, hashes in sorted(self.hashes.items())]
        if self.partitions is not None:
            lines.append(f"topic {self.partitions} {_MISSING if self.topic_id is None else format_uuid(self.topic_id)}")
        if self.existing:
            lines.append(f"existing {partition_list.format_numbers(self.existing)}")
        lines += [f"cleaned {number} {offset}" for number, offset in sorted(self.cleaned.items())]
        lines += [f"others {number} {offset}" for number, offset in sorted(self.others.items())]
        text = "".join(f"{line}\n" for line in lines).encode()
        return text + f"check {hash_of(text)}\n".encode()


def parse(text: bytes) -> CheckpointRecord:
    """Returns the contents of a record.

    Raises:
        CorruptionError: the record is damaged, or has an unknown version.
    """
    body, found, check = text.rpartition(b"check ")
    if not found or check != f"{hash_of(body)}\n".encode():
        raise CorruptionError("the checksum of the record of checkpoints is wrong")
    lines = body.decode("ascii", "replace").splitlines()
    if not lines or lines[0] != _TITLE:
        raise CorruptionError("the record of checkpoints has an unknown version")
    record = CheckpointRecord()
    for line in lines[1:]:
        name, *values = line.split(" ")
        try:
            _add_line(record, name, values)
        except (ValueError, CorruptionError):
            raise CorruptionError(f"a line of the record of checkpoints cannot be read: {line!r}") from None
    return record


def _add_line(record: CheckpointRecord, name: str, values: list[str]) -> None:
    if name in ("cleaned", "others"):
        number, offset = (int(value) for value in values)
        (record.cleaned if name == "cleaned" else record.others)[number] = offset
    elif name == "topic":
        partitions, topic_id = values
        record.partitions = int(partitions)
        if not 1 <= record.partitions <= PARTITIONS_MAX:
            raise ValueError(f"the number of partitions must be from 1 to {PARTITIONS_MAX}, not {partitions}")
        record.topic_id = None if topic_id == _MISSING else parse_uuid(topic_id)
    elif name == "existing":
        [numbers] = values
        record.existing = partition_list.parse_numbers(numbers)
    else:
        record.hashes[name] = tuple(values)
