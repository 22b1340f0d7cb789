"""A broker of Kafka 3.9, the last one that runs with ZooKeeper, on the loopback address."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

from tests.maven_packages import java, packages_or_skip

from .ensemble import PATIENCE, free_ports

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "false",
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "30000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "65536",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "1",
}


class KafkaBroker:
    """One broker; started by `start`, stopped by `with`.

    Args:
        folder: of its files; made.
        broker_id: its id.
        hosts: `zookeeper.connect`.
        settings: more of server.properties.
    """

    def __init__(self, folder: Path, broker_id: int, hosts: str, **settings: str) -> None:
        self.jars = packages_or_skip("kafka-3.9")
        self.folder = folder
        self.broker_id = broker_id
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        lines = {
            "broker.id": str(broker_id),
            "zookeeper.connect": hosts,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(folder / "data"),
            **SETTINGS,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (folder / "server.properties").write_text(text)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it; it may not answer yet."""
        path = os.pathsep.join(str(jar) for jar in self.jars)
        call = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "kafka.Kafka"]
        with open(self.folder / "out", "ab") as out:
            self._process = subprocess.Popen(
                [*call, str(self.folder / "server.properties")], stdout=out, stderr=out, cwd=self.folder
            )

    def wait(self) -> int:
        """Waits until it ends by itself, and returns its exit code."""
        assert self._process is not None
        code, self._process = self._process.wait(PATIENCE), None
        return code

    def stop(self) -> None:
        """Ends it as an operator does."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(PATIENCE)
            self._process = None

    def meta_properties(self) -> dict[str, str]:
        """Returns what it wrote of itself into its log directory."""
        lines = (self.folder / "data" / "meta.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def output(self) -> str:
        """Returns the end of what it printed."""
        return (self.folder / "out").read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
