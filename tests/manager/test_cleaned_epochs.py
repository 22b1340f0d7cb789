"""A follower that copies a cleaned log knows where leader epochs begin, as its leader does."""

from __future__ import annotations

from offsetlog.types import EpochEnd, TopicPartition

from .managers import manager_of

KEY = TopicPartition("t", 0)


def test_the_first_batch_of_an_epoch_stays_when_none_of_its_records_does(tmp_path):
    with manager_of(tmp_path / "leader", durability="process") as leader:
        for epoch in (2, 5):
            leader.become_leader(0, epoch).result(5)
            for value in range(3):
                leader.commit("g", {KEY: value})
        (report,) = leader._maintenance.compact([0])
        assert report.cleaned
        buffer = bytearray(1 << 20)
        batches = memoryview(buffer)[: leader.read_into(0, 0, buffer)]
        ends = [leader.end_offset_for_epoch(0, epoch) for epoch in range(7)]
    with manager_of(tmp_path / "follower", replication_factor=3) as follower:
        follower.become_follower(0, 5).result(5)
        follower.append_as_follower(0, 5, batches)
        assert [follower.end_offset_for_epoch(0, epoch) for epoch in range(7)] == ends
        # Without it epoch 5 would seem to begin at its last commit, and the log of another replica,
        # which holds a record of epoch 2 at log offset 3 or 4, to agree with this one.
        assert follower.end_offset_for_epoch(0, 2) == EpochEnd(2, 3)
        assert follower.positions(0).log_end == 6
