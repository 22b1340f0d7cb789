"""A log directory as a whole: its lock, its marker of a clean stop, its checkpoints, and its own properties.

The lock, the marker and the checkpoints are Kafka's (docs/format/directory.md §1); docs/durability.md describes how the
marker and `offsetlog.properties` are used.  Every file operation uses the file port `fs`, so that a test can simulate a
crash of the machine at each operation.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from offsetlog._native.files import (
    FileLock,
    FileSystem,
    format_offset_checkpoint,
    format_uuid,
    parse_directory_name,
    parse_offset_checkpoint,
    parse_uuid,
)
from offsetlog.config import PARTITIONS_MAX
from offsetlog.directory import checkpoint_record, listing, lock_holder, lock_owner, partition_list, segments
from offsetlog.directory.checkpoint_record import CheckpointRecord
from offsetlog.directory.evidence import untaken
from offsetlog.errors import (
    ConfigError,
    CorruptionError,
    InvalidArgumentError,
    LockedError,
    MissingFileError,
    StorageError,
    UnsupportedVersionError,
)

TOPIC = listing.TOPIC
LOCK = ".lock"
MANIFEST = "offsetlog.manifest"  # of a log partition
PARTITION_METADATA = listing.PARTITION_METADATA
CLEAN_MARKER = ".kafka_cleanshutdown"
PROPERTIES = listing.PROPERTIES
META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_POINTS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS)

FORMAT = 1

# The first and the longest pause between two attempts to take a lock.
_LOCK_PAUSE_SECONDS = 0.01
_LOCK_PAUSE_SECONDS_MAX = 0.2

# _SIGNS: files that show that a directory holds logs, of offsetlog or of a broker.  _NO_SIGNS: files that prove
# nothing.  Many programs have a file ".lock", and an open of offsetlog that ended early leaves only this file.
_SIGNS = frozenset({CLEAN_MARKER, META_PROPERTIES, "bootstrap.checkpoint", *CHECKPOINTS})
_NO_SIGNS = frozenset({LOCK, "lost+found", ".gitkeep", ".gitignore", ".DS_Store"})

Checkpoint = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Properties:
    """The content of `offsetlog.properties`.

    Attributes:
        partitions: the number of partitions of the offsets topic.
        topic_id: the topic id for new partitions, None if unknown.
        existing: the numbers of the partitions whose directories and manifests must exist; None in a file of an earlier
            version.
        from_broker: whether a broker wrote the directory first.  Partitions that are missing here may then be on other
            brokers.
    """

    partitions: int
    topic_id: bytes | None
    existing: frozenset[int] | None = None
    from_broker: bool = False

    def format(self) -> bytes:
        """Returns the bytes of the file."""
        lines = [
            "# The properties of this offsetlog directory.",
            f"format={FORMAT}",
            f"partitions={self.partitions}",
        ]
        if self.topic_id is not None:
            lines.append(f"topic_id={format_uuid(self.topic_id)}")
        if self.from_broker:
            lines.append("from_broker=true")
        if self.existing is not None:
            lines.append(f"existing={partition_list.format_numbers(self.existing)}")
        text = "\n".join([*lines, ""]).encode()
        return text + f"check={checkpoint_record.hash_of(text)}\n".encode()


def parse_properties(text: bytes) -> dict[str, str]:
    """Returns the entries of a Java properties file with one entry per line, as Kafka and offsetlog write it."""
    entries = {}
    for line in text.decode("utf-8", "replace").splitlines():
        entry = line.strip()
        if entry and entry[0] not in "#!":
            key, _, value = entry.partition("=")
            entries[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return entries


def parse_partition_metadata(content: bytes) -> bytes:
    """Returns the topic id in the content of a partition.metadata file.

    Raises:
        CorruptionError: the file has no topic id, or is damaged.

    Source: docs/format/directory.md §1.7.
    """
    found = re.fullmatch(rb"version: 0\ntopic_id: (\S+)\n?", content)
    topic_id = b"" if found is None else parse_uuid(found[1].decode("ascii", "replace"))
    if not any(topic_id):
        raise CorruptionError("the file does not hold 'version: 0' and a topic_id")
    return topic_id


def random_topic_id() -> bytes:
    """Makes a topic id as Kafka does: random (version 4), with a text that does not begin with a dash."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if not format_uuid(bytes(raw)).startswith("-"):
            return bytes(raw)


