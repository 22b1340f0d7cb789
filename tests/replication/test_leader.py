"""How a leader answers each fetch, case by case."""

from __future__ import annotations

import pytest

from offsetlog.errors import CorruptionError, PartitionFailedError
from offsetlog.replication.in_sync import InSyncConfig, LeaderView
from offsetlog.replication.leader import answer_fetch, diverging_epoch
from offsetlog.replication.messages import EpochEnd, FetchError, FetchRequest, FetchResponse
from tests.replication.memory_log import RECORD_BYTES, MemoryLog, Record, encode
from tests.replication.requests import EPOCH, request_of, response_of


def log_of(*epochs: int, start: int = 0, leads: bool = True) -> MemoryLog:
    log = MemoryLog(*((epoch, 0) for epoch in epochs), start=start)
    if leads:
        log.assign_epoch(EPOCH)
    return log


def view_of(log: MemoryLog, leader_epoch: int = EPOCH) -> LeaderView:
    view = LeaderView(
        replica=1,
        leader_epoch=leader_epoch,
        log_end=log.log_end(),
        assigned=(1, 2, 3),
        in_sync={1, 2},
        version=0,
        watermark=0,
        now=0,
        config=InSyncConfig(),
    )
    view.on_own_flush(log.log_end(), log.log_end(), 0)
    return view


def ask(
    request: FetchRequest, log: MemoryLog, view: LeaderView | None, leader_epoch: int = EPOCH
) -> FetchResponse:
    return answer_fetch(request, leader_epoch=leader_epoch, log=log, view=view, now=100)


# ---------------------------------------------------------------------------------- divergence


@pytest.mark.parametrize(
    ("offset", "epoch", "found"),
    [
        # The follower's epoch is known, and ends at, above or below its log end.
        (2, 3, None),
        (1, 3, None),
        (3, 3, EpochEnd(3, 2)),
        # It is not known, and an older one is.
        (3, 4, EpochEnd(3, 2)),
        (2, 4, EpochEnd(3, 2)),
        (1, 4, EpochEnd(3, 2)),
        # The leader's own epoch.
        (3, 5, None),
        (4, 5, EpochEnd(5, 3)),
        # It is newer than all that are known: the leader names its own.
        (2, 6, EpochEnd(5, 3)),
        # Older than all that are known.
        (0, 2, None),
        (1, 2, EpochEnd(2, 0)),
        # No epoch.
        (0, -1, None),
        (9, -1, None),
    ],
)
def test_where_two_logs_part(offset, epoch, found):
    log = MemoryLog((3, 0), (3, 0), (5, 0))
    assert diverging_epoch(request_of(offset, last_fetched_epoch=epoch), log) == found


def test_a_leader_without_any_epoch_names_its_own():
    request = request_of(1, last_fetched_epoch=4)
    assert diverging_epoch(request, MemoryLog()) == EpochEnd(EPOCH, 0)


# ------------------------------------------------------------------------------------- answers


def test_a_follower_gets_the_records_from_its_end_on():
    log = log_of(3, 3, 4)
    response = ask(request_of(1, last_fetched_epoch=3), log, view_of(log))
    records = encode([Record(3, 0), Record(4, 0)])
    assert response == response_of(high_watermark=1, log_end_offset=3, records=records)


def test_a_follower_at_the_end_gets_no_records_and_moves_w():
    log = log_of(3, 4)
    response = ask(request_of(2), log, view_of(log))
    assert response == response_of(high_watermark=2, log_end_offset=2)


def test_an_answer_has_the_bytes_that_were_asked_for():
    log = log_of(3, 4, 4)
    request = request_of(0, last_fetched_epoch=-1, max_bytes=2 * RECORD_BYTES)
    assert len(ask(request, log, view_of(log)).records) == 2 * RECORD_BYTES


def test_a_log_that_diverges_is_sent_where_and_no_records_and_is_not_counted():
    log = log_of(3, 3)
    view = view_of(log)
    response = ask(request_of(2, last_fetched_epoch=4), log, view)
    assert response == response_of(
        high_watermark=0, log_end_offset=2, diverging_epoch=EpochEnd(3, 2)
    )
    assert view.positions() == {1: 2, 2: -1, 3: -1}


