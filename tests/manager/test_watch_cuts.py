"""Watches over cuts, takeovers, damage and failures, and over a log that is cleaned while it is read."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import threading
import time

import pytest
from tests.faults.fault_fs import FaultFileSystem

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import PartitionState, Watch
from offsetlog.manager.log_manager import LogManager
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange, TopicPartition
from tests.depth import by_depth, first_seed
from tests.manager.watch_model import (
    FROM_THE_BEGINNING,
    KEY,
    KEYS,
    lead,
    offsets_of,
    settings,
)

# ------------------------------------------------------------------------------------------------ cuts


def test_what_a_loss_of_power_took_back_is_reported(tmp_path):
    with lead(tmp_path / "log") as manager:
        for value in range(5):
            manager.commit("g", {KEY: value})
    shutil.copytree(tmp_path / "log", tmp_path / "kept")
    with lead(tmp_path / "log", epoch=2) as manager:
        watch = manager.watch(from_position=FROM_THE_BEGINNING)
        for value in range(5, 9):
            manager.commit("g", {KEY: value})
        assert offsets_of(watch.poll()) == list(range(9))
        place = watch.position
    shutil.rmtree(tmp_path / "log")
    shutil.copytree(tmp_path / "kept", tmp_path / "log")
    with lead(tmp_path / "log", epoch=3) as manager:
        early = manager.watch(from_position=place)
        assert early.poll() == [LogGap(0, 5, 9, "truncated")]
        assert early.poll() == []
        for value in range(20, 30):
            manager.commit("g", {KEY: value})
        late = manager.watch(from_position=place).poll()
        assert late[0] == LogGap(0, 5, 9, "truncated")
        assert offsets_of(late[1:]) == offsets_of(early.poll()) == list(range(20, 30))


class Pair:
    """Two replicas of a partition; `ship` brings the second one up to the first."""

    def __init__(self, path):
        self.managers = [
            LogManager(settings(path / name, replication_factor=2, durability="process"), background=False)
            for name in ("a", "b")
        ]
        for manager in self.managers:
            manager.start()
        self.epoch = 0

    def lead(self, number):
        self.epoch += 1
        for each, manager in enumerate(self.managers):
            if each == number:
                transition = manager.become_leader(0, self.epoch)
            else:
                manager.become_follower(0, self.epoch).result(30)
        self.leader, self.follower = self.managers[number], self.managers[1 - number]
        self.advance(self.leader, self.leader.positions(0).log_end)
        transition.result(30)

    def advance(self, manager, offset):
        manager.advance(0, self.epoch, offset)

    def ship(self):
        buffer = bytearray(1 << 20)
        while (at := self.follower.positions(0).log_end) < self.leader.positions(0).log_end:
            size = self.leader.read_into(0, at, buffer, uncommitted=True)
            self.follower.append_as_follower(0, self.epoch, memoryview(buffer)[:size])

    def stop(self):
        for manager in self.managers:
            manager.stop()


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    made.lead(0)
    try:
        yield made
    finally:
        made.stop()


def test_what_is_above_w_is_not_reported_at_any_replica(pair):
    watches = [manager.watch(from_position=FROM_THE_BEGINNING) for manager in pair.managers]
    for value in range(4):
        pair.leader.commit("g", {KEY: value})
    pair.ship()
    assert [watch.poll() for watch in watches] == [[], []]
    pair.advance(pair.leader, 3)
    pair.advance(pair.follower, 2)
    assert [offsets_of(watch.poll()) for watch in watches] == [[0, 1, 2], [0, 1]]


def test_a_watch_goes_on_when_leadership_moves(pair):
    here, there = [manager.watch(from_position=FROM_THE_BEGINNING) for manager in pair.managers]
    for value in range(3):
        pair.leader.commit("g", {KEY: value})
    pair.ship()
    pair.advance(pair.leader, 3)
    pair.leader.commit("g", {KEY: 99})      # nobody else gets it
    assert offsets_of(here.poll()) == [0, 1, 2]
    pair.lead(1)
    pair.leader.commit("g", {KEY: 3})
    pair.advance(pair.leader, 4)
    assert offsets_of(there.poll()) == [0, 1, 2, 3]
    pair.follower.truncate_to(0, pair.epoch, 3)
    pair.ship()
    pair.advance(pair.follower, 4)
    assert offsets_of(here.poll()) == [3]
    assert here.position == there.position


def test_a_position_is_taken_to_the_other_replica(pair):
    here = pair.leader.watch(from_position=FROM_THE_BEGINNING)
    for value in range(4):
        pair.leader.commit("g", {KEY: value})
    pair.advance(pair.leader, 4)
    assert offsets_of(here.poll()) == [0, 1, 2, 3]
    there = pair.follower.watch(from_position=here.position)
    assert there.poll() == []       # it has not come so far, which is no gap
    pair.ship()
    pair.leader.commit("g", {KEY: 4})
    pair.ship()
    pair.advance(pair.follower, 5)
    assert offsets_of(there.poll()) == [4]


def test_a_leader_that_was_cut_off_judges_no_later_position(pair):
    for value in range(3):
        pair.leader.commit("g", {KEY: value})
    pair.ship()
    for manager in pair.managers:
        pair.advance(manager, 3)
    stale = pair.leader
    stale.commit("g", {KEY: 99})        # is never shipped
    other = pair.follower
    other.become_leader(0, 2)
    other.advance(0, 2, 3)
    other.commit("g", {KEY: 3})
    other.commit("g", {KEY: 4})
    other.advance(0, 2, 5)
    watch = other.watch(from_position=FROM_THE_BEGINNING)
    assert offsets_of(watch.poll()) == [0, 1, 2, 3, 4]
    # It has not heard of epoch 2, and its log is as long.
    late = stale.watch(from_position=watch.position)
    assert late.poll() == []
    pair.epoch, pair.leader, pair.follower = 2, other, stale
    stale.become_follower(0, 2).result(30)
    stale.truncate_to(0, 2, 3)
    pair.ship()
    other.commit("g", {KEY: 5})
    pair.ship()
    pair.advance(stale, 6)
    assert offsets_of(late.poll()) == [5]


def test_a_cut_below_w_is_reported(pair):
    for value in range(6):
        pair.leader.commit("g", {KEY: value})
    pair.ship()
    for manager in pair.managers:
        pair.advance(manager, 6)
    watch = pair.follower.watch(from_position=FROM_THE_BEGINNING)
    assert offsets_of(watch.poll()) == list(range(6))
    # As after an election of a replica that was not in sync.
    pair.epoch += 1
    pair.follower.become_follower(0, pair.epoch).result(30)
    pair.follower.truncate_to(0, pair.epoch, 4)
    pair.lead(1)
    assert watch.poll() == [LogGap(0, 4, 6, "truncated")]
    pair.leader.commit("g", {KEY: 10})
    pair.advance(pair.leader, 5)
    assert offsets_of(watch.poll()) == [10]


def test_a_log_that_begins_again_above_its_end_is_a_gap(pair):
    watch = pair.follower.watch(from_position=FROM_THE_BEGINNING)
    pair.leader.commit("g", {KEY: 0})
    pair.ship()
    pair.advance(pair.follower, 1)
    assert offsets_of(watch.poll()) == [0]
    for value in range(1, 9):
        pair.leader.commit("g", {KEY: value})
    pair.follower.restart_at(0, pair.epoch, 6)
    pair.ship()
    pair.advance(pair.follower, 9)
    assert [item for item in watch.poll() if isinstance(item, LogGap)] == [LogGap(0, 1, 6, "cleaned")]
    assert offsets_of(pair.follower.watch(from_position={0: (1, 1)}).poll()) == [6, 7, 8]


@pytest.mark.parametrize("replica", ["leader", "follower"])
@pytest.mark.parametrize("begins", ["before the cleaning", "after it"])
def test_values_of_a_transaction_cleaned_below_the_place_are_a_gap(pair, replica, begins):
    # The place lies before the marker, and all values that it installs have been superseded.
    pending = pair.leader.commit_async("g", dict.fromkeys(KEYS, OffsetAndMetadata(5, "m" * 900)))
    marker = pair.leader.positions(0).log_end - 1
    with pair.leader.watch(from_position=FROM_THE_BEGINNING) as early:
        pair.advance(pair.leader, marker)
        assert early.poll() == []
        place = early.position
    assert place == {0: (1, marker)}
    if replica == "follower":
        pair.ship()
        pair.advance(pair.follower, marker)
    watched = pair.leader if replica == "leader" else pair.follower
    watch = watched.watch(from_position=place)
    if begins == "before the cleaning":
        assert watch.poll() == []
    pair.advance(pair.leader, marker + 1)
    pending.result(30)
    for key in KEYS:
        pair.leader.commit_async("g", {key: 6})
    end = pair.leader.positions(0).log_end
    pair.ship()
    for manager in pair.managers:
        pair.advance(manager, end)
    (report,) = watched._maintenance.compact(delete_retention_ms=0)
    assert report.superseded == len(KEYS)
    items = []
    while polled := watch.poll(0, 3):
        items += polled
    gaps = [item for item in items if isinstance(item, LogGap)]
    assert any(gap.start <= marker < gap.end or gap.start == 0 for gap in gaps)
    assert {gap.reason for gap in gaps} == {"cleaned"}
    assert offsets_of(items) == [6] * len(KEYS)
    assert watch.position == {0: (1, end)}


def test_values_that_a_replica_never_had_are_a_gap_also_below_the_place(pair):
    # The leader was cleaned before the follower fetched, which recorded no cleaning.
    pair.leader.commit_async("g", dict.fromkeys(KEYS, OffsetAndMetadata(5, "m" * 900)))
    marker = pair.leader.positions(0).log_end - 1
    for key in KEYS[1:]:
        pair.leader.commit_async("g", {key: 6})
    end = pair.leader.positions(0).log_end
    pair.advance(pair.leader, end)
    (report,) = pair.leader._maintenance.compact(delete_retention_ms=0)
    assert report.superseded == len(KEYS) - 1
    pair.ship()
    pair.advance(pair.follower, end)
    watch = pair.follower.watch(from_position={0: (1, marker)})
    items = watch.poll(0, 1)
    assert items == [LogGap(0, 1, 4, "cleaned")]
    items += watch.poll(0, 1)
    assert items[1:] == [LogGap(0, 4, marker, "cleaned")]   # all the rest, however much it is
    while polled := watch.poll(0, 1):
        items += polled
    assert offsets_of(items) == [5] + [6] * (len(KEYS) - 1)
    assert sum(isinstance(item, LogGap) for item in items) == 2


def test_a_batch_that_cannot_be_read_is_a_gap(tmp_path):
    with lead(tmp_path) as manager:
        for value in range(5):
            manager.commit("g", {KEY: value})
        path = next((tmp_path / "__consumer_offsets-0").glob("*.log"))
        size = manager.file_range(0, 0, 1 << 20).size // 5
        with path.open("r+b") as file:
            file.seek(2 * size + 70)
            byte = file.read(1)[0]
            file.seek(2 * size + 70)
            file.write(bytes([byte ^ 1]))
        items = manager.watch(from_position=FROM_THE_BEGINNING).poll()
        assert items[2] == LogGap(0, 2, 3, "damaged")
        assert offsets_of(items) == [0, 1, 3, 4]
        manager.abandon()


def test_other_topics_stay_apart(tmp_path):
    other = TopicPartition("t", 2**31 - 1)
    with lead(tmp_path) as manager:
        manager.commit("", {other: 2**63 - 1})
        (change,) = manager.watch(from_position=FROM_THE_BEGINNING).poll()
        assert (change.group, change.topic, change.partition, change.value.offset) == ("", *other, 2**63 - 1)


# ------------------------------------------------------------------------------------------------ at the same time


def test_a_log_that_is_cleaned_while_it_is_read(tmp_path):
    seed = first_seed()
    draw = random.Random(seed)
    print(f"seed {seed}")
    committed: dict[int, int] = {}      # log offset -> value
    with lead(tmp_path) as manager:
        done = threading.Event()
        failures: list[BaseException] = []

        def write():
            for value in range(by_depth(gate=2000, long=50_000)):
                keys = draw.sample(KEYS, draw.choice([1, 1, 2, 5]))
                offsets = dict.fromkeys(keys, OffsetAndMetadata(value, "m" * draw.randrange(50)))
                end = manager.commit("g", offsets).log_offset
                committed.update({end - place: value for place in range(len(keys))})
                if value % 50 == 0:
                    time.sleep(0.001)

        def clean():
            while not done.is_set():
                manager._maintenance.compact(delete_retention_ms=0)

        def run(work):
            try:
                work()
            except BaseException as failure:
                failures.append(failure)

        writer = threading.Thread(target=run, args=(write,))
        cleaner = threading.Thread(target=run, args=(clean,))
        writer.start()
        cleaner.start()
        readers = [([], manager.watch(from_position=FROM_THE_BEGINNING)) for _ in range(3)]
        late: list[tuple[list, Watch]] = []
        while writer.is_alive():
            for seen, watch in readers:
                seen.extend(watch.poll(0, 200))
            # Some that begin in the middle of what is being cleaned; each reads all of the rest.
            if len(committed) > 100 * len(late):
                place = readers[0][1].position[0]
                late.append(([], manager.watch(from_position={0: place})))
                late[-1][0].extend(late[-1][1].poll(0, 20))
        writer.join()
        done.set()
        cleaner.join()
        assert not failures
        gaps = 0
        for number, (seen, watch) in enumerate([*readers, *late]):
            while items := watch.poll(0, 1000):
                seen.extend(items)
            gaps += sum(isinstance(item, LogGap) for item in seen)
            check_coverage(seen, committed, 0 if number < len(readers) else None)
        print(f"{len(readers) + len(late)} watches, {gaps} gaps")


def check_coverage(seen, committed, start):
    offsets = [item.log_offset for item in seen if isinstance(item, PositionChange)]
    assert offsets == sorted(set(offsets))
    assert all(committed[item.log_offset] == item.value.offset for item in seen if isinstance(item, PositionChange))
    gaps = [item for item in seen if isinstance(item, LogGap)]
    if start is None:
        start = min([*offsets[:1], *(gap.start for gap in gaps)], default=len(committed))
    missing = set(range(start, max(committed) + 1)) - set(offsets)
    for gap in gaps:
        missing -= set(range(gap.start, gap.end))
    assert not missing


# ------------------------------------------------------------------------------------------------ failures


def test_a_watch_goes_on_when_a_failed_log_is_opened_again(tmp_path):
    fs = FaultFileSystem(str(tmp_path))
    manager = LogManager(settings(tmp_path, durability="disk"), fs=fs, background=False)
    manager.start()
    manager.become_leader(0, 1).result(30)
    watch = manager.watch()
    manager.commit("g", {KEY: 1})
    for _ in range(4):
        fs.fail_flush(fs.flushes + 1, errno.EIO)
        with contextlib.suppress(OffsetLogError):
            manager.commit("g", {KEY: 2})
        if manager.state(0) is PartitionState.FAILED:
            break
    assert manager.state(0) is PartitionState.FAILED
    before = watch.poll()
    assert offsets_of(before)[0] == 1
    manager.become_leader(0, 2).result(30)
    manager.commit("g", {KEY: 3})
    seen = [*before, *watch.poll()]
    assert offsets_of(seen)[-1] == 3
    places = [change.effective_at for change in seen]
    assert places == list(range(len(places)))
    manager.stop()
