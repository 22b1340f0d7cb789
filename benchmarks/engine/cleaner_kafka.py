"""Runs Kafka's own cleaner on the same bytes, with a broker's default settings and Java options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import offsetlog
from benchmarks.engine.cleaner_log import DirtyLog
from benchmarks.served_kafka import as_served

SECONDS = 1800.0
MIB = 1 << 20


@dataclass(frozen=True)
class KafkaRates:
    """The rates that Kafka's cleaner reports for one clean, in bytes per second, and the digest of the cleaned log."""

    bytes_cleaned: float
    end_to_end: float
    indexing: float
    copying: float
    seconds: float
    digest: str


def clean(packages: Any, log: DirtyLog, directory: Path) -> KafkaRates:
    """Lets a broker load a copy of the log first, and then clean it.  The broker does not clean the active segment."""
    import broker as kafka
    import cleaning

    template = kafka.make_template(packages, 1, directory / "template")
    log_dir = kafka.install(template, log.path, directory / "log", marker="keep")
    settings = {
        **cleaning.IDLE,
        "log.cleaner.dedupe.buffer.size": str(128 * MIB),
        "log.index.size.max.bytes": str(10 * MIB),
        "background.threads": "10",
    }
    running = kafka.KafkaBroker(
        as_served(packages), log_dir, directory / "work", settings=settings, deadline_seconds=SECONDS
    )
    with running:
        running.wait_until_loaded(1)
        cleaning.let_clean(packages, running)
        cleaning.wait_until_cleaned(running, [0], SECONDS)
        (said,) = cleaning.cleans_in(running.log_text())
    if abs(said.size * MIB - log.closed_bytes) > 0.01 * log.closed_bytes + MIB:
        raise AssertionError(f"Kafka's cleaner read {said.size} MiB of {log.closed_bytes / MIB:.1f}")
    with offsetlog.open(log_dir, read_only=True) as store:
        digest = log.digest_of(store)
    rates = (rate * MIB for rate in (said.rate, said.index_rate, said.copy_rate))
    return KafkaRates(said.size * MIB, *rates, said.seconds, digest)
