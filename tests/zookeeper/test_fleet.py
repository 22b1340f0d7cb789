"""A fleet of consumers moves from ZooKeeper to the log while it runs: nothing goes back, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import offsetlog
from offsetlog.types import TopicPartition

from .ensemble import free_ports
from .fleet_consumer import Broker
from .managers import PATIENCE, leading

pytestmark = pytest.mark.ci

HERE = Path(__file__).parent
CONSUMERS, GROUPS, COMMITS = 20, 5, 25
IDLE = {TopicPartition("idle", number): 1000 + number for number in range(3)}


class BrokerProcess:
    """A broker that is killed and started again on the same port, with other properties."""

    def __init__(self, output: Path) -> None:
        self.port = free_ports(1)[0]
        self.output = output
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, properties: dict[str, str]) -> None:
        root = HERE.parents[1]
        command = [sys.executable, str(HERE / "fleet_broker.py"), str(self.port), json.dumps(properties)]
        with self.output.open("ab") as out:
            environment = {**os.environ, "PYTHONPATH": str(root)}
            self.process = subprocess.Popen(command, cwd=root, stdout=out, stderr=out, env=environment)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def ask(self, op: str) -> dict[str, object]:
        with closing(Broker(self.port)) as broker:
            answer = broker.ask(op=op)
        assert "error" not in answer, answer
        return answer

    def wait_until_all_commit(self) -> None:
        """Waits until each consumer has committed some offsets at the broker that runs now."""
        deadline = time.monotonic() + 5 * PATIENCE
        while True:
            assert self.process is not None
            assert self.process.poll() is None, self.output.read_text()[-3000:]
            counts = self.ask("progress").values()
            if len(counts) == CONSUMERS and min(int(str(each)) for each in counts) >= COMMITS:
                return
            assert time.monotonic() < deadline, (sorted(counts), self.output.read_text()[-3000:])
            time.sleep(0.1)


@contextmanager
def consumer(port: int, number: int):
    place = [f"group-{number % GROUPS}", "orders", str(number)]
    command = [sys.executable, "-S", str(HERE / "fleet_consumer.py"), str(port), *place]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdin.close()
        process.stdout.close()


def test_twenty_consumers_move_from_zookeeper_to_the_log_without_stopping(hosts, tmp_path):
    log = tmp_path / "log"
    properties = {"log.dir": str(log), "zookeeper.connect": hosts, "offsets.topic.num.partitions": "4"}
    with leading(hosts) as manager:
        manager.commit("idle", IDLE)
    broker = BrokerProcess(tmp_path / "broker.out")
    with ExitStack() as running:
        running.callback(broker.kill)
        broker.start({**properties, "offset.storage": "zookeeper"})
        fleet = [running.enter_context(consumer(broker.port, number)) for number in range(CONSUMERS)]
        broker.wait_until_all_commit()

        broker.kill()
        broker.start({**properties, "offset.storage": "dual"})
        broker.wait_until_all_commit()
        assert broker.ask("catch_up")["failures"] == {}

        broker.kill()
        broker.start({**properties, "offset.storage": "log"})
        broker.wait_until_all_commit()

        seen = [json.loads(each.communicate(timeout=PATIENCE)[0]) for each in fleet]
        broker.kill()
    assert [each["problems"] for each in seen] == [[]] * CONSUMERS
    assert min(each["starts"] for each in seen) >= 3
    assert min(each["commits"] for each in seen) >= 3 * COMMITS
    with offsetlog.open(log, read_only=True) as store:
        assert {key: value.offset for key, value in store.fetch("idle").items()} == IDLE
        for each in seen:
            found = store.fetch(each["group"])[TopicPartition(each["topic"], each["partition"])].offset
            assert each["acknowledged"] <= found <= each["sent"]
    print(sum(each["commits"] for each in seen), "commits")
