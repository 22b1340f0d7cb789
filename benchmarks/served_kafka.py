"""Kafka's packages for the benchmarks, which run with the Java options that a broker has by default."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parents[1] / "tests" / "kafka"

#: Options of `kafka-server-start.sh` and `kafka-run-class.sh`; the tests start their brokers with less memory.
JAVA_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


def find_packages() -> Any | None:
    """Returns Kafka's packages; None if Java is missing or the packages cannot be fetched."""
    if not HARNESS.is_dir():
        return None
    if str(HARNESS) not in sys.path:
        sys.path.insert(0, str(HARNESS))
    import kafka_packages

    try:
        return kafka_packages.find_packages()
    except kafka_packages.KafkaMissing as missing:
        print(f"benchmarks: without Kafka: {missing}", file=sys.stderr)
        return None


def as_served(packages: Any) -> Any:
    """Returns the same packages, whose commands run with JAVA_OPTIONS."""
    import kafka_packages

    class Served(kafka_packages.KafkaPackages):
        def command(self, main: str, *arguments: str, **options: Any) -> list[str]:
            java, *words = super().command(main, *arguments, **options)
            dropped = kafka_packages.JVM_FLAGS
            kept = [word for word in words if word not in dropped and not word.startswith("-Xmx")]
            return [java, *JAVA_OPTIONS, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", *kept]

    return Served(packages.java, packages.home, packages.classes)
