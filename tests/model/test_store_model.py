"""The store beside plain dicts, in any order of commits, deletes, transactions, reopenings and stops of the machine.

After every step the live digest is that of a replay of the files, and the contents are the model's; now and then they
are also what the independent reader of tests/conformance finds.

tests/depth.py says how many sequences run; OL_SEED=n draws others.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from conformance import oracle
from depth import by_depth, first_seed
from faults import FaultFileSystem
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import offsetlog
from model.reference import Atom, End, Erase, Key, Put, Reference, Value
from offsetlog import OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition, errors, opening
from offsetlog.transaction import Transaction

EXAMPLES = by_depth(gate=20, long=400)
STEPS = by_depth(gate=50, long=60)
SEED = first_seed()

PARTITIONS = 3
CONFIG = StoreConfig(
    segment_bytes=8192,
    batch_bytes_max=1024,
    segment_index_bytes=256,
    index_interval_bytes=512,
    extend_bytes_min=4096,
    extend_bytes_max=8192,
)
GROUPS = ["billing", "g", "orders-é", "𝄞", "reports", "zeta"]
PRODUCERS = [4000, 17, 123456789012]

groups = st.sampled_from(GROUPS)
topic_partitions = st.builds(TopicPartition, st.sampled_from(["invoices", "t"]), st.integers(0, 9))
values = st.builds(Value, st.integers(0, 2**63 - 1), st.sampled_from(["", "", "m", "é𝄞"]), st.integers(-1, 3))
offsets = st.dictionaries(topic_partitions, values, min_size=1, max_size=5)
durabilities = st.sampled_from(["process", "process", "disk"])


def keyed(group: str, offsets: dict[TopicPartition, Value]) -> dict[Key, Value]:
    return {Key(group, *key): value for key, value in offsets.items()}


def committable(offsets: dict[TopicPartition, Value]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {key: OffsetAndMetadata(*value) for key, value in offsets.items()}


def contents(store: OffsetStore) -> dict[Key, Value]:
    return {
        Key(row["group"], row["topic"], row["partition"]): Value(row["offset"], row["metadata"], row["leader_epoch"])
        for row in store.to_arrow().to_pylist()
    }


def abandon(store: OffsetStore) -> None:
    """Lets a store go without writing a byte, as the end of the process would."""
    core, store._core = store._core, None
    assert core is not None
    store._closer.abandon(core)


class StoreBesideModel(RuleBasedStateMachine):
    """One store at a time, on a file system that can stop."""

    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.scratch = Path(tempfile.mkdtemp(prefix="offsetlog-model-", dir=base))
        self.reference = Reference(PARTITIONS)
        self.transactions: dict[int, tuple[str, Transaction]] = {}
        self.roots = 0
        self.steps = 0
        self.fs = self.new_root()
        self.open()

    # ------------------------------------------------------------------------------------------------ opening

    def new_root(self) -> FaultFileSystem:
        self.roots += 1
        self.root.mkdir()
        return FaultFileSystem(self.root)

    def moved(self, materialize: Callable[[Path], None]) -> FaultFileSystem:
        """A file system of what is left of this one."""
        target = self.scratch / "target"
        target.mkdir()
        materialize(target)
        shutil.rmtree(self.root)
        self.roots += 1
        target.rename(self.root)
        return FaultFileSystem(self.root)

    @property
    def root(self) -> Path:
        return self.scratch / f"root-{self.roots}"

    @property
    def path(self) -> Path:
        return self.root / "data"

    def opened(self) -> OffsetStore:
        # By turns, so that each way of appending goes on where the other stopped.
        config = replace(CONFIG, append="written" if self.steps % 2 else "mapped")
        return opening.open_with(self.path, PARTITIONS, "process", config=config, fs=self.fs, background=False)

    def open(self) -> None:
        self.store = self.opened()
        # An open makes what it found durable.
        for history in self.reference.histories:
            history.durable = history.done

    def teardown(self) -> None:
        self.check_oracle()
        if not self.store.closed:
            abandon(self.store)
        shutil.rmtree(self.scratch)

    # ------------------------------------------------------------------------------------------------ calls

    @contextmanager
    def call(self, group: str, *atoms: Atom, durability: str = "process") -> Iterator[None]:
        """Around a call that writes these atoms of one group; the machine may stop in it."""
        history = self.reference.add(group, *atoms)
        with self.stoppable():
            yield
            self.reference.done(disk=[history] if durability == "disk" else [])

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        try:
            yield
        except errors.OffsetLogError:
            if not self.fs.stopped:
                raise
        if self.fs.stopped:
            self.recover()

    @rule(group=groups, offsets=offsets, durability=durabilities)
    def commit(self, group, offsets, durability):
        with self.call(group, Put(keyed(group, offsets)), durability=durability):
            self.store.commit(group, committable(offsets), durability=durability)

    @rule(group=groups, key=topic_partitions, value=values, durability=durabilities)
    def commit_one(self, group, key, value, durability):
        with self.call(group, Put({Key(group, *key): value}), durability=durability):
            self.store.commit_one(
                group, key.topic, key.partition, value.offset, value.metadata, value.leader_epoch, durability=durability
            )

    @rule(group=groups, first=st.integers(0, 10**12), count=st.integers(25, 60), durability=durabilities)
    def commit_more_than_a_batch(self, group, first, count, durability):
        offsets = {TopicPartition("t", number): Value(first + number) for number in range(count)}
        with self.call(group, Put(keyed(group, offsets)), durability=durability):
            self.store.commit(group, committable(offsets), durability=durability)

    @rule(rows=st.lists(st.tuples(groups, topic_partitions, values), min_size=1, max_size=40), durability=durabilities)
    def commit_arrow(self, rows, durability):
        batch = pyarrow.table(
            {
                "group": [group for group, _, _ in rows],
                "topic": [key.topic for _, key, _ in rows],
                "partition": [key.partition for _, key, _ in rows],
                "offset": [value.offset for _, _, value in rows],
                "metadata": [value.metadata for _, _, value in rows],
                "leader_epoch": [value.leader_epoch for _, _, value in rows],
            }
        )
        # Each group is all or none; in the log they stand by their names where one batch does not hold them.
        for group in sorted({group for group, _, _ in rows}, key=str.encode):
            mine = {Key(group, *key): value for name, key, value in rows if name == group}
            self.reference.add(group, Put(mine))
        with self.stoppable():
            assert self.store.commit_arrow(batch, durability=durability) == len(rows)
            touched = [self.reference.of(group) for group, _, _ in rows]
            self.reference.done(disk=touched if durability == "disk" else [])

    @rule(group=groups, keys=st.sets(topic_partitions, min_size=1, max_size=8), durability=durabilities)
    def delete(self, group, keys, durability):
        known = frozenset(key for key in (Key(group, *each) for each in keys) if self.reference.has(key))
        with self.call(group, *([Erase(known)] if known else []), durability=durability):
            assert self.store.delete(group, keys, durability=durability) == len(known)

    @rule(group=groups, durability=durabilities)
    def delete_group(self, group, durability):
        known = self.reference.keys_of(group)
        history = self.reference.add(group, *([Erase(known)] if known else []))
        with self.stoppable():
            try:
                self.store.delete(group, durability=durability)
            except errors.TooLargeError:
                assert len(known) > 20
                self.reference.refused()
                durability = "process"  # a refused commit has waited for nothing
            self.reference.done(disk=[history] if durability == "disk" else [])

    # ------------------------------------------------------------------------------------------------ conditions

    @rule(group=groups, offsets=offsets, wrong=st.booleans(), data=st.data())
    def commit_if(self, group, offsets, wrong, data):
        committed = self.reference.group(group)
        expected = {}
        for key in data.draw(st.sets(st.sampled_from(sorted(offsets)), min_size=1)):
            value = committed.get(Key(group, *key))
            expected[key] = None if value is None else value.offset
        if not wrong:
            with self.call(group, Put(keyed(group, offsets))):
                self.store.commit(group, committable(offsets), expected=expected)
            return
        key = sorted(expected)[0]
        expected[key] = 5 if expected[key] is None else (expected[key] + 1) % 2**63
        with self.stoppable(), pytest.raises(errors.ExpectedOffsetError):
            self.store.commit(group, committable(offsets), expected=expected)

    @rule(group=groups, offsets=offsets)
    def commit_monotonic(self, group, offsets):
        committed = self.reference.group(group)
        goes_back = any(
            Key(group, *key) in committed and committed[Key(group, *key)].offset > value.offset
            for key, value in offsets.items()
        )
        if goes_back:
            with self.stoppable(), pytest.raises(errors.RewindError):
                self.store.commit(group, committable(offsets), monotonic=True)
            return
        with self.call(group, Put(keyed(group, offsets))):
            self.store.commit(group, committable(offsets), monotonic=True)

    # ------------------------------------------------------------------------------------------------ transactions

    @rule(group=groups, producer=st.sampled_from(PRODUCERS), offsets=offsets)
    def commit_in_transaction(self, group, producer, offsets):
        if producer in self.transactions:
            group, transaction = self.transactions[producer]
        elif producer in self.reference.open_producers():
            return  # left open by a crash
        else:
            transaction = self.store.transaction(group, producer)
            self.transactions[producer] = group, transaction
        with self.call(group, Put(keyed(group, offsets), producer)):
            transaction.commit(committable(offsets))

    @precondition(lambda self: self.transactions)
    @rule(data=st.data(), commit=st.booleans(), durability=durabilities)
    def end_transaction(self, data, commit, durability):
        producer = data.draw(st.sampled_from(sorted(self.transactions)))
        group, transaction = self.transactions.pop(producer)
        transaction._durability = durability
        durability = durability if commit else "process"
        with self.call(group, End(producer, commit), durability=durability):
            if commit:
                transaction.__exit__(None, None, None)
            else:
                transaction.abort()

    @precondition(lambda self: self.reference.open_producers() - set(self.transactions))
    @rule(data=st.data(), group=groups)
    def abort_what_was_left_open(self, data, group):
        producer = data.draw(st.sampled_from(sorted(self.reference.open_producers() - set(self.transactions))))
        histories = [history for history in self.reference.histories if producer in history.state.pending]
        refusing = self.reference.of(group)
        if refusing in histories:
            with pytest.raises(errors.TransactionError):
                self.store.transaction(group, producer).commit({TopicPartition("t", 0): 1})
        for history in histories:
            history.atoms.append(End(producer, False))
        with self.stoppable():
            assert self.store.abort_transaction(producer) == len(histories)
            self.reference.done()

    # ------------------------------------------------------------------------------------------------ ends

    @rule()
    def flush(self):
        with self.stoppable():
            self.store.flush()
            self.reference.done(disk=self.reference.histories)

    @rule()
    def reopen(self):
        self.transactions.clear()
        with self.stoppable():
            self.store.close()
            self.reference.done(disk=self.reference.histories)
            self.open()

    @rule()
    def reopen_without_close(self):
        self.transactions.clear()
        abandon(self.store)
        with self.stoppable():
            self.open()

    @rule(operation=st.integers(1, 3))
    def stop_in_the_next_call(self, operation):
        self.fs.stop_at(self.fs.operations + operation)

    @rule(operation=st.integers(1, 25))
    def stop_soon(self, operation):
        """The machine stops at one of the next operations, whichever call makes it."""
        self.fs.stop_at(self.fs.operations + operation)

    @rule(draw=st.integers(0, 2**32))
    def write_back(self, draw):
        if not self.fs.stopped:
            self.fs.write_back(draw)

    def recover(self) -> None:
        """Opens a possible state of the disk, or the files of a killed process; the model takes their contents."""
        self.transactions.clear()
        if not self.store.closed:
            abandon(self.store)
        draw = random.Random(self.fs.operations * 1000 + self.steps)
        power_lost = draw.random() < 0.7
        if power_lost:
            bits = draw.getrandbits(60)
            self.fs = self.moved(lambda target: self.fs.materialize(target, bits))
        else:
            self.fs = self.moved(self.fs.materialize_all)
        least = [history.durable if power_lost else history.done for history in self.reference.histories]
        self.store = self.opened()
        found = contents(self.store)
        # Pending values are invisible through the store, and prefixes may differ in nothing else.
        pending = self.pending_of(oracle.replay(oracle.read_log(self.copy())))
        for number, history in enumerate(self.reference.histories):
            left_open = [known.producer_id for known in self.store.transactions() if known.log_partition == number]
            mine = {key: value for key, value in found.items() if self.reference.of(key.group) is history}
            waiting = {
                producer: own
                for producer, values in pending.items()
                if (own := {key: value for key, value in values.items() if self.reference.of(key.group) is history})
            }
            assert history.settle(mine, left_open, least[number], waiting), (
                f"partition {number}: {mine} with {left_open} open is no state of {history.atoms} from {least[number]}"
            )

    @staticmethod
    def pending_of(state: oracle.State) -> dict[int, dict[Key, Value]]:
        return {
            producer: {
                Key(row.group, row.topic, row.partition): Value(row.offset, row.metadata, row.leader_epoch)
                for row in values.values()
            }
            for producer, values in state.pending.items()
        }

    # ------------------------------------------------------------------------------------------------ what always holds

    def copy(self) -> Path:
        target = self.scratch / "copy"
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self.path, target)
        return target

    @initialize()
    def begin(self):
        """Nothing: the store is there."""

    @invariant()
    def live_is_the_model_and_the_replay(self):
        self.steps += 1
        assert contents(self.store) == self.reference.contents()
        assert self.store.problems() == []
        with offsetlog.open(self.copy(), read_only=True, config=CONFIG) as replayed:
            assert replayed.problems() == []
            assert replayed.digest(physical=True) == self.store.digest(physical=True)
            assert replayed.digest() == self.store.digest()
        if self.steps % 10 == 0:
            self.check_oracle()

    def check_oracle(self) -> None:
        state = oracle.replay(oracle.read_log(self.copy()))
        assert {
            Key(row.group, row.topic, row.partition): Value(row.offset, row.metadata, row.leader_epoch)
            for row in state.committed()
        } == self.reference.contents()


def test_the_store_is_the_model(capsys, one_core):
    with capsys.disabled():
        print(f"\n{EXAMPLES} sequences of {STEPS} steps (seed {SEED})")
    run_state_machine_as_test(
        seed(SEED)(StoreBesideModel),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
