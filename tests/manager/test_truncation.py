"""A follower's log that is cut: what a crash after it finds."""

from __future__ import annotations

import pytest

from offsetlog.directory.log_bounds import checkpoint_bounds
from offsetlog.directory.log_directory import RECOVERY_POINTS, TOPIC
from offsetlog.types import TopicPartition

from .managers import manager_of


def batches_of(path):
    """Three batches of three records, at log offsets 0, 3 and 6."""
    with manager_of(path, durability="process") as leader:
        leader.become_leader(0, 1).result(5)
        for value in range(3):
            leader.commit("g", {TopicPartition("t", number): value for number in range(3)})
        buffer = bytearray(1 << 20)
        data = bytes(buffer[: leader.read_into(0, 0, buffer)])
    size = len(data) // 3
    return [data[at : at + size] for at in range(0, len(data), size)]


#: The batches that a cleaner left, where the log is cut, and where it ends then.
CUTS = [
    *(((0, 1, 2), *cut) for cut in [(0, 0), (1, 0), (3, 3), (4, 3), (5, 3), (6, 6), (9, 9)]),
    *(((0, 2), *cut) for cut in [(3, 3), (4, 3), (6, 3), (7, 3)]),
    *(((2,), *cut) for cut in [(3, 0), (6, 0), (7, 0)]),
]


@pytest.mark.parametrize(("left", "offset", "end"), CUTS)
def test_a_crash_after_a_cut_finds_nothing_missing(tmp_path, left, offset, end):
    batches = batches_of(tmp_path / "leader")
    follower = manager_of(tmp_path / "follower", replication_factor=3)
    follower.start()
    follower.become_follower(0, 1).result(5)
    for number in left:
        follower.append_as_follower(0, 1, batches[number])
    follower.flush(0).result(5)
    follower.advance(0, 1, 9)
    checkpoint_bounds(follower.directory, follower.open_core.core.attached(wait=False))
    assert follower.truncate_to(0, 1, offset) == end
    assert follower.directory.read_checkpoint(RECOVERY_POINTS)[TOPIC, 0] <= end
    follower.abandon()
    with manager_of(tmp_path / "follower", replication_factor=3) as again:
        again.become_follower(0, 2).result(5)
        assert again.positions(0).log_end == end
        # It is not taken for a log that has lost something, which is opened read-only.
        assert not [each for each in again.open_partitions.all() if each.read_only]
