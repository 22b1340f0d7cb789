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
        self.addresses: dict[int, str] = {}
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
        line = process.stdout.readline()
        assert "listens" in line
        self.addresses[number] = line.split()[-1]

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

    def leader_address(self) -> object:
        controller = Client(self.address)
        try:
            return controller.call("leader")
        finally:
            controller.close()

    def leader(self) -> Client | None:
        address = self.leader_address()
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


def run_by_hand(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the example to its end."""
    command = [sys.executable, str(EXAMPLES / words[0]), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_client_commits_also_when_the_leader_is_killed(cluster):
    committed = run_by_hand("client.py", cluster.address, "commit", "g", "t:0=5", "a:b:1=6")
    assert committed.stdout.startswith("committed at log offset "), committed.stderr
    leader = cluster.leader_address()
    cluster.kill(next(number for number, at in cluster.addresses.items() if at == leader))
    committed = run_by_hand("client.py", cluster.address, "commit", "g", "t:0=7")
    assert committed.stdout.startswith("committed at log offset "), committed.stderr
    fetched = run_by_hand("client.py", cluster.address, "fetch", "g")
    assert sorted(fetched.stdout.split()) == ["a:b:1=6", "t:0=7"]
    refused = run_by_hand("client.py", cluster.address, "commit", "g", "t:0=-1")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error 42: t:0: the offset must be from 0")


@pytest.mark.parametrize(
    "words", [["controller.py"], ["broker.py", "1"], ["client.py"], ["client.py", "a:1", "commit", "g"]]
)
def test_a_wrong_command_line_is_answered_with_the_right_one(words):
    answer = run_by_hand(*words)
    assert answer.returncode == 1
    assert f"python examples/{words[0]} " in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_broker_without_a_controller_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    answer = run_by_hand("broker.py", "1", str(tmp_path / "broker-1"), address)
    assert answer.returncode == 1
    assert answer.stderr.startswith("broker 1: ")
    assert "Traceback" not in answer.stderr


def test_a_broker_whose_controller_is_gone_ends_and_says_so(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        command = [sys.executable, str(EXAMPLES / "broker.py"), "1", str(tmp_path / "b"), cluster.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
            assert "listens" in broker.stdout.readline()
            cluster.controller.kill()
            _, errors = broker.communicate(timeout=60)
        assert broker.returncode == 1
        assert errors == f"broker 1: the controller at {cluster.address} has hung up\n"
    finally:
        cluster.stop()
