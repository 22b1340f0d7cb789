"""The rules of a migration in Python, by the table of cases; tests/spark/test_job_migrate.py tests Spark's by it."""

from __future__ import annotations

import pytest

from offsetlog import TopicPartition
from offsetlog.migration import rules

from .cases import ACTION_CASES, ROW_CASES


@pytest.mark.parametrize("case", ROW_CASES, ids=lambda case: case.name)
def test_rows(case):
    found = rules.sort_rows(case.rows)
    assert sorted(found.refused, key=str) == sorted(
        ((row, reason) for row, reason in zip(case.rows, case.reasons, strict=True) if reason), key=str
    )
    sound = [row for row, reason in zip(case.rows, case.reasons, strict=True) if reason is None]
    expected: dict = {}
    for row in sound:
        expected.setdefault(row.group, {})[TopicPartition(row.topic, int(row.partition))] = int(row.offset)
    assert found.offsets == expected


@pytest.mark.parametrize("case", ACTION_CASES, ids=str)
def test_actions(case):
    assert rules.action_of(case.offset, case.current) == case.action
    assert rules.action_of(case.offset, case.current, overwrite=True) == case.overwriting
    assert rules.action_of(case.offset, case.current, is_lost=True) == case.lost


def test_all_rows_at_once():
    rows = [row for case in ROW_CASES for row in case.rows]
    reasons = [reason for case in ROW_CASES for reason in case.reasons if reason]
    assert sorted(reason for _, reason in rules.sort_rows(rows).refused) == sorted(reasons)


def test_every_action_is_in_the_table():
    seen = {action for case in ACTION_CASES for action in case[2:]}
    assert seen == {*rules.WRITTEN, *rules.KEPT}
