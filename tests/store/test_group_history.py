"""The history of a whole group: for each position it is that of the position alone."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from conformance.scenarios import SCENARIOS, Scenario
from depth import first_seed

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition, errors

from .test_history import _partitions_of

KEYS = [TopicPartition(topic, number) for topic in ("orders", "заказы") for number in range(3)]


def fill(store: offsetlog.OffsetStore, draw: random.Random) -> None:
    """Commits, deletions, and transactions that overlap, end either way, or stay open."""
    open_ones: dict[int, offsetlog.Transaction] = {}
    for step in range(400):
        group = draw.choice("ab")
        chosen = draw.sample(KEYS, draw.randint(1, len(KEYS)))
        producer = draw.randrange(4)
        action = draw.randrange(8)
        if action < 3:
            store.commit(group, {key: OffsetAndMetadata(step, "m") for key in chosen})
        elif action == 3:
            store.delete(group, chosen)
        elif action < 6:
            transaction = open_ones.setdefault(producer, store.transaction(group, producer))
            transaction.commit(dict.fromkeys(chosen, step))
        elif producer in open_ones:
            transaction = open_ones.pop(producer)
            if action == 6:
                transaction.__exit__(None, None, None)
            else:
                transaction.abort()
    for group, producer in (("a", 8), ("b", 9)):
        store.transaction(group, producer).commit({KEYS[0]: 1})


@pytest.mark.parametrize("cleaned", [False, True])
def test_it_is_the_history_of_each_position(tmp_path: Path, cleaned: bool) -> None:
    seed = first_seed()
    print(f"seed {seed}")
    config = StoreConfig(segment_bytes=8 << 10)
    with offsetlog.open(
        tmp_path, 1, "process", config=config, maintenance=MaintenanceConfig(enabled=False)
    ) as store:
        fill(store, random.Random(seed))
        if cleaned:
            store.compact()
        for group in "ab":
            found = store.group_history(group)
            assert list(found) == sorted(found)
            alone = {key: store.history(group, *key) for key in KEYS}
            assert found == {key: history for key, history in alone.items() if history}
            outcomes = {entry.outcome for history in found.values() for entry in history}
            assert cleaned or outcomes == {"plain", "committed", "aborted", "open"}
        assert bool(store.group_history("a")[KEYS[0]].complete_from) == cleaned


def test_a_group_that_does_not_exist_has_none(tmp_path: Path) -> None:
    with offsetlog.open(tmp_path, 2, "process") as store:
        assert store.group_history("nobody") == {}
        store.commit("g", {KEYS[0]: 1})
        assert store.group_history("nobody") == {}
        with pytest.raises(errors.InvalidArgumentError):
            store.group_history(7)  # type: ignore[arg-type]
    with pytest.raises(errors.ClosedError):
        store.group_history("g")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_groups_of_brokers(scenario: Scenario, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(scenario.log, log)
    count = _partitions_of(log)
    with offsetlog.open(log, count, read_only=True) as store:
        for group in store.groups():
            for key, history in store.group_history(group).items():
                assert history == store.history(group, *key)
            assert store.fetch(group).keys() <= store.group_history(group).keys()
