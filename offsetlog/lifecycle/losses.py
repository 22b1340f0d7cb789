"""What an open would report as missing or in doubt, for those who read a directory without opening a store."""

from __future__ import annotations

import os
from pathlib import Path

from offsetlog._native.files import FileSystem
from offsetlog.config import StoreConfig
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import DataLossError, PossibleLossError
from offsetlog.lifecycle.partition_opener import PartitionOpener


def losses_at_open(path: str | os.PathLike[str]) -> list[DataLossError | PossibleLossError]:
    """Opens the logs of a log directory for reading, without loading them, and returns what is missing or in doubt.

    As errors that were not raised; nothing is changed, and no lock is taken.  What cannot be opened is left out.

    Args:
        path: the log directory.

    Raises:
        StorageError, CapacityError, CorruptionError: it cannot be read.
    """
    directory = LogDirectory(Path(path), FileSystem())
    numbers, properties = directory.partition_numbers(), directory.read_properties()
    existing = None if properties is None else properties.existing
    opener = PartitionOpener(directory, StoreConfig(), writable=False, existing=existing)
    opened, _ = opener.open_logs(numbers, os.cpu_count() or 1)
    try:
        found: list[DataLossError | PossibleLossError] = [*opener.missing(numbers).values()]
        problems = (problem for partition in opened for problem in partition.problems())
        return found + [each for each in problems if isinstance(each, (DataLossError, PossibleLossError))]
    finally:
        for partition in opened:
            partition.abandon()
