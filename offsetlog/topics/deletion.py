"""Renames the directories of deleted partitions immediately, and removes them on another thread."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from offsetlog._native.files import parse_directory_name
from offsetlog.directory.log_directory import LogDirectory

_log = logging.getLogger(__name__)

DELETED = "-delete"
NAME_BYTES_MAX = 255


class DeletedDirectories:
    """The directories of deleted partitions in a log directory (docs/format/topics.md §17.5).

    The new names mark the directories as deleted, so the next start removes those that a crash
    left.  Every method may be called on any thread.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._remover = ThreadPoolExecutor(1, "offsetlog-topic-delete")

    def rename(self, topic: str, number: int, topic_id: bytes) -> Path | None:
        """Gives a partition's directory a name that marks it as deleted; returns None if it does not exist.

        Raises:
            StorageError: the directory could not be renamed.
        """
        fs, path = self._directory.fs, self._directory.path / f"{topic}-{number}"
        if not fs.exists(path):
            return None
        # Named as by Kafka: the topic is shortened, so that the name is not too long for a file.
        suffix = f"-{number}.{topic_id.hex()}{DELETED}"
        deleted = self._directory.path / (topic[: NAME_BYTES_MAX - len(suffix)] + suffix)
        fs.rename(path, deleted)
        return deleted

    def remove(self, renamed: Iterable[Path]) -> None:
        """Schedules the removal of renamed directories; if a removal fails, the next start of the server repeats it."""
        with suppress(RuntimeError):  # the thread has stopped
            for path in renamed:
                self._remover.submit(_remove, path)

    def remove_left(self) -> None:
        """Removes the deleted directories of an earlier process; blocks until done.

        Raises:
            StorageError: the log directory cannot be read.
        """
        for name in self._directory.fs.list(self._directory.path):
            parsed = parse_directory_name(name)
            if parsed is not None and name.endswith(DELETED) and parsed[2] != 0:
                _remove(self._directory.path / name)

    def close(self) -> None:
        """Stops the thread after the current directory; the next start removes the others."""
        self._remover.shutdown(wait=True, cancel_futures=True)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _log.warning("%s: cannot remove the directory of a deleted partition; the next start tries again", path)
