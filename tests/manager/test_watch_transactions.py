"""Watches over transactions that stay open across restarts, beside cleaning and groups whose history is kept."""

from __future__ import annotations

import pytest

import offsetlog
from offsetlog.config import MaintenanceConfig
from offsetlog.types import OffsetAndMetadata, TopicPartition
from tests.depth import by_depth, first_seed
from tests.manager.watch_model import GROUPS, KEYS, Life, Reader

KEPT = MaintenanceConfig(enabled=False, min_history={"red": 10**11, "blue": 0})


class LifeWithTransactions(Life):
    """Between two lives of the manager a store writes transactions, ends some, leaves some open, and cleans.

    The values of a transaction count at its end, so that the truth itself may meet a gap.
    """

    def __init__(self, seed, path, **given):
        self.open: list[tuple[int, str]] = []
        self.producers = 1000
        super().__init__(seed, path, **given)

    def start(self):
        if self.epoch > 0:
            self.write_transactions()
        self.epoch += 100
        super().start()

    def write_transactions(self):
        draw = self.draw
        with offsetlog.open(self.path) as store:
            for producer, group in list(self.open):
                self.end(store, producer, group, draw.random())
            for _ in range(draw.randrange(8)):
                if draw.random() < 0.4:
                    self.value += 1
                    store.commit(draw.choice(GROUPS), dict.fromkeys(draw.sample(KEYS, 2), self.value))
                else:
                    self.write_one(store, draw.choice(GROUPS))
            if draw.random() < 0.3:
                store.compact()

    def end(self, store, producer, group, kind):
        if kind < 0.3:
            store.abort_transaction(producer)
        elif kind < 0.75:
            transaction = store.transaction(group, producer, 0)
            transaction._written = True
            transaction._end(commit=True)
        else:
            return
        self.open.remove((producer, group))

    def write_one(self, store, group):
        self.producers += 1
        transaction = store.transaction(group, self.producers, 0)
        for _ in range(self.draw.randrange(1, 3)):
            self.value += 1
            value = OffsetAndMetadata(self.value, "x" * self.draw.randrange(300))
            transaction.commit(dict.fromkeys(self.draw.sample(KEYS, self.draw.randrange(1, 5)), value))
        kind = self.draw.random()
        if kind < 0.65:
            transaction._end(commit=kind < 0.5)
        else:
            self.open.append((self.producers, group))

    def follow(self):
        known = len(self.truth.changes)
        while found := self.truth.watch.poll(0, 10_000):
            self.truth.take(found)
        for change in self.truth.changes[known:]:
            place = change.group, TopicPartition(change.topic, change.partition)
            self.mirror.pop(place, None)
            if change.value is not None:
                self.mirror[place] = change.value.offset
        self.old.append(self.truth.watch.position)

    def check_mirror(self):
        if not self.truth.gaps:
            super().check_mirror()

    def check_reader(self, reader: Reader):
        # Within a gap, the truth's or the reader's, one may have what the other lacks.
        known = self.truth.changes
        gaps = [*self.truth.gaps, *reader.gaps]
        for change in set(reader.changes) - set(known):
            assert any(
                gap.start <= change.log_offset < gap.end or gap.start <= change.effective_at < gap.end
                for gap in gaps
            ), f"nobody committed {change}"
        self.truth.changes = sorted({*known, *reader.changes}, key=lambda each: (each.effective_at, each.log_offset))
        super().check_reader(reader)
        self.truth.changes = known


@pytest.mark.parametrize("keeps", [False, True])
def test_transactions_are_reported_whole_or_lie_in_a_gap(tmp_path, keeps):
    first, count = first_seed() + 7000 * (keeps + 1), by_depth(gate=2, long=60)
    changes = 0
    for seed in range(first, first + count):
        print(f"seed {seed}")
        given = {"maintenance": KEPT} if keeps else {}
        life = LifeWithTransactions(seed, tmp_path / str(seed), **given)
        for _ in range(250):
            life.step()
            if life.draw.random() < 0.03:
                life.restart()
                life.follow()
            if life.draw.random() < 0.1:
                life.check_mirror()
        life.finish()
        changes += len(life.truth.changes)
    assert changes > 100 * count
