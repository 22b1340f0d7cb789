"""A Kafka directory opened partition by partition: the number of partitions stays unknown."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

import offsetlog
from offsetlog import TopicPartition, errors, opening
from offsetlog.directory.log_directory import PROPERTIES

REAL = Path(__file__).resolve().parents[1] / "data" / "kafka-4.3.0" / "groups" / "log"
GROUP = "cl-range-fraud"
KEY = TopicPartition("orders", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shutil.copytree(REAL, tmp_path / "kafka")
    return tmp_path / "kafka"


def rows():
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"group": [GROUP], "topic": ["t"], "partition": [0], "offset": [1]}
    return pyarrow.table(columns)


NEED_THE_NUMBER = {
    "partitions": lambda store: store.partitions,
    "commit": lambda store: store.commit(GROUP, {KEY: 1}),
    "commit with metadata": lambda store: store.commit(GROUP, {KEY: 1}, monotonic=True),
    "commit_one": lambda store: store.commit_one(GROUP, "t", 0, 1),
    "commit_async": lambda store: store.commit_async(GROUP, {KEY: 1}),
    "commit_arrow": lambda store: store.commit_arrow(rows()),
    "transaction": lambda store: store.transaction(GROUP, 1),
    "delete": lambda store: store.delete(GROUP),
    "delete some": lambda store: store.delete(GROUP, [KEY]),
    "fetch": lambda store: store.fetch(GROUP),
    "fetch some": lambda store: store.fetch(GROUP, [KEY]),
    "fetch_one": lambda store: store.fetch_one(GROUP, "t", 0),
    "fetch_arrow": lambda store: store.fetch_arrow([GROUP]),
    "fetch at": lambda store: store.fetch(GROUP, at=1),
    "history": lambda store: store.history(GROUP, "t", 0),
    "restore": lambda store: store.restore(GROUP, 1),
    "verify": lambda store: store.verify(),
}


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("call", NEED_THE_NUMBER)
def test_calls_that_need_the_number_are_refused(path, call, wait):
    shutil.rmtree(path / "__consumer_offsets-3")
    before = {file.name for file in path.iterdir()}
    with opening.open_with(path, wait=wait, by_partition=True) as store:
        digest = store.digest()
        with pytest.raises(errors.PartitionCountError, match="pass partitions="):
            NEED_THE_NUMBER[call](store)
        assert store.digest() == digest
        assert store.groups()
    assert {file.name for file in path.iterdir()} - before <= {".lock", ".kafka_cleanshutdown"}


def test_no_partition_is_made(path):
    shutil.rmtree(path / "__consumer_offsets-3")
    with opening.open_with(path, by_partition=True) as store:
        core = store._open_core
        assert core.ready(2) is core.partition(2)
        assert core.partition(3) is None
        with pytest.raises(errors.PartitionCountError):
            core.ready(3)
        for number in (-1, 8):
            with pytest.raises(errors.InvalidArgumentError, match="the highest is 7"):
                core.ready(number)
    assert not (path / "__consumer_offsets-3").exists()


@pytest.mark.parametrize("wait", [True, False])
def test_reading_needs_no_number_either(path, wait):
    with offsetlog.open(path, 8, read_only=True) as store:
        digest = store.digest(physical=True)
    with opening.open_with(path, read_only=True, wait=wait, by_partition=True) as store:
        assert store.digest(physical=True) == digest
        assert store.maintenance.plans()
        for refused in (lambda: store.partitions, store.refresh, lambda: store.fetch(GROUP)):
            with pytest.raises(errors.PartitionCountError):
                refused()
        assert "read-only" in repr(store)
    assert not (path / ".lock").exists()


def test_where_the_directory_says_it_the_number_is_known(path):
    offsetlog.open(path, 8).close()
    with opening.open_with(path, by_partition=True) as store:
        assert store.partitions == 8
        store.commit_one("new", "t", 0, 1)
    with pytest.raises(errors.PartitionCountError, match="the directory has 8"):
        opening.open_with(path, 9, by_partition=True)


def test_a_number_that_is_given_takes_the_directory_over(path):
    with pytest.raises(errors.PartitionCountError, match="with partitions=9 the group"):
        opening.open_with(path, 9, by_partition=True)
    assert not (path / PROPERTIES).exists()
    opening.open_with(path, 8, by_partition=True).close()
    assert (path / PROPERTIES).exists()


def test_damage_is_counted_among_the_partitions_that_are_here(path):
    shutil.rmtree(path / "__consumer_offsets-3")
    victim = max(path.rglob("*.log"), key=lambda file: file.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.warns(errors.CorruptionWarning, match="1 of 7 partitions in"):
        store = opening.open_with(path, by_partition=True)
    with store:
        assert "1 of 7 partitions damaged" in repr(store)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_number_that_no_topic_has_is_refused(path, read_only):
    (path / "__consumer_offsets-2147483647").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.PartitionCountError, match="2147483647 cannot be") as caught:
            opening.open_with(path, read_only=read_only, by_partition=True)
    assert caught.value.actual == 2**31
