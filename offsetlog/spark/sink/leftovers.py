"""Deletes staged files: those that were published or given up, and those that crashed epochs and runs left.

A file that is deleted here is never read again, because a publisher first checks, while it holds the lock of the store,
whether its epoch is finished.  However, a publisher may outlive its driver, and may still run while the next run of the
query stages files for the same epoch.  Therefore the files of runs that are younger than the finished run are kept.
They are deleted with the next epoch.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from pyarrow import fs as arrow_fs

from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.sink.options import SinkOptions, default_staging


def remove_staged(options: SinkOptions, query: str, runs: Sequence[str], done: int | None) -> None:
    """Deletes the staged files of runs.

    If this fails, the write still succeeds, and a later epoch of the same query deletes the files.

    Empty directories are deleted, too, because a broker accepts no other directories than those of logs in its log
    directory.

    Args:
        options: the options of the write.
        query: the name of the query's directory in the staging directory.
        runs: the directories of the runs of one epoch, relative to the staging directory.
        done: the number of the epoch if it has been published; otherwise None.  After a published epoch, the files of
            older epochs, and of older runs of this epoch, are deleted, too.
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
    # The directory is deleted in one step, if the file system can do that, so that no other process can write to it in
    # between.
    with contextlib.suppress(OSError):
        if isinstance(file_system, arrow_fs.LocalFileSystem):
            os.rmdir(folder)
        elif not file_system.get_file_info(arrow_fs.FileSelector(folder)):
            file_system.delete_dir(folder)
