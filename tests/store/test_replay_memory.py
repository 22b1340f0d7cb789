"""A replay keeps to its memory, whatever the size of batches; runs that do not follow each other are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import offsetlog
from offsetlog import MaintenanceConfig, TopicPartition, errors
from offsetlog._native.replay import MemoryAccount, Replay

KEY = TopicPartition("t", 0)
BY_HAND = MaintenanceConfig(enabled=False)
MIB = 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A segment of a few large batches; the state that it leads to takes some MiB."""
    path = tmp_path_factory.mktemp("large") / "data"
    with offsetlog.open(path, partitions=1, durability="process", maintenance=BY_HAND) as store:
        for turn in range(4):
            numbers = range(turn * 4000, (turn + 1) * 4000)
            columns = {
                "group": [f"g{number}" for number in numbers],
                "topic": ["t"] * len(numbers),
                "partition": pa.array([0] * len(numbers), pa.int32()),
                "offset": pa.array(numbers, pa.int64()),
                "metadata": [f"{number:0400}" for number in numbers],
            }
            store.commit_arrow(pa.table(columns))
    (segment,) = path.rglob("*.log")
    return str(segment)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("small") / "data"
    with offsetlog.open(path, partitions=1, durability="process", maintenance=BY_HAND) as store:
        for number in range(20):
            store.commit(f"g{number % 3}", {KEY: number})
    (segment,) = path.rglob("*.log")
    return str(segment)


def test_large_batches_stay_within_the_bound(large: str) -> None:
    free = Replay()
    free.apply(large)
    assert free.batches < 256
    assert free.memory > 7 * MIB
    bounded = Replay(account=MemoryAccount(MIB))
    with pytest.raises(errors.CapacityError, match=f"more than {MIB} bytes"):
        bounded.apply(large)
    assert bounded.memory < free.memory / 2
    # Tables of the same entries differ a little in size, as their seeds do.
    roomy = Replay(account=MemoryAccount(free.memory * 5 // 4))
    roomy.apply(large)
    assert roomy.digest() == free.digest()


def test_the_end_of_a_small_log_is_looked_at(log: str) -> None:
    with pytest.raises(errors.CapacityError):
        Replay(account=MemoryAccount(1)).apply(log)


def test_replays_share_an_account(log: str) -> None:
    account, alone = MemoryAccount(1 << 40), Replay()
    alone.apply(log)
    first, second = Replay(account=account), Replay(account=account)
    first.apply(log)
    assert account.used == alone.memory
    second.apply(log)
    assert account.used == 2 * alone.memory
    del second
    assert account.used == alone.memory
    narrow = MemoryAccount(2 * alone.memory - 1)
    first, second = Replay(account=narrow), Replay(account=narrow)
    first.apply(log)
    with pytest.raises(errors.CapacityError):
        second.apply(log)


def test_what_a_join_leads_to_is_looked_at(log: str) -> None:
    middle = 10
    account, runs = MemoryAccount(1 << 40), []
    for begin, end in ((0, middle), (middle, 20)):
        run = Replay(run=begin > 0, account=account)
        run.apply(log, since=begin, until=end)
        runs.append(run)
    assert account.used == sum(run.memory for run in runs)
    runs[0].join(runs[1])
    assert account.used == runs[0].memory
    assert runs[0].next_offset == 20


@pytest.mark.parametrize("begin", [0, 9])
def test_a_run_that_does_not_follow_is_refused(log: str, begin: int) -> None:
    earlier, later = Replay(), Replay(run=True)
    earlier.apply(log, until=10)
    later.apply(log, since=begin)
    before = earlier.digest(physical=True)
    refused = f"begins at log offset {begin}, but this replay has applied the log up to 10"
    with pytest.raises(errors.InvalidArgumentError, match=refused):
        earlier.join(later)
    assert (earlier.digest(physical=True), earlier.next_offset) == (before, 10)


def test_a_run_that_follows_an_empty_one(log: str) -> None:
    first, empty, last = Replay(), Replay(run=True), Replay(run=True)
    first.apply(log, until=10)
    last.apply(log, since=10)
    empty.join(last)
    first.join(empty)
    whole = Replay()
    whole.apply(log)
    assert first.digest(physical=True) == whole.digest(physical=True)
    again = Replay()
    again.apply(log, until=11)
    with pytest.raises(errors.InvalidArgumentError, match="has applied the log up to 11"):
        again.join(empty)
