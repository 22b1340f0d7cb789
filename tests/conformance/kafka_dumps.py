"""Parser of Kafka's own dump tool (DumpLogSegments), every version from 0.8.2.2 to 4.3.0, as plain dataclasses.

Four dialects:

* up to 1.1.1 one line a record, no line for the batch ("offset: 8 position: 0 ...");
* 2.8.2 a line for the batch and one "| offset" line a record, keys and values in words;
* 3.9.1 and 4.3.0 the same with keys and values as JSON;
* `dump-log-decoded-partly.txt`: up to 1.1.1 with the offsets decoder, up to the record where that tool died.

Each field notes how far it can be trusted.  Keys and values stay text (`content`) unless they are JSON: the
words of the old dialects cannot be taken apart without guessing (a colon may be part of a group's name), so a test
renders what it expects in the same words (`renderings`) and compares.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CODECS = {
    "none": "none",
    "nocompressioncodec": "none",
    "gzip": "gzip",
    "gzipcompressioncodec": "gzip",
    "snappy": "snappy",
    "snappycompressioncodec": "snappy",
    "lz4": "lz4",
    "lz4compressioncodec": "lz4",
    "zstd": "zstd",
}


@dataclass(frozen=True)
class DumpedBatch:
    """A batch line (2.8.2 and later).  `delete_horizon` is None both for none and for 2.8.2, which does not print it.

    `timestamp` is the batch's max timestamp.  For magic 0 and 1 the line tells a message: the fields of magic 2 are
    None and `base_offset` is the message's own offset.
    """

    log_partition: int
    segment: str
    position: int
    base_offset: int
    last_offset: int
    size: int
    magic: int
    codec: str
    crc: int
    timestamp: int
    timestamp_type: str
    count: int | None = None
    base_sequence: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    partition_leader_epoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    delete_horizon: int | None = None
    tells_delete_horizon: bool = False


@dataclass(frozen=True)
class DumpedRecord:
    """A record line.  None stands for "this version does not print it".

    `position` is that of the batch or wrapper that holds the record.  `crc` is the CRC of the *inner* message in
    formats 0 and 1 (not of its wrapper); magic 2 has none below 2.8.2, later it is the batch's.  `codec` of a record
    in a wrapper is "none" up to 0.10.2.2 (the inner message's) and the wrapper's from 1.1.1.  `content` is everything
    after the fields, raw bytes read as UTF-8 with U+FFFD for other bytes.
    """

    log_partition: int
    segment: str
    position: int
    offset: int
    magic: int
    codec: str
    timestamp: int | None
    timestamp_type: str | None
    key_size: int | None
    value_size: int | None
    crc: int | None
    sequence: int | None
    producer_id: int | None
    producer_epoch: int | None
    transactional: bool | None
    header_keys: tuple[str, ...] | None
    content: str
    key: dict[str, Any] | None = None
    value: dict[str, Any] | None = None
    marker: tuple[str, int] | None = None


@dataclass
class Dump:
    """One dump file.  `tails` maps (log partition, segment file) to the number of bytes after the last whole batch.

    `complete` is False where the tool died on the way; `batches` is empty up to 1.1.1.
    """

    segments: list[tuple[int, str]] = field(default_factory=list)
    batches: list[DumpedBatch] = field(default_factory=list)
    records: list[DumpedRecord] = field(default_factory=list)
    tails: dict[tuple[int, str], int] = field(default_factory=dict)
    complete: bool = True


_TIME = r"(?P<time_type>CreateTime|LogAppendTime|NoTimestampType): (?P<time>-?\d+)"
_DUMPING = re.compile(r"Dumping [^ ]*?-(?P<partition>\d+)/(?P<segment>\d{20}\.log)$")
# Where the decoder fails on a file of 0.9.0.1, that file was dumped again without it; a line says so.
_NOISE = re.compile(r"(?:Log s|S)tarting offset: \d+$|# the offsets decoder of this version fails on the next file")
_TAIL = re.compile(r"Found (?P<bytes>\d+) invalid bytes at the end of (?P<segment>\d{20}\.log)$")
_EPILOGUE = re.compile(r"Non-consecutive offsets in ")
_DIED = "# the offsets decoder stops here: "
_LEGACY_BATCH = re.compile(
    r"offset: (?P<offset>\d+) position: (?P<position>\d+) " + _TIME + r" size: (?P<size>\d+) magic: (?P<magic>[01]) "
    r"compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true$"
)
_OLD_RECORD = re.compile(
    r"offset: (?P<offset>\d+) position: (?P<position>\d+)(?: " + _TIME + r")? isvalid: true"
    r"(?: payloadsize: (?P<payload_size>-?\d+))?(?: keysize: (?P<key_size>-?\d+) valuesize: (?P<value_size>-?\d+))?"
    r" magic: (?P<magic>[012]) compresscodec: (?P<codec>\w+)(?: crc: (?P<crc>\d+))?"
    r"(?: producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) sequence: (?P<sequence>-?\d+)"
    r" isTransactional: (?P<transactional>true|false) headerKeys: \[(?P<headers>.*?)\])?"
    r"(?: keysize: (?P<key_size_late>-?\d+))?"
)
_BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+)"
    r" lastSequence: -?\d+ producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+)"
    r" partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) isTransactional: (?P<transactional>true|false)"
    r" isControl: (?P<control>true|false)(?: deleteHorizonMs: OptionalLong(?P<horizon>\.empty|\[-?\d+\]))?"
    r" position: (?P<position>\d+) " + _TIME + r" size: (?P<size>\d+) magic: 2 compresscodec: (?P<codec>\w+)"
    r" crc: (?P<crc>\d+) isvalid: true$"
)
_RECORD_2_8 = re.compile(
    r"\| offset: (?P<offset>\d+) isValid: true crc: null keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+) "
    + _TIME
    + r" baseOffset: \d+ lastOffset: \d+ baseSequence: -?\d+ lastSequence: -?\d+ producerEpoch: -?\d+"
    r" partitionLeaderEpoch: -?\d+ batchSize: \d+ magic: 2 compressType: \w+ position: \d+"
    r" sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\]"
)
# The brace after the CRC of a legacy record is a slip of the tool itself (3.9.1).
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) " + _TIME + r" keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"(?: isValid: true crc: (?P<crc>\d+)\})?(?: sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\])?"
)
_MARKER = re.compile(r" endTxnMarker: (ABORT|COMMIT) coordinatorEpoch: (-?\d+)$")
_STARTS = re.compile(
    r"offset: \d+ position: |\| offset: \d+ |baseOffset: \d+ lastOffset: |Dumping |(?:Log s|S)tarting offset: "
    r"|Found \d+ invalid bytes|Non-consecutive offsets in |# the offsets decoder of this version fails "
)


def read_dump(path: Path) -> Dump:
    """Every record (and batch, where shown) of a dump file, in file order.

    Raises ValueError for what is not understood.
    """
    dump = Dump()
    partition, segment = -1, ""
    for line in _logical_lines(path, dump):
        if found := _DUMPING.match(line):
            partition, segment = int(found["partition"]), found["segment"]
            dump.segments.append((partition, segment))
        elif found := _TAIL.match(line):
            dump.tails[partition, found["segment"]] = int(found["bytes"])
        elif found := _BATCH.match(line):
            dump.batches.append(_batch(partition, segment, found))
        elif found := _LEGACY_BATCH.match(line):
            dump.batches.append(_legacy_batch(partition, segment, found))
        elif found := _OLD_RECORD.match(line):
            dump.records.append(_old_record(partition, segment, found, line[found.end() :]))
        elif found := _RECORD_2_8.match(line) or _RECORD.match(line):
            dump.records.append(_record(dump.batches[-1], found, line[found.end() :]))
        elif not _NOISE.match(line):
            raise ValueError(f"{path}: not understood: {line!r}")
    return dump


def _logical_lines(path: Path, dump: Dump) -> list[str]:
    """The file's lines, continued over the line feeds that raw keys and values hold."""
    text = path.read_bytes().decode("utf-8")
    if _DIED in text:
        # The line on which the tool died names a record whose key and value it could not print: what it printed
        # before is complete, this one is not.
        text = text[: text.index(_DIED)]
        text = text[: text.rindex("\n") + 1]
        dump.complete = False
    lines: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        if _EPILOGUE.match(line):
            break
        if _STARTS.match(line):
            lines.append(line)
        elif lines:
            lines[-1] += "\n" + line
        else:
            raise ValueError(f"{path}: not understood: {line!r}")
    return lines


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _codec(text: str) -> str:
    return CODECS[text.lower()]


def _headers(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part for part in text.split(",") if part)


def _batch(partition: int, segment: str, found: re.Match[str]) -> DumpedBatch:
    horizon = found["horizon"]
    return DumpedBatch(
        partition,
        segment,
        int(found["position"]),
        int(found["base"]),
        int(found["last"]),
        int(found["size"]),
        2,
        _codec(found["codec"]),
        int(found["crc"]),
        int(found["time"]),
        found["time_type"],
        int(found["count"]),
        int(found["sequence"]),
        int(found["producer_id"]),
        int(found["producer_epoch"]),
        int(found["partition_leader_epoch"]),
        found["transactional"] == "true",
        found["control"] == "true",
        int(horizon[1:-1]) if horizon and horizon[0] == "[" else None,
        horizon is not None,
    )


def _legacy_batch(partition: int, segment: str, found: re.Match[str]) -> DumpedBatch:
    offset = int(found["offset"])
    return DumpedBatch(
        partition,
        segment,
        int(found["position"]),
        offset,
        offset,
        int(found["size"]),
        int(found["magic"]),
        _codec(found["codec"]),
        int(found["crc"]),
        int(found["time"]),
        found["time_type"],
    )


def _old_record(partition: int, segment: str, found: re.Match[str], content: str) -> DumpedRecord:
    marker = _MARKER.fullmatch(content)
    return DumpedRecord(
        partition,
        segment,
        int(found["position"]),
        int(found["offset"]),
        int(found["magic"]),
        _codec(found["codec"]),
        _integer(found["time"]),
        found["time_type"],
        _integer(found["key_size"] or found["key_size_late"]),
        _integer(found["value_size"] or found["payload_size"]),
        _integer(found["crc"]),
        _integer(found["sequence"]),
        _integer(found["producer_id"]),
        _integer(found["producer_epoch"]),
        None if found["transactional"] is None else found["transactional"] == "true",
        _headers(found["headers"]),
        content,
        marker=(marker[1], int(marker[2])) if marker else None,
    )


def _record(batch: DumpedBatch, found: re.Match[str], content: str) -> DumpedRecord:
    marker = _MARKER.fullmatch(content)
    key = value = None
    if content.startswith(' key: {"'):
        decoder = json.JSONDecoder()
        key, end = decoder.raw_decode(content, len(" key: "))
        rest = content[end:].removeprefix(" payload: ")
        value = None if rest == "<DELETE>" else json.loads(rest)
    fields = found.groupdict()
    return DumpedRecord(
        batch.log_partition,
        batch.segment,
        batch.position,
        int(found["offset"]),
        batch.magic,
        batch.codec,
        int(found["time"]),
        found["time_type"],
        int(found["key_size"]),
        int(found["value_size"]),
        _integer(fields.get("crc")),
        _integer(found["sequence"]),
        batch.producer_id,
        batch.producer_epoch,
        batch.transactional,
        _headers(found["headers"]),
        content,
        key,
        value,
        (marker[1], int(marker[2])) if marker else None,
    )
