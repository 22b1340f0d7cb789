"""The broker of the fleet: a manager that its properties choose, for whoever connects.

    python fleet_broker.py PORT PROPERTIES

A line is a request in JSON, and so is its answer.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections import Counter
from typing import Any

from offsetlog.errors import OffsetLogError
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.registry import create_manager
from offsetlog.types import TopicPartition


class Offsets:
    """Answers requests; safe from many threads."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self.manager = create_manager(properties)
        self.manager.start()
        for partition in range(self.manager.partitions):
            self.manager.become_leader(partition, self.manager.leader_epoch(partition) + 1).result(60)
        self.commits: Counter[str] = Counter()
        self.lock = threading.Lock()

    def answer(self, op: str, **given: Any) -> dict[str, Any]:
        try:
            result: dict[str, Any] = getattr(self, op)(**given)
        except OffsetLogError as failure:
            return {"error": f"{type(failure).__name__}: {failure}", "retriable": failure.retriable}
        return result

    def fetch(self, group: str, topic: str, partition: int) -> dict[str, Any]:
        key = TopicPartition(topic, partition)
        return {"offset": self.manager.fetch(group, [key])[key].offset}

    def commit(self, group: str, topic: str, partition: int, offset: int) -> dict[str, Any]:
        self.manager.commit(group, {TopicPartition(topic, partition): offset})
        with self.lock:
            self.commits[f"{group}:{topic}:{partition}"] += 1
        return {}

    def progress(self) -> dict[str, Any]:
        with self.lock:
            return dict(self.commits)

    def catch_up(self) -> dict[str, Any]:
        assert isinstance(self.manager, DualManager)
        done = self.manager.catch_up_all()
        return {"raised": done.raised, "failures": {group: str(failure) for group, failure in done.failures.items()}}

    def differences(self) -> dict[str, Any]:
        assert isinstance(self.manager, DualManager)
        for group in self.manager.zookeeper.groups():
            self.manager.compare(group)
        return {"differences": self.manager.differences()}


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 100


def main(port: int, properties: dict[str, Any]) -> None:
    offsets = Offsets(properties)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(json.dumps(offsets.answer(**json.loads(line))).encode() + b"\n")

    Server(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
