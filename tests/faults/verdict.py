"""The fate of a store that a fault hit: whether its losses are reported.

A report counts only if it names the log partition and a range that holds the lost commit.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path

import offsetlog
from offsetlog import MaintenanceConfig
from offsetlog.directory import checkpoint_record
from offsetlog.directory.log_directory import PROPERTIES
from offsetlog.errors import CorruptionError, OffsetLogError

from .file_faults import Fault

Content = dict[tuple[str, str, int], tuple[int, int, int]]
"""(group, topic, partition) -> offset, log partition, log offset"""


def open_harmed(path: Path) -> offsetlog.OffsetStore:
    """Opens a store whose loss is a warning, without maintenance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return offsetlog.open(path, maintenance=MaintenanceConfig(enabled=False))


def content_of(store: offsetlog.OffsetStore) -> Content:
    """Returns every committed position, with the place of its record."""
    rows = store.to_arrow().to_pylist()
    return {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["log_partition"], row["log_offset"])
        for row in rows
    }


def judge(path: Path, truth: Content, done: list[Fault], cleaned: Mapping[int, int] | None = None) -> str:
    """Opens what faults left of a store, and returns what became of it; a word in capitals is a failure.

    Below `cleaned`, by log partition, another program cleaned the log, and nobody can tell what should be there.
    """
    try:
        store = open_harmed(path)
    except OffsetLogError as failure:
        # Either file has what the other says; without both nobody knows how many log partitions there are.
        is_expected = {PROPERTIES, checkpoint_record.NAME} <= {fault.name for fault in done}
        return f"refused: {type(failure).__name__}" if is_expected else f"REFUSED to open: {failure}"
    try:
        found, problems = content_of(store), store.problems()
        places = [value[1:] for key, value in truth.items() if found.get(key, (None,))[0] != value[0]]
        unseen = [place for place in places if not any(_covers(each, *place) for each in problems)]
        if any(log_offset >= (cleaned or {}).get(number, 0) for number, log_offset in unseen):
            return f"SILENT: {unseen[:3]}, {[str(each) for each in problems]}"
        if unseen:
            return "lost below what another program cleaned"
        if places:
            return "lost, reported"
        if not any(fault.is_to_log for fault in done) and not _is_writable(store, truth):
            return f"READ-ONLY: {[str(each) for each in problems]}"
        return "same, reported" if problems else "same"
    finally:
        with contextlib.suppress(OffsetLogError):
            store.close()


def _covers(problem: OffsetLogError, partition: int, log_offset: int) -> bool:
    if not isinstance(problem, CorruptionError) or problem.log_partition != partition or problem.lost_from is None:
        return False
    return problem.lost_from <= log_offset and (problem.lost_below is None or log_offset < problem.lost_below)


def _is_writable(store: offsetlog.OffsetStore, truth: Content) -> bool:
    by_partition = {value[1]: group for (group, _, _), value in truth.items()}
    try:
        for group in by_partition.values():
            store.commit_one(group, "t", 1, 1)
    except OffsetLogError:
        return False
    return True
