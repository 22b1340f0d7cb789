"""A store whose file system is full: commits are refused, nothing is lost, the process and the store go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .real_disks import MIB, Disk, Ended, fill, run, run_store, unavailable

#: Kind, size, options, and how commits are to reach their file by themselves.
SYSTEMS = {
    "ext4": ("ext4", 64 * MIB, ("-F",), "mapped"),
    "ext4 without extents": ("ext4", 64 * MIB, ("-F", "-O", "^extents,^64bit,^metadata_csum,^has_journal"), "mapped"),
    "btrfs": ("btrfs", 114 * MIB, ("-M", "-f"), "written"),
    "xfs": ("xfs", 304 * MIB, ("-f", "-m", "reflink=0"), "mapped"),
    "xfs with reflink": ("xfs", 304 * MIB, ("-f", "-m", "reflink=1"), "written"),
}


@contextmanager
def on(disk: Callable[..., Disk], system: str) -> Iterator[tuple[Path, str]]:
    kind, size, options, expected = SYSTEMS[system]
    with disk(kind, size, *options).mounted() as mount:
        yield mount, expected


def commit_on_full(mount: Path, append: str, durability: str) -> Ended:
    """Commits, fills the file system, commits until that is refused, makes room, and commits again."""
    return run_store(
        mount / "store",
        append,
        f"""
        from devices.real_disks import fill

        store = open_store(durability={durability!r})
        group, other = group_in(store, 0), group_in(store, 1)
        for offset in range(3_000):
            store.commit_one(group, "t", 0, offset, durability="process")
        store.flush()
        tell("mapped", is_log_mapped())
        filler = fill(PATH.parent)

        done, refused = 3_000, []
        while done < 100_000 and len(refused) < 20:
            try:
                store.commit(group, {{("t", 0): offsetlog.OffsetAndMetadata(done, "x" * 4_000)}})
                done += 1
            except errors.StorageError as failure:
                refused.append(failure)
        tell("refused", len(refused), *{{type(each).__name__ for each in refused}})
        assert store.fetch_one(group, "t", 0).offset == done - 1
        assert store.verify() == []
        assert refused and all(each.path is not None for each in refused)

        filler.unlink()
        os.sync()
        for number in range(500):
            store.commit_one(group, "t", 0, done)
            done += 1
            store.commit_one(other, "t", 0, number)
        store.flush()
        assert store.verify() == []
        tell("done", done)
        os._exit(0)
        """,
    )


@pytest.mark.parametrize("durability", ["process", "disk"])
@pytest.mark.parametrize("append", ["auto", "written"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_commits_on_a_full_disk(disk, system, append, durability):
    with on(disk, system) as (mount, expected):
        ended = commit_on_full(mount, append, durability)
        assert ended.word("mapped") == str(append == "auto" and expected == "mapped")
        assert ended.word("refused") == "20 DiskFullError"
        # The process ended without a close.
        again = run_store(
            mount / "store",
            append,
            """
            with open_store() as store:
                assert store.problems() == []
                tell("offset", store.fetch_one(group_in(store, 0), "t", 0).offset)
            """,
        )
        assert again.number("offset") == ended.number("done") - 1


def test_commits_on_a_full_tmpfs(small_tmpfs):
    ended = commit_on_full(small_tmpfs(24 * MIB), "auto", "process")
    assert ended.word("mapped") == "True"
    assert ended.word("refused") == "20 DiskFullError"


def test_a_reflinked_copy_on_a_full_disk(disk):
    """The blocks of the copy belong to the original, too: a store to them takes new ones."""
    with on(disk, "xfs with reflink") as (mount, _):
        run_store(
            mount / "original",
            "auto",
            """
            with open_store(durability="disk") as store:
                for offset in range(3_000):
                    store.commit_one(group_in(store, 0), "t", 0, offset, durability="process")
            """,
        )
        run("cp", "-r", "--reflink=always", mount / "original", mount / "store")
        fill(mount)
        ended = run_store(
            mount / "store",
            "auto",
            """
            try:
                store = open_store()
                group = group_in(store, 0)
                for offset in range(100_000):
                    store.commit_one(group, "t", 0, offset)
            except errors.DiskFullError as failure:
                tell("refused", failure.path)
            os._exit(0)
            """,
        )
        assert str(mount / "store") in ended.word("refused")


def test_an_overlay_is_written_to(tmp_path):
    lower, upper, work, mount = (tmp_path / name for name in ("lower", "upper", "work", "mount"))
    for each in (lower, upper, work, mount):
        each.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    try:
        run("mount", "-t", "overlay", "-o", options, "overlay", mount)
    except OSError as failure:
        unavailable(str(failure))
    try:
        ended = run_store(
            mount / "store",
            "auto",
            """
            with open_store() as store:
                for offset in range(1_000):
                    store.commit_one("g", "t", 0, offset)
                tell("mapped", is_log_mapped())
                assert store.verify() == []
            """,
        )
    finally:
        run("umount", mount)
    assert ended.word("mapped") == "False"
