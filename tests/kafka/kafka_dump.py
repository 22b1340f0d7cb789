"""Kafka's dump-log tool on segment files: what it reads, and every fault it finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_packages import KafkaFailed, KafkaPackages

DUMPED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
MAX_BATCH_BYTES = 64 << 20
"""The tool calls a batch above its limit (5 MiB by default) invalid; ours go to 16 MiB."""


@dataclass(frozen=True)
class DumpedBatch:
    """One batch as the tool prints it; -1 and False stand for what it does not print for magic 0 and 1.

    ``is_valid`` is the tool's own word on the CRC.
    """

    file: Path
    position: int
    size: int
    base_offset: int
    last_offset: int
    count: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    magic: int
    compression: str
    crc: int
    is_valid: bool


@dataclass(frozen=True)
class DumpedRecord:
    """One record: ``key`` and ``value`` as the tool decodes them, or its text (``<DELETE>``).

    ``marker`` is COMMIT or ABORT for the end of a transaction, whose key and value are None.
    """

    file: Path
    offset: int
    timestamp: int
    key_size: int
    value_size: int
    header_keys: tuple[str, ...]
    key: dict[str, Any] | str | None
    value: dict[str, Any] | str | None
    marker: str | None


@dataclass
class LogDump:
    """The output of the tool.

    ``faults`` is empty for sound files; ``gaps`` are jumps in the offsets, legal after compaction. ``other_entries``
    counts the entries of indexes and producer snapshots by file.
    """

    batches: list[DumpedBatch] = field(default_factory=list)
    records: list[DumpedRecord] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    other_entries: dict[Path, int] = field(default_factory=dict)


def segment_files(log_dir: Path) -> list[Path]:
    """Returns every file of the partitions of ``__consumer_offsets`` in ``log_dir`` that the tool can read, sorted."""
    return sorted(path for path in log_dir.glob("__consumer_offsets-*/*") if path.suffix in DUMPED_SUFFIXES)


def dump_log(packages: KafkaPackages, files: Iterable[Path]) -> LogDump:
    """Runs the tool over ``files`` (logs, indexes, producer snapshots) in one process and reads what it prints.

    An index is checked against the ``.log`` beside it. Every line that is not understood, and everything on stderr,
    counts as a fault; so does a tool that breaks off, as it does on an index that points between two batches. Raises
    ValueError for a file that the tool would pass over.
    """
    paths = list(files)
    unknown = [path for path in paths if path.suffix not in DUMPED_SUFFIXES or "," in str(path)]
    if unknown:
        raise ValueError(f"the dump-log tool cannot read {unknown}")
    if not paths:
        return LogDump()
    arguments = ["--files", ",".join(map(str, paths)), "--max-message-size", str(MAX_BATCH_BYTES)]
    arguments += ["--offsets-decoder", "--deep-iteration", "--print-data-log"]
    try:
        printed, complained = packages.run_both("org.apache.kafka.tools.DumpLogSegments", *arguments, heap_mib=512)
    except KafkaFailed as failure:
        return LogDump(faults=[str(failure)])
    dump = _Parser().parse(printed.split("\n"))
    gaps, faults = _gaps_and_faults(complained.split("\n"))
    dump.gaps += gaps
    dump.faults += faults
    return dump


_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) count: (?P<count>\d+|null) "
    r"baseSequence: (?P<base_sequence>-?\d+) lastSequence: -?\d+ producerId: (?P<producer_id>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<leader_epoch>-?\d+) "
    r"isTransactional: (?P<is_transactional>true|false) isControl: (?P<is_control>true|false) deleteHorizonMs: \S+ "
    r"position: (?P<position>\d+) \w+: -?\d+ size: (?P<size>\d+) magic: (?P<magic>\d+) "
    r"compresscodec: (?P<compression>\w+) crc: (?P<crc>\d+) isvalid: (?P<is_valid>true|false)"
)
_OLD_BATCH = re.compile(
    r"offset: (?P<last_offset>\d+) position: (?P<position>\d+) \w+: -?\d+ size: (?P<size>\d+) magic: (?P<magic>[01]) "
    r"compresscodec: (?P<compression>\w+) crc: (?P<crc>\d+) isvalid: (?P<is_valid>true|false)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:\w+: (?P<timestamp>-?\d+) )?keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+)(?: sequence: -?\d+ headerKeys: \[(?P<headers>[^\]]*)\])?"
    r"(?: isValid: (?P<valid>\w+) crc: \S+)?(?P<rest>.*)",
    re.DOTALL,
)
_MARKER = re.compile(r" endTxnMarker: (?P<marker>COMMIT|ABORT) coordinatorEpoch: -?\d+")
_ENTRY = re.compile(
    r"offset: \d+ position: \d+|timestamp: -?\d+ offset: \d+|version: \d+ producerId: .*|"
    r"producerId: .*|\S.* is empty\.|\S.* passed sanity check\."
)
_GAP_TITLE = "Non-consecutive offsets in "
_GAP = re.compile(r"  -?\d+ is followed by -?\d+")


class _Parser:
    """Reads the lines of stdout in order; only the file that is being dumped carries over from line to line."""

    def __init__(self) -> None:
        self._dump = LogDump()
        self._file = Path()

    def parse(self, lines: Iterable[str]) -> LogDump:
        for line in lines:
            if line.strip() and not self._take(line):
                self._dump.faults.append(f"{self._file}: {line}")
        return self._dump

    def _take(self, line: str) -> bool:
        """Files one line; False when it is not one that sound files give."""
        if line.startswith("Dumping "):
            self._file = Path(line.removeprefix("Dumping "))
            return True
        if line.startswith("Log starting offset: "):
            return True
        return self._take_batch(line) or self._take_record(line) or self._take_entry(line)

    def _take_entry(self, line: str) -> bool:
        if self._file.suffix == ".log" or not _ENTRY.fullmatch(line):
            return False
        self._dump.other_entries[self._file] = self._dump.other_entries.get(self._file, 0) + 1
        return True

    def _take_batch(self, line: str) -> bool:
        match = _BATCH.fullmatch(line) or _OLD_BATCH.fullmatch(line)
        if match is None:
            return False
        batch = DumpedBatch(
            file=self._file,
            position=int(match["position"]),
            size=int(match["size"]),
            base_offset=_number(match, "base_offset"),
            last_offset=int(match["last_offset"]),
            count=_number(match, "count"),
            leader_epoch=_number(match, "leader_epoch"),
            producer_id=_number(match, "producer_id"),
            producer_epoch=_number(match, "producer_epoch"),
            base_sequence=_number(match, "base_sequence"),
            is_transactional=_word(match, "is_transactional") == "true",
            is_control=_word(match, "is_control") == "true",
            magic=int(match["magic"]),
            compression=match["compression"],
            crc=int(match["crc"]),
            is_valid=match["is_valid"] == "true",
        )
        self._dump.batches.append(batch)
        if not batch.is_valid:
            self._dump.faults.append(f"{self._file}: the batch at position {batch.position} is not valid")
        return True

    def _take_record(self, line: str) -> bool:
        match = _RECORD.fullmatch(line)
        if match is None or match["valid"] == "false":
            return False
        marker = _MARKER.fullmatch(match["rest"])
        key, value = (None, None) if marker else _key_and_value(match["rest"])
        if marker is None and key is None:
            return False
        headers = tuple(name.strip() for name in (match["headers"] or "").split(",") if name.strip())
        self._dump.records.append(
            DumpedRecord(
                file=self._file,
                offset=int(match["offset"]),
                timestamp=_number(match, "timestamp"),
                key_size=int(match["key_size"]),
                value_size=int(match["value_size"]),
                header_keys=headers,
                key=key,
                value=value,
                marker=marker["marker"] if marker else None,
            )
        )
        return True


def _word(match: re.Match[str], name: str) -> str | None:
    """Returns what a line says under ``name``; batches before magic 2 are printed without most of it."""
    return match.groupdict().get(name)


def _number(match: re.Match[str], name: str) -> int:
    """Returns the number that a line says under ``name``, -1 where it says none."""
    word = _word(match, name)
    return -1 if word in (None, "null") else int(word)


def _gaps_and_faults(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Splits what the tool says at its end, on stderr: offsets that jump, and everything else."""
    gaps: list[str] = []
    faults: list[str] = []
    file = ""
    for line in lines:
        if line.startswith(_GAP_TITLE):
            file = line.removeprefix(_GAP_TITLE)
        elif file and _GAP.fullmatch(line):
            gaps.append(f"{file}: {line.strip()}")
        elif line.strip() and "VM warning:" not in line:
            file = ""
            faults.append(line)
    return gaps, faults


def _key_and_value(text: str) -> tuple[dict[str, Any] | str | None, dict[str, Any] | str | None]:
    """Splits `` key: ... payload: ...``. Each is JSON, which may contain `` payload: `` itself, or a word in ``<>``."""
    if not text.startswith(" key: "):
        return None, None
    key, end = _json_or_word(text, len(" key: "))
    if not text.startswith(" payload: ", end):
        raise KafkaFailed(f"the dump-log tool printed a record without payload: {text[:500]!r}")
    value, end = _json_or_word(text, end + len(" payload: "))
    if text[end:].strip():
        raise KafkaFailed(f"the dump-log tool printed something behind a record: {text[-500:]!r}")
    return key, value


def _json_or_word(text: str, start: int) -> tuple[dict[str, Any] | str, int]:
    if text.startswith("{", start):
        return json.JSONDecoder().raw_decode(text, start)
    match = re.compile(r"<[^>]*>|\S*").match(text, start)
    assert match is not None
    return match.group(), match.end()
