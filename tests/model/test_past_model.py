"""The past that a store reports beside a dict that is filled record by record, while it is written to and cleaned.

The reference notes every record before a cleaner can take it, with a reader of its own.  Whatever the store tells of
any moment has to be what the reference makes of the records below it; what it refuses to tell has to lie below a floor
that a cleaner raised.

tests/depth.py says how many sequences run; OL_SEED=n begins with another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from store.past_reference import PastReference, values_of

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition, errors
from offsetlog.types import Deletion

SEQUENCES = by_depth(gate=3, long=60)
SEED = first_seed()

COUNT = 2
STEPS = 160
CONFIG = StoreConfig(
    segment_bytes=8192, batch_bytes_max=4096, index_interval_bytes=512, extend_bytes_min=4096, extend_bytes_max=8192
)
GROUPS = ["billing", "g", "orders-é", "zeta", "kept"]
PRODUCERS = [7, 17, 4000]


class Machine:
    """A store, its reference, and random steps."""

    def __init__(self, path: Path, seed: int, *, keeps: bool) -> None:
        self.path, self.random = path, random.Random(seed)
        history = {"kept": 3600_000} if keeps else {}
        self.maintenance = MaintenanceConfig(enabled=False, min_history=history)
        self.reference = PastReference(path, COUNT)
        self.store = self.opened()
        self.open: dict[int, str] = {}
        self.cleaned = False
        self.floors = dict.fromkeys(range(COUNT), 0)
        self.keeps = keeps

    def opened(self) -> OffsetStore:
        return offsetlog.open(
            self.path, partitions=COUNT, durability="process", config=CONFIG, maintenance=self.maintenance
        )

    # ------------------------------------------------------------------------------------------------ drawing

    def group(self) -> str:
        return self.random.choice(GROUPS)

    def key(self) -> TopicPartition:
        return TopicPartition(self.random.choice(["t", "invoices"]), self.random.randrange(5))

    def values(self) -> dict[TopicPartition, OffsetAndMetadata]:
        texts = ["", "", "m", "é𝄞"]
        return {
            self.key(): OffsetAndMetadata(
                self.random.randrange(1000), self.random.choice(texts), self.random.choice([-1, -1, 3])
            )
            for _ in range(self.random.randrange(1, 5))
        }

    def number(self, group: str) -> int:
        return self.store._core.number_of(group)

    def end(self, group: str) -> int:
        partition = self.store._core.partition(self.number(group))
        return 0 if partition is None else partition.log_facts()["end"]

    def cut(self, group: str) -> int:
        self.reference.note()
        while True:
            cut = self.random.randrange(self.end(group) + 1)
            if not self.reference.is_inside(self.number(group), cut):
                return cut
            try:
                found = self.store.fetch(group, at=cut)
            except (errors.InsideCommitError, errors.HistoryError):
                continue
            # All of this commit was cleaned away, and the history of the group was kept.
            assert self.keeps
            assert group == "kept"
            assert values_of(found) == self.reference.group(group, cut)

    # ------------------------------------------------------------------------------------------------ steps

    def commit(self) -> None:
        self.store.commit(self.group(), self.values())

    def delete(self) -> None:
        group = self.group()
        keys = None if self.random.random() < 0.2 else [self.key() for _ in range(3)]
        self.store.delete(group, keys)

    def transact(self) -> None:
        producer = self.random.choice(PRODUCERS)
        if producer in self.open:
            partition = self.store._core.partition(self.number(self.open.pop(producer)))
            partition.end_transaction(producer, -1, self.random.random() < 0.6)
            return
        self.open[producer] = group = self.group()
        for _ in range(self.random.randrange(1, 3)):
            self.store._core.commit_transactional(group, self.values(), producer, 0)

    def clean(self) -> None:
        self.reference.note()
        for report in self.store.compact(
            roll=self.random.random() < 0.7,
            again=self.random.random() < 0.5,
            delete_retention_ms=self.random.choice([0, None]),
        ):
            self.floors[report.log_partition] = max(self.floors[report.log_partition], report.floor)
            self.cleaned |= report.superseded + report.tombstones_dropped + report.aborted_dropped > 0

    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()

    def restore(self) -> None:
        group = self.group()
        at = self.cut(group)
        try:
            self.store.restore(group, at, delete_all=True)
        except errors.HistoryError as failure:
            self.check_refusal(group, at, failure)
            return
        assert values_of(self.store.fetch(group)) == self.reference.group(group, at)

    def undelete(self) -> None:
        group = self.group()
        before = values_of(self.store.fetch(group))
        found = self.store.deletions(group)
        self.check_deletions(group, found)
        done = self.store.undelete(group)
        after = values_of(self.store.fetch(group))
        assert {each[1:3] for each in done.restored} == {each[1:3] for each in found if each.recoverable}
        assert done.lost == [each for each in found if not each.recoverable]
        back = {TopicPartition(each.topic, each.partition): each.last[:3] for each in found if each.last is not None}
        assert after == {**before, **back}

    # ------------------------------------------------------------------------------------------------ checks

    def floor(self, group: str) -> int:
        # The reports tell the floor of all; what is kept of a group lies below it.
        return 0 if self.keeps and group == "kept" else self.floors[self.number(group)]

    def check_refusal(self, group: str, cut: int, failure: errors.HistoryError, *, exact: bool = True) -> None:
        assert self.cleaned
        assert failure.floor is not None
        # The records gone right below the floor may lie on either side of a time.
        assert cut < failure.floor + (not exact)
        assert failure.floor <= self.floor(group)
        if failure.oldest is not None:
            self.store.fetch(group, at=failure.oldest)
            self.store.fetch(group, at=failure.floor)

    def check_moment(self, group: str, at: int | datetime, cut: int) -> None:
        expected = self.reference.group(group, cut)
        try:
            found = self.store.fetch(group, at=at)
        except errors.HistoryError as failure:
            self.check_refusal(group, cut, failure, exact=isinstance(at, int))
            return
        assert values_of(found) == expected

    def check_group(self, group: str) -> None:
        for _ in range(6):
            cut = self.cut(group)
            self.check_moment(group, cut, cut)
        assert values_of(self.store.fetch(group, at=self.end(group))) == values_of(self.store.fetch(group))
        batches = self.reference.batches[self.number(group)]
        for _ in range(4):
            stamp = self.random.choice(batches).max_timestamp - self.random.randrange(2)
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp)
            self.check_moment(group, at, self.reference.cut(self.number(group), stamp))

    def check_diff(self, group: str) -> None:
        first, second = self.cut(group), self.cut(group)
        before, after = self.reference.group(group, first), self.reference.group(group, second)
        try:
            changes = self.store.diff(first, second, group)
        except errors.HistoryError as failure:
            self.check_refusal(group, min(first, second), failure)
            return
        found = {
            TopicPartition(each.topic, each.partition): (each.before and each.before[:3], each.after and each.after[:3])
            for each in changes
        }
        expected = {
            key: (before.get(key), after.get(key)) for key in {*before, *after} if before.get(key) != after.get(key)
        }
        assert found == expected

    def check_history(self, group: str) -> None:
        key = self.key()
        number = self.number(group)
        found = self.store.history(group, *key)
        expected = {}
        for entry in self.reference.entries[number]:
            if entry.record is None or entry.kind != "offset_commit":
                continue
            data = entry.key["data"]
            if (data["group"], data["topic"], data["partition"]) == (group, *key):
                expected[entry.record.offset] = None if entry.value is None else entry.value["data"]["offset"]
        told_here = {entry.log_offset: entry.value and entry.value.offset for entry in found}
        assert list(told_here) == sorted(told_here)
        assert told_here.items() <= expected.items()
        assert found.complete_from <= max(self.floor(group), 0)
        complete = {offset: value for offset, value in expected.items() if offset >= found.complete_from}
        assert {offset: value for offset, value in told_here.items() if offset >= found.complete_from} == complete
        counts = [entry for entry in found if entry.effective_at is not None]
        last = max(counts, key=lambda entry: entry.log_offset, default=None)
        now = self.store.fetch_one(group, *key)
        assert now == (last and last.value)
        for entry in found:
            # A value is there from its effect on, unless something newer was there already.
            if entry.effective_at is not None and entry.effective_at >= found.complete_from:
                state = self.reference.state(number, entry.effective_at + 1)
                assert (state.get((group, *key)) or (None,))[0] == (entry.value and entry.value.offset)

    def check_deletions(self, group: str, found: list[Deletion]) -> None:
        self.reference.note()
        number = self.number(group)
        now = self.store.fetch(group)
        end = self.end(group)
        for each in found:
            assert (each.topic, each.partition) not in now
            assert each.log_partition == number
            if each.last is not None:
                before = self.reference.state(number, each.log_offset)
                assert before[each.group, each.topic, each.partition][:2] == (each.last.offset, each.last_log_offset)
                assert (each.group, each.topic, each.partition) not in self.reference.state(number, each.log_offset + 1)
        # Nothing that was deleted above the floor is left out.
        places = {(each.topic, each.partition): each for each in found}
        ends = [end for end in self.reference.ends(number) if end > self.floor(group)]
        for later in ends[:: max(1, len(ends) // 5)]:
            for name, topic, partition in self.reference.state(number, later):
                if name == group and (topic, partition) not in now and later < end:
                    assert places[topic, partition].recoverable

    def run(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.commit, 50),
            (self.delete, 12),
            (self.transact, 20),
            (self.clean, 6),
            (self.reopen, 2),
            (self.restore, 5),
            (self.undelete, 5),
        ]
        calls, weights = zip(*steps, strict=True)
        for group in GROUPS:
            self.store.commit(group, self.values())
        for number in range(STEPS):
            self.random.choices(calls, weights)[0]()
            if number % 20 == 19:
                self.reference.note()
                for group in GROUPS:
                    self.check_group(group)
                    self.check_diff(group)
                    self.check_history(group)
                    self.check_deletions(group, self.store.deletions(group))
        assert self.store.verify() == []
        self.store.close()


@pytest.mark.parametrize("keeps", [False, True], ids=["plain", "kept"])
@pytest.mark.parametrize("seed", range(SEED, SEED + SEQUENCES))
def test_the_past_is_what_it_was(tmp_path, seed, keeps):
    print(f"OL_SEED={seed}")
    Machine(tmp_path / "data", seed, keeps=keeps).run()
