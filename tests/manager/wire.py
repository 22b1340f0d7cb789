"""The network of a replica host in tests: it keeps what is sent, and answers nothing."""

from __future__ import annotations

from typing import Any

from offsetlog.replication.messages import FetchRequest


class Wire:
    """Fetches in the order of sending, and the failures that the host reported."""

    def __init__(self) -> None:
        self.fetches: list[FetchRequest] = []
        self.failures: list[Any] = []

    def fetch(self, leader, request, answer):
        self.fetches.append(request)

    def propose(self, partition, change):
        pass

    def renew(self, partition, leader_epoch, answer):
        pass

    def failed(self, partition, failure):
        self.failures.append(failure)
