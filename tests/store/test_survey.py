"""A survey through the store: as whole as the clean after it, however little memory its keys are given at first."""

from __future__ import annotations

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, TopicPartition, errors
from offsetlog.directory import surveying

#: Room for some 170 keys.
SMALL_MAP = MaintenanceConfig(enabled=False, cleaner_map_bytes=4096)


def delete_many(path, groups: int = 1500) -> None:
    """Commits and deletes the positions of many groups: their keys are in no table."""
    with offsetlog.open(path, 1, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        for number in range(groups):
            store.commit(f"g{number}", {TopicPartition("t", 0): 1})
            store.delete(f"g{number}")


def test_a_survey_takes_the_memory_that_the_keys_need(path):
    delete_many(path)
    with offsetlog.open(path, read_only=True, maintenance=SMALL_MAP) as store:
        (plan,) = store.maintenance.plans()
        share = store.maintenance.survey(plan).share
    assert (share.records, share.superseded) == (3000, 1500)
    with offsetlog.open(path, maintenance=SMALL_MAP) as store:
        (report,) = store.compact()
    assert report.superseded == share.superseded
    assert report.bytes_before - report.bytes_after == pytest.approx(share.freed_bytes, abs=1)


def test_a_survey_whose_keys_do_not_fit_says_so(path, monkeypatch):
    delete_many(path)
    monkeypatch.setattr(surveying, "MAP_BYTES", 4096)
    monkeypatch.setattr(surveying, "GROWTH_MAX", 2)
    with offsetlog.open(path, read_only=True, maintenance=SMALL_MAP) as store:
        (plan,) = store.maintenance.plans()
        with pytest.raises(errors.CapacityError, match="keys of the log do not fit in 8192 bytes"):
            store.maintenance.survey(plan)
