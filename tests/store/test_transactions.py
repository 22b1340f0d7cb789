from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog._native.codec import partition_for

from .test_open import run_python

KEYS = [TopicPartition("t", number) for number in range(4)]


def offsets(store, group="g"):
    return {key.partition: value.offset for key, value in store.fetch(group).items()}


def test_a_transaction_takes_effect_when_it_is_left(store):
    store.commit("g", {KEYS[0]: 1})
    with store.transaction("g", producer_id=7, producer_epoch=0) as transaction:
        position = transaction.commit({KEYS[0]: 2, KEYS[1]: 3})
        assert position.log_partition == store.commit("g", {KEYS[3]: 9}).log_partition
        transaction.commit({KEYS[2]: 4})
        assert offsets(store) == {0: 1, 3: 9}
    assert offsets(store) == {0: 2, 1: 3, 2: 4, 3: 9}
    assert store.verify() == []


def test_an_exception_aborts(store):
    def interrupted():
        with store.transaction("g", 7) as transaction:
            transaction.commit({KEYS[0]: 2})
            raise KeyError("x")

    with pytest.raises(KeyError):
        interrupted()
    assert offsets(store) == {}
    with store.transaction("g", 7) as transaction:
        transaction.commit({KEYS[0]: 3})
        transaction.abort()
    assert offsets(store) == {}
    with store.transaction("g", 7) as transaction:
        transaction.commit({KEYS[0]: 3})
    assert offsets(store) == {0: 3}


def test_trap_14_a_plain_commit_after_a_pending_one_wins(store):
    with store.transaction("g", 4000, 2) as transaction:
        transaction.commit({KEYS[0]: 50})
        store.commit("g", {KEYS[0]: 60})
    assert offsets(store) == {0: 60}


def test_trap_15_a_tombstone_erases_a_pending_value(store):
    with store.transaction("g", 4000, 2) as transaction:
        transaction.commit({KEYS[0]: 50})
        assert store.delete("g", [KEYS[0]]) == 1
    assert offsets(store) == {}


def test_nothing_written_leaves_nothing(store):
    with store.transaction("g", 7):
        pass
    assert store.groups() == []
    with pytest.raises(errors.TransactionError):
        store.abort_transaction(7)


def test_what_is_refused(store):
    with store.transaction("g", 7, 3) as transaction:
        transaction.commit({KEYS[0]: 1})
        with pytest.raises(errors.TransactionError), store.transaction("g", 7, 3) as second:
            second.commit({KEYS[0]: 2})
    with pytest.raises(errors.TransactionError):
        transaction.commit({KEYS[0]: 2})
    with pytest.raises(errors.FencedError), store.transaction("g", 7, 2) as old:
        old.commit({KEYS[0]: 2})
    with pytest.raises(errors.TransactionError), store.transaction("g", 2**62) as ours:
        ours.commit({KEYS[0]: 2})
    assert offsets(store) == {0: 1}


def test_open_transactions_are_reported(path):
    with offsetlog.open(path, partitions=1, durability="process") as store:
        assert store.transactions() == []
        before = time.time() * 1000 - 1000
        first, second = store.transaction("g", 7, 3), store.transaction("h", 8)
        first.commit({KEYS[0]: 1, KEYS[1]: 2})
        second.commit({KEYS[0]: 1})
        first.commit({KEYS[1]: 3})
        store.commit("g", {KEYS[0]: 9})
        listed = store.transactions()
        assert [entry[:4] for entry in listed] == [(7, 3, 0, 0), (8, 0, 0, 2)]
        assert [entry[5:] for entry in listed] == [(("g",), 1, False), (("h",), 1, False)]
        assert all(before < entry.last_timestamp < time.time() * 1000 + 1000 for entry in listed)
        with offsetlog.open(path, read_only=True) as reader:
            assert reader.transactions() == listed
        second.abort()
        assert [entry.producer_id for entry in store.transactions()] == [7]
        store.delete("g", [KEYS[1]])
        assert store.transactions()[0].positions == 0
    with offsetlog.open(path) as store:
        for entry in store.transactions():
            assert store.abort_transaction(entry.producer_id) == 1
        assert store.transactions() == []


