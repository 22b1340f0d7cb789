"""A follower's handling of each answer, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetlog.replication.follower import (
    FETCH_BYTES_MAX,
    Advance,
    Append,
    Follower,
    RestartAt,
    Retry,
    Stop,
    Truncate,
)
from offsetlog.replication.messages import EpochEnd, FetchError
from tests.replication.memory_log import MemoryLog
from tests.replication.requests import EPOCH, request_of, response_of


def log_of(*epochs: int, start: int = 0, flushed: int | None = None) -> MemoryLog:
    return MemoryLog(*((epoch, 0) for epoch in epochs), start=start, flushed=flushed)


def follower_of(log: MemoryLog, **settings: int) -> Follower:
    return Follower(
        partition=0, replica=2, incarnation=7, leader_epoch=EPOCH, log=log, **settings
    )


def answer(log: MemoryLog, error: FetchError = FetchError.NONE, **fields: object) -> list[object]:
    """Returns what a follower with this log does with an answer to its own fetch."""
    follower = follower_of(log)
    request = follower.next_fetch()
    assert request is not None
    return follower.on_response(request, response_of(error, **fields))


# ------------------------------------------------------------------------------------- fetches


def test_a_fetch_says_where_the_log_ends_and_what_of_it_is_on_disk():
    request = follower_of(log_of(3, 4, 4, flushed=2), max_bytes=77).next_fetch()
    assert request == request_of(3, flushed_offset=2, max_bytes=77)


def test_a_fetch_asks_for_a_mebibyte():
    request = follower_of(log_of()).next_fetch()
    assert request == request_of(0, last_fetched_epoch=-1, max_bytes=1 << 20)
    assert FETCH_BYTES_MAX == 1 << 20


def test_what_is_flushed_is_not_said_to_be_above_the_log_end():
    log = log_of(4, 4)
    log.flushed_end = 9
    request = follower_of(log).next_fetch()
    assert request is not None
    assert request.flushed_offset == 2


def test_a_newer_epoch_is_followed_and_an_older_one_is_not():
    follower = follower_of(log_of(4))
    follower.follow(EPOCH)
    assert follower.leader_epoch == EPOCH
    follower.follow(EPOCH + 1)
    assert follower.leader_epoch == EPOCH + 1
    with pytest.raises(ValueError, match="older"):
        follower.follow(EPOCH)


# ------------------------------------------------------------------------------------- answers


def test_records_are_appended_before_w_moves():
    assert answer(log_of(4), records=b"x") == [Append(b"x"), Advance(8)]


def test_an_answer_without_records_moves_w():
    assert answer(log_of(4)) == [Advance(8)]


@pytest.mark.parametrize(("end", "moved"), [(7, 7), (8, 8), (9, 8)])
def test_w_does_not_pass_the_log_end(end, moved):
    assert Advance(8).within(end) == moved


@pytest.mark.parametrize(
    "error",
    [
        FetchError.NOT_LEADER_OR_FOLLOWER,
        FetchError.STORAGE_ERROR,
        FetchError.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_an_error_that_passes_is_tried_again(error):
    assert answer(log_of(4), error) == [Retry(error)]


def test_an_error_is_tried_again_whichever_epoch_it_comes_from():
    error = FetchError.UNKNOWN_LEADER_EPOCH
    assert answer(log_of(4), error, leader_epoch=EPOCH - 1) == [Retry(error)]


def test_a_fenced_follower_stops_until_a_newer_epoch():
    follower = follower_of(log_of(4))
    request = follower.next_fetch()
    assert request is not None
    fenced = response_of(FetchError.FENCED_LEADER_EPOCH, leader_epoch=EPOCH + 1)
    assert follower.on_response(request, fenced) == [Stop(FetchError.FENCED_LEADER_EPOCH)]
    assert follower.next_fetch() is None
    assert follower.on_response(request, response_of()) == []
    follower.follow(EPOCH)
    assert follower.next_fetch() is None
    follower.follow(EPOCH + 1)
    assert follower.next_fetch() == replace(request, current_leader_epoch=EPOCH + 1)


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_records_of_the_leader_of_another_epoch_are_left(epoch):
    assert answer(log_of(4), records=b"x", leader_epoch=epoch) == []


@pytest.mark.parametrize(
    "asked",
    [
        request_of(1, current_leader_epoch=EPOCH - 1),
        request_of(1, current_leader_epoch=EPOCH + 1),
        request_of(1, incarnation=6),
        request_of(1, incarnation=8),
        request_of(0),
        request_of(2),
        request_of(1, last_fetched_epoch=3),
        request_of(1, last_fetched_epoch=5),
    ],
)
@pytest.mark.parametrize("error", [FetchError.NONE, FetchError.FENCED_LEADER_EPOCH])
def test_the_answer_to_another_fetch_is_left(asked, error):
    follower = follower_of(log_of(4))
    assert follower.on_response(asked, response_of(error, records=b"x")) == []
    assert follower.next_fetch() is not None


def test_the_answer_to_a_fetch_with_another_flushed_end_is_taken():
    follower = follower_of(log_of(4))
    asked = request_of(1, flushed_offset=0, max_bytes=5)
    assert follower.on_response(asked, response_of()) == [Advance(8)]


# ----------------------------------------------------------------------- the start of the log


@pytest.mark.parametrize("error", [FetchError.NONE, FetchError.OFFSET_OUT_OF_RANGE])
@pytest.mark.parametrize("start", [2, 3])
def test_a_log_that_ends_at_or_below_the_start_of_the_leaders_begins_again(error, start):
    assert answer(log_of(4, 4), error, log_start_offset=start) == [RestartAt(start)]


def test_an_empty_log_at_the_start_of_the_leaders_goes_on():
    assert answer(log_of(start=2), log_start_offset=2, records=b"x") == [Append(b"x"), Advance(8)]


def test_a_log_that_reaches_above_the_start_of_the_leaders_goes_on():
    assert answer(log_of(4, 4), log_start_offset=1) == [Advance(8)]


# ------------------------------------------------------------------------------------- cutting


def test_a_log_above_the_end_of_the_leaders_is_cut_to_it():
    actions = answer(log_of(4, 4, 4), FetchError.OFFSET_OUT_OF_RANGE, log_end_offset=2)
    assert actions == [Truncate(2)]


@pytest.mark.parametrize("end", [3, 4])
def test_an_offset_that_is_in_range_after_all_is_tried_again(end):
    error = FetchError.OFFSET_OUT_OF_RANGE
    assert answer(log_of(4, 4, 4), error, log_end_offset=end) == [Retry(error)]


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [
        # The leader has less of an epoch that both have, or more of it, or as much.
        (EpochEnd(3, 1), 1),
        (EpochEnd(3, 9), 2),
        (EpochEnd(3, 2), 2),
        # The leader names an epoch that is not in this log, between two that are.
        (EpochEnd(1, 5), 0),
        # The leader names an epoch that is newer than all of this log: only its offset counts.
        (EpochEnd(6, 3), 3),
        (EpochEnd(6, 9), 4),
    ],
)
def test_a_log_is_cut_where_the_leaders_parts_from_it(diverging, offset):
    assert answer(log_of(3, 3, 4, 4), diverging_epoch=diverging) == [Truncate(offset)]


def test_a_log_that_diverges_is_not_appended_to_and_w_does_not_move():
    actions = answer(log_of(3, 4), diverging_epoch=EpochEnd(3, 1), records=b"x")
    assert actions == [Truncate(1)]


def test_a_log_without_the_epoch_that_is_named_is_cut_at_the_leaders_end_of_it():
    actions = answer(log_of(), diverging_epoch=EpochEnd(3, 0))
    assert actions == [Truncate(0)]


def test_a_cut_is_not_below_the_start_of_the_log():
    log = log_of(4, 4, 4, start=5)
    actions = answer(log, diverging_epoch=EpochEnd(6, 3), log_start_offset=5)
    assert actions == [Truncate(5)]


def test_a_cut_is_not_below_the_start_of_the_leaders_log():
    log = log_of(4, 4, 4, start=5)
    actions = answer(log, diverging_epoch=EpochEnd(6, 3), log_start_offset=6)
    assert actions == [Truncate(6)]


def test_logs_with_nothing_in_common_begin_again_at_the_lower_start():
    log = log_of(4, 4, 4, start=5)
    actions = answer(log, diverging_epoch=EpochEnd(6, 3), log_start_offset=4)
    assert actions == [RestartAt(4)]


def test_a_cut_at_the_start_of_the_log_keeps_it():
    log = log_of(4, 4, 4, start=5)
    actions = answer(log, diverging_epoch=EpochEnd(6, 5), log_start_offset=4)
    assert actions == [Truncate(5)]
