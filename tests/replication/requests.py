"""Fetches and answers of the tests of single rules."""

from __future__ import annotations

from typing import Any

from offsetlog.replication.messages import FetchError, FetchRequest, FetchResponse

EPOCH = 5


def request_of(offset: int, **fields: Any) -> FetchRequest:
    """A fetch of replica 2 in epoch 5, all of whose log is flushed."""
    usual = {
        "partition": 0,
        "replica": 2,
        "incarnation": 7,
        "current_leader_epoch": EPOCH,
        "fetch_offset": offset,
        "last_fetched_epoch": 4,
        "flushed_offset": offset,
        "max_bytes": 1000,
    }
    return FetchRequest(**usual | fields)


def response_of(error: FetchError = FetchError.NONE, **fields: Any) -> FetchResponse:
    """An answer of the leader of epoch 5, whose log reaches from 0 to 10."""
    usual = {
        "partition": 0,
        "leader_epoch": EPOCH,
        "high_watermark": 8,
        "log_start_offset": 0,
        "log_end_offset": 10,
    }
    return FetchResponse(error=error, **usual | fields)