def test_a_garbage_collection_while_transactions_are_listed_may_use_the_store(path):
    with offsetlog.open(path, partitions=1, durability="process") as store, ThreadPoolExecutor(1) as other:
        store.commit("g", {KEYS[0]: 9})
        # More than the free lists of the interpreter hold.
        for producer in range(300):
            store.transaction("g", producer).commit({KEYS[1]: producer, KEYS[2]: producer})
        listed = store.transactions()
        answers = []

        def look(phase: str, facts: dict[str, int]) -> None:
            # A finalizer would wait in this thread, and for ever.
            if phase == "start" and "the state was locked" not in answers:
                try:
                    answers.append(other.submit(store.fetch_one, "g", "t", 0).result(timeout=20).offset)
                except TimeoutError:
                    answers.append("the state was locked")

        threshold = gc.get_threshold()
        gc.callbacks.append(look)
        gc.set_threshold(1)
        try:
            again = store.transactions()
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(look)
        assert again == listed
        assert set(answers) == {9}


@pytest.fixture
def left_open_beside_damage(path):
    """A store of two log partitions, of which 0 is damaged, with producer 7 open in 1, and 8 in both."""
    groups = {partition_for(name, 2): name for name in "abcdefgh"}
    with offsetlog.open(path, partitions=2) as store:
        for number, producer in ((1, 7), (0, 8), (1, 8)):
            store.commit(groups[number], {KEYS[0]: 1})
            store.transaction(groups[number], producer).commit({KEYS[1]: 2})
        store.commit(groups[0], {KEYS[2]: 3})
    segment = path / "__consumer_offsets-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    with pytest.warns(errors.CorruptionWarning):
        store = offsetlog.open(path)
    yield store
    store.close()


def test_damage_elsewhere_does_not_keep_a_transaction_open(left_open_beside_damage):
    store = left_open_beside_damage
    with pytest.raises(errors.TransactionError):
        store.abort_transaction(6)
    assert store.abort_transaction(7) == 1
    assert {(known.producer_id, known.log_partition) for known in store.transactions()} == {(8, 0), (8, 1)}


def test_a_transaction_in_a_damaged_partition_too_is_aborted_where_it_can_be(left_open_beside_damage):
    store = left_open_beside_damage
    with pytest.raises(errors.ReadOnlyError) as caught:
        store.abort_transaction(8)
    assert "aborted in the log partitions that did not fail" in caught.value.__notes__[0]
    assert {(known.producer_id, known.log_partition) for known in store.transactions()} == {(7, 1), (8, 0)}


@pytest.mark.parametrize(
    ("producer_id", "kind"),
    [("7", errors.ArgumentTypeError), (True, errors.ArgumentTypeError), (None, errors.ArgumentTypeError),
     (-1, errors.ConfigError), (2**63, errors.ConfigError)],
)  # fmt: skip
def test_an_id_to_abort_is_checked(store, producer_id, kind):
    with pytest.raises(kind, match="producer_id"):
        store.abort_transaction(producer_id)


@pytest.mark.parametrize("producer", [("7", 0), (True, 0), (1.0, 0), (7, "0")])
def test_ids_of_a_wrong_type(store, producer):
    with pytest.raises(errors.ArgumentTypeError):
        store.transaction("g", *producer)


@pytest.mark.parametrize("producer", [(-1, 0), (2**63, 0), (7, -1), (7, 2**15)])
def test_ids_out_of_range(store, producer):
    with pytest.raises(errors.InvalidArgumentError):
        store.transaction("g", *producer)


def test_a_crash_leaves_it_open_until_it_is_aborted(path):
    code = """
        import os, signal, sys, offsetlog
        store = offsetlog.open(sys.argv[1], durability="process")
        store.commit_one("g", "t", 0, 1)
        transaction = store.transaction("g", 7)
        transaction.commit({("t", 0): 2, ("t", 1): 2})
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run_python(code, path)
    with offsetlog.open(path) as store:
        assert offsets(store) == {0: 1}
        with pytest.raises(errors.TransactionError), store.transaction("g", 7) as again:
            again.commit({KEYS[0]: 3})
        assert store.abort_transaction(producer_id=7) == 1
        assert offsets(store) == {0: 1}
        with store.transaction("g", 7) as again:
            again.commit({KEYS[0]: 3})
        assert offsets(store) == {0: 3}
        assert store.verify() == []


def test_a_transaction_larger_than_a_batch(path):
    config = offsetlog.StoreConfig(batch_bytes_max=1024)
    many = {TopicPartition("topic", number): number for number in range(300)}
    with offsetlog.open(path, durability="process", config=config) as store:
        with store.transaction("g", 7) as transaction:
            transaction.commit(many)
            assert store.fetch("g") == {}
        assert {key: value.offset for key, value in store.fetch("g").items()} == many
