"""The differences of two states, by the rule of OffsetStore.diff."""

from __future__ import annotations

import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition
from offsetlog.spark.jobs import diff
from offsetlog.spark.source import register

pytestmark = pytest.mark.spark

COLUMNS = (
    "group string, topic string, partition int, offset bigint, leader_epoch int, metadata string, "
    "commit_timestamp bigint, expire_timestamp bigint, topic_id string"
)


def row(group, partition=0, offset=5, epoch=-1, metadata="", moment=100, topic_id=None):
    return (group, "orders", partition, offset, epoch, metadata, moment, -1, topic_id)


def test_changes(spark):
    before = spark.createDataFrame(
        [*map(row, ["same", "gone", "back", "epoch", "text", "named"]), row("id", topic_id="A")], COLUMNS
    )
    after = spark.createDataFrame(
        [
            row("same", moment=200),
            row("new"),
            row("back", offset=4),
            row("epoch", epoch=1),
            row("text", metadata="x"),
            row("id", topic_id="B"),
            row("named", topic_id="B"),
        ],
        COLUMNS,
    )
    found = {each["group"]: each for each in diff.changes(before, after).collect()}
    assert {name: each["change"] for name, each in found.items()} == {
        "gone": "removed",
        "new": "added",
        "back": "changed",
        "epoch": "changed",
        "text": "changed",
        "id": "changed",
    }
    assert (found["back"]["before_offset"], found["back"]["after_offset"]) == (5, 4)
    assert (found["new"]["before_offset"], found["new"]["after_offset"]) == (None, 5)
    assert found["gone"]["topic"] == "orders"
    assert found["gone"]["after_metadata"] is None
    names = ["group", "topic", "partition", "change"]
    assert diff.changes(before, after).columns == [
        *names, *[f"before_{each}" for each in diff.VALUE], *[f"after_{each}" for each in diff.VALUE]
    ]  # fmt: skip


def test_two_directories(spark, tmp_path):
    register(spark)
    keys = [TopicPartition("orders", number) for number in range(3)]
    with offsetlog.open(tmp_path / "a", 3) as left, offsetlog.open(tmp_path / "b", 2) as right:
        for store in (left, right):
            store.commit("one", {keys[0]: 1, keys[1]: 2})
            store.commit("two", {keys[0]: OffsetAndMetadata(7, "x")})
        right.commit("one", {keys[0]: 10, keys[2]: 3})
        right.delete("one", [keys[1]])
        expected = left.diff(None), len(right.to_arrow())
    found = diff.run(spark, tmp_path / "a", tmp_path / "b").orderBy("partition").collect()
    assert expected == ([], 3)
    assert [(each["group"], each["partition"], each["change"]) for each in found] == [
        ("one", 0, "changed"),
        ("one", 1, "removed"),
        ("one", 2, "added"),
    ]
