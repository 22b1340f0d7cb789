"""Two digests of every log partition: the views' and the engine's."""

from __future__ import annotations

import pytest

from offsetlog.spark.jobs import verify
from offsetlog.spark.jobs.session import register
from tests.conformance.scenarios import SCENARIOS
from tests.spark.moving_logs import RandomLog
from tests.spark.test_job_repartition import digest_of, surveys

pytestmark = pytest.mark.spark

#: Markers and open transactions; every kind of group; messages of magic 0 and 1 beside batches.
CHOSEN = [each for each in SCENARIOS if each.name in {"kafka-4.3.0/torn", "kafka-old/upgraded-compacted"}]


def test_a_log_with_everything(spark, tmp_path):
    register(spark)
    log = RandomLog(tmp_path / "old", 3, 11)
    found = verify.run(spark, log.path, physical=False)
    assert [each.log_partition for each in found] == [0, 1, 2]
    assert all(each.is_equal for each in found)
    assert all(all(each.spark) for each in found), "each part of each digest is of something"
    whole = [sum(each.spark[part] for each in found) % (1 << 128) for part in range(3)]
    assert tuple(whole) == digest_of(log.path)


@pytest.mark.parametrize("scenario", CHOSEN, ids=lambda scenario: scenario.name)
def test_what_brokers_wrote(spark, scenario):
    register(spark)
    found = verify.run(spark, scenario.log)
    assert [(each.log_partition, each.end) for each in found] == [
        (each.number, each.end) for each in surveys(scenario.log)
    ]
    assert all(each.is_equal for each in found)


def test_damage_and_differences_are_told():
    same = verify.Digest(1, 2, 3)
    assert verify.Compared(0, 5, same, same).is_equal
    assert not verify.Compared(0, 5, same, verify.Digest(1, 2, 4)).is_equal
    assert not verify.Compared(0, 5, same, same, ("a batch is bad",)).is_equal
