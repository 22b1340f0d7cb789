"""Refreshes a read-only store by reading its logs again."""

from __future__ import annotations

import threading

from offsetlog._native.store_core import StoreCore
from offsetlog.config import StoreConfig
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.lifecycle.open_directory import open_read_only
from offsetlog.lifecycle.open_partitions import OpenPartitions


class Refresher:
    """Reads the logs of one read-only store again, one refresh at a time.

    Args:
        directory: the log directory.
        config: the settings.
        partitions: the owner of the partitions of the store.
    """

    def __init__(
        self, directory: LogDirectory, config: StoreConfig, partitions: OpenPartitions
    ) -> None:
        self._directory = directory
        self._config = config
        self._partitions = partitions
        # Without this lock, the later of two refreshes could show the state that the earlier one read.
        self._turn = threading.Lock()

    def refresh(self, core: StoreCore) -> None:
        """Replaces the state of the store by the present state of the logs; see OffsetStore.refresh."""
        # Refused in a forked child: a thread of the parent may have held the lock.
        core.attached(wait=False)
        self._partitions.wait_loaded()
        with self._turn:
            _, fresh = open_read_only(self._directory, self._config, core.count)
            try:
                core.replace_all(fresh.all())
            except BaseException:
                fresh.abandon()
                raise
            self._partitions.replace_by(fresh)
            self._partitions.finish_loading()
