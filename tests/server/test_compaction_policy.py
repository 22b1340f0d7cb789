"""When a log is compacted and up to where: the rules of docs/format/topics.md §17.7, one at a time."""

from __future__ import annotations

import pytest

from offsetlog.topics.compaction_policy import Dirt, LogState, SegmentTimes, dirt_of
from offsetlog.topics.settings import TopicLogSettings

NOW = 1_800_000_000_000
#: Four closed segments of a hundred bytes and ten offsets, an hour apart, and the active one.
SEGMENTS = ((0, 100), (10, 100), (20, 100), (30, 100), (40, 7))
HOUR = 3600 * 1000


def times(base: int) -> SegmentTimes:
    newest = NOW - (40 - base) // 10 * HOUR
    return SegmentTimes(newest - 1000, newest)


def judged(*, segments=SEGMENTS, start=0, end=45, stable=45, checkpoint=None, times_of=times, **more) -> Dirt:
    state = LogState(segments=segments, start=start, end=end, stable=stable, checkpoint=checkpoint)
    return dirt_of(state, TopicLogSettings(cleanup_policy="compact", **more), NOW, times_of)


def never(base: int) -> SegmentTimes:
    raise AssertionError("no lag is set, so that no times are asked for")


def test_a_log_that_was_never_compacted_is_all_dirty_below_its_active_segment():
    assert judged(times_of=never) == Dirt(0, 40, 1.0, True)


@pytest.mark.parametrize(("checkpoint", "ratio", "is_due"), [(10, 0.75, True), (20, 0.5, False), (30, 0.25, False)])
def test_the_ratio_is_the_bytes_above_the_checkpoint_and_has_to_be_passed(checkpoint, ratio, is_due):
    assert judged(checkpoint=checkpoint) == Dirt(checkpoint, 40, ratio, is_due)
    assert judged(checkpoint=checkpoint, min_cleanable_dirty_ratio=ratio - 0.01).is_due


@pytest.mark.parametrize("checkpoint", [46, 5])
def test_a_checkpoint_out_of_the_log_does_not_count(checkpoint):
    assert judged(checkpoint=checkpoint, start=10, segments=SEGMENTS[1:]).first_dirty == 10


def test_nothing_is_due_where_all_is_clean_or_there_is_one_segment():
    assert not judged(checkpoint=40, min_cleanable_dirty_ratio=0.0).is_due
    assert judged(segments=((0, 100),), end=9, stable=9, min_cleanable_dirty_ratio=0.0) == Dirt(0, 0, 0.0, False)


def test_what_readers_are_not_let_to_stays_with_the_segment_that_it_is_in():
    assert judged(stable=25) == Dirt(0, 20, 1.0, True)
    assert not judged(stable=9, min_cleanable_dirty_ratio=0.0).is_due


def test_the_first_young_segment_ends_what_may_be_compacted():
    # Their newest records are four, three, two and one hours old.
    assert judged(min_compaction_lag_ms=2 * HOUR).end == 30
    assert judged(min_compaction_lag_ms=2 * HOUR + 1).end == 20
    assert not judged(min_compaction_lag_ms=9 * HOUR, min_cleanable_dirty_ratio=0.0).is_due
    # Only dirty segments are asked.
    assert judged(min_compaction_lag_ms=2 * HOUR + 1, checkpoint=30).end == 30


def test_an_old_record_makes_a_log_due_whatever_the_ratio():
    assert not judged(checkpoint=30, max_compaction_lag_ms=HOUR + 1000).is_due
    assert judged(checkpoint=30, max_compaction_lag_ms=HOUR + 999).is_due
    # The least lag counts if it is more, and what it holds back is not late.
    assert not judged(checkpoint=30, max_compaction_lag_ms=1, min_compaction_lag_ms=2 * HOUR).is_due
    assert not judged(checkpoint=40, max_compaction_lag_ms=1).is_due


def test_a_checkpoint_within_a_segment_leaves_that_segment_dirty():
    assert judged(checkpoint=15, min_cleanable_dirty_ratio=0.0) == Dirt(15, 40, 0.6, True)


def test_a_segment_is_rolled_before_its_records_are_late():
    configs = {"max.compaction.lag.ms": "5000"}
    assert TopicLogSettings().of({**configs, "cleanup.policy": "compact"}).segment_ms == 5000
    assert TopicLogSettings().of(configs).segment_ms == TopicLogSettings().segment_ms
