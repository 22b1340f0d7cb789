"""A log offset inside a commit is no moment: a state has all of a commit or nothing of it."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conformance.scenarios import BUNDLED
from depth import first_seed

import offsetlog
from offsetlog import OffsetAndMetadata, StoreConfig, TopicPartition, errors

from .reading import Row, rows_of

KEYS = [TopicPartition("orders", number) for number in range(40)]
#: Small enough for several segments and many entries of the index.
CONFIG = StoreConfig(segment_bytes=4 << 10, index_interval_bytes=256)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commits of 1 to 40 positions."""
    path = tmp_path_factory.mktemp("inside") / "data"
    seed = first_seed()
    print(f"seed {seed}")
    draw = random.Random(seed)
    with offsetlog.open(path, 1, "process", config=CONFIG) as store:
        for step in range(25):
            store.commit("g", dict.fromkeys(draw.sample(KEYS, draw.randint(1, 40)), step))
    return path


def commits_of(path: Path) -> list[tuple[int, int]]:
    """The base offset of each batch, and the log offset after it."""
    return [(row["base_offset"], row["last_offset"] + 1) for row in rows_of(path, view="batches")]


def offsets_of(state: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[int, int]:
    return {key.partition: value.offset for key, value in state.items()}


@pytest.mark.parametrize("mode", ["failfast", "permissive"])
def test_every_log_offset_inside_a_commit_is_refused_and_no_other(log: Path, mode: str) -> None:
    with offsetlog.open(log, read_only=True) as store:
        for base, after in commits_of(log):
            rows = rows_of(log, view="offsets", at=f"offset:{base}", mode=mode)
            then = store.fetch("g", at=f"offset:{base}")
            assert {row["partition"]: row["offset"] for row in rows} == offsets_of(then)
            for inside in range(base + 1, after):
                with pytest.raises(errors.InsideCommitError) as raised:
                    rows_of(log, view="offsets", at=f"offset:{inside}", mode=mode)
                assert (raised.value.before, raised.value.after, raised.value.log_offset) == (base, after, inside)


@pytest.mark.parametrize("view", ["offsets", "groups", "history", "commits", "records", "batches"])
def test_the_refusal_names_the_log_offsets_before_and_after_the_commit(tmp_path: Path, view: str) -> None:
    with offsetlog.open(tmp_path / "data", 1, "process") as store:
        store.commit("g", dict.fromkeys(KEYS[:4], 1))
        store.commit("g", dict.fromkeys(KEYS[:4], 2))
    words = (
        "at: log offset 6 of log partition 0 lies inside a commit, which is never split; "
        "give 4 for the state before this commit, 8 for the state after it"
    )
    with pytest.raises(errors.InsideCommitError, match=re.escape(words)):
        rows_of(tmp_path / "data", view=view, at='{"0": 6}')
    for moment in (0, 4, 8):
        rows_of(tmp_path / "data", view=view, at=f'{{"0": {moment}}}')


def test_a_range_may_begin_and_end_inside_a_commit(log: Path) -> None:
    base, after = max(commits_of(log), key=lambda each: each[1] - each[0])
    rows = rows_of(log, view="records", startingOffset=base + 1, endingOffset=after - 1)
    assert [row["log_offset"] for row in rows] == list(range(base + 1, after - 1))


def test_a_damaged_commit_is_reported_as_damage(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    batch = max(rows_of(log, view="batches"), key=lambda row: row["record_count"])
    [file] = (tmp_path / "log").rglob(batch["segment"])
    content = bytearray(file.read_bytes())
    content[batch["position"] + batch["size"] - 1] ^= 1
    file.write_bytes(content)
    inside = batch["base_offset"] + 1
    with pytest.raises(errors.CorruptionError):
        rows_of(tmp_path / "log", view="records", at=f"offset:{inside}")


def offsets_by_topic(state: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[tuple[str, int], int]:
    return {(key.topic, key.partition): value.offset for key, value in state.items()}


def rows_by_topic(rows: list[Row]) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


def answer(ask: Callable[[], dict[tuple[str, int], int]]) -> object:
    """The state; or the log offsets around the commit, of a refusal; or why it is not known."""
    try:
        return ask()
    except errors.HistoryError as failure:
        return str(failure)
    except errors.InsideCommitError as failure:
        return failure.before, failure.after


def test_compressed_sets_of_old_brokers_are_not_split_either(tmp_path: Path) -> None:
    """Their headers name only the last message; the library is the reference."""
    path = tmp_path / "log"
    shutil.copytree(BUNDLED / "kafka-old" / "0.10.2.2-snappy" / "log", path)
    count = sum(1 for each in path.iterdir() if each.is_dir())
    refused = 0
    with offsetlog.open(path, count, read_only=True) as store:
        for group in store.groups():
            number = store._core.number_of(group)
            for at in range(store._core.partition(number).log_facts()["end"] + 1):
                options = {"view": "offsets", "group": group, "at": f'{{"{number}": {at}}}'}
                expected = answer(lambda group=group, at=at: offsets_by_topic(store.fetch(group, at=at)))
                if isinstance(expected, str):
                    continue  # the records before it were cleaned away
                found = answer(lambda options=options: rows_by_topic(rows_of(path, **options)))
                assert found == expected
                refused += isinstance(expected, tuple)
    assert refused