class LogDirectory:
    """A directory that contains partition directories.

    A writer first calls `lock`, then `begin_writing` before it writes the first byte, then `finish` after it has closed
    every partition, and at last `unlock`.  A read-only user calls none of these methods.  Not thread-safe; the owner
    uses one thread at a time.
    """

    def __init__(self, path: str | os.PathLike[str], fs: FileSystem) -> None:
        self.path = Path(path)
        self.fs = fs
        self.was_clean = False
        self._lock: FileLock | None = None
        self._marker: bytes | None = None
        self._record: CheckpointRecord | None = None
        self._writing = threading.Lock()
        #: Partition directories of other topics that their owner recovers, and closes before `finish`; and whether all
        #: of them were closed without error.
        self.recovered_elsewhere: set[str] = set()
        self.is_sound_elsewhere = True
        #: Held while a log is truncated, and while logs are read for checkpoints; taken before every other lock.
        self.cutting = threading.Lock()

    # ------------------------------------------------------------------------------ existing files

    def exists(self) -> bool:
        """Returns whether the directory exists."""
        return self.fs.exists(self.path)

    def check_is_none_of_its_parts(self) -> None:
        """Refuses a path inside a log directory: a store created there would never be found.

        Raises:
            InvalidArgumentError: the path is a partition directory, contains segments itself, or is a file.
        """
        if self.path.is_file():
            raise InvalidArgumentError("this is a file, not a log directory", path=self.path)
        # "data-1" reads like a partition of a topic "data" and may be any log directory; only
        # segments decide.
        parsed = parse_directory_name(Path(os.path.realpath(self.path)).name)
        is_partition = parsed is not None and parsed[0] == TOPIC
        if is_partition or (
            self.exists()
            and any(segments.SEGMENT.fullmatch(name) for name in self.fs.list(self.path))
        ):
            raise InvalidArgumentError(
                "this is a partition directory; name the log directory that contains it",
                path=self.path,
            )

    def check_is_related(self) -> None:
        """Refuses a directory that contains files but no sign of a log directory.

        Raises:
            InvalidArgumentError: the store would be created among unrelated files.
        """
        if not self.exists():
            return
        names = sorted(set(self.fs.list(self.path)) - _NO_SIGNS)
        if not names or any(self._is_sign(name) for name in names):
            return
        more = "" if len(names) == 1 else f" and {len(names) - 1} more"
        raise InvalidArgumentError(
            f"the directory contains files ({names[0]!r}{more}) but no log; choose an empty or a new directory, or "
            'use create="anywhere" to create the log here anyway',
            path=self.path,
        )

    def holds_log(self) -> bool:
        """Returns whether the directory has a log partition, or a file with the number of partitions.

        Raises:
            InvalidArgumentError: see `check_is_none_of_its_parts`.
            CorruptionError: see `known_properties`.
        """
        if not self.exists():
            return False
        return bool(self.partition_numbers()) or self.known_properties() is not None

    def is_from_broker(self) -> bool:
        """Returns whether a broker wrote the directory first.  Partitions missing here may then be on other brokers.

        Raises as `known_properties`.  If `offsetlog.properties` was lost, a directory of a broker is not recognized.
        """
        properties = self.known_properties()
        return properties is None or properties.from_broker

    def check_holds_log(self) -> None:
        """Refuses a directory in which a log would have to be created.

        Raises:
            MissingFileError: the directory does not exist or has no log.
            InvalidArgumentError, CorruptionError: see `holds_log`.
        """
        if not self.holds_log():
            reason = "there is no log in this directory" if self.exists() else "there is no such directory"
            advice = 'check the path; to create the log, pass create="new" once'
            raise MissingFileError(f'{reason}, and create="never" forbids creating a log; {advice}', path=self.path)

    def _is_sign(self, name: str) -> bool:
        if name in _SIGNS or name.startswith(listing.OWN_FILES):
            return True
        # "photos-2019" reads like a partition; only segments decide.
        parsed = parse_directory_name(name)
        if parsed is None or not self._is_directory(name):
            return False
        return parsed[0] == TOPIC or any(
            segments.SEGMENT.fullmatch(each) for each in self.fs.list(self.path / name)
        )

    def create(self) -> None:
        """Creates the directory and its missing parents; raises the errors of `check_is_none_of_its_parts`."""
        self.check_is_none_of_its_parts()
        missing: list[Path] = []
        for folder in (self.path, *self.path.parents):
            if self.fs.exists(folder):
                break
            missing.append(folder)
        for folder in reversed(missing):
            self.fs.make_directory(folder)
            if self.fs.exists(folder.parent):
                self.fs.flush_directory(folder.parent)

    def partition_numbers(self) -> list[int]:
        """Returns the numbers of the offsets topic's partition directories.

        Raises:
            InvalidArgumentError: see `check_is_none_of_its_parts`.
        """
        self.check_is_none_of_its_parts()
        return self._partition_numbers()

    def _partition_numbers(self) -> list[int]:
        numbers = []
        for name in self.fs.list(self.path):
            parsed = parse_directory_name(name)
            if parsed is not None and parsed[0] == TOPIC and parsed[2] == 0:
                numbers.append(parsed[1])
        return sorted(numbers)

    def other_partitions(self) -> dict[str, list[int]]:
        """Returns the numbers of the partition directories of other topics, by topic.

        Directories that are being deleted are omitted.
        """
        found: dict[str, list[int]] = {}
        for name in self.fs.list(self.path):
            parsed = parse_directory_name(name)
            if parsed is None or parsed[0] == TOPIC or parsed[2] != 0 or not self._is_directory(name):
                continue
            found.setdefault(parsed[0], []).append(parsed[1])
        return {topic: sorted(numbers) for topic, numbers in found.items()}

    def has_foreign_logs(self) -> bool:
        """Returns whether the directory has logs that offsetlog does not recover.

        Such logs belong to other topics, or are being deleted.
        """
        for name in self.fs.list(self.path):
            parsed = parse_directory_name(name)
            if (
                parsed is not None
                and (parsed[0] != TOPIC or parsed[2] != 0)
                and name not in self.recovered_elsewhere
                and self._is_directory(name)
            ):
                return True
        return False

    def _is_directory(self, name: str) -> bool:
        return (self.path / name).is_dir()

    def partition_path(self, number: int) -> Path:
        """Returns the present or future path of a partition's directory."""
        return self.path / f"{TOPIC}-{number}"

    def read_content(self, name: str) -> bytes | None:
        """Returns the bytes of a file in the directory, None if it does not exist."""
        try:
            return self.fs.read_file(self.path / name)
        except MissingFileError:
            return None

    def read_properties(self) -> Properties | None:
        """Returns the contents of `offsetlog.properties`, None if it does not exist.

        Raises:
            CorruptionError: the file is damaged; its contents are not guessed, because a wrong number of partitions
                would hide groups.
        """
        text = self.read_content(PROPERTIES)
        if text is None:
            return None
        path = self.path / PROPERTIES
        body, found, check = text.rpartition(b"check=")
        if found and check.strip() != checkpoint_record.hash_of(body).encode():
            raise CorruptionError("the checksum is wrong; if you edited the file, remove its checksum line", path=path)
        entries = parse_properties(text)
        try:
            version, partitions = int(entries["format"]), int(entries["partitions"])
            topic_id = parse_uuid(entries["topic_id"]) if "topic_id" in entries else None
            # The checksum line follows the list, so without it the list may be truncated.
            existing = partition_list.parse_numbers(entries["existing"]) if "existing" in entries and found else None
        except KeyError as missing:
            raise CorruptionError(f"the file has no entry {missing}", path=path) from None
        except (ValueError, CorruptionError) as failure:
            raise CorruptionError(
                f"an entry (format, partitions, topic_id or existing) has an invalid value: {failure}", path=path
            ) from None
        if version != FORMAT:
            raise UnsupportedVersionError(
                f"the file has format {version}; this version reads only format {FORMAT}", path=path
            )
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise CorruptionError(f"partitions must be from 1 to {PARTITIONS_MAX}, not {partitions}", path=path)
        return Properties(partitions, topic_id, existing, entries.get("from_broker") == "true")

    def known_properties(self) -> Properties | None:
        """Returns the contents of `offsetlog.properties`, or of its copy in the record of checkpoints.

        The copy is used if the file is damaged or missing.  The result then lacks the list of existing partitions,
        which `Witnesses` reads.  Returns None if the file is missing and the record has no copy.  If the file is
        damaged and the record has no copy, this method raises the same error as `read_properties`.
        """
        try:
            properties = self.read_properties()
        except UnsupportedVersionError:
            raise
        except CorruptionError:
            recorded = self._recorded_properties()
            if recorded is None:
                raise
            return recorded
        return properties or self._recorded_properties()

    def _recorded_properties(self) -> Properties | None:
        with suppress(CorruptionError):
            record = self.read_record()
            if record is not None and record.partitions is not None:
                return Properties(record.partitions, record.topic_id)
        return None

    def known_topic_id(self) -> bytes | None:
        """Returns the id of the offsets topic, from the properties or else from a partition; None if no file has it."""
        with suppress(StorageError, CorruptionError):
            properties = self.known_properties()
            if properties is not None and any(properties.topic_id or b""):
                return properties.topic_id
        for number in self._partition_numbers():
            with suppress(StorageError, CorruptionError):
                content = self.read_content(f"{TOPIC}-{number}/{PARTITION_METADATA}")
                if content is not None:
                    return parse_partition_metadata(content)
        return None

    def read_checkpoint(self, name: str) -> Checkpoint:
        """Returns the entries of a checkpoint; none if it is missing or damaged, because entries are not guessed.

        Source: docs/format/directory.md §1.5.
        """
        text = self.read_content(name)
        if text is None:
            return {}
        try:
            return parse_offset_checkpoint(text)
        except CorruptionError:
            return {}

    # ------------------------------------------------------------------------------------ witnesses

    def read_record(self) -> CheckpointRecord | None:
        """Returns the record of the checkpoints, None if it does not exist.

        Raises:
            CorruptionError: the record is damaged.
        """
        text = self.read_content(checkpoint_record.NAME)
        if text is None:
            return None
        try:
            return checkpoint_record.parse(text)
        except CorruptionError as failure:
            path = self.path / checkpoint_record.NAME
            raise CorruptionError(failure.message, path=path) from None

    def adopt_checkpoints(self, others: dict[int, int], existing: frozenset[int]) -> None:
        """Records the present checkpoints, with `others` and `existing` as the fields of CheckpointRecord."""
        with self._writing:
            hashes: dict[str, tuple[str, ...]] = {
                name: (checkpoint_record.hash_of(self.read_content(name)),) for name in CHECKPOINTS
            }
            self._record = known = self._record or self._known_record()
            found = CheckpointRecord(hashes, others, self._cleaned_points(), existing)
            if known is not None:
                found.partitions, found.topic_id = known.partitions, known.topic_id
            if self._record is None or not self._says_all(found):
                self.fs.replace_file(self.path / checkpoint_record.NAME, found.format())
                self._record = found

    def _cleaned_points(self) -> dict[int, int]:
        try:
            entries = self.read_checkpoint(CLEANER_POINTS)
        except CorruptionError:
            return {}
        return {number: offset for (topic, number), offset in entries.items() if topic == TOPIC}

    def _known_record(self) -> CheckpointRecord | None:
        # A damaged file is about to be replaced, so a copy is kept.
        try:
            return self.read_record()
        except CorruptionError:
            path = self.path / checkpoint_record.NAME
            self.fs.replace_file(untaken(self.fs, Path(f"{path}.damaged")), self.fs.read_file(path))
            return None

    def _says_all(self, found: CheckpointRecord) -> bool:
        assert self._record is not None
        is_same = replace(self._record, hashes=found.hashes) == found
        return is_same and all(
            hashes[0] in self._record.hashes.get(name, ()) for name, hashes in found.hashes.items()
        )

    # -------------------------------------------------------------------------------------- writing

    def lock(
        self,
        wait_seconds: float | None = None,
        timeout_seconds: float = 0.0,
        stop: threading.Event | None = None,
    ) -> None:
        """Takes the directory's lock, which a running broker holds too.

        A process that keeps the lock between two uses, only to save an open, is asked to release it (`lock_holder`).

        Args:
            wait_seconds: how long to wait for a process that was asked to release the lock and reports that it is
                working; None for no limit, 0 to ask no process.
            timeout_seconds: how long to wait for a process that keeps the lock.  The handler of a signal can end the
                wait.
            stop: ends both waits once any thread sets it.

        Raises:
            LockedError: another process keeps the lock; the message names the process if the system shows it.
        """
        begin = time.monotonic()
        end = None if wait_seconds is None else begin + wait_seconds
        stop = stop or threading.Event()
        may_be_free = True
        pause = _LOCK_PAUSE_SECONDS
        while True:
            try:
                self._lock = self.fs.lock(self.path / LOCK)
                return
            except LockedError as failure:
                left = None if end is None else end - time.monotonic()
                may_ask = may_be_free and (left is None or left > 0)
                patience = begin + timeout_seconds - time.monotonic()
                if stop.is_set():
                    raise  # without a search for the holder, which takes long: no caller waits for the message
                if not may_ask and patience <= 0:
                    raise self._named(failure, timeout_seconds) from None
            # If no holder could be asked, the holder may have ended just now.
            if may_ask:
                may_be_free = lock_holder.release(self.path / LOCK, left, stop)
            else:
                stop.wait(min(pause, patience))
                pause = min(2 * pause, _LOCK_PAUSE_SECONDS_MAX)
                may_be_free = True

    def _named(self, failure: LockedError, waited_seconds: float) -> LockedError:
        message = failure.message
        if re.search(r"by process \d", message) is None:
            owners = (
                ["another store of this process"]
                if lock_owner.is_held_here(self.path / LOCK)
                else lock_owner.other_owners(self.path / LOCK)
            )
            if owners:
                message = f"the lock is held by {' or '.join(owners)}"
        if waited_seconds > 0:
            message += f", after {waited_seconds:g} s of waiting"
        return LockedError(message, errno=failure.errno, path=failure.path)

    def unlock(self) -> None:
        """Releases the lock; does nothing if it is not held."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def begin_writing(self) -> None:
        """Removes the marker of a clean stop before the first write, so that the next open recognizes a crash."""
        self._marker = self.read_content(CLEAN_MARKER)
        self.was_clean = self._marker is not None
        if self.was_clean:
            self.fs.remove(self.path / CLEAN_MARKER)
            self.fs.flush_directory(self.path)

    def write_properties(self, properties: Properties) -> None:
        """Publishes `offsetlog.properties` unless it is up to date; keeps a copy of a damaged file."""
        content, found = properties.format(), self.read_content(PROPERTIES)
        if found == content:
            return
        path = self.path / PROPERTIES
        try:
            self.read_properties()
        except CorruptionError:
            self.fs.replace_file(untaken(self.fs, Path(f"{path}.damaged")), found or b"")
        self.fs.replace_file(path, content)

    def record_properties(self, properties: Properties) -> None:
        """Keeps a second copy of the properties in the record of checkpoints.

        Call this after `adopt_checkpoints` and `write_properties`.  `offsetlog.properties` must be on disk before the
        record.  Otherwise a crash could leave a record that lists the file, but no file, and the file would be reported
        as missing.
        """
        with self._writing:
            if self._record is not None:
                self._write_record(
                    replace(self._record, partitions=properties.partitions, topic_id=properties.topic_id)
                )

    def add_existing(self, number: int) -> None:
        """Adds a log partition to the existing ones in the record of checkpoints and in `offsetlog.properties`.

        Does nothing if the directory has no properties or no record.  The partition's directory and witnesses must
        exist already.  If a full disk prevents the addition, the next open adds it.
        """
        properties = self.known_properties()
        if properties is not None and self._record is not None:
            existing = self._record.existing.union(properties.existing or (), {number})
            with self._writing:
                self._write_record(replace(self._record, existing=existing))
            self.write_properties(replace(properties, existing=existing))

    def forget_entries(self, names: Iterable[str], numbers: Collection[int], topic: str = TOPIC) -> None:
        """Removes the entries of deleted partitions from checkpoints."""
        gone = {(topic, number) for number in numbers}
        for name in names:
            with self._writing:
                entries = self.read_checkpoint(name)
                kept = {key: offset for key, offset in entries.items() if key not in gone}
                if kept != entries:
                    self._publish(name, kept)

    def refuse_log_starts(self, numbers: list[int]) -> None:
        """Removes these log partitions' entries from log-start-offset-checkpoint.

        The entries are known to be wrong, but a broker would apply them.  A copy is kept as offsetlog.refused-….
        """
        content = self.read_content(LOG_STARTS)
        if content is None:
            return
        entries = self.read_checkpoint(LOG_STARTS)
        kept = {key: offset for key, offset in entries.items() if key[0] != TOPIC or key[1] not in numbers}
        with self._writing:
            self.fs.replace_file(untaken(self.fs, self.path / f"offsetlog.refused-{LOG_STARTS}"), content)
            self._publish(LOG_STARTS, kept)

    def join_cluster(self, cluster_id: str, node_id: int) -> None:
        """Writes meta.properties for a broker of a cluster; an existing file must name the same cluster.

        The directory gets a new directory id.  A broker serves only the partitions that its cluster has assigned to
        this id; docs/kafka.md shows how to assign them.
        """
        text = self.read_content(META_PROPERTIES)
        if text is not None:
            found = parse_properties(text).get("cluster.id")
            if found is not None and found != cluster_id:
                raise ConfigError(
                    f"the directory belongs to cluster {found!r}, not {cluster_id!r}",
                    path=self.path,
                )
            return
        directory_id = format_uuid(random_topic_id())
        lines = [
            f"node.id={node_id}",
            f"directory.id={directory_id}",
            "version=1",
            f"cluster.id={cluster_id}",
            "",
        ]
        self.fs.replace_file(self.path / META_PROPERTIES, "\n".join(lines).encode())

    def write_checkpoint(self, name: str, ours: dict[int, int]) -> None:
        """Publishes a checkpoint with the offsets of our partitions; entries of other topics stay unchanged."""
        self.write_entries(name, {(TOPIC, number): offset for number, offset in ours.items()})

    def write_entries(self, name: str, ours: Checkpoint) -> None:
        """Publishes a checkpoint with these entries; all others stay unchanged."""
        with self._writing:
            content = self.read_content(name)
            entries: Checkpoint = {}
            is_damaged = False
            try:
                entries = {} if content is None else parse_offset_checkpoint(content)
            except CorruptionError:
                is_damaged = True
            merged = {**entries, **ours}
            if merged == entries:
                return
            if is_damaged and content is not None:
                # A copy is kept, because a damaged checkpoint is evidence and may have had entries of other topics.
                self.fs.replace_file(untaken(self.fs, self.path / f"{name}.damaged"), content)
            self._publish(name, merged)

    def _publish(self, name: str, entries: Checkpoint) -> None:
        # The record gets the hashes of both contents before the new checkpoint can exist.
        content = format_offset_checkpoint(entries)
        if self._record is not None:
            hashes = dict.fromkeys(
                (checkpoint_record.hash_of(self.read_content(name)), checkpoint_record.hash_of(content))
            )
            cleaned = self._record.cleaned
            if name == CLEANER_POINTS:
                cleaned = {number: offset for (topic, number), offset in entries.items() if topic == TOPIC}
            self._write_record(
                replace(self._record, hashes={**self._record.hashes, name: tuple(hashes)}, cleaned=cleaned)
            )
        self.fs.replace_file(self.path / name, content)

    def _settle_record(self) -> None:
        # Drops the hashes of earlier contents, so that a checkpoint that is deleted later does not count as not yet
        # written.
        with self._writing:
            if self._record is None:
                return
            hashes = dict(self._record.hashes)
            for name in CHECKPOINTS:
                found = checkpoint_record.hash_of(self.read_content(name))
                if found in hashes.get(name, ()):
                    hashes[name] = (found,)
            self._write_record(replace(self._record, hashes=hashes))

    def _write_record(self, record: CheckpointRecord) -> None:
        # Assigned last, so that a record whose write failed does not count as written.
        if record != self._record:
            self.fs.replace_file(self.path / checkpoint_record.NAME, record.format())
            self._record = record

    def finish(
        self, ends: dict[int, int], *, sound: bool, watermarks: dict[int, int] | None = None
    ) -> None:
        """Writes the checkpoints, and the marker of a clean stop; call this after every partition was closed.

        The marker is written only if every log in the directory was closed cleanly, including those of other topics.

        Args:
            ends: the log end offset of each partition that was closed without error and is entirely on disk.
            watermarks: the high watermarks W, if the host of the partitions sets them; None to use log end offsets.
            sound: whether every partition was closed without error.
        """
        self.write_checkpoint(RECOVERY_POINTS, ends)
        self.write_checkpoint(HIGH_WATERMARKS, ends if watermarks is None else watermarks)
        self._settle_record()
        # Without the marker, Kafka checks every log, which takes time.  With a wrong marker, it
        # appends after torn bytes.
        if sound and self.is_sound_elsewhere and (self.was_clean or not self.has_foreign_logs()):
            self.fs.replace_file(
                self.path / CLEAN_MARKER, self._marker or b'{"version":0,"brokerEpoch":-1}'
            )
