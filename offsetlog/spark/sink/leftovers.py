"""Deletes what was staged, once it is published or given up, and what crashed epochs and runs left.

A file deleted here is never read again: a reader of staged files finds out first, with the store's lock,
whether its epoch is finished.  Yet a publisher may outlive its driver, and be at work while the next run of the query
stages the same epoch: files younger than the run that is done are left alone, and go with the next epoch.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from pyarrow import fs as arrow_fs

from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.sink.options import SinkOptions, default_staging


def remove_staged(options: SinkOptions, query: str, runs: Sequence[str], done: int | None) -> None:
    """Deletes what runs staged; a failure to do so is no failure of the write, and is made up for by the next.

    Directories that are empty then go, too: a broker wants no directory among its logs that is none.

    Args:
        options: of the write.
        query: its directory below the staging.
        runs: directories below the staging, of one epoch.
        done: the epoch, where it is published: then what older epochs and older runs of it left is deleted as well.
    """
    file_system, root = file_system_of(options.staging_location, options.hadoop)
    with contextlib.suppress(OSError):
        if done is not None:
            _remove_left(file_system, f"{root}/{query}", runs, done, root)
        for run in runs:
            if file_system.get_file_info(f"{root}/{run}").type == arrow_fs.FileType.Directory:
                file_system.delete_dir(f"{root}/{run}")
        for folder in {f"{root}/{run.rsplit('/', 1)[0]}" for run in runs}:
            _remove_empty(file_system, folder)
        _remove_empty(file_system, f"{root}/{query}")
        if options.staging_location == default_staging(options.path):
            _remove_empty(file_system, root)


def _remove_left(file_system: arrow_fs.FileSystem, folder: str, runs: Sequence[str], done: int, root: str) -> None:
    for epoch in _directories(file_system, folder):
        if not epoch.base_name.isdigit() or int(epoch.base_name) > done:
            continue
        if int(epoch.base_name) < done:
            file_system.delete_dir(epoch.path)
            continue
        found = {run.path: run.mtime_ns for run in _directories(file_system, epoch.path)}
        own = [found.get(f"{root}/{run}") for run in runs]
        for path, changed in found.items():
            if changed is not None and own and all(time is not None and changed < time for time in own):
                file_system.delete_dir(path)
        _remove_empty(file_system, epoch.path)


def _directories(file_system: arrow_fs.FileSystem, folder: str) -> list[arrow_fs.FileInfo]:
    found = file_system.get_file_info(arrow_fs.FileSelector(folder, allow_not_found=True))
    return [info for info in found if info.type == arrow_fs.FileType.Directory]


def _remove_empty(file_system: arrow_fs.FileSystem, folder: str) -> None:
    # Without a moment in which somebody could fill it, where the file system can do that.
    with contextlib.suppress(OSError):
        if isinstance(file_system, arrow_fs.LocalFileSystem):
            os.rmdir(folder)
        elif not file_system.get_file_info(arrow_fs.FileSelector(folder)):
            file_system.delete_dir(folder)
