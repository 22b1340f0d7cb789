"""The store beside plain dicts, cleaned, expired and snapshotted at any moment, and the machine stops in the middle.

After every step the same holds as without maintenance: the live digest is that of a replay of the files, which may
go on from a snapshot; the contents are the model's, and those that the independent reader of tests/conformance finds
in the rest of the log. Expiry is decided beside the store from the findings of that reader, at times that are drawn;
records of groups come, as from a broker, while the store is closed.  Depth and seed as in test_store_model.
"""

from __future__ import annotations

from conformance import oracle
from faults import FaultFileSystem
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from store import expiry_reference

from model import group_records
from model.group_records import Records
from model.reference import Atom, Erase, Key, Put, Value, log_partition
from model.test_store_model import (
    CONFIG,
    EXAMPLES,
    GROUPS,
    PARTITIONS,
    SEED,
    STEPS,
    StoreBesideModel,
    contents,
    durabilities,
    groups,
    keyed,
    topic_partitions,
    values,
)
from offsetlog import MaintenanceConfig, OffsetAndMetadata, errors, opening
from offsetlog.history.restore import Undeletion
from offsetlog.maintenance.retention import ClockGuard, Expirer, Retention, expire, expiring

DAY = 86_400_000
#: The time by the clock that decides what has expired, far from that of the machine: 2100.
NOW = 4_102_444_800_000
CENTURY = 36_525 * DAY

retentions = st.sampled_from([None, 0, 7 * DAY, CENTURY])
moments = st.sampled_from([NOW, NOW + 5 * DAY, NOW + 30 * DAY])
#: -1 takes the clock of the machine: long ago by the one that counts.
commit_times = st.sampled_from([-1, NOW - 8 * DAY, NOW - DAY])
expire_times = st.sampled_from([-1, NOW - DAY, NOW + DAY, NOW + 20 * DAY])
shapes: st.SearchStrategy[Records] = st.one_of(
    st.just({}),
    st.builds(
        group_records.classic,
        st.sampled_from(["", "consumer", "connect"]),
        st.sampled_from([-1, NOW - 20 * DAY, NOW - DAY]),
        st.sampled_from([0, 0, 2]),
        st.sampled_from([1, 3]),
    ),
    st.builds(group_records.modern, st.sampled_from([[3, 6], [3, 6, 5, 7, 8], [17, 20, 23], [17, 20, 19]])),
)


