"""`rewinds`: every committed offset that is lower than the one before it, and nothing else."""

from __future__ import annotations

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition
from offsetlog.errors import StringTooLongError

ORDERS = [TopicPartition("orders", number) for number in range(4)]


def rows(found):
    return [(each.group, each.partition, each.before.offset, each.after.offset, each.log_offset) for each in found]


@pytest.fixture
def store(tmp_path):
    with offsetlog.open(tmp_path / "data", 2, maintenance=MaintenanceConfig(enabled=False)) as opened:
        yield opened


def test_only_what_went_back_is_listed(store):
    store.commit("billing", {ORDERS[0]: 40, ORDERS[1]: 41, ORDERS[2]: 42})
    store.commit("billing", {ORDERS[0]: 50, ORDERS[1]: 41})
    store.commit("billing", {ORDERS[0]: OffsetAndMetadata(0, "by hand", 3), ORDERS[1]: 60})
    store.commit("audit", {ORDERS[0]: 7})
    store.commit("audit", {ORDERS[0]: 5})
    found = store.rewinds(group="billing")
    assert rows(found) == [("billing", 0, 50, 0, 5)]
    assert found[0].after[:3] == (0, "by hand", 3)
    assert found[0].effective_at == found[0].log_offset
    assert found[0].timestamp == store.history("billing", "orders", 0)[-1].timestamp
    assert {each.group for each in store.rewinds()} == {"billing", "audit"}
    assert store.rewinds(group="nobody").entries == found.gaps == ()
    # The moment before is what a restore to its log offset brings back.
    assert store.restore("billing", found[0].log_offset, dry_run=True)
    with pytest.raises(StringTooLongError):
        store.rewinds(group="x" * 40_000)


def test_a_transaction_counts_where_it_is_committed(store):
    store.commit("billing", {ORDERS[0]: 40, ORDERS[1]: 40, ORDERS[2]: 40})
    with store.transaction("billing", 11) as aborted:
        aborted.commit({ORDERS[0]: 1})
        aborted.abort()
    store.transaction("billing", 12).commit({ORDERS[1]: 2})
    with store.transaction("billing", 13) as committed:
        committed.commit({ORDERS[2]: 3})
    [found] = store.rewinds()
    entry = store.history("billing", "orders", 2)[-1]
    assert (found.partition, found.after.offset) == (2, 3)
    assert (found.log_offset, found.effective_at) == (entry.log_offset, entry.marker_offset)
    assert found.log_offset < found.effective_at


def test_a_deletion_hides_nothing(store):
    store.commit("billing", {ORDERS[0]: 40})
    store.delete("billing", [ORDERS[0]])
    assert not store.rewinds()
    store.commit("billing", {ORDERS[0]: 1})
    assert rows(store.rewinds()) == [("billing", 0, 40, 1, 2)]


def test_rewinds_are_in_the_order_of_time_and_can_be_cut(store):
    for group in ("d", "a", "c", "b"):
        store.commit(group, {ORDERS[0]: 9})
    for number, group in enumerate(("d", "a", "c", "b")):
        store.commit(group, {ORDERS[0]: number})
    found = store.rewinds()
    assert rows(store.rewinds(group="a")) == [each for each in rows(found) if each[0] == "a"]
    assert sorted(each.group for each in found) == ["a", "b", "c", "d"]
    assert [each.timestamp for each in found] == sorted(each.timestamp for each in found)
    youngest = str(found[-1].timestamp)
    assert store.rewinds(youngest).entries == tuple(each for each in found if each.timestamp >= found[-1].timestamp)


def test_what_was_cleaned_is_a_gap(tmp_path):
    config = StoreConfig(segment_bytes=16 << 10)
    with offsetlog.open(
        tmp_path / "data", 1, config=config, maintenance=MaintenanceConfig(enabled=False), durability="process"
    ) as store:
        store.commit("billing", {ORDERS[1]: 9})
        store.commit("billing", {ORDERS[1]: 1})
        for number in range(500):
            store.commit_one("billing", "orders", 0, number)
        assert len(store.rewinds()) == 1
        store.compact()
        found = store.rewinds()
        [gap] = found.gaps
        assert (gap.log_partition, gap.start, gap.reason) == (0, 0, "cleaned")
        assert gap.end == store.history("billing", "orders", 0).complete_from
        store.commit("billing", {ORDERS[0]: 2})
        assert rows(store.rewinds()) == [("billing", 0, 499, 2, 502)]
