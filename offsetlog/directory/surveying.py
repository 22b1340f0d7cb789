"""A survey of one log with as much memory for its keys as they need: what a clean would free, whole or not at all.

Stands below maintenance, since the executors of Spark survey logs as well.
"""

from __future__ import annotations

from typing import Any

from offsetlog._native.clean_survey import survey
from offsetlog._native.partition import Partition
from offsetlog.errors import CapacityError, ChangedFileError
from offsetlog.types import CleanShare

#: Memory for the keys of a cleaner: more than enough for what is there, and some for what was deleted.
MAP_BYTES = 64 << 20
BYTES_PER_KEY = 48
#: How much more is taken at most, and how much more the next time.
GROWTH_MAX = 16
GROWTH = 4


def map_bytes_for(partition: Partition) -> int:
    """Returns the memory with which the keys of a log fit in all likelihood.  Raises StateError."""
    return MAP_BYTES + BYTES_PER_KEY * partition.count()


def whole_survey(partition: Partition, map_bytes: int, **asked: Any) -> tuple[dict[str, Any], list[CleanShare]]:
    """Surveys a log, again with a larger map where the keys did not fit.

    Args:
        partition: loaded.
        map_bytes: memory for the keys to begin with.
        asked: as `clean_survey.survey` takes it.

    Returns:
        the report, which is complete, and the shares of all groups.

    Raises:
        CapacityError: the keys do not fit 16 times the memory that is enough in all likelihood, or there is none left.
        ChangedFileError: another process replaced or cut a file while it was read.
        StateError, StorageError.
    """
    bound = GROWTH_MAX * max(map_bytes, map_bytes_for(partition))
    while True:
        report, shares = survey(partition, map_bytes=map_bytes, **asked)
        if report["truncated"]:
            raise ChangedFileError("the log was cut while it was read", path=partition.path)
        if report["complete"]:
            return report, shares
        if map_bytes >= bound:
            raise CapacityError(f"the keys of the log do not fit {map_bytes} bytes", path=partition.path)
        map_bytes = min(GROWTH * map_bytes, bound)
