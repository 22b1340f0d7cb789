"""Moments whose state the log does not have: each is refused, and the refusal names moments that it has."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from conformance.scenarios import BUNDLED

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog._native.codec import partition_for

from .test_history import KEYS, _partitions_of, fill, moment, offsets, opened


@pytest.fixture
def single(path):
    with opened(path) as store:
        yield store


@pytest.fixture
def old(tmp_path):
    """Opens a copy of a directory that an old broker wrote."""

    def open_copy(name: str) -> offsetlog.OffsetStore:
        log = tmp_path / name
        shutil.copytree(BUNDLED / "kafka-old" / name / "log", log)
        return offsetlog.open(log, _partitions_of(log), read_only=True)

    return open_copy


def test_a_log_offset_inside_a_commit_is_refused(single):
    single.commit("g", {key: 100 + key.partition for key in KEYS[:4]})
    single.commit("g", dict.fromkeys(KEYS[:4], 0))
    then = single.fetch("g")
    for call in (
        lambda: single.fetch("g", at=6),
        lambda: single.fetch("g", at="offset:6"),
        lambda: single.restore("g", 6),
        lambda: single.restore("g", 6, [KEYS[3]], dry_run=True),
        lambda: single.undelete("g", at=6),
        lambda: single.diff(6, None, "g"),
        lambda: single.diff(0, 6, "g"),
    ):
        with pytest.raises(errors.InsideCommitError, match="never split; give offset:4 for the state before") as raised:
            call()
        assert (raised.value.before, raised.value.after) == (4, 8)
    assert single.fetch("g") == then
    single.restore("g", 4)
    assert offsets(single.fetch("g")) == {0: 100, 1: 101, 2: 102, 3: 103}


def test_a_log_offset_inside_a_compressed_set_of_messages_is_refused(old):
    with old("0.10.2.2-snappy") as store:
        refused = []
        for group in store.groups():
            for at in range(store._core.partition(store._core.number_of(group)).log_facts()["end"]):
                try:
                    store.fetch(group, at=at)
                except errors.HistoryError:
                    continue
                except errors.InsideCommitError as failure:
                    refused.append((failure.before, at, failure.after))
        assert refused
        assert all(before < at < after for before, at, after in refused)


def test_milliseconds_are_no_log_offset(single):
    single.commit("g", {KEYS[0]: 1})
    timestamp = single.history("g", *KEYS[0])[0].timestamp
    with pytest.raises(errors.OffsetOutOfRangeError, match=rf"pass milliseconds .* str\({timestamp}\) or as a date"):
        single.restore("g", timestamp)
    assert single.restore("g", str(timestamp)) == []
    with pytest.raises(errors.OffsetOutOfRangeError) as raised:
        single.restore("g", 99)
    assert "milliseconds" not in raised.value.message


@pytest.mark.parametrize("name", ["0.8.2.2", "0.9.0.1-lz4", "upgraded-compacted"])
def test_records_without_times_match_no_time(old, name):
    with old(name) as store:
        groups = store.groups()
        refused = 0
        for group in groups:
            for at in ("-3000d", "-90d"):
                try:
                    assert store.fetch(group, at=at) == {}
                except errors.HistoryError as failure:
                    refused += 1
                    with pytest.raises(errors.HistoryError):
                        store.restore(group, at, dry_run=True)
                    if failure.oldest is not None:
                        store.fetch(group, at=failure.oldest)
            assert store.fetch(group, at=datetime.now(UTC)) == store.fetch(group)
        assert refused > 0
        with pytest.raises(errors.HistoryError) as raised:
            store.diff("-90d")
        assert raised.value.oldest is not None or "have no timestamps" in str(raised.value)


@pytest.mark.parametrize("name", ["0.9.0.1-lz4", "upgraded-compacted"])
def test_no_time_is_unknown_and_not_1969(old, name):
    with old(name) as store:
        cleaned = 0
        for group in store.groups():
            for key in store.fetch(group):
                history = store.history(group, *key)
                if history.complete_from > 0:
                    cleaned += 1
                    assert history.complete_since is None or history.complete_since > datetime(2020, 1, 1, tzinfo=UTC)
        assert cleaned > 0


@pytest.mark.parametrize("name", ["2.8.2-zstd", "upgraded-compacted", "1.1.1-lz4"])
def test_the_oldest_time_that_is_named_is_one_of_all_log_partitions(old, name):
    with old(name) as store:
        for at in ("-3000d", "-90d"):
            try:
                store.diff(at)
            except errors.HistoryError as failure:
                store.diff(failure.oldest)
                store.to_arrow(at=failure.oldest)


def test_the_oldest_time_is_that_of_the_shortest_history_of_all(path):
    groups = {partition_for(f"g{number}".encode(), 2): f"g{number}" for number in range(9)}
    with opened(path, partitions=2) as store:
        # At the log's beginning the state of the second log partition is known, and later it is not.
        store.commit(groups[1], {TopicPartition("kept", 0): 1})
        fill(store, 300, groups[0])
        store.compact()
        fill(store, 5, groups[0])
        moment()
        fill(store, 300, groups[1])
        store.compact()
        fill(store, 5, groups[1])
        with pytest.raises(errors.HistoryError) as raised:
            store.diff("-1d")
        assert raised.value.log_partition == 1
        assert f"the lowest log offset that can be asked for is offset:{raised.value.floor}" in str(raised.value)
        assert raised.value.log_offset is None
        store.diff(raised.value.oldest)
        store.to_arrow(at=raised.value.oldest)
        with pytest.raises(errors.HistoryError):
            store.diff(raised.value.oldest - timedelta(milliseconds=1))
        with pytest.raises(errors.HistoryError) as again:
            store.to_arrow(at="-1d")
        assert again.value.oldest == raised.value.oldest
        assert store.fetch(groups[1], at=f"offset:{raised.value.floor}")
