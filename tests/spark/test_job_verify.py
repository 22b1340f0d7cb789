"""Two digests of every log partition: the views' and the engine's."""

from __future__ import annotations

import pytest

import offsetlog.verify
from offsetlog.errors import MissingFileError
from offsetlog.spark.jobs import verify
from offsetlog.spark.source import register
from tests.conformance.scenarios import SCENARIOS
from tests.spark.moving_logs import TOPIC, RandomLog
from tests.spark.test_job_repartition import digest_of, end_transactions, surveys

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


def test_damage_and_differences_are_reported():
    same = verify.Digest(1, 2, 3)
    assert verify.Compared(0, 5, same, same).is_equal
    assert not verify.Compared(0, 5, same, verify.Digest(1, 2, 4)).is_equal
    assert not verify.Compared(0, 5, same, same, ("a batch is bad",)).is_equal


@pytest.mark.parametrize("tail", [b"", bytes(8)])
def test_a_tail_that_is_missing_is_reported(spark, tmp_path, tail):
    register(spark)
    log = RandomLog(tmp_path / "old", 2, 4, records=10)
    end = surveys(log.path)[0].end
    for name, offset in (("recovery-point", end), ("replication", end + 5)):
        entries = f"0\n2\n{TOPIC} 0 {offset}\n{TOPIC} 7 99\n"
        (log.path / f"{name}-offset-checkpoint").write_text(entries)
    with (log.path / f"{TOPIC}-0" / f"{0:020d}.log").open("ab") as file:
        file.write(tail)
    first, second, gone = verify.run(spark, log.path)
    assert second.is_equal
    assert not gone.is_equal
    assert [(each.kind, each.log_partition, each.lost_below) for each in gone.findings] == [("missing", 7, 99)]
    assert not second.findings
    [found] = first.findings
    reason = f"the checkpoint says that the log reaches log offset {end + 5}, but the log ends at log offset {end}"
    assert found.reason.startswith(reason)
    # As `offsetlog verify` has it: what a crash of the broker's machine took is missing all the same.
    plain = [each for each in offsetlog.verify.verify(log.path).findings if each.kind == "checkpoint"]
    assert plain == [found]
    assert found.severity == "problem"
    assert first.spark == first.engine
    assert not first.is_equal


def test_a_transaction_that_ends_meanwhile_makes_no_difference(spark, tmp_path, monkeypatch):
    register(spark)
    log = RandomLog(tmp_path / "old", 3, 5, records=20)
    asked = verify.survey

    def survey(*arguments):
        found, findings = asked(*arguments)
        end_transactions(log, found)
        return found, findings

    monkeypatch.setattr(verify, "survey", survey)
    assert all(each.is_equal for each in verify.run(spark, log.path))


def test_what_is_no_log_directory_is_not_sound(spark, tmp_path):
    with pytest.raises(MissingFileError):
        verify.run(spark, tmp_path)
