"""The operations of a process that will be killed: number n is always the same, so that the parent knows them too."""

from __future__ import annotations

import random

from model.reference import Atom, End, Erase, Key, Put, Value

from offsetlog import OffsetStore, TopicPartition

PARTITIONS = 3
GROUPS = ("billing", "g", "orders-é", "reports")
PRODUCER = 4000
LARGE = 60


def operation(seed: int, number: int) -> tuple[str, str, dict[TopicPartition, int], str]:
    """Returns kind, group, offsets and durability of operation `number`."""
    draw = random.Random(seed * 1_000_003 + number)
    kind = draw.choices(
        ["one", "many", "large", "delete", "delete group", "transaction", "abort"], [8, 8, 2, 2, 1, 3, 1]
    )[0]
    count = {"one": 1, "large": LARGE}.get(kind, 6)
    numbers = range(count) if kind == "large" else draw.sample(range(LARGE), count)
    offsets = {TopicPartition("t", each): number * 100 + each for each in numbers}
    return kind, draw.choice(GROUPS), offsets, draw.choice(["disk", "process", "process"])


def carry_out(store: OffsetStore, kind: str, group: str, offsets: dict[TopicPartition, int], durability: str) -> None:
    match kind:
        case "one":
            ((key, offset),) = offsets.items()
            store.commit_one(group, key.topic, key.partition, offset, durability=durability)
        case "many" | "large":
            store.commit(group, offsets, durability=durability)
        case "delete":
            store.delete(group, list(offsets), durability=durability)
        case "delete group":
            store.delete(group, durability=durability)
        case "transaction":
            with store.transaction(group, PRODUCER, durability=durability) as transaction:
                transaction.commit(offsets)
        case "abort":
            transaction = store.transaction(group, PRODUCER)
            transaction.commit(offsets)
            transaction.abort()


def atoms(kind: str, group: str, offsets: dict[TopicPartition, int], known: frozenset[Key]) -> list[Atom]:
    """Returns the atoms that the operation leaves in the log; `known` are the group's keys before it."""
    keys = {Key(group, *key): Value(offset) for key, offset in offsets.items()}
    match kind:
        case "delete":
            return [Erase(frozenset(keys) & known)]
        case "delete group":
            return [Erase(known)]
        case "transaction" | "abort":
            return [Put(keys, PRODUCER), End(PRODUCER, kind == "transaction")]
    return [Put(keys)]
