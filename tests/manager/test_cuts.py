"""Cuts of a follower's log: one that is refused changes nothing, and no checkpoint says more than is left."""

from __future__ import annotations

import threading

import pytest

from offsetlog.directory.log_bounds import checkpoint_bounds
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    TOPIC,
    LogDirectory,
)
from offsetlog.errors import (
    FencedLeaderEpochError,
    InvalidArgumentError,
    OffsetLogError,
    UnknownLeaderEpochError,
)

from .manual_executor import ManualExecutor
from .replicas import KEYS, start

CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANER_POINTS)


@pytest.fixture
def manager(tmp_path):
    """A leader in epoch 3 of twenty batches, all of them flushed and below W."""
    executor = ManualExecutor()
    manager = start(tmp_path / "data", executor)
    manager.become_leader(0, 3)
    for number in range(20):
        manager.commit("g", {KEYS[0]: number, KEYS[1]: number})
    manager.advance(0, 3, 40)
    manager.flush(0)
    executor.run()
    take_checkpoints(manager)
    yield manager
    manager.abandon()


def take_checkpoints(manager):
    checkpoint_bounds(manager.directory, manager.open_core.core.attached(wait=False))
    manager.directory.write_checkpoint(CLEANER_POINTS, {0: 30})
    manager._maintenance._cleaner._checkpoints[0] = 30


def checkpoints_of(manager):
    return [manager.directory.read_checkpoint(name).get((TOPIC, 0)) for name in CHECKPOINTS]


@pytest.mark.parametrize(
    ("epoch", "offset", "refusal"),
    [
        (2, 0, FencedLeaderEpochError),
        (3, 0, FencedLeaderEpochError),  # it leads in that epoch
        (4, 0, UnknownLeaderEpochError),
        (3, -5, InvalidArgumentError),
        (3, 2**63, InvalidArgumentError),
    ],
)
@pytest.mark.parametrize("call", ["truncate_to", "restart_at"])
def test_a_cut_that_is_refused_changes_nothing(manager, call, epoch, offset, refusal):
    with pytest.raises(refusal):
        getattr(manager, call)(0, epoch, offset)
    assert checkpoints_of(manager) == [40, 40, 30]
    assert manager.positions(0).log_end == 40


def test_a_follower_refuses_cuts_that_cannot_be_and_keeps_its_checkpoints(manager):
    manager.become_follower(0, 4)
    for call, epoch, offset in (
        (manager.truncate_to, 4, -1),
        (manager.truncate_to, 3, 0),
        (manager.restart_at, 4, 39),
        (manager.restart_at, 5, 40),
    ):
        with pytest.raises(OffsetLogError):
            call(0, epoch, offset)
        assert checkpoints_of(manager) == [40, 40, 30]
    assert manager.truncate_to(0, 4, 20) == 20
    assert checkpoints_of(manager) == [0, 20, 20]


def test_a_checkpoint_that_is_taken_meanwhile_says_no_more_than_is_left(manager, monkeypatch):
    manager.become_follower(0, 4)
    cut = threading.Thread(target=manager.truncate_to, args=(0, 4, 20))
    write = LogDirectory.write_checkpoint

    def write_late(directory, name, ours):
        # Where nothing holds it back, the log is cut between the look at it and the checkpoint.
        if threading.current_thread() is not cut and cut.ident is None:
            cut.start()
            cut.join(0.3)
        write(directory, name, ours)

    monkeypatch.setattr(LogDirectory, "write_checkpoint", write_late)
    checkpoint_bounds(manager.directory, manager.open_core.core.attached(wait=False))
    cut.join(30)
    assert manager.positions(0).log_end == 20
    assert checkpoints_of(manager) == [0, 20, 20]
