"""Bringing back what was committed: what is written, and what keeps it from being written."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from conformance import oracle

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition, errors
from offsetlog._native import timeline as native
from offsetlog.history.restore import TRIES

from .test_history import KEYS, SMALL, fill, moment, offsets, opened


@pytest.fixture
def single(path):
    with opened(path) as store:
        yield store


def end_of(store) -> int:
    return store._core.attached()[0].log_facts()["end"]


def batches_from(store, path, start: int) -> list[oracle.Batch]:
    return [batch for segment in oracle.read_log(path) for batch in segment.batches if batch.base_offset >= start]


def plain(value):
    return None if value is None else value[:3]


# -------------------------------------------------------------------------------------------------------------- restore


def test_a_group_is_again_what_it_was(single, path):
    single.commit("g", {KEYS[0]: OffsetAndMetadata(1, "one", 4), KEYS[1]: 2, KEYS[2]: 3})
    single.commit("h", {KEYS[0]: 77})
    then = moment()
    before = single.fetch("g")
    single.commit("g", {KEYS[0]: 10, KEYS[3]: 11})
    single.delete("g", [KEYS[1]])
    now = single.fetch("g")
    end = end_of(single)
    would = single.restore("g", then, dry_run=True)
    assert end_of(single) == end
    done = single.restore("g", then)
    assert [(each.partition, plain(each.before), plain(each.after)) for each in done] == [
        (0, (10, "", -1), (1, "one", 4)),
        (1, None, (2, "", -1)),
        (3, (11, "", -1), None),
    ]
    assert [(each[:4], plain(each.after)) for each in would] == [(each[:4], plain(each.after)) for each in done]
    assert {key: value[:3] for key, value in single.fetch("g").items()} == {
        key: value[:3] for key, value in before.items()
    }
    # One batch of all that changed, and nothing of what did not.
    written = batches_from(single, path, end)
    assert [(batch.base_offset, len(batch.records)) for batch in written] == [(end, 3)]
    # It is a commit of now.
    assert single.fetch_one("g", "t", 0).commit_timestamp == done[0].after.commit_timestamp == written[0].max_timestamp
    assert all(each.after.commit_timestamp == -1 for each in would if each.after is not None)
    assert single.restore("g", then) == []
    assert end_of(single) == end + 3
    assert single.fetch_one("h", "t", 0).offset == 77
    # The past is not changed, so that this can be undone as well.
    single.restore("g", end)
    assert {key: value[:3] for key, value in single.fetch("g").items()} == {
        key: value[:3] for key, value in now.items()
    }
    assert single.verify() == []


def test_what_is_restored_survives_a_restart(path):
    with opened(path, durability="disk") as store:
        store.commit("g", {KEYS[0]: 1})
        store.commit("g", {KEYS[0]: 2, KEYS[1]: 3})
        store.restore("g", 1)
        assert store._core.attached()[0].log_facts()["flushed"] == end_of(store)
    with opened(path) as store:
        assert offsets(store.fetch("g")) == {0: 1}


def test_only_some_positions(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    single.commit("g", {KEYS[0]: 10, KEYS[1]: 20, KEYS[2]: 30})
    assert [each.partition for each in single.restore("g", 2, [KEYS[0], KEYS[5]])] == [0]
    assert offsets(single.fetch("g")) == {0: 1, 1: 20, 2: 30}
    assert [each.partition for each in single.restore("g", 2, [KEYS[2]])] == [2]
    assert offsets(single.fetch("g")) == {0: 1, 1: 20}
    assert single.restore("g", 2, []) == []


def test_a_group_that_was_deleted_comes_back(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    single.delete("g")
    assert len(single.restore("g", 2)) == 2
    assert offsets(single.fetch("g")) == {0: 1, 1: 2}
    assert len(single.restore("g", 0, delete_all=True)) == 2
    assert single.fetch("g") == {}


def test_a_restore_names_the_moment_that_undoes_it(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    single.delete("g", [KEYS[1]])
    single.commit("g", {KEYS[0]: 3})
    end = end_of(single)
    assert single.restore("g", 2, dry_run=True).undo_at is None
    restored = single.restore("g", 2)
    assert (len(restored), restored.undo_at) == (2, end)
    assert single.restore("g", 2) == []
    assert single.restore("g", 2).undo_at is None
    single.restore("g", restored.undo_at)
    assert offsets(single.fetch("g")) == {0: 3}


def test_times_of_expiry_that_have_passed_do_not_come_back(path):
    with opened(path, config=StoreConfig(write_offset_value_v4="always")) as store:
        future = int((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1000)
        topic_id = UUID(int=5)
        values = {
            KEYS[0]: OffsetAndMetadata(1, expire_timestamp=5),
            KEYS[1]: OffsetAndMetadata(2, expire_timestamp=future),
            KEYS[2]: OffsetAndMetadata(3, topic_id=topic_id),
        }
        store.commit("g", values)
        store.delete("g")
        store.restore("g", 3)
        found = store.fetch("g")
        assert [found[key].expire_timestamp for key in KEYS[:3]] == [-1, future, -1]
        assert found[KEYS[2]].topic_id == topic_id


def test_what_no_caller_could_commit_is_restored_as_it_was(path):
    # Kafka stores negative offsets, and topics that are no UTF-8; what a log held may be in it again.
    single = opened(path)
    single.commit("g", {KEYS[0]: 1})
    partition = single._core.attached()[0]
    now = native.GroupNow(partition, "g")
    value = (-(2**63), -2, b"\xff", -1, -1, None, -1)
    assert now.commit(partition, "g", [(b"\xfe", 0, value)]) is not None
    end = end_of(single)
    single.delete("g")
    single.restore("g", end)
    rows = native.GroupNow(partition, "g").rows
    assert rows[b"\xfe", 0][:3] == (-(2**63), -2, b"\xff")
    single.close()


def test_members_and_open_transactions_stay(single):
    single.commit("g", {KEYS[0]: 1})
    single.commit("g", {KEYS[0]: 2})
    transaction = single.transaction("g", 7).__enter__()
    transaction.commit({KEYS[0]: 50, KEYS[1]: 60})
    single.restore("g", 1)
    assert offsets(single.fetch("g")) == {0: 1}
    transaction.commit({KEYS[2]: 70})
    transaction.__exit__(None, None, None)
    # The restored value is newer than the one that the transaction had by then.
    assert offsets(single.fetch("g")) == {0: 1, 1: 60, 2: 70}


def test_a_large_group_is_restored_at_once(path):
    config = StoreConfig(segment_bytes=64 << 10, batch_bytes_max=16 << 10)
    with opened(path, config=config) as store:
        many = {TopicPartition("t", number): number for number in range(2000)}
        store.commit("g", many)
        end = end_of(store)
        store.commit("g", dict.fromkeys(many, 7))
        written_at = end_of(store)
        restored = store.restore("g", end)
        # The commit does not fit one batch, so it is a transaction.
        assert (len(restored), restored.undo_at) == (1999, written_at)
        assert offsets(store.fetch("g")) == {number: number for number in range(2000)}
        assert store.restore("g", restored.undo_at, dry_run=True).undo_at is None
        assert len(store.restore("g", restored.undo_at)) == 1999
        assert offsets(store.fetch("g")) == dict.fromkeys(range(2000), 7)
        store.restore("g", end)
        # Deletions take effect at once, so that they cannot be spread over batches.
        with pytest.raises(errors.TooLargeError, match="restore fewer positions at a time with partitions="):
            store.restore("g", 0, delete_all=True)
        assert offsets(store.fetch("g")) == {number: number for number in range(2000)}
        assert len(store.restore("g", 0, list(many)[:50], delete_all=True)) == 50


def test_others_run_while_a_large_group_is_read(path):
    with opened(path) as store:
        store.commit("g", {TopicPartition("t", number): number for number in range(200_000)})
        partition = store._core.attached()[0]
        past = native.Pasts(partition, "g", [end_of(store)])
        turns = []
        ended = threading.Event()

        def run() -> None:
            while not ended.is_set():
                turns.append(1)
                time.sleep(0)

        thread = threading.Thread(target=run)
        try:
            thread.start()
            for read in (past.rows, lambda: native.GroupNow(partition, "g").rows):
                turns_before = len(turns)
                rows = read()
                assert len(turns) - turns_before >= 5
                assert len(rows) == 200_000
                assert rows[b"t", 77][0] == 77
        finally:
            ended.set()
            thread.join()


def test_who_commits_meanwhile_is_not_overwritten_unseen(single, monkeypatch):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 1})
    single.commit("g", {KEYS[0]: 2})
    seen = []

    class Slow:
        """A group whose members commit between reading and writing, twice."""

        def __init__(self, partition, group):
            self.now = native.GroupNow(partition, group)
            self.rows = self.now.rows

        def commit(self, partition, group, changes):
            if len(seen) < 2:
                seen.append(changes)
                single.commit("g", {KEYS[1]: 100 + len(seen)})
            return self.now.commit(partition, group, changes)

    monkeypatch.setattr("offsetlog.history.restore.native", type("", (), {"GroupNow": Slow}))
    changes = single.restore("g", 2)
    assert [(each.partition, each.before.offset, each.after.offset) for each in changes] == [(0, 2, 1), (1, 102, 1)]
    assert offsets(single.fetch("g")) == {0: 1, 1: 1}


def test_a_group_that_never_stops_committing(single, monkeypatch):
    single.commit("g", {KEYS[0]: 1})
    single.commit("g", {KEYS[0]: 2})
    tries = []

    class Never:
        rows = native.GroupNow(single._core.attached()[0], "g").rows

        def __init__(self, partition, group):
            tries.append(group)

        def commit(self, partition, group, changes):
            return None

    monkeypatch.setattr("offsetlog.history.restore.native", type("", (), {"GroupNow": Never}))
    with pytest.raises(errors.ConditionError, match="stop the consumers of the group first") as raised:
        single.restore("g", 1)
    assert raised.value.group == "g"
    assert len(tries) == TRIES


def test_restores_among_commits_are_whole(path):
    # Whoever looks sees a state that was committed as a whole.
    with opened(path) as store:
        for number in range(5):
            store.commit("g", dict.fromkeys(KEYS, number))
        ended = threading.Event()
        torn = []

        def look():
            while not ended.is_set():
                found = set(offsets(store.fetch("g")).values())
                if len(found) != 1:
                    torn.append(found)

        def commit():
            number = 10
            while not ended.is_set():
                number += 1
                store.commit("g", dict.fromkeys(KEYS, number))
                ended.wait(0.001)

        threads = [threading.Thread(target=look), threading.Thread(target=commit)]
        for thread in threads:
            thread.start()
        for turn in range(200):
            store.restore("g", 6 * (turn % 5 + 1))
        ended.set()
        for thread in threads:
            thread.join()
        assert not torn
        assert store.verify() == []


def test_a_read_only_store_can_only_say_what_it_would_do(path):
    with opened(path) as store:
        store.commit("g", {KEYS[0]: 1})
        store.delete("g")
    with opened(path, read_only=True) as store:
        assert [each.after.offset for each in store.restore("g", 1, dry_run=True)] == [1]
        assert [each.after.offset for each in store.undelete("g", dry_run=True).restored] == [1]
        for call in (lambda: store.restore("g", 1), lambda: store.undelete("g")):
            with pytest.raises(errors.ReadOnlyError):
                call()


# ------------------------------------------------------------------------------------------------------------- undelete


def test_deleted_positions_come_back_with_their_last_values(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3})
    single.commit("g", {KEYS[1]: OffsetAndMetadata(22, "last")})
    single.delete("g", [KEYS[0]])
    then = moment()
    single.delete("g", [KEYS[1]])
    assert single.undelete("g", since=then, dry_run=True).restored[0].partition == 1
    assert offsets(single.fetch("g")) == {2: 3}
    done = single.undelete("g")
    assert [(each.partition, each.before, plain(each.after)) for each in done.restored] == [
        (0, None, (1, "", -1)),
        (1, None, (22, "last", -1)),
    ]
    assert done.lost == []
    assert offsets(single.fetch("g")) == {0: 1, 1: 22, 2: 3}
    assert single.undelete("g") == ([], [])
    assert single.deletions() == []


def test_undelete_leaves_alone_what_is_there(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    single.delete("g")
    single.commit("g", {KEYS[0]: 100})
    assert [each.partition for each in single.undelete("g").restored] == [1]
    assert offsets(single.fetch("g")) == {0: 100, 1: 2}


def test_undelete_some_and_of_a_moment(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    single.commit("g", {KEYS[0]: 10})
    single.delete("g")
    assert [each.after.offset for each in single.undelete("g", [KEYS[0]], at=2).restored] == [1]
    assert [each.after.offset for each in single.undelete("g", [KEYS[1], KEYS[5]]).restored] == [2]
    assert offsets(single.fetch("g")) == {0: 1, 1: 2}


def test_what_was_cleaned_away_is_reported_as_lost(single):
    single.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    single.delete("g", [KEYS[0]])
    fill(single, 200, "h")
    single.compact()
    single.delete("g", [KEYS[1]])
    done = single.undelete("g")
    assert [(each.partition, each.after.offset) for each in done.restored] == [(1, 2)]
    assert [(each.partition, each.last, each.recoverable) for each in done.lost] == [(0, None, False)]
    assert offsets(single.fetch("g")) == {1: 2}
    # Asked for others, it is nobody's loss.
    assert single.undelete("g", [KEYS[1]]) == ([], [])


def test_what_expired_comes_back(path):
    with offsetlog.open(
        path,
        partitions=1,
        durability="process",
        config=SMALL,
        maintenance=MaintenanceConfig(enabled=False, retention_ms=1000),
    ) as store:
        old = int((datetime.now(UTC) - timedelta(days=1)).timestamp() * 1000)
        store.commit("g", {KEYS[0]: OffsetAndMetadata(1, commit_timestamp=old), KEYS[1]: 2})
        store.expire()
        assert offsets(store.fetch("g")) == {1: 2}
        assert [each.last.offset for each in store.deletions("g")] == [1]
        store.undelete("g")
        # It counts as committed now, so that it does not expire at once.
        store.expire()
        assert offsets(store.fetch("g")) == {0: 1, 1: 2}
