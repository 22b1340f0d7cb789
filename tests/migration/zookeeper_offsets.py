"""Offsets in ZooKeeper as a test fills them in and reads them, through kazoo alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from kazoo.client import KazooClient

Offsets = dict[tuple[str, str, str], bytes]


def client_of(hosts: str) -> Any:
    client = KazooClient(hosts=hosts, timeout=20)
    client.start(timeout=60)
    return client


def fill(hosts: str, offsets: Offsets, above: Iterable[str] = ()) -> None:
    """Makes the nodes of offsets, and others: with what is above them."""
    client = client_of(hosts)
    try:
        client.ensure_path("/consumers")
        made = set()
        waiting = []
        for (group, topic, partition), data in offsets.items():
            node = f"/consumers/{group}/offsets/{topic}"
            if node not in made:
                made.add(node)
                client.ensure_path(node)
            waiting.append(client.create_async(f"{node}/{partition}", data))
        for node in above:
            client.ensure_path(node)
        for each in waiting:
            each.get(60)
    finally:
        client.stop()
        client.close()


def offsets_in(hosts: str) -> Offsets:
    """Returns what stands below /consumers."""
    client = client_of(hosts)
    try:
        found = {}
        asked = []
        for group in client.get_children("/consumers"):
            if "offsets" not in client.get_children(f"/consumers/{group}"):
                continue
            for topic in client.get_children(f"/consumers/{group}/offsets"):
                above = f"/consumers/{group}/offsets/{topic}"
                asked += [
                    ((group, topic, each), client.get_async(f"{above}/{each}")) for each in client.get_children(above)
                ]
        for key, answer in asked:
            found[key] = answer.get(60)[0]
        return found
    finally:
        client.stop()
        client.close()


def is_committed(store: Any, group: str, topic: str, partition: int) -> int | None:
    found = store.fetch_one(group, topic, partition)
    return None if found is None else found.offset


needs_typer = pytest.importorskip("typer")
