"""The past that a store reports, and the part that it refuses to report."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from conformance.kafka_answers import read_offsets
from conformance.scenarios import SCENARIOS, Scenario

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition, errors
from offsetlog._native import timeline as native
from offsetlog._native.codec import partition_for
from offsetlog._native.files import FileSystem
from offsetlog.directory.history_floor import FLOOR_FILE, cutoff_offset
from offsetlog.directory.log_directory import CLEANER_POINTS, LogDirectory
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.lifecycle.partition_opener import PartitionOpener

from .past_reference import PastReference, values_of

KEYS = [TopicPartition("t", number) for number in range(6)]
SMALL = StoreConfig(segment_bytes=16 << 10)
BY_HAND = MaintenanceConfig(enabled=False)


def opened(path: Path, **options) -> OffsetStore:
    options = {"partitions": 1, "durability": "process", "config": SMALL, "maintenance": BY_HAND, **options}
    return offsetlog.open(path, **options)


@pytest.fixture
def single(path):
    with opened(path) as store:
        yield store


def moment() -> datetime:
    """A time that all records until now are not younger than, and all later ones are."""
    now = datetime.now(UTC)
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)
    while datetime.now(UTC) < now + timedelta(milliseconds=2):
        time.sleep(0.0005)
    return now + timedelta(milliseconds=1, microseconds=500)


def offsets(found) -> dict[int, int]:
    return {key.partition: value.offset for key, value in found.items()}


# -------------------------------------------------------------------------------------------------------------- history


def test_every_record_of_a_position_is_reported_oldest_first(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 10})
    single.commit("g", {KEYS[0]: OffsetAndMetadata(2, "why", 7)})
    single.commit("other", {KEYS[0]: 99})
    single.commit("g", {TopicPartition("tt", 0): 98})
    single.delete("g", [KEYS[0]])
    single.commit("g", {KEYS[0]: 3})
    found = single.history("g", "t", 0)
    assert [entry.log_offset for entry in found] == [0, 2, 5, 6]
    assert [entry.kind for entry in found] == ["commit", "commit", "delete", "commit"]
    assert [entry.value and entry.value.offset for entry in found] == [1, 2, None, 3]
    assert found[1].value[:3] == (2, "why", 7)
    assert found[1].timestamp == found[1].value.commit_timestamp > 0
    assert [entry.effective_at for entry in found] == [0, 2, 5, 6]
    assert all(entry.outcome == "plain" and entry.marker_offset is None for entry in found)
    assert all((entry.producer_id, entry.producer_epoch) == (-1, -1) for entry in found)
    assert (found.log_partition, found.end, found.problems) == (0, 7, 0)
    assert (found.complete_from, found.complete_since) == (0, None)
    assert len(found) == 4
    assert found[-1] in found
    assert found[1:3] == found.entries[1:3]


def test_the_outcome_of_transactions(single):
    with single.transaction("g", 7, 3) as transaction:
        transaction.commit({KEYS[0]: 1})
        transaction.commit({KEYS[0]: 2})
    with single.transaction("g", 8) as transaction:
        transaction.commit({KEYS[0]: 3})
        transaction.abort()
    transaction = single.transaction("g", 9).__enter__()
    transaction.commit({KEYS[0]: 4})
    found = single.history("g", "t", 0)
    assert [entry.outcome for entry in found] == ["committed", "committed", "aborted", "open"]
    assert [entry.marker_offset for entry in found] == [2, 2, 4, None]
    # The last value of one transaction counts, from the marker on.
    assert [entry.effective_at for entry in found] == [None, 2, None, None]
    assert [(entry.producer_id, entry.producer_epoch) for entry in found] == [(7, 3), (7, 3), (8, 0), (9, 0)]
    transaction.abort()
    assert single.history("g", "t", 0)[-1].outcome == "aborted"


def test_what_came_before_the_end_of_a_transaction_wins(single):
    with single.transaction("g", 7) as transaction:
        transaction.commit({KEYS[0]: 1, KEYS[1]: 1})
        single.commit("g", {KEYS[0]: 50})
        single.delete("g", [KEYS[1]])
    assert [entry.effective_at for entry in single.history("g", "t", 0)] == [None, 2]
    assert [entry.effective_at for entry in single.history("g", "t", 1)] == [None, 3]
    assert [entry.outcome for entry in single.history("g", "t", 1)] == ["committed", "plain"]


def test_a_transaction_of_another_position_says_nothing(single):
    for number in range(5):
        with single.transaction("h", number) as transaction:
            transaction.commit({KEYS[0]: number})
    single.commit("g", {KEYS[0]: 1})
    assert len(single.history("g", "t", 0)) == 1


def test_nothing_is_reported_where_nothing_was(single, path):
    assert single.history("g", "t", 0).entries == ()
    single.commit("g", {KEYS[0]: 1})
    assert single.history("g", "t", 1).entries == ()
    assert single.history("h", "t", 0).entries == ()
    with offsetlog.open(path.parent / "two", partitions=50, durability="process") as store:
        found = store.history("g", "t", 0)
        assert (found.entries, found.log_partition) == ((), partition_for("g", 50))
        assert store.fetch("g", at=datetime.now(UTC)) == {}
        assert store.diff(None, None) == store.deletions() == []
        assert store.restore("g", 0) == []
        assert store.undelete("g") == ([], [])


def test_a_value_in_every_field(path):
    from uuid import UUID

    with opened(path, config=StoreConfig(write_offset_value_v4="always")) as store:
        topic_id = UUID(int=7)
        value = OffsetAndMetadata(5, "é𝄞", 3, 1234, topic_id=topic_id)
        store.commit("grüppe", {TopicPartition("tøpic", 9): value})
        store.commit("grüppe", {TopicPartition("tøpic", 9): OffsetAndMetadata(6, "", -1, 1235, expire_timestamp=99)})
        assert [entry.value for entry in store.history("grüppe", "tøpic", 9)] == [value, (6, "", -1, 1235, 99, None)]
        assert store.fetch("grüppe", at=1) == {TopicPartition("tøpic", 9): value}


# ------------------------------------------------------------------------------------------------------------- a moment


def test_the_state_at_a_log_offset(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3})
    single.commit("g", {KEYS[0]: 4})
    single.delete("g", [KEYS[1]])
    assert single.fetch("g", at=0) == {}
    assert offsets(single.fetch("g", at=3)) == {0: 1, 1: 2, 2: 3}
    assert offsets(single.fetch("g", at=4)) == {0: 4, 1: 2, 2: 3}
    assert offsets(single.fetch("g", at=5)) == {0: 4, 2: 3}
    assert single.fetch("g", at=5) == single.fetch("g")
    assert offsets(single.fetch("g", [KEYS[2], KEYS[1], KEYS[5]], at=4)) == {2: 3, 1: 2}
    assert list(single.fetch("g", [KEYS[2], KEYS[1]], at=4)) == [KEYS[2], KEYS[1]]
    assert single.fetch("other", at=5) == {}


def test_a_transaction_counts_from_its_marker_on(single):
    single.commit("g", {KEYS[0]: 1})
    with single.transaction("g", 7) as transaction:
        transaction.commit({KEYS[0]: 2, KEYS[1]: 3})
    assert [offsets(single.fetch("g", at=at)) for at in (0, 1, 3, 4)] == [{}, {0: 1}, {0: 1}, {0: 2, 1: 3}]


def test_the_state_at_a_time(single):
    before = moment()
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    first = moment()
    single.commit("g", {KEYS[0]: 3})
    second = moment()
    single.delete("g", [KEYS[1]])
    assert single.fetch("g", at=before) == {}
    assert offsets(single.fetch("g", at=first)) == {0: 1, 1: 2}
    assert offsets(single.fetch("g", at=second)) == {0: 3, 1: 2}
    assert single.fetch("g", at=datetime.now(UTC)) == single.fetch("g")
    assert single.fetch("g", at=datetime.min.replace(tzinfo=UTC)) == {}
    # Any zone does.
    assert single.fetch("g", at=second.astimezone(timezone(timedelta(hours=-7)))) == single.fetch("g", at=second)


def test_a_time_is_not_later_than_its_own_millisecond(single):
    single.commit("g", {KEYS[0]: 1})
    stamp = single.history("g", "t", 0)[0].timestamp
    exact = datetime.fromtimestamp(stamp / 1000, UTC)
    exact = exact.replace(microsecond=stamp % 1000 * 1000)
    assert offsets(single.fetch("g", at=exact)) == {0: 1}
    assert offsets(single.fetch("g", at=exact + timedelta(microseconds=999))) == {0: 1}
    assert single.fetch("g", at=exact - timedelta(microseconds=1)) == {}


@pytest.mark.parametrize(
    ("at", "error"),
    [
        (datetime(2026, 1, 1), errors.InvalidArgumentError),  # noqa: DTZ001
        (True, errors.ArgumentTypeError),
        (1.5, errors.ArgumentTypeError),
        (b"2026-01-01", errors.ArgumentTypeError),
        ("soon", errors.InvalidArgumentError),
        ("offset:9999999999999999999", errors.ConfigError),
        ("offset:99", errors.OffsetOutOfRangeError),
        (-1, errors.ConfigError),
        (2**63, errors.ConfigError),
        (99, errors.OffsetOutOfRangeError),
    ],
)
def test_what_is_no_moment(single, at, error):
    single.commit("g", {KEYS[0]: 1})
    for call in (
        lambda: single.fetch("g", at=at),
        lambda: single.diff(at, None, "g"),
        lambda: single.diff(None, at, "g"),
        lambda: single.restore("g", at),
        lambda: single.undelete("g", at=at),
    ):
        with pytest.raises(error):
            call()


def test_a_key_names_the_position(single):
    single.commit("g", {KEYS[0]: 1})
    assert single.history("g", KEYS[0]) == single.history("g", *KEYS[0]) == single.history("g", tuple(KEYS[0]))
    for arguments in (("t",), (KEYS[0], 0), (7,), (["t", 0],)):
        with pytest.raises(errors.ArgumentTypeError):
            single.history("g", *arguments)


def test_other_arguments_that_are_refused(single):
    single.commit("g", {KEYS[0]: 1})
    with pytest.raises(errors.ArgumentTypeError):
        single.fetch("g", KEYS[0], at=0)
    with pytest.raises(errors.TopicError):
        single.fetch("g", [TopicPartition("", 0)], at=0)
    with pytest.raises(errors.GroupError):
        single.fetch("\ud800", at=0)
    with pytest.raises(errors.PartitionError):
        single.history("g", "t", -1)
    with pytest.raises(errors.InvalidArgumentError, match="name a group"):
        single.diff(0)
    with pytest.raises(errors.InvalidArgumentError, match="time zone"):
        single.deletions(since=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(errors.InvalidArgumentError, match="only one"):
        single.undelete("g", at=0, since=datetime.now(UTC))


def test_a_closed_store_tells_nothing(path):
    store = opened(path)
    store.close()
    for call in (
        lambda: store.history("g", "t", 0),
        lambda: store.fetch("g", at=0),
        lambda: store.diff(None),
        lambda: store.restore("g", 0),
        store.deletions,
        lambda: store.undelete("g"),
    ):
        with pytest.raises(errors.ClosedError):
            call()


# ----------------------------------------------------------------------------------------------------------------- diff


def test_what_changed_between_two_moments(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3})
    single.commit("h", {KEYS[0]: 9})
    then = moment()
    single.commit("g", {KEYS[0]: 4, KEYS[3]: 5})
    single.commit("g", {KEYS[2]: 3})  # again, and no change
    single.delete("g", [KEYS[1]])
    single.commit("h", {KEYS[0]: OffsetAndMetadata(9, "now with metadata")})
    found = single.diff(then)
    told_here = [
        (each.group, each.partition, each.before and each.before.offset, each.after and each.after.offset)
        for each in found
    ]
    assert told_here == [("g", 0, 1, 4), ("g", 1, 2, None), ("g", 3, None, 5), ("h", 0, 9, 9)]
    assert found[-1].after.metadata == "now with metadata"
    assert single.diff(then, group="h") == found[-1:]
    assert single.diff(then, None) == found
    backwards = single.diff(None, then)
    assert [(each[:3], each.before, each.after) for each in backwards] == [
        (each[:3], each.after, each.before) for each in found
    ]
    assert single.diff(then, then) == single.diff(None) == []
    assert single.diff(4, None, "g") == [each for each in found if each.group == "g"]
    assert single.diff(0, 4, "g")[0].before is None


# ------------------------------------------------------------------------------------------------------------ deletions


def test_deletions_with_what_they_took(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3})
    single.commit("g", {KEYS[1]: OffsetAndMetadata(22, "last")})
    single.delete("g", [KEYS[1]])
    then = moment()
    single.delete("g", [KEYS[2]])
    single.delete("g", [KEYS[0]])
    single.commit("g", {KEYS[0]: 4})
    single.commit("h", {KEYS[0]: 5})
    single.delete("h")
    found = single.deletions()
    assert [(each.group, each.partition, each.log_offset, each.last_log_offset) for each in found] == [
        ("g", 1, 4, 3),
        ("g", 2, 5, 2),
        ("h", 0, 9, 8),
    ]
    assert found[0].last[:2] == (22, "last")
    assert all(each.recoverable and each.log_partition == 0 and each.timestamp > 0 for each in found)
    assert single.deletions("h") == found[2:]
    assert single.deletions(since=then) == found[1:]
    assert single.deletions("nobody") == []


def test_only_what_was_committed_can_come_back(single):
    single.commit("g", {KEYS[0]: 1})
    with single.transaction("g", 7) as transaction:
        transaction.commit({KEYS[0]: 2, KEYS[1]: 3})
        single.delete("g", [KEYS[0], KEYS[1]])
    found = single.deletions()
    assert [(each.partition, each.last and each.last.offset) for each in found] == [(0, 1), (1, None)]
    assert single.undelete("g").lost == found[1:]


# -------------------------------------------------------------------------------------------------------------- cleaned


def fill(store: OffsetStore, times: int = 1000, group: str = "g", keys: int = 4) -> None:
    for number in range(times):
        store.commit_one(group, "t", number % keys, number)


def floor_of(store: OffsetStore) -> int:
    with pytest.raises(errors.HistoryError) as raised:
        store.fetch("g", at=1)
    return raised.value.floor


def test_what_was_cleaned_is_not_guessed(single, path):
    fill(single, 500)
    early = moment()
    fill(single, 500)
    assert offsets(single.fetch("g", at=early)) == {0: 496, 1: 497, 2: 498, 3: 499}
    single.compact()
    late = moment()
    with pytest.raises(errors.HistoryError, match="; only the present state is known"):
        single.fetch("g", at=early)
    fill(single, 10)
    with pytest.raises(errors.HistoryError, match="were cleaned away; the oldest time that can be") as raised:
        single.fetch("g", at=early)
    failure = raised.value
    assert (failure.log_partition, failure.floor) == (0, 1000)
    assert failure.path == str(path / "__consumer_offsets-0")
    assert early < failure.oldest < late
    # The oldest time is one that can be asked for, and the one before it is not.
    assert single.fetch("g", at=1000) == single.fetch("g", at=failure.oldest) == single.fetch("g", at=late)
    assert offsets(single.fetch("g", at=late)) == {0: 496, 1: 497, 2: 498, 3: 499}
    with pytest.raises(errors.HistoryError):
        single.fetch("g", at=999)
    with pytest.raises(errors.HistoryError):
        single.fetch("g", at=failure.oldest - timedelta(milliseconds=1))
    for call in (
        lambda: single.diff(early),
        lambda: single.diff(None, early),
        lambda: single.restore("g", early),
        lambda: single.undelete("g", at=early),
    ):
        with pytest.raises(errors.HistoryError):
            call()
    found = single.history("g", "t", 0)
    assert [entry.value.offset for entry in found] == [496, 0, 4, 8]
    assert (found.complete_from, found.complete_since) == (1000, failure.oldest)


def test_nobody_knows_on_which_side_of_a_time_was_what_is_gone(single):
    # The first batch is gone altogether; of the last one its frame stays, with its time.
    single.commit("g", {KEYS[0]: 1})
    first = moment()
    single.delete("g", [KEYS[0]])
    second = moment()
    single.compact(delete_retention_ms=0)
    single.compact(again=True, delete_retention_ms=0)
    third = moment()
    single.commit("g", {KEYS[1]: 2})
    assert len(single.history("g", "t", 0)) == 0
    with pytest.raises(errors.HistoryError):
        single.fetch("g", at=first)
    assert single.fetch("g", at=second) == single.fetch("g", at=third) == {}
    assert offsets(single.fetch("g", at=moment())) == {1: 2}
    assert single.fetch("g", at=2) == {}


def test_below_what_is_missing_everything_is_known(single):
    for key, offset in ((KEYS[5], 7), (KEYS[4], 8)):  # nothing supersedes them, so that they stay
        single.commit("g", {key: offset})
    fill(single)
    single.compact()
    assert offsets(single.fetch("g", at=1)) == {5: 7}
    assert offsets(single.fetch("g", at=2)) == {5: 7, 4: 8}
    with pytest.raises(errors.HistoryError):
        single.fetch("g", at=3)


def test_a_log_of_which_nothing_went_has_no_floor(single):
    for number in range(1000):
        single.commit_one("g", "t", number, number)
    reports = single.compact()
    assert reports[0].superseded == 0
    assert len(single.fetch("g", at=500)) == 500
    assert single.history("g", "t", 3).complete_from == 0


def spanning(store: OffsetStore) -> tuple[int, int]:
    """Leaves a transaction that begins in a closed segment and ends in the newest; returns both places."""
    store.commit("g", {KEYS[0]: 1})
    transaction = store.transaction("g", 7).__enter__()
    transaction.commit({KEYS[0]: 2})
    fill(store, 300, "h")
    transaction.__exit__(None, None, None)
    end = store._core.attached()[0].log_facts()["end"]
    fill(store, 10, "h")
    return 1, end


def test_a_transaction_that_was_open_where_cleaning_ended(path):
    # It supersedes values only at its end, which lies after the cleaned part.
    with opened(path) as store:
        _, end = spanning(store)
        floor = store.compact(roll=False)[0].floor
        assert 100 < floor < end
        for at in (floor, end - 1):
            assert offsets(store.fetch("g", at=at)) == {0: 1}
        assert store.history("g", "t", 0).complete_from == floor
    # Kafka's cleaner does not wait for the end: its checkpoint promises too much.
    LogDirectory(path, FileSystem()).write_checkpoint(CLEANER_POINTS, {0: floor + 1})
    with opened(path, read_only=True) as store:
        for at in (floor + 1, end - 1):
            with pytest.raises(errors.HistoryError) as raised:
                store.fetch("g", at=at)
            assert raised.value.floor == end
        assert offsets(store.fetch("g", at=end)) == {0: 2}
        assert store.history("g", "t", 0).complete_from == floor + 1


def test_a_history_that_is_kept_begins_with_the_transactions_that_were_open(path, monkeypatch):
    kept = MaintenanceConfig(enabled=False, min_history_ms=3600_000)
    with opened(path, maintenance=kept) as store:
        first, end = spanning(store)
        partition = store._core.attached()[0]
        native_cutoff = native.cutoff
        monkeypatch.setattr(native, "cutoff", lambda partition, stamp: min(end - 1, native_cutoff(partition, stamp)))
        assert cutoff_offset(partition, 2**62) == first
        store.compact()
        assert offsets(store.fetch("g", at=end - 1)) == {0: 1}


def test_a_tombstone_that_is_gone_leaves_no_lie(single):
    single.commit("g", {KEYS[5]: 5})
    fill(single, 100)
    single.delete("g", [KEYS[5]])
    fill(single)
    single.compact(delete_retention_ms=0)
    assert [each.last for each in single.deletions()] == [None]
    assert [each.partition for each in single.undelete("g").lost] == [5]
    single.compact(again=True, delete_retention_ms=0)
    assert single.deletions() == []
    with pytest.raises(errors.HistoryError):
        single.fetch("g", at=50)


def test_a_history_that_is_kept_can_be_asked_for(path):
    kept = MaintenanceConfig(enabled=False, min_history_ms=3600_000)
    with opened(path, maintenance=kept) as store:
        fill(store)
        store.compact()
        assert offsets(store.fetch("g", at=4)) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_the_history_of_one_group_is_kept(path):
    kept = MaintenanceConfig(enabled=False, min_history={"kept": 3600_000, "team-*": 3600_000})
    with opened(path, maintenance=kept) as store:
        for number in range(500):
            for group in ("g", "kept", "team-1"):
                store.commit_one(group, "t", number % 4, number)
        store.compact()
        for group in ("kept", "team-1"):
            for number in range(0, 500, 37):
                assert max(offsets(store.fetch(group, at=number * 3 + 3)).values()) == number
            assert len(store.history(group, "t", 0)) == 125
            assert store.history(group, "t", 0).complete_from == 0
            assert len(store.diff(3, None, group)) == 4
        floor = floor_of(store)
        assert store.history("g", "t", 0).complete_from == floor > 0
        # All groups together are as old as the youngest of them.
        with pytest.raises(errors.HistoryError):
            store.diff(datetime.now(UTC) - timedelta(hours=1))
    # Nothing of it is kept once a cleaner comes that does not know of it, as Kafka's.
    directory = LogDirectory(path, FileSystem())
    directory.write_checkpoint(CLEANER_POINTS, {0: floor + 1})
    with opened(path, maintenance=kept) as store, pytest.raises(errors.HistoryError):
        store.fetch("kept", at=100)


def test_a_cleaner_that_noted_nothing_is_not_believed_to_have_done_nothing(path):
    with opened(path) as store:
        fill(store)
        then = len(store.history("g", "t", 0))
        store.compact()
        assert len(store.history("g", "t", 0)) < then
    (path / CLEANER_POINTS).unlink()
    (path / "__consumer_offsets-0" / FLOOR_FILE).unlink()
    with pytest.warns(errors.CorruptionWarning, match="the checkpoint is missing"):
        store = opened(path, read_only=True)
    with store:
        newest = store.history("g", "t", 0).complete_from
        assert newest > 100
        assert store.fetch("g", at=newest) == store.fetch("g")
        with pytest.raises(errors.HistoryError):
            store.fetch("g", at=newest - 1)


def test_a_damaged_note_keeps_only_the_present(path):
    with opened(path) as store:
        fill(store)
        store.compact()
        fill(store, 10)
    (path / "__consumer_offsets-0" / FLOOR_FILE).write_text("{")
    with opened(path, read_only=True) as store:
        with pytest.raises(errors.HistoryError, match="only the present") as raised:
            store.fetch("g", at=1005)
        assert raised.value.oldest is None
        assert store.fetch("g", at=1010) == store.fetch("g")


# ------------------------------------------------------------------------------------------------------------ meanwhile


def test_the_past_stays_the_same_while_the_store_runs_and_is_cleaned(path):
    eager = MaintenanceConfig(interval_ms=5, min_cleanable_bytes=0, idle_roll_ms=20)
    ended = threading.Event()
    failures: list[BaseException] = []

    def go_on(store: OffsetStore, group: str) -> None:
        try:
            for number in itertools.count():
                if ended.is_set():
                    return
                store.commit_one(group, "t", number % 4, number)
        except BaseException as failure:
            failures.append(failure)

    # Hundreds of segments, not thousands: the verification at the end keeps a file open for each.
    with opened(path, maintenance=eager, config=StoreConfig(segment_bytes=1 << 20)) as store:
        fill(store, 200)
        threads = [threading.Thread(target=go_on, args=(store, group)) for group in ("g", "h")]
        for thread in threads:
            thread.start()
        refused = answered = 0
        end = time.monotonic() + 5
        while time.monotonic() < end:
            cut = store._core.attached()[0].log_facts()["end"] - (answered + refused) % 200
            try:
                first = store.fetch("g", at=cut)
                assert store.fetch("g", at=cut) == first
                # Commits take turns, so that the offsets of a group lie side by side.
                assert max(offsets(first).values()) - min(offsets(first).values()) == 3
                answered += 1
            except errors.HistoryError:
                refused += 1
        ended.set()
        for thread in threads:
            thread.join()
        assert not failures
        assert answered > 5
        assert store.verify() == []


def test_a_running_store_is_looked_at_by_another_process(path):
    with opened(path) as store:
        fill(store, 500)
        with opened(path, read_only=True) as other:
            assert other.fetch("g", at=100) == store.fetch("g", at=100)
            store.compact()
            fill(store, 10)
            # The old files are gone; known states are reported, and the others refused as gone.
            with pytest.raises(errors.HistoryError):
                other.fetch("g", at=100)
            assert other.fetch("g", at=500) == other.fetch("g")


# --------------------------------------------------------------------------------------------------------------- cutoff


def test_the_cutoff_of_an_open_partition_and_of_a_directory(single, path):
    fill(single, 300)
    then = moment()
    fill(single, 300)
    now = moment()
    partition = single._core.attached()[0]
    directory = path / "__consumer_offsets-0"
    for asked, expected in ((then, 300), (now, 600), (then - timedelta(days=1), 0)):
        stamp = int(asked.timestamp() * 1000)
        assert cutoff_offset(partition, stamp) == cutoff_offset(directory, stamp) == expected
    with pytest.raises(errors.MissingFileError):
        cutoff_offset(path / "nowhere-0", 0)


# ---------------------------------------------------------------------------------------------------------- Kafka's own


def _partitions_of(log: Path) -> int:
    # The number that puts every group where it is.
    directory = LogDirectory(log, FileSystem())
    opened = OpenPartitions(PartitionOpener(directory, StoreConfig(), writable=False))
    opened.open_all(directory.partition_numbers())
    found = {partition.number: partition.groups() for partition in opened.all()}
    opened.abandon()
    fitting = (
        count
        for count in range(max(found) + 1, 1000)
        if all(partition_for(group, count) == number for number, groups in found.items() for group in groups)
    )
    return 50 if max(found) < 50 and not any(found.values()) else next(fitting)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_history_of_real_directories_ends_with_what_the_broker_answered(scenario: Scenario, tmp_path):
    log = tmp_path / "log"
    shutil.copytree(scenario.log, log)
    answers: dict[str, dict[TopicPartition, tuple[int, str, int]]] = {}
    for row in read_offsets(scenario.expected("offsets.tsv")):
        key = TopicPartition(row.topic, row.partition)
        answers.setdefault(row.group, {})[key] = (row.offset, row.metadata, row.leader_epoch)
    with offsetlog.open(log, _partitions_of(log), read_only=True) as store:
        asked = 0
        for group, positions in answers.items():
            if store.fetch(group) == {}:
                continue
            end = store._core.partition(store._core.number_of(group)).log_facts()["applied"]
            for key, (offset, metadata, leader_epoch) in positions.items():
                if asked < 200:
                    entries = [each for each in store.history(group, *key) if each.effective_at is not None]
                    last = max(entries, key=lambda each: each.log_offset)
                    assert last.kind == "commit"
                    assert last.value[:3] == (offset, metadata, leader_epoch)
                asked += 1
            assert values_of(store.fetch(group, at=end)) == positions
            assert values_of(store.fetch(group, at=datetime.now(UTC))) == positions
        assert asked > 0 or not answers
        assert store.diff(None) == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_moments_of_real_directories_are_those_of_their_records(scenario: Scenario, tmp_path):
    """Also within a compressed set of messages; refused moments lie after records that a broker has cleaned away."""
    log = tmp_path / "log"
    shutil.copytree(scenario.log, log)
    count = _partitions_of(log)
    reference = PastReference(log, count)
    reference.note()
    draw = random.Random(scenario.name)
    refusals = []
    with offsetlog.open(log, count, read_only=True) as store:
        groups = draw.sample(store.groups(), min(12, len(store.groups())))
        for group in groups:
            number = store._core.number_of(group)
            there = [entry.record.offset for entry in reference.entries[number] if entry.record is not None]
            missing = [offset for offset in range(reference.end(number)) if offset not in set(there)]
            for cut in draw.sample(range(reference.end(number) + 1), min(8, reference.end(number) + 1)):
                try:
                    found = store.fetch(group, at=cut)
                except errors.HistoryError as failure:
                    refusals.append((cut, failure.floor, missing))
                    continue
                except errors.InsideCommitError:
                    assert reference.is_inside(number, cut)
                    continue
                assert not reference.is_inside(number, cut)
                assert values_of(found) == reference.group(group, cut)
    assert all(missing and missing[0] < cut < floor for cut, floor, missing in refusals)
    assert refusals or scenario.name != "kafka-4.3.0/compacted"
