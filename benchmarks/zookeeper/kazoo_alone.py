"""Copies the offsets of consumers with kazoo alone, with as many outstanding requests as a migration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: Offsets by group, topic and partition.
Offsets = dict[str, dict[str, dict[str, int]]]

READS, GROUPS = 64, 16


def client_of(hosts: str) -> Any:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=hosts, timeout=20)
    client.start(timeout=60)
    return client


def _answers(questions: Iterable[tuple[Any, Callable[[], Any]]], most: int) -> Iterator[tuple[Any, Any]]:
    waiting: deque[tuple[Any, Any]] = deque()
    for key, ask in questions:
        if len(waiting) >= most:
            before, answer = waiting.popleft()
            yield before, answer.get(60)
        waiting.append((key, ask()))
    for key, answer in waiting:
        yield key, answer.get(60)


def write(client: Any, offsets: Offsets) -> None:
    """Writes each group in one transaction."""

    def transactions() -> Iterator[tuple[str, Callable[[], Any]]]:
        for group, topics in offsets.items():
            made = client.transaction()
            made.create(f"/consumers/{group}")
            made.create(f"/consumers/{group}/offsets")
            for topic, partitions in topics.items():
                above = f"/consumers/{group}/offsets/{topic}"
                made.create(above)
                for partition, offset in partitions.items():
                    made.create(f"{above}/{partition}", b"%d" % offset)
            yield group, made.commit_async

    client.ensure_path("/consumers")
    for group, results in _answers(transactions(), GROUPS):
        for result in results:
            if isinstance(result, Exception):
                raise AssertionError(f"{group}: {result!r}")


def read(client: Any) -> Offsets:
    """Reads all groups."""
    found: Offsets = {}

    def topics() -> Iterator[tuple[str, Callable[[], Any]]]:
        for group in client.get_children("/consumers"):
            found[group] = {}
            yield group, lambda group=group: client.get_children_async(f"/consumers/{group}/offsets")

    def partitions() -> Iterator[tuple[tuple[str, str], Callable[[], Any]]]:
        for group, names in _answers(topics(), READS):
            for topic in names:
                found[group][topic] = {}
                node = f"/consumers/{group}/offsets/{topic}"
                yield (group, topic), lambda node=node: client.get_children_async(node)

    def nodes() -> Iterator[tuple[tuple[str, str, str], Callable[[], Any]]]:
        for (group, topic), names in _answers(partitions(), READS):
            for partition in names:
                node = f"/consumers/{group}/offsets/{topic}/{partition}"
                yield (group, topic, partition), lambda node=node: client.get_async(node)

    client.sync("/")
    for (group, topic, partition), (data, _) in _answers(nodes(), READS):
        found[group][topic][partition] = int(data)
    return found


def remove(client: Any, offsets: Offsets) -> None:
    """Removes all groups."""

    def transactions() -> Iterator[tuple[str, Callable[[], Any]]]:
        for group, topics in offsets.items():
            made = client.transaction()
            for topic, partitions in topics.items():
                above = f"/consumers/{group}/offsets/{topic}"
                for partition in partitions:
                    made.delete(f"{above}/{partition}")
                made.delete(above)
            made.delete(f"/consumers/{group}/offsets")
            made.delete(f"/consumers/{group}")
            yield group, made.commit_async

    for _ in _answers(transactions(), GROUPS):
        pass