class MaintainedStoreBesideModel(StoreBesideModel):
    """The same store, and whoever keeps it small."""

    def __init__(self) -> None:
        #: Records that a broker wrote of a group and nobody took back, by group.
        self.records: dict[str, Records] = {}
        #: The same of groups that were removed, and may come back with a loss of power.
        self.removed: dict[str, Records] = {}
        self.cleaned = False
        super().__init__()

    def open(self) -> None:
        # No thread works by itself, so that a step can be repeated; a close writes a snapshot where that is due.
        config = MaintenanceConfig(cleaner_map_bytes=4096, snapshot_tail_bytes=4096)
        self.store = opening.open_with(
            self.path, PARTITIONS, "process", config=CONFIG, maintenance=config, fs=self.fs, background=False
        )
        for history in self.reference.histories:
            history.durable = history.done
        self.removed.clear()

    def replayed(self) -> oracle.State:
        return oracle.replay(oracle.read_log(self.copy()))

    # ------------------------------------------------------------------------------------------------ cleaning

    @rule(
        roll=st.booleans(), again=st.booleans(), retention=st.sampled_from([0, DAY]), ratio=st.sampled_from([0.0, 0.5])
    )
    def compact(self, roll, again, retention, ratio):
        self.cleaned = True
        with self.stoppable():
            reports = self.store.compact(roll=roll, again=again, delete_retention_ms=retention, ratio=ratio)
            assert all(report.quarantined == 0 and not report.stopped for report in reports)

    @rule(number=st.integers(0, PARTITIONS - 1))
    def compact_one(self, number):
        self.cleaned = True
        with self.stoppable():
            self.store.compact([number])

    @rule()
    def maintain(self):
        self.cleaned = True
        with self.stoppable():
            partitions = self.store._core.attached()
            self.store.maintenance.look_after(partitions)
            self.store.maintenance.renew_snapshots(partitions)

    @rule()
    def snapshot(self):
        with self.stoppable():
            self.store.snapshot()

    # ------------------------------------------------------------------------------------------------ expiry

    @rule(
        group=groups,
        keys=st.dictionaries(topic_partitions, values, min_size=1, max_size=4),
        at=commit_times,
        expires=expire_times,
        durability=durabilities,
    )
    def commit_at_a_time(self, group, keys, at, expires, durability):
        # A value with an expire time has no room for a leader epoch.
        offsets = {key: value._replace(leader_epoch=-1) for key, value in keys.items()} if expires >= 0 else keys
        with self.call(group, Put(keyed(group, offsets)), durability=durability):
            values = {key: OffsetAndMetadata(*value, at, expires) for key, value in offsets.items()}
            self.store.commit(group, values, durability=durability)

    @rule(group=groups, shape=shapes)
    def a_broker_writes_records_of_a_group(self, group, shape):
        folder = f"__consumer_offsets-{log_partition(group, PARTITIONS)}"
        before = self.records.get(group, {})
        if not (self.path / folder).exists():
            return
        self.transactions.clear()
        with self.stoppable():
            self.store.close()
            self.reference.done(disk=self.reference.histories)
        if not self.store.closed:
            return  # the machine stopped, and the store was opened again
        self.fs = self.moved(self.fs.materialize_all)
        group_records.append(self.path / folder, group, before, shape)
        self.fs = FaultFileSystem(self.root)
        self.records.pop(group, None)
        if shape:
            self.records[group] = shape
        self.open()

    @rule(
        now=moments,
        default=retentions,
        rules=st.dictionaries(st.sampled_from([*GROUPS, "b*", "bill*", "or*", "*"]), retentions, max_size=3),
        durability=durabilities,
        stop=st.sampled_from([0, 0, 0, 1, 2, 3]),
    )
    def expire(self, now, default, rules, durability, stop):
        expirer = Expirer(Retention(default, rules), ClockGuard(lambda: now, lambda: 0))
        wanted = expiry_reference.check(self.groups_of(self.replayed()), default, rules, now)
        rows = expiring(self.store._open_core, expirer, 0).to_pylist()
        expired = [(row["group"], row["topic"], row["partition"]) for row in rows]
        assert sorted(row for row in expired if row[1] is not None) == sorted(wanted.expired)
        assert {group for group, topic, _ in expired if topic is None} == wanted.removed
        # Each position expires by itself, in the order of the report.
        touched = [
            self.reference.add(key.group, Erase(frozenset([key])))
            for key in (Key(*row) for row in expired if row[1] is not None)
        ]
        gone = {group: self.records.pop(group) for group in wanted.removed & set(self.records)}
        self.removed |= gone
        if stop:
            self.fs.stop_at(self.fs.operations + stop)
        with self.stoppable():
            report = expire(self.store._open_core, expirer, None, trust_clock=True, durability=durability)
            self.reference.done(disk=touched if durability == "disk" else [])
            assert (report.positions_expired, report.groups_removed) == (len(wanted.expired), len(wanted.removed))
            assert report.positions_pending == wanted.protected
            if durability == "disk":
                for group in gone:
                    self.removed.pop(group, None)

    @rule(now=moments, rules=st.dictionaries(groups, retentions, max_size=2), retention=st.sampled_from([0, 0, DAY]))
    def expire_clean_snapshot_and_open(self, now, rules, retention):
        self.expire(now, 7 * DAY, rules, "process", 0)
        # The tombstone of an expired position goes from the log with the second cleaning.
        for _ in range(2):
            self.compact(roll=True, again=True, retention=retention, ratio=0.0)
        self.snapshot()
        self.reopen()

    def groups_of(self, state: oracle.State) -> dict[str, expiry_reference.Group]:
        found = {name: expiry_reference.Group() for name in GROUPS}
        for row in state.committed():
            committed = expiry_reference.Committed(row.commit_timestamp, row.expire_timestamp)
            found[row.group].positions[row.topic, row.partition] = committed
        for name, topic, partition in state.unstable():
            found[name].pending.add((topic, partition))
        for name, records in self.records.items():
            found[name].records = dict(records)
            found[name].newest_type = list(records)[-1][0]
        return found

    @rule(group=groups, durability=durabilities)
    def delete_group(self, group, durability):
        known = self.reference.keys_of(group)
        atoms: list[Atom] = [Erase(known)] if known else []
        history = self.reference.add(group, *atoms)
        records = self.records.pop(group, None)
        if records is not None:
            self.removed[group] = records
        with self.stoppable():
            try:
                self.store.delete(group, durability=durability)
            except errors.TooLargeError:
                assert len(known) > 15
                self.reference.refused()
                durability = "process"  # a refused commit has waited for nothing
                if records is not None:
                    self.records[group] = self.removed.pop(group)
            self.reference.done(disk=[history] if durability == "disk" else [])
            if durability == "disk":
                self.removed.pop(group, None)

    @rule(group=groups)
    def undelete(self, group):
        there = self.reference.group(group)
        last = {
            key: value
            for key, value in self.reference.of(group).last_values().items()
            if key.group == group and key not in there
        }
        plan = self.store.undelete(group, dry_run=True)
        found = self.values_of(plan)
        # A cleaned log may hold fewer values, and never another one.
        assert found.items() <= last.items()
        # A value that was only pending when it was deleted was never there.
        assert all(Key(*lost[:3]) not in there and (self.cleaned or Key(*lost[:3]) not in last) for lost in plan.lost)
        if not self.cleaned and not self.reference.of(group).is_doubtful:
            assert found == last
        atoms: list[Atom] = [Put(found)] if found else []
        with self.call(group, *atoms, durability="process"):
            assert self.values_of(self.store.undelete(group)) == found

    @staticmethod
    def values_of(undone: Undeletion) -> dict[Key, Value]:
        assert all(change.before is None and change.after is not None for change in undone.restored)
        return {Key(*change[:3]): Value(*change.after[:3]) for change in undone.restored if change.after is not None}

    # ------------------------------------------------------------------------------------------------ what always holds

    def recover(self) -> None:
        super().recover()
        found = set(self.replayed().groups)
        assert set(self.records) <= found <= {*self.records, *self.removed}
        self.records |= {group: self.removed[group] for group in found - set(self.records)}
        self.removed.clear()

    def check_groups(self) -> None:
        committed = {key.group for key in contents(self.store)}
        assert set(self.store.groups()) == committed | set(self.records)

    def check_oracle(self) -> None:
        super().check_oracle()
        assert set(self.replayed().groups) == set(self.records)
        if not self.store.closed:
            self.check_groups()


def test_a_store_that_is_kept_small_is_the_model(capsys, one_core):
    with capsys.disabled():
        print(f"\n{EXAMPLES} sequences of {STEPS} steps (seed {SEED})")
    run_state_machine_as_test(
        seed(SEED)(MaintainedStoreBesideModel),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
