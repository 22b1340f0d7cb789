"""Replication: a follower copies a log, truncates it, starts it at another offset, and leads."""

from __future__ import annotations

import os

import pytest

from offsetlog.errors import (
    CorruptionError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    TooLargeError,
)
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.replica_set import (
    ReplicaSet,
    batches_of,
    committed_bytes,
    next_offset,
)
from offsetlog.manager.testing.serving import serve
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import FileRange, OffsetAndMetadata


def _write(manager: OffsetManager, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        value = OffsetAndMetadata(number, f"text {number}", number)
        manager.commit(GROUP, {KEYS[number % 4]: value}, durability="process")


@pytest.mark.needs(Capability.REPLICATION, Capability.METADATA, Capability.EPOCHS)
class TestShipping:
    """A follower that has copied a log has the same content as its leader."""

    def test_a_follower_that_leads_answers_as_its_leader_did(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site, ("one", "two", "three"))
        leader = replicas.elect("one")
        _write(leader, 30)
        replicas.replicate()
        assert leader.fetch(GROUP)[KEYS[1]] == leader.fetch(GROUP, KEYS)[KEYS[1]]
        answered = leader.fetch(GROUP)
        assert answered[KEYS[1]][:3] == (29, "text 29", 29)
        for name in ("two", "three", "one"):
            other = replicas.lead(name)
            assert other.fetch(GROUP) == answered

    def test_a_follower_keeps_offsets_and_bytes(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        _write(leader, 20)
        end = replicas.replicate()
        follower = replicas["two"]
        partition = replicas.partition
        assert committed_bytes(follower, partition) == committed_bytes(leader, partition)
        found = follower.positions(partition)
        assert (found.log_start, found.log_end, found.watermark) == (0, end, end)
        assert next_offset(committed_bytes(leader, partition)) == end

    def test_deletes_and_fences_are_shipped(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        _write(leader, 8)
        replicas.replicate()
        serve(replicas, lambda: leader.commit(GROUP, {KEYS[0]: 50}))
        assert serve(replicas, lambda: leader.delete(GROUP, [KEYS[1]])) == 1
        if Capability.GENERATIONS in leader.capabilities:
            serve(replicas, lambda: leader.fence(GROUP, {KEYS[2]: 60}))
        answered = leader.fetch(GROUP)
        assert KEYS[1] not in answered
        other = replicas.lead("two")
        assert other.fetch(GROUP) == answered

    def test_a_follower_goes_on_after_a_restart(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        _write(replicas.elect("one"), 10)
        end = replicas.replicate()
        follower = replicas.restart("two")
        assert follower.positions(replicas.partition).log_end == end
        leader = replicas.lead("one")
        _write(leader, 10, 10)
        replicas.replicate()
        answered = leader.fetch(GROUP)
        assert replicas.lead("two") is follower
        assert follower.fetch(GROUP) == answered

    def test_the_ends_of_epochs(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        partition = replicas.partition
        ends = {}
        for turn, name in enumerate(["one", "two", "one"]):
            leader = replicas.lead(name, epoch=10 * (turn + 1))
            _write(leader, turn + 2)
            ends[10 * (turn + 1)] = replicas.replicate()
        first, second, third = ends.values()
        expected = {
            -1: (-1, -1),
            9: (9, 0),
            10: (10, first),
            15: (10, first),
            20: (20, second),
            29: (20, second),
            30: (30, third),
            31: (-1, -1),
        }
        for manager in replicas.managers.values():
            found = {epoch: manager.end_offset_for_epoch(partition, epoch) for epoch in expected}
            assert found == expected

    def test_a_flush_makes_all_of_the_log_durable(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        _write(replicas.elect("one"), 10)
        end = replicas.ship()
        for manager in replicas.managers.values():
            flush = manager.flush(replicas.partition)
            assert flush.partition == replicas.partition
            assert flush.result(manager_site.harness.patience) == end
            found = manager.positions(replicas.partition)
            assert (found.flushed, found.log_end, found.watermark) == (end, end, 0)


@pytest.mark.needs(Capability.REPLICATION, Capability.METADATA, Capability.EPOCHS)
class TestFollowers:
    """The calls that a follower refuses, and the truncation of its log."""

    def test_bytes_that_are_damaged_are_refused(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        _write(leader, 4)
        first = committed_bytes(leader, replicas.partition)
        damaged = bytearray(first)
        damaged[-1] ^= 1
        wrong = {
            "a flipped bit": damaged,
            "half a batch": first[:-5],
            "no batches": b"x" * 200,
        }
        for name, batches in wrong.items():
            with refused(CorruptionError, case=name):
                follower.append_as_follower(replicas.partition, replicas.epoch, bytes(batches))
        assert follower.positions(replicas.partition).log_end < 4
        replicas.replicate()
        assert committed_bytes(follower, replicas.partition) == first

    def test_what_is_there_already_is_not_appended_again(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        _write(leader, 4)
        end = replicas.ship()
        log = committed_bytes(leader, replicas.partition)
        with refused(CorruptionError):
            follower.append_as_follower(replicas.partition, replicas.epoch, log)
        assert follower.positions(replicas.partition).log_end == end
        assert committed_bytes(follower, replicas.partition) == log

    def test_a_tail_that_nobody_was_promised_is_cut(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        _write(leader, 10)
        kept = replicas.replicate()
        _write(leader, 5, 100)
        other = replicas.elect("two")
        replicas.advance()
        replicas.wait_for_leader()
        follower, partition = replicas["one"], replicas.partition
        assert follower.truncate_to(partition, replicas.epoch, kept) == kept
        assert follower.positions(partition).log_end == kept
        _write(other, 5, 200)
        replicas.replicate()
        answered = other.fetch(GROUP)
        assert {value.offset for value in answered.values()} & set(range(100, 105)) == set()
        assert committed_bytes(follower, partition) == committed_bytes(other, partition)
        replicas.lead("one")
        assert follower.fetch(GROUP) == answered

    def test_a_cut_within_a_batch_ends_before_it(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        leader.commit(GROUP, {KEYS[0]: 1}, durability="process")
        leader.commit(GROUP, dict.fromkeys(KEYS, 2), durability="process")
        replicas.ship()
        assert follower.truncate_to(replicas.partition, replicas.epoch, 3) == 1
        assert follower.positions(replicas.partition).log_end == 1
        replicas.replicate()
        assert replicas.fetched() == dict.fromkeys(KEYS, 2)

    def test_a_cut_below_what_was_applied_takes_it_back(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        for offset in range(6):
            leader.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.replicate()
        replicas.elect("one")
        follower.flush(replicas.partition).result(manager_site.harness.patience)
        assert follower.truncate_to(replicas.partition, replicas.epoch, 3) == 3
        end = follower.positions(replicas.partition)
        assert (end.log_end, end.watermark <= 3) == (3, True)
        # The other replica is gone, so this is an unclean election.
        replicas.managers.pop("one")
        replicas.elect("two")
        replicas.advance()
        replicas.wait_for_leader()
        assert replicas.fetched() == {KEYS[0]: 2}

    def test_a_follower_begins_again_where_its_leader_s_log_begins(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        _write(leader, 3)
        replicas.replicate()
        follower.restart_at(replicas.partition, replicas.epoch, 40)
        found = follower.positions(replicas.partition)
        assert (found.log_start, found.log_end) == (40, 40)
        with refused(InvalidArgumentError):
            follower.restart_at(replicas.partition, replicas.epoch, 39)

    def test_an_empty_follower_begins_above_zero(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        follower = replicas["two"]
        replicas.elect("one")
        follower.restart_at(replicas.partition, replicas.epoch, 7)
        found = follower.positions(replicas.partition)
        assert (found.log_start, found.log_end) == (7, 7)


@pytest.mark.needs(Capability.REPLICATION, Capability.METADATA, Capability.EPOCHS)
class TestReading:
    """Reads of whole batches, into a buffer or as a range of a file."""

    def test_only_followers_read_above_the_watermark(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, partition = replicas.elect("one"), replicas.partition
        _write(leader, 6)
        assert committed_bytes(leader, partition, uncommitted=False) == b""
        leader.advance(partition, replicas.epoch, 4)
        assert next_offset(committed_bytes(leader, partition, uncommitted=False)) == 4
        assert next_offset(committed_bytes(leader, partition)) == 6

    def test_a_read_begins_with_the_batch_of_its_offset(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, partition = replicas.elect("one"), replicas.partition
        leader.commit(GROUP, dict.fromkeys(KEYS, 1), durability="process")
        leader.commit(GROUP, {KEYS[0]: 2}, durability="process")
        buffer = bytearray(4096)
        whole = committed_bytes(leader, partition)
        first, second = batches_of(whole)
        for offset in range(5):
            size = leader.read_into(partition, offset, buffer, uncommitted=True)
            assert buffer[:size] == (whole if offset < 4 else second)
        assert leader.read_into(partition, 5, buffer, uncommitted=True) == 0
        small = bytearray(len(first) + len(second) - 1)
        assert leader.read_into(partition, 0, small, uncommitted=True) == len(first)
        assert small[: len(first)] == first

    def test_a_read_says_why_it_cannot(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, partition = replicas.elect("one"), replicas.partition
        _write(leader, 3)
        for offset in (4, 2**40):
            with refused(OffsetOutOfRangeError, case=offset) as caught:
                leader.read_into(partition, offset, bytearray(1000), uncommitted=True)
            assert caught.value.error_code == 1
        with refused(TooLargeError):
            leader.read_into(partition, 0, bytearray(61), uncommitted=True)
        follower = replicas["two"]
        follower.restart_at(partition, replicas.epoch, 50)
        with refused(OffsetOutOfRangeError):
            follower.read_into(partition, 49, bytearray(1000), uncommitted=True)

    def test_a_piece_of_a_file_is_what_is_read(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, partition = replicas.elect("one"), replicas.partition
        _write(leader, 12)
        replicas.advance(9)
        for offset in (0, 3, 8):
            for uncommitted in (False, True):
                buffer = bytearray(1 << 16)
                size = leader.read_into(partition, offset, buffer, uncommitted=uncommitted)
                found = leader.file_range(partition, offset, 1 << 16, uncommitted=uncommitted)
                assert _piece(found, offset) == buffer[:size]
        whole = leader.file_range(partition, 0, 1 << 16)
        first, second, *_ = batches_of(_piece(whole, 0))
        for size_max in (1, len(first), len(first) + len(second) // 2):
            short = leader.file_range(partition, 0, size_max)
            assert (short.path, short.position) == (whole.path, whole.position)
            assert len(first) <= short.size <= max(size_max, len(first))
        assert leader.file_range(partition, 9, 1 << 16).size == 0


def _piece(found: FileRange, offset: int) -> bytes:
    if found.size == 0:
        return b""
    file = found.open(offset)
    assert file is not None
    with file:
        return os.pread(file.fileno(), found.size, found.position)
