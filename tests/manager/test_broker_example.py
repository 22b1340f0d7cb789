"""The broker of examples/: three processes over sockets, one of which is killed again and again."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.depth import by_depth, first_seed

pytestmark = [pytest.mark.source_tree, pytest.mark.ci]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Client:
    """Calls a process of the example, one call at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=6)
        self.file = self.socket.makefile("rb")

    def call(self, name: str, **body: object) -> object:
        self.socket.sendall(json.dumps({"id": 1, "call": name, "body": body}).encode() + b"\n")
        line = self.file.readline()
        if not line:
            raise ConnectionError("the other side has hung up")
        return json.loads(line)["answer"]

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Cluster:
    """A controller and three brokers, each a process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.controller = self._start("controller.py", "0")
        self.address = self.controller.stdout.readline().split()[-1]

    @staticmethod
    def _start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(EXAMPLES / words[0]), *words[1:]], stdout=subprocess.PIPE, text=True
        )

    def start(self, number: int) -> None:
        process = self._start("broker.py", str(number), str(self.root / f"broker-{number}"), self.address)
        self.processes[number] = process
        assert process.stdout is not None
        assert "listens" in process.stdout.readline()

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()

    def stop(self) -> None:
        for number in list(self.processes):
            self.kill(number)
        self.controller.kill()
        self.controller.wait()
        self.controller.stdout.close()

    def leader(self) -> Client | None:
        controller = Client(self.address)
        try:
            address = controller.call("leader")
        finally:
            controller.close()
        try:
            return None if address is None else Client(str(address))
        except OSError:
            return None


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    try:
        for number in (1, 2, 3):
            made.start(number)
        yield made
    finally:
        made.stop()


def call_leader(cluster: Cluster, name: str, **body: object) -> dict:
    """Calls whoever leads until it answers without an error that a retry may mend."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            client = cluster.leader()
            if client is not None:
                try:
                    answer = client.call(name, **body)
                finally:
                    client.close()
                if "error" not in answer:
                    return answer
                assert answer["retriable"], answer
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{name} was not answered for 30 s")


def test_no_acknowledged_commit_is_lost_when_brokers_are_killed(cluster):
    seed = first_seed()
    draw = random.Random(seed)
    print(f"seed {seed}")
    acknowledged: dict[str, int] = {}
    offset = 0
    for _ in range(by_depth(gate=4, long=30)):
        for _ in range(40):
            offset += 1
            group = f"group-{draw.randrange(5)}"
            call_leader(cluster, "commit", group=group, offsets=[["t", 0, offset], ["t", 1, offset]])
            acknowledged[group] = offset
        victim = draw.choice(sorted(cluster.processes))
        cluster.kill(victim)
        for _ in range(10):
            offset += 1
            call_leader(cluster, "commit", group="while-one-is-down", offsets=[["t", 0, offset], ["t", 1, offset]])
            acknowledged["while-one-is-down"] = offset
        cluster.start(victim)
    for group, last in acknowledged.items():
        found = call_leader(cluster, "fetch", group=group)["offsets"]
        assert sorted(found) == [["t", 0, last], ["t", 1, last]]
