"""A read that an executor plans is the read that the driver plans."""

from __future__ import annotations

from pathlib import Path

import pytest

import offsetlog
from offsetlog import errors
from offsetlog.spark import read_on_executors
from offsetlog.spark.scan.options import VIEWS
from offsetlog.spark.scan.reach import DRIVER_PLANS

from .missing_parts import build, fill, remove_a_middle, segments_of
from .reading import rows_of


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("planned") / "data", "closed")


def ordered(rows) -> list[str]:
    return sorted(repr({name: bytes(each) if isinstance(each, bytearray) else each for name, each in row.items()})
                  for row in rows)  # fmt: skip


def rows_on_executors(spark, path, **options) -> list[str]:
    return ordered(row.asDict(recursive=True) for row in read_on_executors(spark, path, **options).collect())


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_the_same(spark, log, view):
    frame = read_on_executors(spark, log, view=view, minPartitions=4)
    assert frame.schema == spark.read.format("offsetlog").option("view", view).load(str(log)).schema
    assert rows_on_executors(spark, log, view=view, minPartitions=4) == ordered(rows_of(log, view=view)) != []


def test_options_are_the_same(spark, log):
    given = {"columns": "topic,offset,log_offset", "group": "g1", "partitions": "0", "startingOffset": "5", "at": None}
    chosen = {name: value for name, value in given.items() if value is not None}
    assert rows_on_executors(spark, log, **given) == ordered(rows_of(log, **chosen))


def test_each_read_keeps_what_was_planned_for_it(spark, tmp_path):
    logs = [tmp_path / "first", tmp_path / "second"]
    for number, path in enumerate(logs):
        with offsetlog.open(path, 1, durability="process") as store:
            fill(store, count=20 + number)
    frames = [read_on_executors(spark, path) for path in logs]
    before = [rows_of(path) for path in logs]
    with offsetlog.open(logs[0], durability="process") as store:
        fill(store, first=50, count=7)
    for frame, rows in zip(frames, before, strict=True):
        assert ordered(row.asDict() for row in frame.collect()) == ordered(rows)
    # Only a new read has what came since.
    assert rows_on_executors(spark, logs[0]) == ordered(rows_of(logs[0])) != ordered(before[0])


def test_what_is_missing_is_an_error_of_its_kind(spark, tmp_path):
    log = build(tmp_path / "data", "closed")
    remove_a_middle(log)
    with pytest.raises(errors.CorruptionError, match="mode=permissive") as caught:
        read_on_executors(spark, log)
    assert caught.value.log_partition == 0
    rows = read_on_executors(spark, log, mode="permissive").where("problem is not null").collect()
    assert "log partition 0" in rows[0]["problem"] or rows[0]["log_partition"] == 0


def test_a_missing_witness_is_a_warning_of_the_driver(spark, tmp_path, caplog):
    log = build(tmp_path / "data", "closed")
    rows = rows_on_executors(spark, log)
    assert not caplog.records
    manifest = segments_of(log)[0].with_name("offsetlog.manifest")
    manifest.unlink()
    assert rows_on_executors(spark, log) == rows
    [warning] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "the manifest is missing" in warning
    assert str(manifest) in warning


def test_damage_is_met_in_a_task(spark, tmp_path):
    log = build(tmp_path / "data", "closed")
    segment = segments_of(log)[1]
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    with pytest.raises(Exception, match=rf"CorruptionError: .*{segment.name}"):
        read_on_executors(spark, log).collect()


def test_a_log_that_is_nowhere(spark, tmp_path):
    with pytest.raises(errors.MissingFileError) as caught:
        read_on_executors(spark, tmp_path / "none")
    # The ways out are for those whose driver does not see it.
    assert DRIVER_PLANS not in str(caught.value)
    with pytest.raises(Exception, match=r"MissingFileError: .*the driver plans a read.*read_on_executors"):
        spark.read.format("offsetlog").load(str(tmp_path / "none")).count()


def test_wrong_options_are_refused_before_a_task_runs(spark, log):
    with pytest.raises(errors.ConfigError, match="pushdown"):
        read_on_executors(spark, log, pushdown="true")
    with pytest.raises(errors.ConfigError, match="maxOffsetsPerTrigger"):
        read_on_executors(spark, log, maxOffsetsPerTrigger=5)
