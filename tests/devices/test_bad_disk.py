"""A store on a disk that cannot read some bytes, or takes no writes: errors of calls, never the end of the process."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

import pytest

from .real_disks import MIB, Disk, Ended, run_store

TOPIC = "__consumer_offsets"
BLOCK = 4096
BTRFS = ("btrfs", 114 * MIB, "-M", "-f")

FILL = """
    store = open_store()
    for number in range(2):
        group = group_in(store, number)
        for offset in range(30_000):
            store.commit_one(group, "t", offset % 50, offset)
    store.flush()
    {end}
"""

USE = """
    store = open_store(read_only={read_only})
    group, other = group_in(store, 1), group_in(store, 0)
    for problem in store.problems():
        tell("problem", type(problem).__name__, problem.errno, problem.position is not None, problem.path)
    assert store.fetch_one(other, "t", 49).offset == 29_999
    try:
        tell("offset", store.fetch_one(group, "t", 49).offset)
    except errors.StorageError as failure:
        tell("refused", failure.errno, failure.position is not None, failure.path)
    if not {read_only}:
        try:
            store.commit_one(group, "t", 0, 1)
        except (errors.ReadOnlyError, errors.StorageError) as failure:
            tell("commit", type(failure).__name__)
        store.commit_one(other, "t", 0, 77, durability="disk")
        assert store.fetch_one(other, "t", 0).offset == 77
        tell("snapshot", *store.snapshot([0]))
    for finding in store.verify().findings if {verifies} else ():
        tell("finding", finding.kind, finding.log_partition, finding.path)
    store.close()
