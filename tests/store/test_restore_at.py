"""`Rewind.restore_at`: the state at it has the offset before the rewind, or it is None."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conformance.scenarios import SCENARIOS, Scenario

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog._native.encoding import encode_batch, encode_key, encode_value

from .test_history import _partitions_of

KEY = TopicPartition("orders", 0)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_state_before_each_rewind_of_a_broker(scenario: Scenario, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(scenario.log, log)
    with offsetlog.open(log, _partitions_of(log), read_only=True) as store:
        for each in store.rewinds()[:200]:
            if each.restore_at is None:
                continue
            try:
                then = store.fetch(each.group, at=each.restore_at)
            except errors.HistoryError:
                continue
            found = then.get(TopicPartition(each.topic, each.partition))
            # A deletion before the rewind leaves nothing to restore.
            assert found is None or found.offset == each.before.offset


def test_a_batch_with_both_commits_has_no_moment_between(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()

    def record(group: str, offset: int) -> tuple[bytes, bytes]:
        key = {"group": group, "topic": KEY.topic, "partition": KEY.partition}
        value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1000}
        return encode_key(1, key), encode_value(1, 3, value)

    batches = [
        encode_batch(0, 1000, [record("g", 50)]),
        encode_batch(1, 1000, [record("g", 60), record("h", 9), record("g", 5), record("h", 8)]),
        encode_batch(5, 1000, [record("i", 1), record("g", 4)]),
    ]
    (directory / "00000000000000000000.log").write_bytes(b"".join(batches))
    with offsetlog.open(tmp_path, 1, read_only=True) as store:
        found = [(each.group, each.before.offset, each.log_offset, each.restore_at) for each in store.rewinds()]
        assert found == [("g", 60, 3, None), ("h", 9, 4, None), ("g", 5, 6, 5)]
        assert store.fetch("g", at=5)[KEY].offset == 5
