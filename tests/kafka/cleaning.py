"""Kafka's own log cleaner: how a broker is made to run it now, and what it says that it did."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker import OFFSETS_TOPIC, KafkaBroker
from kafka_packages import DEADLINE_SECONDS, KafkaFailed, KafkaPackages

CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
MIB = 1024 * 1024

EAGER: Mapping[str, str] = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.0001",
    # Tombstones and markers leave in the second clean.
    "log.cleaner.delete.retention.ms": "0",
    # The first commit after the start closes the active segment, which the cleaner never touches.
    "log.roll.ms": "1",
}
"""A broker with these cleans every partition that has a closed segment after its cleaner checkpoint, at once."""

IDLE: Mapping[str, str] = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "1"}
"""A broker with these cleans nothing until :func:`let_clean` tells it to: no log is dirtier than dirty."""


@dataclass(frozen=True)
class KafkaClean:
    """One clean of one partition in the words of Kafka's cleaner; sizes in MiB and rates in MiB/s, as it prints them.

    ``start`` and ``end`` are log offsets: what was dirty. ``rate`` is the whole log by the whole time.
    """

    partition: int
    start: int
    end: int
    size: float
    seconds: float
    rate: float
    index_rate: float
    copy_rate: float
    size_before: float
    records_before: int
    size_after: float
    records_after: int


_CLEAN = re.compile(
    rf"Log cleaner thread \d+ cleaned log {OFFSETS_TOPIC}-(?P<partition>\d+) "
    r"\(dirty section = \[(?P<start>\d+), (?P<end>\d+)\]\)\n"
    r"\s*(?P<size>[\d.,]+) MB of log processed in (?P<seconds>[\d.,]+) seconds \((?P<rate>\S+) MB/sec\)\.\n"
    r"\s*Indexed [\d.,]+ MB in [\d.,]+ seconds \((?P<index_rate>\S+) Mb/sec, .*\n"
    r"\s*Buffer utilization: .*\n"
    r"\s*Cleaned [\d.,]+ MB in [\d.,]+ seconds \((?P<copy_rate>\S+) Mb/sec, .*\n"
    r"\s*Start size: (?P<size_before>[\d.,]+) MB \((?P<records_before>[\d.,]+) messages\)\n"
    r"\s*End size: (?P<size_after>[\d.,]+) MB \((?P<records_after>[\d.,]+) messages\)"
)


def cleans_in(text: str) -> list[KafkaClean]:
    """Returns what the cleaner of a broker says in its log that it has done to partitions of the offsets topic."""
    return [_clean_of(match) for match in _CLEAN.finditer(text)]


def _clean_of(match: re.Match[str]) -> KafkaClean:
    def number(name: str) -> float:
        word = match[name].replace(",", "")
        # A pass of less than a millisecond was infinitely fast.
        return float("inf") if word in ("∞", "Infinity") else float("nan") if word == "NaN" else float(word)

    return KafkaClean(
        partition=int(match["partition"]),
        start=int(match["start"]),
        end=int(match["end"]),
        size=number("size"),
        seconds=number("seconds"),
        rate=number("rate"),
        index_rate=number("index_rate"),
        copy_rate=number("copy_rate"),
        size_before=number("size_before"),
        records_before=int(number("records_before")),
        size_after=number("size_after"),
        records_after=int(number("records_after")),
    )


def complaints_in(text: str) -> list[str]:
    """Returns what the cleaner complains of: it goes on without a partition that it failed to clean."""
    lines = text.splitlines()
    return [line for line in lines if re.search(r"\] (WARN|ERROR|FATAL) .*[Cc]lean", line)]


def wait_until_cleaned(broker: KafkaBroker, partitions: Collection[int], seconds: float = DEADLINE_SECONDS) -> None:
    """Waits until the cleaner has been through each of these partitions since the broker was started, and is done.

    Done is what its checkpoint says: that follows the line in the log. A cleaner that is stopped in between, or in a
    clean after that one, leaves segments that it wrote again below a checkpoint that is as it was, and then the next
    open doubts them with reason.

    Raises KafkaFailed when the cleaner complains, or when time is up.
    """
    end = time.monotonic() + seconds
    while True:
        text = broker.log_text()
        checkpoint = checkpoint_of(broker.log_dir)
        missing = set(partitions) - {clean.partition for clean in cleans_in(text)}
        missing |= {each for each in partitions if checkpoint.get(each, -1) < _active_base(broker.log_dir, each)}
        complaints = complaints_in(text)
        if complaints:
            raise KafkaFailed("\n".join(["Kafka's cleaner complains:", *complaints[:10]]))
        if not missing:
            return
        if broker.pid is None or time.monotonic() > end:
            raise KafkaFailed(f"Kafka's cleaner did not come to {sorted(missing)}: {broker.complaints()}")
        time.sleep(0.05)


def _active_base(log_dir: Path, partition: int) -> int:
    """Returns the log offset at which the active segment of a partition of the offsets topic begins."""
    return max(int(path.stem) for path in (log_dir / f"{OFFSETS_TOPIC}-{partition}").glob("*.log"))


def let_clean(packages: KafkaPackages, broker: KafkaBroker) -> None:
    """Tells a broker that was started with :data:`IDLE` to clean the offsets topic from now on."""
    packages.run(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "topics"),
        *("--entity-name", OFFSETS_TOPIC, "--add-config", "min.cleanable.dirty.ratio=0.0001"),
    )


def forget_cleaning(log_dir: Path) -> None:
    """Removes the cleaner's checkpoint, so that all closed segments of every partition are dirty again."""
    (log_dir / CLEANER_CHECKPOINT).unlink(missing_ok=True)


def checkpoint_of(log_dir: Path) -> dict[int, int]:
    """Returns partition -> log offset up to which it was cleaned."""
    path = log_dir / CLEANER_CHECKPOINT
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    entries = (line.rsplit(" ", 2) for line in lines)
    return {int(partition): int(offset) for topic, partition, offset in entries if topic == OFFSETS_TOPIC}
