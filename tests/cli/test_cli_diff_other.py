"""`diff --other`: two directories are compared, each at its own moment."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from uuid import UUID

import pytest

pytest.importorskip("typer")

from depth import first_seed
from test_cli_read import GROUPS, call

import offsetlog
from offsetlog import OffsetAndMetadata, StoreConfig, TopicPartition
from offsetlog._native.codec import partition_for
from offsetlog.history import comparison

Row = dict[str, object]
State = dict[tuple[str, str, int], OffsetAndMetadata]


def differing(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 3) -> list[Row]:
    found, out, err = call(capsys, "diff", *arguments, "--format=json")
    assert found == code, err
    return [json.loads(line) for line in out.splitlines()]


def written(path: Path, partitions: int, state: State) -> Path:
    config = StoreConfig(write_offset_value_v4="always")
    with offsetlog.open(path, partitions, "process", config=config) as store:
        for (group, topic, number), value in state.items():
            store.commit(group, {TopicPartition(topic, number): value})
    return path


def value_of(draw: random.Random) -> OffsetAndMetadata:
    topic_id = draw.choice([None, UUID(int=1), UUID(int=2)])
    return OffsetAndMetadata(draw.randrange(3), draw.choice(["", "m"]), draw.choice([-1, 4]), topic_id=topic_id)


def differs(before: OffsetAndMetadata | None, after: OffsetAndMetadata | None) -> bool:
    if before is None or after is None:
        return before is not after
    ids = {before.topic_id, after.topic_id}
    return before[:3] != after[:3] or (None not in ids and len(ids) > 1)


def test_two_directories_of_any_content_and_partition_count(tmp_path, capsys):
    seed = first_seed()
    draw = random.Random(seed)
    keys = [(group, topic, number) for group in ("a", "ж", "c d") for topic in ("t", "u") for number in range(6)]
    before, after = ({key: value_of(draw) for key in draw.sample(keys, 25)} for _ in range(2))
    old, new = written(tmp_path / "old", 3, before), written(tmp_path / "new", 5, after)
    expected = [key for key in sorted(keys) if differs(before.get(key), after.get(key))]
    rows = differing(capsys, old, "--other", new)
    assert [(row["group"], row["topic"], row["partition"]) for row in rows] == expected, f"seed {seed}"
    for row in rows:
        key = (row["group"], row["topic"], row["partition"])
        for side, state in (("before", before), ("after", after)):
            value = state.get(key)
            assert row[f"offset_{side}"] == (None if value is None else value.offset)
            assert row[f"metadata_{side}"] == (None if value is None else value.metadata)
    for group in ("a", "ж", "c d"):
        assert differing(capsys, old, "--other", new, f"--group={group}") == [
            row for row in rows if row["group"] == group
        ]


def test_a_copy_does_not_differ_until_one_side_goes_on(tmp_path, capsys):
    key = TopicPartition("orders", 0)
    state = {("billing", "orders", number): OffsetAndMetadata(number) for number in range(50)}
    data = written(tmp_path / "data", 4, state)
    shutil.copytree(data, tmp_path / "copy")
    assert call(capsys, "diff", data, "--other", tmp_path / "copy", "--format=json")[:2] == (0, "")
    with offsetlog.open(data) as store:
        store.commit("billing", {key: 7})
    [row] = differing(capsys, data, "--other", tmp_path / "copy")
    assert (row["offset_before"], row["offset_after"], row["step"]) == (7, 0, -7)
    # A moment of PATH, and one of the other directory.
    assert differing(capsys, data, "offset:50", "--group=billing", "--other", tmp_path / "copy", code=0) == []
    assert differing(capsys, tmp_path / "copy", "now", "offset:50", "--group=billing", "--other", data, code=0) == []


def test_a_group_that_neither_directory_knows_is_reported(tmp_path, capsys):
    state = {("billing", "orders", 0): OffsetAndMetadata(1)}
    old, new = written(tmp_path / "old", 1, state), written(tmp_path / "new", 2, {("b", "t", 0): OffsetAndMetadata(1)})
    code, out, err = call(capsys, "diff", old, "--other", new, "--group=nobody")
    assert (code, out) == (1, "")
    assert err == f"offsetlog: there is no group nobody in {old} and {new}\n"
    assert len(differing(capsys, old, "--other", new, "--group=billing")) == 1


def test_nothing_to_compare_is_refused(tmp_path, capsys):
    data = written(tmp_path / "data", 1, {("g", "t", 0): OffsetAndMetadata(1)})
    code, _, err = call(capsys, "diff", data)
    assert code == 2
    assert "give a moment, such as '2h ago', or --other DIRECTORY" in err
    code, _, err = call(capsys, "diff", data, "--other", tmp_path / "nowhere")
    assert code == 2
    assert "nowhere" in err
    assert call(capsys, "diff", data, "offset:1", "--other", data)[0] == 2


def test_directories_of_brokers(tmp_path, capsys):
    """Two copies are equal; a directory that lacks a log partition is reported, and what it lacks differs."""
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        shutil.copytree(GROUPS, path)
    count = sum(1 for _ in first.glob("__consumer_offsets-*"))
    arguments = (first, "--other", second, "--partitions", count)
    assert differing(capsys, *arguments, code=0) == []
    with offsetlog.open(first, count, read_only=True) as store:
        group = next(group for group in store.groups() if store.fetch(group))
        positions = store.fetch(group)
    number = partition_for(group.encode(), count)
    shutil.rmtree(second / f"__consumer_offsets-{number}")
    code, out, err = call(capsys, "diff", *arguments, "--group", group, "--format=json")
    assert code == 3
    rows = [json.loads(line) for line in out.splitlines()]
    assert {(row["topic"], row["partition"], row["offset_after"]) for row in rows} == {
        (key.topic, key.partition, None) for key in positions
    }
    assert f"{second} lacks 1 log partition (the first is {number})" in err


def test_only_positions_that_may_differ_become_objects(tmp_path, capsys, monkeypatch):
    """Topic ids that neither side knows are no difference: a log of millions is compared in columns."""
    seen = []
    change_of = comparison._change_of
    monkeypatch.setattr(comparison, "_change_of", lambda row: seen.append(row) or change_of(row))
    state = {("g", "t", number): OffsetAndMetadata(number) for number in range(300)}
    old = written(tmp_path / "old", 1, state)
    new = written(
        tmp_path / "new", 2, {**state, ("g", "t", 7): OffsetAndMetadata(0), ("h", "t", 0): OffsetAndMetadata(1)}
    )
    assert len(differing(capsys, old, "--other", new)) == len(seen) == 2
