from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .real_disks import Disk, run, unavailable


@pytest.fixture
def disk(tmp_path: Path) -> Callable[..., Disk]:
    """Makes an empty file system of a kind and size; `folder` is where its image lies."""

    def make(kind: str, size: int, *options: str, folder: Path = tmp_path) -> Disk:
        program = shutil.which(f"mkfs.{kind}", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if os.geteuid() != 0:
            unavailable("only root may mount a loop device")
        if program is None:
            unavailable(f"there is no mkfs.{kind}")
        made = Disk(folder / f"{kind}.img", tmp_path / f"{kind}.mnt")
        made.mount.mkdir()
        with made.image.open("wb") as image:
            image.truncate(size)
        try:
            run(program, "-q", *options, made.image)
            with made.mounted():
                pass
        except OSError as failure:
            unavailable(str(failure))
        return made

    return make


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts file systems in memory."""
    with ExitStack() as mounts:

        def make(size: int) -> Path:
            path = tmp_path / "tmpfs"
            path.mkdir()
            try:
                run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)
            except OSError as failure:
                unavailable(str(failure))
            mounts.callback(run, "umount", path)
            return path

        yield make
