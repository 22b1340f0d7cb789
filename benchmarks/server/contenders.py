"""Servers that receive the same requests: offsetlog's server, Kafka's broker, and a server that does nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from benchmarks.served_kafka import as_served, find_packages
from benchmarks.server.frames import TOPIC
from offsetlog.protocol import APIS, decode_response, encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)

#: Partitions of the topic whose positions are committed.
PARTITIONS = 100
SECONDS = 60.0


class Contender(Protocol):
    """A server that listens on loopback."""

    name: str
    port: int

    def close(self) -> None:
        """Stops the server."""


def ask(port: int, message: Any, version: int) -> Any:
    """Sends a request over a new connection; returns the decoded answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(encode_request(message, version, 1, "benchmark"))
        with connection.makefile("rb") as answers:
            frame = answers.read(int.from_bytes(answers.read(4), "big"))
    api = next(each for each in APIS.values() if each.request is type(message))
    return decode_response(api.response, version, frame)[1]


def make_topic(port: int) -> None:
    """Creates the topic, and waits until the topic and the coordinator of groups are ready."""
    ask(port, CreateTopicsRequest((CreateTopicsRequestTopic(TOPIC, PARTITIONS, 1),), 30_000), 7)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        (topic,) = ask(port, MetadataRequest((MetadataRequestTopic(name=TOPIC),)), 12).topics
        (found,) = ask(port, FindCoordinatorRequest(coordinator_keys=("group-0",)), 4).coordinators
        if len(topic.partitions) == PARTITIONS and found.error_code == 0:
            return
        time.sleep(0.2)
    raise AssertionError(f"the server on port {port} does not make topics")


class Ours:
    """`offsetlog serve` in a new process."""

    def __init__(self, directory: Path, durability: str) -> None:
        self.name = f"offsetlog, {durability}"
        words = [sys.executable, "-m", "offsetlog", "serve", str(directory / "data"), "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen([*words, "--durability", durability], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self.port = int(said.rpartition(":")[2])
        make_topic(self.port)

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/statm").read_text()
        return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """Stops the server; raises AssertionError if its exit code is not 0."""
        self._process.terminate()
        if self._process.wait(SECONDS) != 0:
            raise AssertionError(f"{self.name} ended with {self._process.returncode}")


class Kafka:
    """A broker with its default settings and Java options.  It does not sync its log."""

    name = "Kafka"

    def __init__(self, packages: Any, directory: Path) -> None:
        import broker as kafka

        template = kafka.make_template(packages, 50, directory / "template")
        log_dir = kafka.copy_template(template, directory / "log")
        settings = {"background.threads": "10", "num.network.threads": "3", "num.io.threads": "8"}
        self._broker = kafka.KafkaBroker(as_served(packages), log_dir, directory / "work", settings=settings)
        self._broker.start()
        self.port = int(self._broker.bootstrap.rpartition(":")[2])
        make_topic(self.port)

    @classmethod
    def if_there(cls, directory: Path) -> list[Kafka]:
        """Returns a list with the broker, which is empty if Java is missing or Kafka cannot be fetched."""
        packages = find_packages()
        return [] if packages is None else [cls(packages, directory)]

    def close(self) -> None:
        """Stops the broker."""
        self._broker.stop()


class Bare:
    """The compiled server that answers every request with the same bytes."""

    name = "bare C server"

    def __init__(self, directory: Path, answer: bytes) -> None:
        program = compiled(directory, "bare_server")
        file = directory / "answer"
        file.write_bytes(answer)
        self._process = subprocess.Popen([str(program), str(file)], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        """Kills the server."""
        self._process.kill()
        self._process.wait()


def compiled(directory: Path, name: str) -> Path:
    """Compiles one of the C programs of this folder; returns the path of the program."""
    program = directory / name
    source = Path(__file__).with_name(f"{name}.c")
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O3", "-std=gnu11", "-Wall", "-o", str(program), str(source)], check=True)
    return program
