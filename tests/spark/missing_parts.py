"""Stores whose commits were all acknowledged, and what is taken away from them: ends, middles, directories."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition

SMALL = StoreConfig(
    segment_bytes=8192,
    batch_bytes_max=2048,
    segment_index_bytes=4096,
    extend_bytes_min=4096,
    extend_bytes_max=4096,
)
OFF = MaintenanceConfig(enabled=False)
PARTITIONS = 2
#: The log partition that something is taken away from.
HIT = 0


def fill(store: offsetlog.OffsetStore, first: int = 0, count: int = 300) -> None:
    """Commits positions, and some transactions, each of which is on disk when this returns."""
    for number in range(first, first + count):
        store.commit_one(f"g{number % 5}", "t", number % 61, 1000 + number)
        if number % 40 == 0:
            with store.transaction("g1", 900) as transaction:
                transaction.commit({TopicPartition("t", number): number})


def build(path: Path, kind: str) -> Path:
    """Makes a store: "closed"; "killed", as an end of its process leaves it; "cleaned" before it was closed."""
    if kind == "killed":
        with offsetlog.open(path.with_name("open"), partitions=PARTITIONS, config=SMALL, maintenance=OFF) as store:
            fill(store)
            shutil.copytree(store.path, path, ignore=shutil.ignore_patterns(".lock"))
        return path
    with offsetlog.open(path, partitions=PARTITIONS, config=SMALL, maintenance=OFF) as store:
        fill(store, count=200)
        if kind == "cleaned":
            store.compact()
        fill(store, 200, 100)
    return path


def directory_of(path: Path) -> Path:
    return path / f"__consumer_offsets-{HIT}"


def segments_of(path: Path) -> list[Path]:
    return sorted(directory_of(path).glob("*.log"))


def batch_ends(segment: Path) -> list[int]:
    """Where the batches of a segment end, in bytes."""
    content, position, found = segment.read_bytes(), 0, []
    while position + 12 <= len(content):
        length = int.from_bytes(content[position + 8 : position + 12], "big")
        if length == 0:
            break
        position += 12 + length
        found.append(position)
    return found


def cut(segment: Path, batches_left: Callable[[int], int]) -> None:
    """Cuts a segment after a whole batch: of so many, so many are left."""
    ends = batch_ends(segment)
    left = batches_left(len(ends))
    segment.write_bytes(segment.read_bytes()[: ends[left - 1] if left else 0])


def lose_last_batch(path: Path) -> None:
    cut(segments_of(path)[-1], lambda count: count - 1)


def lose_half_of_the_end(path: Path) -> None:
    cut(segments_of(path)[-1], lambda count: count // 2)


def empty_the_end(path: Path) -> None:
    cut(segments_of(path)[-1], lambda _: 0)


def remove_the_end(path: Path) -> None:
    segments_of(path)[-1].unlink()


def remove_the_last_two(path: Path) -> None:
    for segment in segments_of(path)[-2:]:
        segment.unlink()


def tear_the_end(path: Path) -> None:
    last = segments_of(path)[-1]
    last.write_bytes(last.read_bytes()[: batch_ends(last)[-1] - 3])


def cut_a_middle(path: Path) -> None:
    cut(segments_of(path)[1], lambda count: count // 2)


def empty_a_middle(path: Path) -> None:
    cut(segments_of(path)[1], lambda _: 0)


def remove_a_middle(path: Path) -> None:
    segments_of(path)[1].unlink()


def remove_the_one_before_last(path: Path) -> None:
    segments_of(path)[-2].unlink()


def remove_the_first(path: Path) -> None:
    segments_of(path)[0].unlink()


def empty_the_partition(path: Path) -> None:
    for segment in segments_of(path):
        segment.unlink()


def remove_the_directory(path: Path) -> None:
    shutil.rmtree(directory_of(path))


FAULTS: tuple[Callable[[Path], None], ...] = (
    lose_last_batch,
    lose_half_of_the_end,
    empty_the_end,
    remove_the_end,
    remove_the_last_two,
    tear_the_end,
    cut_a_middle,
    empty_a_middle,
    remove_a_middle,
    remove_the_one_before_last,
    remove_the_first,
    empty_the_partition,
    remove_the_directory,
)
