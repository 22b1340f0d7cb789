"""The dual manager over two storages in memory: whatever is cut in the middle is made as a whole, or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from offsetlog import errors
from offsetlog._native.completion import Completion
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.manager.dual.differences import Difference
from offsetlog.manager.dual.manager import DualManager, create
from offsetlog.manager.work import Work
from offsetlog.types import OffsetAndMetadata, TopicPartition

KEYS = [TopicPartition("t", number) for number in range(3)]
GROUP = "g"
PATIENCE = 30.0


class Memory(BaseOffsetManager):
    """Keeps positions in a dictionary, and fails at a write of a given number: before it is made, or afterwards."""

    def __init__(self, name: str, kept: dict[str, dict[TopicPartition, OffsetAndMetadata]], plan: Plan) -> None:
        super().__init__(partitions=2)
        self.name, self.kept, self.plan = name, kept, plan

    def read(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self.kept.get(group, {})

    def write(self, group: str, changes: Mapping[TopicPartition, Any]) -> None:
        with self.plan.write(self.name):
            merged = {**self.kept.get(group, {}), **changes}
            self.kept[group] = {key: value for key, value in merged.items() if value is not None}

    def groups(self) -> Iterable[str]:
        return list(self.kept)


class Plan:
    """The writes of both storages in their order, and the one at which everything ends."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.cut_before: int | None = None
        self.cut_after: int | None = None

    def write(self, name: str) -> Plan:
        if self.is_over() or self.cut_before == len(self.writes):
            self.cut_before = -1
            raise errors.StorageError("cut")
        self.writes.append(name)
        return self

    def is_over(self) -> bool:
        return self.cut_before == -1

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self.cut_after == len(self.writes):
            self.cut_before = -1
            raise errors.StorageError("cut")


class Site:
    """Two storages that outlive the managers on them."""

    def __init__(self, log: dict[TopicPartition, int], zookeeper: dict[TopicPartition, int]) -> None:
        self.log = {GROUP: {key: OffsetAndMetadata(offset) for key, offset in log.items()}}
        self.zookeeper = {GROUP: {key: OffsetAndMetadata(offset) for key, offset in zookeeper.items()}}

    def start(self, plan: Plan | None = None) -> DualManager:
        plan = plan or Plan()
        manager = DualManager(Memory("log", self.log, plan), Memory("zookeeper", self.zookeeper, plan))
        manager.start()
        for partition in range(manager.partitions):
            manager.become_leader(partition, 1)
        return manager

    def fetched(self) -> dict[TopicPartition, int]:
        with self.start() as manager:
            return {key: value.offset for key, value in manager.fetch(GROUP).items()}

    def stored(self) -> tuple[dict[TopicPartition, int], ...]:
        both = (self.log, self.zookeeper)
        return tuple({key: value.offset for key, value in each.get(GROUP, {}).items()} for each in both)


class Probes:
    """The tries of a manager to reach ZooKeeper in an outage, which a test makes in place of their timer."""

    def __init__(self, manager: DualManager) -> None:
        self.ordered: list[Any] = []
        manager._queue._call_later = lambda seconds, probe: self.ordered.append(probe)

    def make(self) -> None:
        """Makes those that are ordered now."""
        ordered, self.ordered = self.ordered, []
        for probe in ordered:
            probe()


def random_offsets(rng: random.Random, high: int = 6) -> dict[TopicPartition, int]:
    return {key: rng.randrange(high) for key in KEYS if rng.random() < 0.7}


