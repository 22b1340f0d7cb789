"""`dump --formatter` beside Kafka's formatters themselves, over records that a seed draws.

The forms of Scala's collections depend on the hashes of many names; real logs hold groups of three members at most.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
from pathlib import Path

import pytest
from conformance.oracle_batches import read_segment
from depth import first_seed
from kafka_packages import environment
from maven_packages import java, packages_or_skip

from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.cli.formatters import Formatter, Lines
from offsetlog.directory.listing import TRANSACTIONS_TOPIC
from offsetlog.directory.reading import dump_batches, find_partitions

Bytes = tuple[bytes, bytes | None]

TOOLS = "org.apache.kafka.tools.consumer."
SCALA = "kafka.coordinator."
#: The class of a formatter and the version whose form it prints; 3.9 still has those of 3.8 beside its own.
CLASSES = [
    ("4.3", "4.3", Formatter.OFFSETS, TOOLS + "OffsetsMessageFormatter"),
    ("4.3", "4.3", Formatter.GROUPS, TOOLS + "GroupMetadataMessageFormatter"),
    ("4.3", "4.3", Formatter.TRANSACTIONS, TOOLS + "TransactionLogMessageFormatter"),
    ("3.9", "3.8", Formatter.OFFSETS, SCALA + "group.GroupMetadataManager$OffsetsMessageFormatter"),
    ("3.9", "3.8", Formatter.GROUPS, SCALA + "group.GroupMetadataManager$GroupMetadataMessageFormatter"),
    ("3.9", "3.8", Formatter.TRANSACTIONS, SCALA + "transaction.TransactionLog$TransactionLogMessageFormatter"),
    ("0.9", "0.9", Formatter.OFFSETS, SCALA + "GroupMetadataManager$OffsetsMessageFormatter"),
    ("0.9", "0.9", Formatter.GROUPS, SCALA + "GroupMetadataManager$GroupMetadataMessageFormatter"),
]
LETTERS = 'abcXYZ.-_09é組😀 ,:]"\\\t\x01\x1f\x7f\u2028'


def name(draw: random.Random, longest: int = 12) -> str:
    return "".join(draw.choice(LETTERS) for _ in range(draw.randint(1, longest)))


def time(draw: random.Random) -> int:
    return draw.choice([-1, 0, 1_700_000_000_123, draw.randrange(2**41)])


def offset_record(draw: random.Random, versions: range) -> Bytes:
    version = draw.choice(versions)
    fields = {
        "offset": draw.choice([0, -1, 2**63 - 1, draw.randrange(2**40)]),
        "leaderEpoch": draw.choice([-1, 0, 7]),
        "metadata": draw.choice(["", name(draw, 30)]),
        "commitTimestamp": time(draw),
        "expireTimestamp": time(draw),
    }
    if version not in {1}:
        del fields["expireTimestamp"]
    if version < 3:
        del fields["leaderEpoch"]
    key = encode_key(1, {"group": name(draw), "topic": name(draw), "partition": draw.randrange(99)})
    return key, None if draw.random() < 0.1 else encode_value(1, version, fields)


def group_record(draw: random.Random, versions: range) -> Bytes:
    version = draw.choice(versions)
    members = []
    # 0.9 has no groups without members.
    for _ in range(draw.choice([0 if versions.stop > 1 else 2, 1, 3, 5, 11, 12, 13, 14, 24, 25, 100])):
        member = {
            "memberId": f"{name(draw, 20)}-{len(members)}",
            "groupInstanceId": draw.choice([None, f"{name(draw)}-{len(members)}"]),
            "clientId": name(draw),
            "clientHost": "/127.0.0.1",
            "rebalanceTimeout": draw.randrange(300_000),
            "sessionTimeout": draw.randrange(60_000),
            "subscription": b"\0\0\0\0\0\0\xff\xff\xff\xff",
            "assignment": b"\0\1",
        }
        if version < 3:
            del member["groupInstanceId"]
        if version < 1:
            del member["rebalanceTimeout"]
        members.append(member)
    fields = {
        "protocolType": "consumer" if members else draw.choice(["", "consumer"]),
        "generation": draw.randrange(1000),
        "protocol": "range" if members else None,
        "leader": members[0]["memberId"] if members else None,
        "currentStateTimestamp": time(draw),
        "members": members,
    }
    if version < 2:
        del fields["currentStateTimestamp"]
    key = encode_key(2, {"group": name(draw)})
    return key, None if draw.random() < 0.1 else encode_value(2, version, fields)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def compact(number: int) -> bytes:
    assert number < 2**14
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def transaction_record(draw: random.Random, versions: range) -> Bytes:
    version = draw.choice(versions)
    state = draw.randrange(8)
    topics = {name(draw, 8): draw.sample(range(50), draw.randint(1, 6)) for _ in range(draw.choice([0, 1, 2, 9]))}
    flexible = version == 1

    def listed(count: int) -> bytes:
        return compact(count + 1) if flexible else struct.pack(">i", count)

    parts = b"".join(
        (compact(len(topic.encode()) + 1) + topic.encode() if flexible else text(topic))
        + listed(len(numbers))
        + struct.pack(f">{len(numbers)}i", *numbers)
        + (b"\0" if flexible else b"")
        for topic, numbers in topics.items()
    )
    value = struct.pack(">hqhib", version, draw.randrange(2**40), draw.randrange(2**15), 60_000, state)
    value += listed(len(topics)) + parts + struct.pack(">qq", time(draw), time(draw))
    if flexible:
        of_tags = [struct.pack(">q", 5), struct.pack(">q", 6), struct.pack(">h", 2), struct.pack(">h", 9)]
        tags = [tag for tag in enumerate(of_tags) if draw.random() < 0.5]
        value += bytes([len(tags)]) + b"".join(bytes([number, len(raw)]) + raw for number, raw in tags)
    return struct.pack(">h", 0) + text(name(draw)), None if draw.random() < 0.1 else value


MAKERS = {
    Formatter.OFFSETS: offset_record,
    Formatter.GROUPS: group_record,
    Formatter.TRANSACTIONS: transaction_record,
}


def versions_of(kafka: str, formatter: Formatter) -> range:
    """The versions of values that this Kafka can read."""
    if formatter is Formatter.TRANSACTIONS:
        return range(2)
    if kafka == "0.9":
        return range(2) if formatter is Formatter.OFFSETS else range(1)
    return range(5)


def printed_by_kafka(class_path: str, name: str, records: list[Bytes]) -> list[bytes]:
    lines = "".join(f"{key.hex()} {'-' if value is None else value.hex()}\n" for key, value in records)
    command = [java(), "-Xmx256m", "-Dfile.encoding=UTF-8", "-cp", class_path, "FormatterRun", name]
    done = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=120, env=environment())
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [bytes.fromhex(line) for line in done.stdout.decode().splitlines()]


TRANSACTIONS = [(*each[:2], each[3]) for each in CLASSES if each[2] is Formatter.TRANSACTIONS]


@pytest.mark.parametrize(("packages", "version", "java_class"), TRANSACTIONS)
@pytest.mark.parametrize("scenario", ["txn", "compacted"])
def test_transactions_of_real_brokers(packages, version, java_class, scenario, kafka_data, kafka_packages):
    """No formatter of transactions was asked when the data was made: it is now."""
    log = kafka_data / scenario / "log"
    segments = [
        file.read_bytes() for each in find_partitions(log, TRANSACTIONS_TOPIC) for file in each.segments
    ]
    batches = [batch for segment in segments for batch in read_segment(segment)[0]]
    records = [(record.key, record.value) for batch in batches for record in batch.records]
    assert len(records) > 20
    theirs = printed_by_kafka(class_path_of(packages, kafka_packages), java_class, records)
    lines = Lines(Formatter.TRANSACTIONS, version)
    ours = [
        lines.of(record)
        for files in find_partitions(log, TRANSACTIONS_TOPIC)
        for _, found in dump_batches(files, lambda tail: None)
        for record in found
    ]
    assert [each for each in ours if each is not None] == [line.decode().removesuffix("\n") for line in theirs]


def class_path_of(packages, kafka_packages) -> str:
    if packages == "4.3":
        return kafka_packages.classpath
    return os.pathsep.join([str(kafka_packages.classes), *map(str, packages_or_skip(f"kafka-{packages}"))])


@pytest.mark.parametrize(("packages", "version", "formatter", "java_class"), CLASSES)
def test_random_records_are_printed_as_kafka_prints_them(
    packages, version, formatter, java_class, kafka_packages, tmp_path
):
    seed = first_seed(random.randrange(2**32))
    print(f"OL_SEED={seed}")
    draw = random.Random(seed)
    records = [MAKERS[formatter](draw, versions_of(version, formatter)) for _ in range(300)]
    class_path = class_path_of(packages, kafka_packages)
    theirs = [line.decode().removesuffix("\n") for line in printed_by_kafka(class_path, java_class, records)]
    lines = Lines(formatter, version)
    folder = tmp_path / f"{lines.topic}-0"
    folder.mkdir()
    Path(folder / "00000000000000000000.log").write_bytes(
        b"".join(encode_batch(number, 1_700_000_000_000, [record]) for number, record in enumerate(records))
    )
    (files,) = find_partitions(folder, lines.topic)
    ours = [lines.of(record) for _, found in dump_batches(files, pytest.fail) for record in found]
    assert ours == theirs
