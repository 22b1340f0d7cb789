"""The store beside plain dicts, cleaned and snapshotted at any moment, with stops of the machine in the middle.

What holds after every step is what holds without: the live digest is that of a replay of the files, which may go on
from a snapshot; the contents are the model's, and what the independent reader of tests/conformance finds in what is
left of the log.  Environment variables as in test_store_model.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import offsetlog
from model.test_store_model import CONFIG, EXAMPLES, PARTITIONS, SEED, STEPS, StoreBesideModel
from offsetlog import MaintenanceConfig

pytestmark = pytest.mark.slow

DAY = 86_400_000


class MaintainedStoreBesideModel(StoreBesideModel):
    """The same store, and whoever keeps it small."""

    def open(self) -> None:
        # No thread works by itself, so that a step can be repeated; a close writes a snapshot where that is due.
        config = MaintenanceConfig(cleaner_map_bytes=4096, snapshot_tail_bytes=4096)
        self.store = offsetlog.open(
            self.path, PARTITIONS, "process", config=CONFIG, maintenance=config, _fs=self.fs, _background=False
        )
        for history in self.reference.histories:
            history.durable = history.done

    @rule(
        roll=st.booleans(), again=st.booleans(), retention=st.sampled_from([0, DAY]), ratio=st.sampled_from([0.0, 0.5])
    )
    def compact(self, roll, again, retention, ratio):
        with self.stoppable():
            reports = self.store.compact(roll=roll, again=again, delete_retention_ms=retention, ratio=ratio)
            assert all(report.quarantined == 0 and not report.stopped for report in reports)

    @rule(number=st.integers(0, PARTITIONS - 1))
    def compact_one(self, number):
        with self.stoppable():
            self.store.compact([number])

    @rule()
    def maintain(self):
        with self.stoppable():
            self.store.maintenance.look_after(self.store._core.attached())

    @rule()
    def snapshot(self):
        with self.stoppable():
            self.store.snapshot()


def test_a_store_that_is_kept_small_is_the_model(capsys):
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
