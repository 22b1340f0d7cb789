"""A segment cut at every length, and with every bit turned (sampled), below and above what was flushed.

Below the flushed bound: the partition is read-only, the report names file, position and reason, everything else is
served, and not a byte is cut.  At or above it: what cannot be read is copied aside, cut and counted.  Never an offset
that was not committed, and never an older one without a word.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conformance.oracle_batches import Batch, read_segment
from depth import by_depth, first_seed

import offsetlog
from offsetlog import OffsetStore, TopicPartition, errors

COMMITS = 14
FLUSHED = 8
NUMBERS = 5
SAMPLED_BITS = by_depth(gate=150, long=4000)
SEED = first_seed()
#: At how many of the lengths a file or a batch is cut: at each n-th, from one that the seed draws.
STEP = by_depth(gate=9, long=1)
SEGMENT = Path("__consumer_offsets-0") / f"{0:020}.log"

Contents = dict[int, int]


@dataclass
class Written:
    """A directory as a killed process left it."""

    path: Path
    log: bytes
    batches: list[Batch]
    states: list[Contents]

    @property
    def flushed(self) -> int:
        """Position of the first byte that no flush covered."""
        return self.batches[FLUSHED].position

    def without(self, lost: set[int]) -> Contents:
        """Returns the result of the commits without those whose numbers are `lost`."""
        return {number % NUMBERS: value(number) for number in range(COMMITS) if number not in lost}

    def batch_at(self, position: int) -> int:
        return next(i for i in reversed(range(COMMITS)) if self.batches[i].position <= position)


def value(number: int) -> int:
    return 1000 + number


def cuts(end: int) -> list[int]:
    """Returns every STEP-th number below `end`, from one that the seed draws, and the first and the last."""
    begin = random.Random(SEED).randrange(STEP)
    return sorted({0, *range(begin, end, STEP), end - 1})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    base = tmp_path_factory.mktemp("damage")
    states: list[Contents] = [{}]
    with offsetlog.open(base / "live", partitions=1, durability="process") as store:
        for number in range(COMMITS):
            store.commit("g", {TopicPartition("t", number % NUMBERS): value(number)})
            states.append({**states[-1], number % NUMBERS: value(number)})
            if number == FLUSHED - 1:
                store.flush()
        shutil.copytree(base / "live", base / "killed")
    file = base / "killed" / SEGMENT
    batches, _ = read_segment(file.read_bytes())
    assert len(batches) == COMMITS
    # The zeros that the process had extended the file by are no part of the experiment.
    log = file.read_bytes()[: batches[-1].position + batches[-1].size]
    file.write_bytes(log)
    return Written(base / "killed", log, batches, states)


@pytest.fixture
def damaged(written: Written) -> Iterator[Path]:
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else written.path.parent
    path = base / f"offsetlog-damage-{os.getpid()}"
    shutil.copytree(written.path, path)
    yield path
    shutil.rmtree(path)


def renew(written: Written, path: Path, log: bytes, recovery_point: int | None = None) -> None:
    """Makes the copy as it was, with these bytes as its segment."""
    shutil.rmtree(path)
    shutil.copytree(written.path, path)
    (path / SEGMENT).write_bytes(log)
    if recovery_point is not None:
        text = f"0\n1\n__consumer_offsets 0 {recovery_point}\n"
        (path / "recovery-point-offset-checkpoint").write_text(text)


def contents(store: OffsetStore) -> Contents:
    return {key.partition: found.offset for key, found in store.fetch("g").items()}


def tree(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def copies(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in path.glob("*/broken-*")]


@contextlib.contextmanager
def opened(path: Path, **options: Any) -> Iterator[OffsetStore]:
    """The store, whose damage, if any, was reported by one warning."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        store = offsetlog.open(path, **options)
    with store:
        assert [kind.category for kind in warned] == [errors.CorruptionWarning] * bool(store.problems())
        assert all(str(store.problems()[0]) in str(kind.message) for kind in warned)
        assert ("damaged" in repr(store)) == bool(store.problems())
        yield store


def check_read_only(path: Path) -> Contents:
    """A read-only open changes nothing; returns what it sees."""
    before = tree(path)
    with opened(path, read_only=True) as store:
        found = contents(store)
    assert tree(path) == before
    return found


def check_reported(path: Path, log: bytes, expected: Contents, position: int | None) -> None:
    """Corruption: read-only, reported with its place, nothing cut, everything else served."""
    with opened(path, durability="process") as store:
        problems = store.problems()
        assert problems
        assert all(problem.path is not None and problem.path.endswith(".log") for problem in problems)
        assert all(problem.message for problem in problems)
        if position is not None:
            assert [problem.position for problem in problems] == [position]
        assert contents(store) == expected
        with pytest.raises(errors.ReadOnlyError) as refused:
            store.commit("g", {TopicPartition("t", 0): 1})
        assert refused.value.path == str(path / SEGMENT.parent)
        assert problems[0].message in refused.value.message or len(refused.value.message) == 255
        assert contents(store) == expected
    assert (path / SEGMENT).read_bytes() == log
    assert copies(path) == []
    assert not (path / ".kafka_cleanshutdown").exists()


