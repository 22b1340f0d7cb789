"""Finds missing parts of a log directory.  The driver does so whenever it plans a batch read or starts a stream.

A log that lost its end, a segment or a directory looks like a log that never had them, since cleaners also leave gaps
in the log offsets.  `offsetlog.directory.completeness` reads the witnesses, which are files that show what the log
should hold.  This module decides which losses matter to a reader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from offsetlog._native.files import parse_directory_name
from offsetlog.directory.completeness import Completeness, LogEnd, is_witness_missing, link_target
from offsetlog.errors import CorruptionError, OffsetLogError, PossibleLossError, StorageError
from offsetlog.spark.scan.bounds import horizon_now
from offsetlog.spark.scan.files import PartitionListing, list_partitions
from offsetlog.spark.scan.options import OFFSET_MAX, RANGED, ReadOptions, bound_of, moment_of
from offsetlog.spark.scan.plan import Source

#: How often to check.  While a process writes to the log, the files and the witnesses may be read at different moments.
#: Only a real loss is found at every check.
LOOKS = 3
_PAUSE_SECONDS = 0.02
_log = logging.getLogger(__name__)


def find_losses(
    source: Source, read: ReadOptions, doubts: list[OffsetLogError] | None = None
) -> list[CorruptionError]:
    """Returns the losses in the requested part of a log that a reader would not notice by itself.

    Each loss is an error that was not raised, with its `log_partition`.  A segment that is read by itself has no
    witnesses, so no loss of it is found.

    Args:
        source: the source that is read.
        read: the options.
        doubts: a list to which the missing and damaged witnesses are added, which are not losses themselves.  With
            None, these witnesses are logged as warnings.

    Raises:
        StorageError: the directory cannot be listed.
    """
    if any(listing.directory is None for listing in source.listings):
        return []
    listings: Sequence[PartitionListing] = source.listings
    for look in range(LOOKS):
        if look > 0:
            # Even a pause of 0 lets other threads and processes run.
            time.sleep(look * _PAUSE_SECONDS)
        wrong: list[OffsetLogError] = []
        found = [each for each in _look(source, listings, read, wrong) if _concerns(each, source, read)]
        losses = [each for each in found if not is_witness_missing(each)]
        if not losses:
            break  # a missing witness is no reason to check again
        # The log may have grown after it was listed and before the witnesses were read.
        listings = ()
    wrong += [each for each in found if is_witness_missing(each)]
    if doubts is None:
        warn_of(map(str, wrong))
    else:
        doubts += wrong
    return losses


def warn_of(doubts: Iterable[str]) -> None:
    """Logs a warning for each missing or damaged witness."""
    for doubt in doubts:
        _log.warning("%s", doubt)


def refusal(losses: Sequence[CorruptionError], way_out: str) -> CorruptionError:
    """Returns the error for losses.  It names the first loss, the number of further losses, and a way to continue."""
    first = losses[0]
    more = f", and {len(losses) - 1} more like it" if len(losses) > 1 else ""
    return type(first)(
        f"{first.message}{more}; nothing was read; to read the rest, use {way_out}",
        path=first.path,
        log_partition=first.log_partition,
        lost_from=first.lost_from,
        lost_below=first.lost_below,
    )


def ask(source: Source, read: ReadOptions, doubts: list[OffsetLogError] | None = None) -> list[CorruptionError]:
    """Raises if there are losses; with mode=permissive, returns them.  The arguments are those of `find_losses`.

    Raises:
        DataLossError, PossibleLossError, CorruptionError: a part is missing, with mode=failfast.
        StorageError: the directory cannot be listed.
    """
    found = find_losses(source, read, doubts)
    if found and not read.permissive:
        raise refusal(found, "mode=permissive, or --permissive on the command line")
    return found


def _is_whole_directory(source: Source) -> bool:
    return all(each.directory is not None and each.directory != source.path for each in source.listings)


def _directory_of(source: Source) -> tuple[str, int | None]:
    """Returns the log directory of a partition, and, if the partition is a link, the number in its target's name."""
    above = str(PurePosixPath(source.path).parent)
    elsewhere = link_target(source.path) if source.files.arrow is None else None
    if elsewhere is None:
        return above, None
    parsed = parse_directory_name(elsewhere.name)
    return str(elsewhere.parent), None if parsed is None else parsed[1]


def _look(
    source: Source, listings: Sequence[PartitionListing], read: ReadOptions, doubts: list[OffsetLogError]
) -> list[CorruptionError]:
    """Returns the losses that a comparison of the listed partitions with the witnesses shows.

    If `listings` is empty, the partitions are listed again, after the witnesses were read.

    Problems of the witnesses themselves are added to `doubts`.
    """
    is_whole = _is_whole_directory(source)
    above, elsewhere = (source.path, None) if is_whole else _directory_of(source)
    try:
        witnesses = Completeness(above, source.files.native)
    except StorageError as failure:
        text = f"the files that show whether the log is complete cannot be read: {failure}"
        return [PossibleLossError(text, path=above)]
    listings = listings or list_partitions(source.files, source.path)
    found: list[CorruptionError] = []
    # A partition that is read by itself need not have the broker's checkpoints beside it.
    doubts += witnesses.doubts() if is_whole or not witnesses.witnesses.is_foreign else []
    if elsewhere is not None:
        listings = [replace(each, number=elsewhere) for each in listings]
    if is_whole:
        numbers = [each.number for each in listings]
        found += [*witnesses.missing(numbers), *witnesses.missing_of_others(numbers)]
    for listing in listings:
        if listing.number >= 0 and _is_chosen(listing.number, read):
            found += _losses_of(source, witnesses, listing)
    return found


def _is_chosen(number: int, read: ReadOptions) -> bool:
    return all(chosen is None or number in chosen for chosen in (read.partitions, read.filtered_partitions))


def _losses_of(source: Source, witnesses: Completeness, listing: PartitionListing) -> list[CorruptionError]:
    try:
        end = horizon_now(source.files, listing)
    except StorageError:
        return []  # the task reports it, or finds the file that replaced it
    last = listing.segments[-1].size if listing.segments else 0
    sizes = {each.base_offset: each.size for each in listing.segments}
    return witnesses.losses(listing.number, sizes, LogEnd(end.offset, last > end.position))


def _concerns(loss: CorruptionError, source: Source, read: ReadOptions) -> bool:
    """Returns whether a loss is in the requested part of the log."""
    number = loss.log_partition
    if number is None:
        return True
    if not _is_chosen(number, read):
        return False
    first, until = 0, OFFSET_MAX
    if read.view in RANGED:
        first = bound_of(read.starting_offset, number, 0)
        until = bound_of(read.ending_offset, number, OFFSET_MAX)
    cut = None if read.at is None else moment_of(read.at, number, source.count)
    until = until if cut is None else min(until, cut)
    is_above = loss.lost_from is not None and loss.lost_from >= until
    is_below = loss.lost_below is not None and loss.lost_below <= first
    return not is_above and not is_below
