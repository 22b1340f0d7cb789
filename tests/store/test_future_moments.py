"""Moments that are still to come are refused by every call about the past, unless the log has a record as young."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from offsetlog import OffsetStore, errors
from offsetlog._native.encoding import encode_batch, encode_key, encode_value

from .test_history import KEYS, opened


def asked_with(store: OffsetStore, at: datetime) -> dict[str, Callable[[], object]]:
    """Every call that takes a moment, with this one."""
    return {
        "fetch": lambda: store.fetch("g", at=at),
        "diff from": lambda: store.diff(at),
        "diff to": lambda: store.diff(None, at, "g"),
        "restore": lambda: store.restore("g", at),
        "restore, dry": lambda: store.restore("g", at, dry_run=True),
        "undelete": lambda: store.undelete("g", at=at),
        "undelete since": lambda: store.undelete("g", since=at),
        "deletions": lambda: store.deletions(since=at),
        "rewinds": lambda: store.rewinds(since=at),
    }


CALLS = list(asked_with(None, None))


@pytest.mark.parametrize("name", CALLS)
def test_a_time_in_the_future_is_refused(path, name):
    with opened(path, partitions=50) as store:
        for _ in range(2):  # the partition of the group is not there yet, and then it is
            before = store.digest(physical=True)
            for far in (timedelta(minutes=2), timedelta(days=36525)):
                with pytest.raises(errors.InvalidArgumentError, match="lies in the future: this machine's clock says"):
                    asked_with(store, datetime.now(UTC) + far)[name]()
            assert store.digest(physical=True) == before
            # The clocks of two machines may differ by a minute.
            asked_with(store, datetime.now(UTC) + timedelta(seconds=50))[name]()
            store.commit("g", {KEYS[0]: 1})
            store.delete("g")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("snapshot", [False, True])
def test_what_the_log_has_is_no_future(path, name, snapshot):
    ahead = time.time_ns() // 1_000_000 + 3_600_000
    folder = path / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    key = encode_key(1, {"group": "g", "topic": "t", "partition": 0})
    value = encode_value(1, 3, {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": ahead})
    batches = [encode_batch(0, ahead - 1000, [(key, value)]), encode_batch(1, ahead, [(key, value)])]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    if snapshot:
        with opened(path) as store:
            store.snapshot()
    with opened(path) as store:
        newest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ahead)
        for at in (newest - timedelta(milliseconds=500), newest):
            asked_with(store, at)[name]()
        with pytest.raises(errors.InvalidArgumentError, match="lies in the future"):
            asked_with(store, newest + timedelta(hours=1))[name]()