def larger(one: dict[TopicPartition, int], other: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {key: max(one.get(key, -1), other.get(key, -1)) for key in {**one, **other}}


@pytest.mark.parametrize("kind", ["commit", "known commit", "delete", "delete_group"])
def test_what_is_cut_in_the_middle_is_seen_as_a_whole_or_not_at_all(kind):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    cuts = 0
    for _ in range(150):
        log, zookeeper = random_offsets(rng), random_offsets(rng)
        offsets = random_offsets(rng) or {KEYS[0]: 3}
        before = larger(log, zookeeper)
        after = {
            "delete": {key: value for key, value in before.items() if key not in offsets},
            "delete_group": {},
        }.get(kind, {**before, **offsets})

        def make(manager: DualManager, offsets: dict[TopicPartition, int] = offsets) -> None:
            if kind == "known commit":
                manager.fetch(GROUP, KEYS)
            if kind == "delete":
                manager.delete(GROUP, offsets)
            elif kind == "delete_group":
                manager.delete_group(GROUP)
            else:
                manager.commit(GROUP, offsets)

        whole = Plan()
        site = Site(log, zookeeper)
        with site.start(whole) as manager:
            make(manager)
        assert site.fetched() == after
        for key in {**log, **zookeeper, **offsets}:
            in_log, in_zookeeper = (each.get(key) for each in site.stored())
            # A position that was not touched may differ as before.
            assert in_log == in_zookeeper or key not in offsets, (key, site.stored())
        for number in range(len(whole.writes) + 1):
            for is_after in (False, True):
                plan = Plan()
                plan.cut_before, plan.cut_after = (None, number) if is_after else (number, None)
                site = Site(log, zookeeper)
                with site.start(plan) as manager:
                    failed = False
                    try:
                        make(manager)
                    except errors.OffsetLogError:
                        failed = True
                found = site.fetched()
                cuts += plan.is_over()
                assert found in (before, after), (before, after, found, number, is_after)
                if not failed:
                    assert found == after
                with site.start() as manager:
                    make(manager)
                assert site.fetched() == after
    assert cuts > 200


def test_a_commit_forward_is_in_the_log_first_and_one_back_in_zookeeper_first():
    plan = Plan()
    site = Site({}, {})
    with site.start(plan) as manager:
        manager.commit(GROUP, {KEYS[0]: 5})
        assert plan.writes == ["log", "zookeeper"]
        manager.commit(GROUP, {KEYS[0]: 7})
        assert plan.writes[2:] == ["log", "zookeeper"]
        manager.commit(GROUP, {KEYS[0]: 6, KEYS[1]: 1})
        assert plan.writes[4:] == ["zookeeper", "log", "zookeeper"]
        manager.delete(GROUP, [KEYS[1]])
        assert plan.writes[7:] == ["zookeeper", "log"]
        assert (manager.counters().commits, manager.counters().rewinds) == (3, 1)
    assert site.stored() == ({KEYS[0]: 6}, {KEYS[0]: 6})


def test_the_larger_is_fetched_and_each_difference_is_counted_and_listed():
    site = Site({KEYS[0]: 5, KEYS[1]: 1}, {KEYS[0]: 3, KEYS[1]: 4, KEYS[2]: 9})
    with site.start() as manager:
        assert {key: value.offset for key, value in manager.fetch(GROUP).items()} == {
            KEYS[0]: 5,
            KEYS[1]: 4,
            KEYS[2]: 9,
        }
        wanted = [Difference(GROUP, "t", 0, 5, 3), Difference(GROUP, "t", 1, 1, 4), Difference(GROUP, "t", 2, None, 9)]
        assert manager.differences() == manager.compare(GROUP) == wanted
        assert (manager.counters().log_larger, manager.counters().zookeeper_larger) == (1, 2)
        manager.commit(GROUP, {KEYS[0]: 6})
        assert manager.differences() == wanted[1:]
        assert manager.catch_up(GROUP) == 2
        assert (manager.differences(), manager.catch_up(GROUP)) == ([], 0)
    assert site.stored() == ({KEYS[0]: 6, KEYS[1]: 4, KEYS[2]: 9},) * 2


def test_what_zookeeper_does_not_take_is_a_difference_until_it_does():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        probes = Probes(manager)
        manager.fetch(GROUP, KEYS[:2])
        write = manager.zookeeper.write

        def fail(*_: object) -> None:
            raise errors.ZooKeeperUnavailableError("down")

        manager.zookeeper.write = fail
        manager.commit(GROUP, {KEYS[0]: 5})
        assert manager.commit_async(GROUP, {KEYS[1]: 7}).result(PATIENCE)
        assert manager.differences() == [Difference(GROUP, "t", 0, 5, 1), Difference(GROUP, "t", 1, 7, None)]
        assert manager.counters().zookeeper_failures == 2
        assert manager.fetch(GROUP, KEYS[:2])[KEYS[0]].offset == 5
        for call in (
            lambda: manager.commit(GROUP, {KEYS[0]: 4}),
            lambda: manager.delete(GROUP, KEYS),
            lambda: manager.delete_group(GROUP),
        ):
            with pytest.raises(errors.ZooKeeperUnavailableError):
                call()
        assert manager.fetch(GROUP, KEYS[:2])[KEYS[0]].offset == 5
        manager.zookeeper.write = write
        manager.commit(GROUP, {KEYS[0]: 6})
        assert manager.differences() == [Difference(GROUP, "t", 0, 6, 1), Difference(GROUP, "t", 1, 7, None)]
        # The next try finds that ZooKeeper answers again, and it gets the newest of each position.
        probes.make()
        assert manager.differences() == []
        assert manager.counters().zookeeper_failures == 3
        manager.commit(GROUP, {KEYS[0]: 8})
        assert manager.differences() == []
    assert site.stored() == ({KEYS[0]: 8, KEYS[1]: 7},) * 2


def test_a_rewind_that_the_log_does_not_take_says_what_stands_where():
    site = Site({KEYS[0]: 5}, {KEYS[0]: 5})
    with site.start() as manager:

        def fail(*_: object) -> None:
            raise errors.StorageError("no space")

        manager.log.write = fail
        for call, changed in (
            (lambda: manager.commit(GROUP, {KEYS[0]: 2}), "t:0=2"),
            (lambda: manager.delete(GROUP, [KEYS[0]]), "(t:0)"),
        ):
            with pytest.raises(errors.DifferenceError, match=r"Make the same call again") as caught:
                call()
            assert changed in str(caught.value)
            assert "no space" in str(caught.value)
            assert (caught.value.error_code, caught.value.retriable) == (15, True)
            if changed == "t:0=2":
                assert manager.fetch(GROUP)[KEYS[0]].offset == 5
                assert manager.differences() == [Difference(GROUP, "t", 0, 5, 2)]
        del manager.log.write
        manager.commit(GROUP, {KEYS[0]: 2})
    assert site.stored() == ({KEYS[0]: 2},) * 2


def test_what_has_never_been_read_is_not_committed_without_zookeeper():
    site = Site({KEYS[0]: 5}, {KEYS[0]: 9})
    with site.start() as manager:

        def fail(*_: object) -> None:
            raise errors.ZooKeeperUnavailableError("down")

        manager.zookeeper.read = fail
        for call in (lambda: manager.commit(GROUP, {KEYS[0]: 7}), lambda: manager.fetch(GROUP)):
            with pytest.raises(errors.ZooKeeperUnavailableError):
                call()
    assert site.stored() == ({KEYS[0]: 5}, {KEYS[0]: 9})


def test_both_have_to_count_the_same_partitions():
    log, zookeeper = Memory("log", {}, Plan()), Memory("zookeeper", {}, Plan())
    zookeeper._count = 3
    manager = DualManager(log, zookeeper)
    with pytest.raises(errors.ConfigError, match="the log manager has 2 partitions, but the ZooKeeper manager has 3"):
        manager.start()


def test_it_is_made_of_the_properties_of_both(tmp_path):
    given = {"log.dir": str(tmp_path), "zookeeper.connect": "127.0.0.1:1"}
    manager = create(given | {"dual.commit.enabled": "true", "offset.metadata.max.bytes": 10})
    assert type(manager) is DualManager
    with pytest.raises(errors.ConfigError, match=r"dual\.commit\.enabled=false contradicts offset\.storage=dual"):
        create(given | {"dual.commit.enabled": "false"})
    for name in given:
        with pytest.raises(errors.ConfigError, match=name):
            create({key: value for key, value in given.items() if key != name})


def test_thousands_of_commits_of_a_position_that_are_refused_leave_it_free():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        assert manager.fetch(GROUP, KEYS)[KEYS[0]].offset == 1
        # It holds its turn until the test answers it.
        held = Completion()

        def steps(_):
            yield [held]

        manager._begin(GROUP, KEYS[:1], Work(steps, manager._ended))
        pending = [manager.commit_async(GROUP, {KEYS[0]: 2}) for _ in range(2000)]
        partition = manager.partition_for(GROUP)
        manager.log.resign(partition, 1)
        held.succeed(None)
        for each in pending:
            with pytest.raises(errors.NotCoordinatorError):
                each.result(PATIENCE)
        manager.log.become_leader(partition, 2)
        manager.commit(GROUP, {KEYS[0]: 3})
    assert site.fetched() == {KEYS[0]: 3}