def check_cut(path: Path, log: bytes, position: int, expected: Contents) -> None:
    """Torn: copied aside, cut, counted, and then as if nothing had been."""
    with offsetlog.open(path, durability="process") as store:
        assert store.problems() == []
        recovery = store.recoveries()[0]
        # Zeros at the end may be left out: they are what a file is extended by.
        torn = log[position : position + recovery["torn_bytes"]]
        assert log[position:].rstrip(b"\0") == torn.rstrip(b"\0")
        assert copies(path) == ([torn] if torn else [])
        assert contents(store) == expected
        store.commit("g", {TopicPartition("t", 99): 5})
        assert store.verify() == []
    with offsetlog.open(path, durability="process") as store:
        assert store.recoveries()[0]["torn_bytes"] == 0
        assert contents(store) == {**expected, 99: 5}


def test_a_file_cut_at_every_length(written: Written, damaged: Path) -> None:
    """It ends where it was cut: what was flushed is missed, the rest is torn."""
    for size in cuts(len(written.log)):
        log = written.log[:size]
        whole = sum(batch.position + batch.size <= size for batch in written.batches)
        renew(written, damaged, log)
        assert check_read_only(damaged) == written.states[whole], size
        if whole >= FLUSHED:
            check_cut(damaged, log, written.batches[whole].position, written.states[whole])
            continue
        between = size == written.batches[whole].position
        check_reported(damaged, log, written.states[whole], None if between else written.batches[whole].position)


def test_a_file_cut_below_the_recovery_point(written: Written, damaged: Path) -> None:
    """The checkpoint is another witness: what is missing below it was there."""
    for size in cuts(written.flushed):
        log = written.log[:size]
        whole = sum(batch.position + batch.size <= size for batch in written.batches)
        renew(written, damaged, log, recovery_point=FLUSHED)
        assert check_read_only(damaged) == written.states[whole], size
        between = size == written.batches[whole].position
        check_reported(damaged, log, written.states[whole], None if between else written.batches[whole].position)


def test_a_batch_cut_at_every_length(written: Written, damaged: Path) -> None:
    """Its end is missing, and the other batches follow: those that were flushed tell that it was, too."""
    for number in (0, FLUSHED - 2, FLUSHED, COMMITS - 2):
        batch = written.batches[number]
        for size in cuts(batch.size):
            log = written.log[: batch.position + size] + written.log[batch.position + batch.size :]
            if log.startswith(written.log[: batch.position + batch.size]):
                continue  # a zero at the end of one, and one at the start of the next
            renew(written, damaged, log)
            seen = check_read_only(damaged)
            if number < FLUSHED and size > 0:
                assert seen == written.without({number}), (number, size)
                check_reported(damaged, log, written.without({number}), batch.position)
            elif number >= FLUSHED and size > 0:
                assert seen == written.states[number], (number, size)
                check_cut(damaged, log, batch.position, written.states[number])


#: Bytes of a batch's header that no CRC covers, and that a reader can tell nothing from: the leader epoch.
SILENT = range(12, 16)
#: The base offset, which no CRC covers either: what is wrong is seen at the neighbours, or not at all.
BASE_OFFSET = range(8)


def turned(log: bytes, bit: int) -> bytes:
    changed = bytearray(log)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def check_base_offset(written: Written, path: Path, log: bytes, number: int, seen: Contents) -> None:
    """A batch lies about its base offset: reported when it was flushed, whichever way it points; else torn."""
    if number < FLUSHED:
        check_reported(path, log, seen, None)
        # All commits are there, except one that an impossible offset hides.
        assert seen in (written.states[-1], written.without({number}))
    else:
        # A reader of a log that may grow does not know where it ends: to it the last one is as good as any.
        assert seen == written.states[number] or (number == COMMITS - 1 and seen == written.states[-1])
        check_cut(path, log, written.batches[number].position, written.states[number])


def test_every_bit_of_the_base_offsets_around_the_flushed_bound(written: Written, damaged: Path) -> None:
    for number in (0, FLUSHED - 2, FLUSHED - 1, FLUSHED, FLUSHED + 1, COMMITS - 1):
        for within in cuts(8 * len(BASE_OFFSET)):
            log = turned(written.log, 8 * written.batches[number].position + within)
            renew(written, damaged, log)
            check_base_offset(written, damaged, log, number, check_read_only(damaged))


def test_bits_turned(written: Written, damaged: Path) -> None:
    draw = random.Random(SEED)
    bits = sorted(draw.sample(range(8 * len(written.log)), min(SAMPLED_BITS, 8 * len(written.log))))
    for bit in bits:
        log = turned(written.log, bit)
        number = written.batch_at(bit // 8)
        batch = written.batches[number]
        within = bit // 8 - batch.position
        renew(written, damaged, log)
        seen = check_read_only(damaged)
        if within in BASE_OFFSET:
            check_base_offset(written, damaged, log, number, seen)
        elif within in SILENT:
            with offsetlog.open(damaged, durability="process") as store:
                assert store.recoveries()[0]["torn_bytes"] == 0
                assert contents(store) == seen == written.states[-1]
        elif number < FLUSHED:
            assert seen == written.without({number}), bit
            check_reported(damaged, log, written.without({number}), batch.position)
        else:
            assert seen == written.states[number], bit
            check_cut(damaged, log, batch.position, written.states[number])