def test_a_fetch_at_the_start_of_the_log_is_in_range():
    log = log_of(4, start=5)
    assert ask(request_of(5), log, view_of(log)).error == FetchError.NONE


def test_a_fetch_below_the_start_of_the_log_is_out_of_range():
    log = log_of(4, start=5)
    view = view_of(log)
    assert ask(request_of(4), log, view) == response_of(
        FetchError.OFFSET_OUT_OF_RANGE, high_watermark=-1, log_start_offset=5, log_end_offset=6
    )
    assert view.positions()[2] == -1


def test_a_fetch_above_the_end_of_a_log_that_does_not_diverge_is_out_of_range():
    log = log_of(4)
    view = view_of(log)
    response = ask(request_of(2, last_fetched_epoch=-1), log, view)
    assert response == response_of(
        FetchError.OFFSET_OUT_OF_RANGE, high_watermark=-1, log_end_offset=1
    )
    assert view.positions()[2] == -1


@pytest.mark.parametrize(
    "failure", [OSError(5, "broken"), CorruptionError("damaged"), PartitionFailedError("failed")]
)
def test_a_disk_that_fails_is_reported_and_the_follower_not_counted(failure):
    log = log_of(4)
    view = view_of(log)

    def read(offset: int, max_bytes: int) -> bytes:
        raise failure

    log.read = read  # type: ignore[method-assign]
    response = ask(request_of(1), log, view)
    assert response == response_of(
        FetchError.STORAGE_ERROR, high_watermark=-1, log_start_offset=-1, log_end_offset=-1
    )
    assert view.positions()[2] == -1


# ------------------------------------------------------------------------------------ refusals


def refused(error: FetchError, leader_epoch: int = EPOCH) -> FetchResponse:
    return response_of(
        error,
        leader_epoch=leader_epoch,
        high_watermark=-1,
        log_start_offset=-1,
        log_end_offset=-1,
    )


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (EPOCH - 1, FetchError.FENCED_LEADER_EPOCH),
        (EPOCH + 1, FetchError.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_of_another_epoch_is_refused(leads, asked, error):
    log = log_of(4)
    response = ask(
        request_of(1, current_leader_epoch=asked), log, view_of(log) if leads else None
    )
    assert response == refused(error)


def test_who_does_not_lead_says_so():
    assert ask(request_of(1), log_of(4), None) == refused(FetchError.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("view_epoch", [EPOCH - 1, EPOCH + 1])
def test_who_led_in_another_epoch_does_not_lead(view_epoch):
    log = log_of(4)
    response = ask(request_of(1), log, view_of(log, view_epoch))
    assert response == refused(FetchError.NOT_LEADER_OR_FOLLOWER)


def test_a_replica_that_is_not_assigned_is_refused():
    log = log_of(4)
    response = ask(request_of(1, replica=9), log, view_of(log))
    assert response == refused(FetchError.UNKNOWN_LEADER_EPOCH)


def test_an_earlier_life_of_a_replica_is_refused():
    log = log_of(4)
    view = view_of(log)
    ask(request_of(1), log, view)
    response = ask(request_of(1, incarnation=6), log, view)
    assert response == refused(FetchError.NOT_LEADER_OR_FOLLOWER)
    assert ask(request_of(1), log, view).error == FetchError.NONE


# ------------------------------------------------------------- where the log of the leader begins


@pytest.mark.parametrize(
    ("epoch", "found"), [(1, EpochEnd(1, 2)), (4, EpochEnd(4, 2)), (EPOCH, None), (-1, None)]
)
def test_what_lies_below_the_leaders_log_is_not_taken_for_right(epoch, found):
    """The epochs of records that were removed are not known any more (seed 4357 of the cluster)."""
    log = log_of(3, 3, start=2)
    view = view_of(log)
    answer = ask(request_of(2, last_fetched_epoch=epoch), log, view)
    assert answer.diverging_epoch == found
    assert view.positions()[2] == (-1 if found else 2)
