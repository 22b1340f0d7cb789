"""The directories of deleted partitions: renamed at once, removed on a thread of its own."""

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
    """The directories of a log directory whose partitions were deleted (docs/format/topics.md §17.5).

    Their names say so: those that are still there after a crash are removed by the next start.  Every
    method can be called from any thread.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._remover = ThreadPoolExecutor(1, "offsetlog-topic-delete")

    def rename(self, topic: str, number: int, topic_id: bytes) -> Path | None:
        """Gives the directory of a partition the name of a deleted one; None where there is none.

        Raises:
            StorageError: it could not be renamed.
        """
        fs, path = self._directory.fs, self._directory.path / f"{topic}-{number}"
        if not fs.exists(path):
            return None
        # As Kafka names them: the topic is shortened, so that the name stays one of a file.
        suffix = f"-{number}.{topic_id.hex()}{DELETED}"
        deleted = self._directory.path / (topic[: NAME_BYTES_MAX - len(suffix)] + suffix)
        fs.rename(path, deleted)
        return deleted

    def remove(self, renamed: Iterable[Path]) -> None:
        """Removes renamed directories, soon; what cannot be removed stays for the next start."""
        with suppress(RuntimeError):  # it is closed
            for path in renamed:
                self._remover.submit(_remove, path)

    def remove_left(self) -> None:
        """Removes what an earlier process has left, before it returns.

        Raises:
            StorageError: the log directory cannot be read.
        """
        for name in self._directory.fs.list(self._directory.path):
            parsed = parse_directory_name(name)
            if parsed is not None and name.endswith(DELETED) and parsed[2] != 0:
                _remove(self._directory.path / name)

    def close(self) -> None:
        """Ends the thread after the directory that it is removing; the others stay for the next start."""
        self._remover.shutdown(wait=True, cancel_futures=True)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _log.warning("%s: cannot remove the directory of a deleted partition; the next start tries again", path)
