"""Reading a log directory, a partition directory or a single segment file that may belong to somebody else.

Nothing is opened for writing, locked, mapped or repaired, and what disappears or shrinks meanwhile (a running broker
cleans its log) is no failure.  Bytes that cannot be read are told and passed over: what is shown is what the whole
batches say.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offsetlog._native.files import FileSystem, format_uuid, parse_directory_name
from offsetlog._native.records import SegmentReader, decode_key, decode_value
from offsetlog._native.replay import Replay
from offsetlog.errors import CorruptionError, InvalidArgumentError, MissingFileError, StorageError
from offsetlog.logdir import TOPIC, LogDirectory

SEGMENT = re.compile(r"(\d{20})\.log")
#: How often a partition is read anew whose files were removed while it was read.
TRIES = 3

Row = dict[str, Any]
#: Called with the bytes read since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The segments of one partition, in their order.

    Attributes:
        number: of the partition, as its directory says; None for files that lie in no such directory.
        directory: that directory, None for a single segment file.
        segments: the .log files.
    """

    number: int | None
    directory: Path | None
    segments: tuple[Path, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments now; those that have gone count nothing."""
        return sum(_size_of(segment) for segment in self.segments)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _partition_number(directory: Path) -> int | None:
    parsed = parse_directory_name(directory.name)
    return None if parsed is None else parsed[1]


def segments_of(directory: Path) -> tuple[Path, ...]:
    """Returns the .log files of a partition directory by base offset; `.log.deleted` and the like are none."""
    names = FileSystem().list(directory)
    return tuple(directory / name for name in names if SEGMENT.fullmatch(name))


def find_partitions(path: Path) -> list[PartitionFiles]:
    """Returns the partitions that a path stands for, by number.

    Args:
        path: a log directory, a partition directory or a segment file.

    Raises:
        MissingFileError: there is nothing, or nothing of the offsets topic.
        InvalidArgumentError: it is a partition of another topic.
        StorageError: it cannot be read.
    """
    path = path.absolute()
    if path.is_file():
        return [PartitionFiles(_partition_number(path.parent), None, (path,))]
    if not path.is_dir():
        raise MissingFileError("there is no such file or directory", path=path)
    parsed = parse_directory_name(path.name)
    segments = segments_of(path)
    if segments or (parsed is not None and parsed[0] == TOPIC):
        if parsed is not None and parsed[0] != TOPIC and parsed[2] == 0:
            raise InvalidArgumentError(f"this is a partition of the topic {parsed[0]!r}, not of {TOPIC}", path=path)
        return [PartitionFiles(_partition_number(path), path, segments)]
    directory = LogDirectory(path, FileSystem())
    found = []
    for number in directory.partition_numbers():
        folder = directory.partition_path(number)
        if folder.is_dir():
            found.append(PartitionFiles(number, folder, segments_of(folder)))
    if not found and directory.read_properties() is None:
        raise MissingFileError(f"there is no partition of {TOPIC} in it", path=path)
    return found


def whole_size(partitions: list[PartitionFiles]) -> int:
    """Returns the bytes of all segments."""
    return sum(each.size_bytes for each in partitions)


# --------------------------------------------------------------------------------------------------------- what is read


@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes at the end of a partition that are no whole batch: what a crash, or a writer at work, leaves.

    Attributes:
        path: the last segment.
        position: where the whole batches end.
        size: bytes behind.
        zeros: whether all of them are: then it is space that was allocated ahead, as offsetlog does.
        damage: what is wrong with the first of them.
        log_offset: what the next batch would have had at least.
    """

    path: Path
    position: int
    size: int
    zeros: bool
    damage: CorruptionError
    log_offset: int


@dataclass(slots=True)
class PartitionState:
    """What one partition's files say.

    Attributes:
        files: they.
        replay: the state that they lead to.
        damages: what could not be read and has whole batches behind it, or a later segment.
        refused: records that a broker would not load.
        tail: bytes behind the last whole batch, None when there are none.
    """

    files: PartitionFiles
    replay: Replay
    damages: list[CorruptionError] = field(default_factory=list)
    refused: list[CorruptionError] = field(default_factory=list)
    tail: Tail | None = None


def read_state(files: PartitionFiles, progress: Progress | None = None) -> PartitionState:
    """Replays a partition's files.

    Raises:
        StorageError: a file cannot be read, or files went faster than they could be read.
        CorruptionError: a single file was given that is no segment at all.
        CapacityError: there is no memory.
    """
    for left in reversed(range(TRIES)):
        try:
            return _read_state(files, progress)
        except MissingFileError:
            # A broker that cleans its log removes segments at any time; the log is whole again with the new list.
            if left == 0 or files.directory is None:
                raise
            files = PartitionFiles(files.number, files.directory, segments_of(files.directory))
    raise AssertionError("the loop returns or raises")


def _read_state(files: PartitionFiles, progress: Progress | None) -> PartitionState:
    state = PartitionState(files, Replay())
    for index, segment in enumerate(files.segments):
        _read_segment(state, segment, is_last=index == len(files.segments) - 1)
        if progress is not None:
            progress(_size_of(segment))
    return state


def _read_segment(state: PartitionState, segment: Path, *, is_last: bool) -> None:
    replay = state.replay
    position: int | None = 0
    tried = followed = -1
    while position is not None:
        found = replay.apply(segment, position=position)
        state.refused += found["refused"]
        damage, stopped = found["damage"], found["position"]
        if damage is None:
            return
        if stopped == 0 and not SEGMENT.fullmatch(segment.name):
            raise CorruptionError(f"this is no segment of a log: {damage.message}", path=segment, position=0)
        if stopped != tried:
            # A writer at work may have filled the place since it was read.
            position = tried = stopped
            continue
        position = replay.skip(segment, stopped)
        zeros = position is None and replay.used(segment, stopped) == stopped
        if not zeros and stopped != followed:
            # What is there, or follows, may have come since; and a place is filled before what follows it.
            position = followed = stopped
        elif position is None and is_last:
            state.tail = Tail(segment, stopped, found["size"] - stopped, zeros, damage, replay.next_offset)
        else:
            state.damages.append(damage)


# -------------------------------------------------------------------------------------------------------------- offsets


def decode_text(name: bytes) -> str:
    """Returns bytes of a log as Kafka shows them: UTF-8, what is malformed as U+FFFD."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        # Java makes one U+FFFD of a surrogate in three bytes, Python three (spec §4).
        return re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]", b"\xef\xbf\xbd", name).decode("utf-8", "replace")


def offset_rows(states: list[PartitionState], group: str | None = None) -> Iterator[Row]:
    """Yields the committed positions of all partitions by group, topic and partition.

    Fields: group, topic, partition, offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id,
    log_partition, log_offset; -1 and None stand for what a record does not carry.
    """
    names: dict[str, list[tuple[PartitionState, bytes]]] = {}
    for state in states:
        for name in state.replay.groups():
            text = decode_text(name)
            if group is None or text == group:
                names.setdefault(text, []).append((state, name))
    for text in sorted(names):
        rows = [_offset_row(text, state, each) for state, name in names[text] for each in state.replay.positions(name)]
        if len(names[text]) > 1:
            rows.sort(key=lambda row: (row["topic"], row["partition"]))
        yield from rows


def _offset_row(group: str, state: PartitionState, position: tuple[Any, ...]) -> Row:
    topic, partition, offset, leader_epoch, metadata, committed, expires, topic_id, log_offset = position
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "leader_epoch": leader_epoch,
        "metadata": metadata,
        "commit_timestamp": committed,
        "expire_timestamp": expires,
        "topic_id": None if topic_id is None else format_uuid(topic_id),
        "log_partition": state.files.number,
        "log_offset": log_offset,
    }


# --------------------------------------------------------------------------------------------------------------- groups

GROUP_TYPES = {3: "consumer", 11: "share", 17: "streams"}
MEMBER_TYPES = {5: "consumer", 10: "share", 19: "streams"}
CLASSIC_TYPE = 2


def group_rows(states: list[PartitionState]) -> list[Row]:
    """Returns what the log tells of every group that has a record of its own, a committed position or a pending one.

    Fields: group, type, state ("Stable" with members, else "Empty"), protocol_type, protocol, generation (of a modern
    group its epoch), members (member_id, group_instance_id, client_id, client_host), simple, log_partition.
    """
    found: dict[str, Row] = {}
    for state in states:
        for row in _groups_of(state):
            found.setdefault(row["group"], row)
    return [found[name] for name in sorted(found)]


def _groups_of(state: PartitionState) -> list[Row]:
    rows: dict[str, Row] = {}
    # In log order, so that of two records that cannot both be true the later one counts.
    for key, value, _ in sorted(state.replay.group_records(), key=lambda record: record[2]):
        try:
            _add_group_record(rows, state, key, value)
        except CorruptionError as failure:
            failure.path = failure.path or str(state.files.directory or state.files.segments[0])
            state.refused.append(failure)
    for name in {*state.replay.groups(), *state.replay.pending_groups()}:
        text = decode_text(name)
        if text not in rows:
            rows[text] = _new_row(text, state, "classic", simple=True)
    for row in rows.values():
        row["members"].sort(key=lambda member: member["member_id"])
        row["state"] = "Stable" if row["members"] else "Empty"
    return list(rows.values())


def _new_row(name: str, state: PartitionState, kind: str, *, simple: bool) -> Row:
    return {
        "group": name,
        "type": kind,
        "state": "Empty",
        "protocol_type": "" if kind == "classic" else kind,
        "protocol": None,
        "generation": -1,
        "members": [],
        "simple": simple,
        "log_partition": state.files.number,
    }


def _add_group_record(rows: dict[str, Row], state: PartitionState, key: bytes, value: bytes) -> None:
    decoded = decode_key(key)
    if decoded is None:
        return
    number, fields = int(decoded["type"]), decoded["data"]
    if number not in (CLASSIC_TYPE, *GROUP_TYPES, *MEMBER_TYPES):
        return
    told = decode_value(number, value)["data"]
    name = fields["group"] if number == CLASSIC_TYPE else fields["groupId"]
    if number == CLASSIC_TYPE:
        rows[name] = _classic_row(name, state, told)
        return
    kind = GROUP_TYPES.get(number) or MEMBER_TYPES[number]
    if name not in rows or rows[name]["type"] != kind:
        rows[name] = _new_row(name, state, kind, simple=False)
    if number in GROUP_TYPES:
        rows[name]["generation"] = told["epoch"]
    else:
        rows[name]["members"].append(
            {
                "member_id": fields["memberId"],
                "group_instance_id": told.get("instanceId"),
                "client_id": told["clientId"],
                "client_host": told["clientHost"],
            }
        )


def _classic_row(name: str, state: PartitionState, told: Row) -> Row:
    row = _new_row(name, state, "classic", simple=not told["members"] and told["protocolType"] == "")
    row["protocol_type"], row["protocol"], row["generation"] = (
        told["protocolType"],
        told["protocol"],
        told["generation"],
    )
    row["members"] = [
        {
            "member_id": each["memberId"],
            "group_instance_id": each.get("groupInstanceId"),
            "client_id": each["clientId"],
            "client_host": each["clientHost"],
        }
        for each in told["members"]
    ]
    return row


# --------------------------------------------------------------------------------------------------------- transactions


def age_text(seconds: float) -> str:
    """Returns how long something lasts, in its two largest units."""
    whole = max(0, int(seconds))
    for size, unit, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller_size} {smaller}"
    return f"{whole} s"


def transaction_rows(states: list[PartitionState]) -> list[Row]:
    """Returns the transactions that are open, by partition of the log and first offset.

    Fields: producer_id, producer_epoch, log_partition, first_offset, begun (ms, -1 where nothing is pending),
    age_seconds (None there), pending (offsets), groups.
    """
    now = time.time()
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "log_partition": state.files.number,
            "first_offset": first_offset,
            "begun": begun,
            "age_seconds": None if begun < 0 else round(now - begun / 1000, 1),
            "pending": pending,
            "groups": [decode_text(name) for name in groups],
        }
        for state in states
        for producer_id, epoch, first_offset, begun, pending, groups in state.replay.transactions()
    ]


# ----------------------------------------------------------------------------------------------------------------- dump

_EMPTY: Row = {"log_offset": None, "timestamp": None, "headers": [], "kind": "empty", "key": None, "value": None}


def dump_rows(files: PartitionFiles, report: Callable[[CorruptionError | Tail], None]) -> Iterator[Row]:
    """Yields every record as `dump_batches` does, together with the fields of its batch."""
    for batch, records in dump_batches(files, report):
        for record in records:
            yield {**batch, **record}


def dump_batches(
    files: PartitionFiles, report: Callable[[CorruptionError | Tail], None]
) -> Iterator[tuple[Row, list[Row]]]:
    """Yields every batch of a partition as it stands in its file, and its records: of none, one of kind "empty".

    Args:
        files: the partition.
        report: called with what cannot be read, where it stands in the order; a Tail only for the last segment's end.
    """
    next_offset = 0
    for index, segment in enumerate(files.segments):
        try:
            reader = SegmentReader(segment)
        except MissingFileError:
            # Removed since it was listed, by a broker that cleans its log.
            if files.directory is None:
                raise
            continue
        place = {"log_partition": files.number, "segment": segment.name}
        tried = followed = -1
        with reader:
            while True:
                try:
                    found = reader.read()
                except StorageError:
                    raise
                except CorruptionError as damage:
                    position = reader.position
                    if position == 0 and not SEGMENT.fullmatch(segment.name):
                        raise CorruptionError(f"this is no segment of a log: {damage.message}", path=segment) from None
                    if position != tried:
                        # As in _read_segment.
                        tried = position
                        reader.read_again(position)
                        continue
                    if reader.skip():
                        if position == followed:
                            report(damage)
                        else:
                            followed = position
                            reader.read_again(position)
                        continue
                    if index < len(files.segments) - 1:
                        report(damage)
                    else:
                        zeros = Replay().used(segment, position) == position
                        report(Tail(segment, position, reader.size - position, zeros, damage, next_offset))
                    break
                if found is None:
                    break
                batch, records = found
                next_offset = batch["last_offset"] + 1
                yield {**place, **batch}, records or [_EMPTY]