"""


def spoil(disk: Disk, file: Path) -> None:
    """Changes a block in the middle of a file without its file system.

    btrfs has a checksum of each block, so that reading it is EIO, as if the sector were bad.
    """
    content = file.read_bytes()
    middle = len(content) // 2 // BLOCK * BLOCK
    block = content[middle : middle + BLOCK]
    with disk.image.open("r+b") as image, mmap.mmap(image.fileno(), 0) as raw:
        place = raw.find(block)
        assert place >= 0
        while place >= 0:
            raw[place + 17] ^= 0xFF
            place = raw.find(block)


def fill_store(disk: Disk, victim: Callable[[list[Path]], Path], end: str) -> Path:
    """Fills a store, and returns a file of its partition 1."""
    with disk.mounted() as mount:
        run_store(mount / "store", "auto", FILL.format(end=end))
        return victim(sorted((mount / "store" / f"{TOPIC}-1").glob("*.log")))


def fill_and_spoil(disk: Disk, victim: Callable[[list[Path]], Path], end: str) -> Path:
    """Fills a store, and spoils a file of its partition 1."""
    file = fill_store(disk, victim, end)
    with disk.mounted():
        spoil(disk, file)
    return file


def first(segments: list[Path]) -> Path:
    return segments[0]


def last(segments: list[Path]) -> Path:
    return segments[-1]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_closed_segment_that_cannot_be_read(disk, read_only):
    bad = disk(*BTRFS)
    file = fill_and_spoil(bad, first, "store.close()")
    with bad.mounted() as mount:
        ended = run_store(mount / "store", "auto", USE.format(read_only=read_only, verifies=True))
        assert ended.word("problem") == f"StorageError 5 True {file}"
        assert ended.number("offset") == 29_999
        assert f"finding unreadable 1 {file}" in ended.lines
        if not read_only:
            assert ended.word("commit") == "ReadOnlyError"


def test_the_end_of_a_log_that_cannot_be_read_after_a_crash(disk):
    """Recovery has to check that end: the partition stays closed, and nothing of it is cut."""
    bad = disk(*BTRFS)
    file = fill_and_spoil(bad, last, "os._exit(0)")
    with bad.mounted() as mount:
        size = file.stat().st_size
        ended = run_store(mount / "store", "auto", USE.format(read_only=False, verifies=False))
        assert ended.word("problem") == f"StorageError 5 True {file}"
        assert ended.word("refused") == f"5 True {file}"
        assert ended.word("commit") == "StorageError"
        assert file.stat().st_size == size
        assert not list(file.parent.glob("broken-*"))


def test_a_disk_that_fails_under_an_open_store(disk):
    bad = disk(*BTRFS)
    file = fill_store(bad, first, "store.close()")
    with bad.mounted() as mount:
        ended = run_store(
            mount / "store",
            "auto",
            f"""
            from devices.real_disks import Disk
            from devices.test_bad_disk import spoil

            store = open_store()
            group, other = group_in(store, 1), group_in(store, 0)
            bad = Path({str(file)!r})
            spoil(Disk(Path({str(bad.image)!r}), Path({str(bad.mount)!r})), bad)
            with bad.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            calls = {{
                "snapshot": lambda: store.snapshot([1]),
                "history": lambda: store.history(group, "t", 0),
                "past": lambda: store.fetch(group, at=20_000),
            }}
            for name, call in calls.items():
                try:
                    call()
                except errors.StorageError as failure:
                    assert (failure.errno, failure.path) == (5, str(bad)) and failure.position is not None
                    tell("refused", name)
            tell("quarantined", *[each.path for report in store.compact() for each in report.quarantine])
            tell("finding", *[(each.kind, each.path) for each in store.verify().findings])
            for offset in range(1_000):
                store.commit_one(group, "t", 0, offset)
                store.commit_one(other, "t", 0, offset)
            assert store.fetch_one(group, "t", 0).offset == 999
            store.close()
            """,
        )
    assert [line for line in ended.lines if line.startswith("refused")] == [
        "refused snapshot",
        "refused history",
        "refused past",
    ]
    assert ended.word("quarantined") == str(file)
    assert ended.word("finding") == str(("unreadable", str(file)))


@pytest.mark.parametrize(("append", "durability"), [("auto", "disk"), ("written", "disk"), ("written", "process")])
def test_a_disk_that_takes_no_more_writes(disk, small_tmpfs, append, durability):
    """The image lies on a file system that is full: blocks that it has not yet cannot be written."""
    memory = small_tmpfs(40 * MIB)
    bad = disk("ext4", 96 * MIB, "-F", "-b", "4096", "-E", "lazy_itable_init=0", folder=memory)
    filler = memory / "filler"
    with bad.mounted() as mount:
        ended = run_store(
            mount / "store",
            append,
            f"""
            store = open_store(durability={durability!r}, segment_bytes=1 << 24)
            group, other = group_in(store, 1), group_in(store, 0)
            for offset in range(1_000):
                store.commit_one(group, "t", 0, offset, durability="process")
            store.flush()
            from devices.real_disks import fill
            fill(Path({str(memory)!r}))
            acknowledged, failures = 999, []
            for offset in range(1_000, 20_000):
                try:
                    store.commit(group, {{("t", 0): offsetlog.OffsetAndMetadata(offset, "x" * 4_000)}})
                    acknowledged = offset
                except errors.OffsetLogError as failure:
                    failures.append(failure)
                    if len(failures) > 20:
                        break
            try:
                store.flush()
            except errors.OffsetLogError as failure:
                failures.append(failure)
            tell("failures", *sorted({{type(each).__name__ for each in failures}}))
            tell("acknowledged", acknowledged)
            try:
                store.fetch_one(group, "t", 0)
            except errors.PartitionFailedError:
                tell("failed")
            os._exit(0)
            """,
        )
        assert set(ended.word("failures").split()) <= {"StorageError", "DiskFullError", "PartitionFailedError"}
    filler.unlink()
    if durability == "disk":
        check_acknowledged(bad, append, ended)


def check_acknowledged(disk: Disk, append: str, ended: Ended) -> None:
    """Commits acknowledged on "disk" are there when the disk works again."""
    with disk.mounted() as mount:
        again = run_store(
            mount / "store",
            append,
            """
            store = open_store()
            tell("offset", store.fetch_one(group_in(store, 1), "t", 0).offset)
            os._exit(0)
            """,
        )
    assert again.number("offset") >= ended.number("acknowledged")


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_file_cut_short_under_a_store_that_writes(tmp_path, durability):
    """Another program cuts the active segment."""
    ended = run_store(
        tmp_path / "store",
        "written",
        f"""
        store = open_store(durability={durability!r})
        group, other = group_in(store, 1), group_in(store, 0)
        for offset in range(100):
            store.commit_one(group, "t", 0, offset)
        [active] = (PATH / "{TOPIC}-1").glob("*.log")
        # An extension that is under way at the moment of the cut hides it (docs/next.md).
        time.sleep(0.5)
        os.truncate(active, 0)
        for offset in range(3):
            try:
                store.commit_one(group, "t", 0, offset)
            except errors.StorageError as failure:
                tell("refused", failure.path, failure.message)
            store.commit_one(other, "t", 0, offset)
        assert store.fetch_one(group, "t", 0).offset == 99
        os._exit(0)
        """,
    )
    assert len(ended.lines) == 3
    assert f"{TOPIC}-1/00000000000000000000.log the file is 0 bytes long, but its segment has " in ended.word("refused")
