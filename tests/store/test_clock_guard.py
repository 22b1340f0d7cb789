"""Which clock retention believes, and which it does not."""

from __future__ import annotations

import dataclasses
import time

import pytest

from offsetlog import errors
from offsetlog.maintenance import retention
from offsetlog.maintenance.retention import ClockGuard

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = time.time_ns() // 1_000_000


@dataclasses.dataclass
class Clocks:
    """A time of day and a clock that nobody sets."""

    wall: int = NOW
    steady: int = 12345

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms

    def guard(self) -> ClockGuard:
        return ClockGuard(lambda: self.wall, lambda: self.steady)


def test_time_that_passes_is_believed() -> None:
    clocks = Clocks()
    guard = clocks.guard()
    for ms in (0, 1, HOUR, 400 * DAY):
        clocks.passes(ms)
        assert guard.check(NOW, DAY) == clocks.wall
    clocks.wall += DAY // 2  # not more than half of it
    assert guard.check(NOW, DAY) == clocks.wall
    clocks.wall += DAY // 2  # since the last look
    assert guard.check(NOW, DAY) == clocks.wall


def test_a_clock_before_the_newest_record_is_refused() -> None:
    clocks = Clocks()
    guard = clocks.guard()
    with pytest.raises(errors.ClockError, match="newest record") as caught:
        guard.check(NOW + 1, DAY)
    assert (caught.value.now, caught.value.newest) == (NOW, NOW + 1)
    assert guard.check(NOW, DAY) == NOW
    assert guard.check(NOW + DAY, DAY, trust_clock=True) == NOW
    with pytest.raises(errors.ClockError):
        guard.check(2**62, DAY)


@pytest.mark.parametrize("jump", [DAY // 2 + 1, 300 * DAY, -DAY])
def test_a_jump_is_refused_until_the_clock_is_back(jump: int) -> None:
    clocks = Clocks()
    guard = clocks.guard()
    clocks.wall += jump
    for _ in range(3):
        with pytest.raises(errors.ClockError, match=r"was set (forward|back) by"):
            guard.check(0, DAY)
        clocks.passes(HOUR)
    clocks.wall -= jump
    assert guard.check(0, DAY) == clocks.wall


def test_a_jump_is_believed_once_somebody_says_so() -> None:
    clocks = Clocks()
    guard = clocks.guard()
    clocks.wall += 300 * DAY
    assert guard.check(0, DAY, trust_clock=True) == clocks.wall
    clocks.passes(HOUR)
    assert guard.check(0, DAY) == clocks.wall


def test_a_clock_that_is_put_right_by_seconds_has_not_jumped() -> None:
    clocks = Clocks()
    guard = clocks.guard()
    clocks.wall += 59_000
    assert guard.check(0, 0) == clocks.wall
    clocks.wall -= 61_000
    with pytest.raises(errors.ClockError):
        guard.check(0, 0)
    assert guard.check(0, None) == clocks.wall


def test_the_clocks_of_the_machine() -> None:
    assert abs(retention.wall_ms() - time.time() * 1000) < 60_000
    assert 0 <= retention.steady_ms() <= retention.steady_ms()
