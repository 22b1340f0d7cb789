"""Missing parts of a log directory: the driver asks at each planning and each start of a stream.

A log that lost its end, a segment or a directory reads like one that never had it, since log offsets have gaps where
a cleaner worked.  `offsetlog.directory.completeness` asks the witnesses; here it is decided which losses concern a
reader.
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

#: Beside a writer files and witnesses may be of two moments: anything but a loss has passed at the next look.
LOOKS = 3
_PAUSE_SECONDS = 0.02
_log = logging.getLogger(__name__)


def find_losses(
    source: Source, read: ReadOptions, doubts: list[OffsetLogError] | None = None
) -> list[CorruptionError]:
    """Returns what is missing of what the options ask for, and what a reader would not meet by himself.

    As errors that were not raised, each with its `log_partition`.  A segment that is read by itself has no witness.

    Args:
        source: the one that is read.
        read: the options.
        doubts: gets the missing and damaged witnesses, which show nothing to be absent; None logs them as warnings.

    Raises:
        StorageError: the directory cannot be listed.
    """
    if any(listing.directory is None for listing in source.listings):
        return []
    listings: Sequence[PartitionListing] = source.listings
    for look in range(LOOKS):
        if look > 0:
            # Even a pause of 0 gives the core to whatever else waits for it.
            time.sleep(look * _PAUSE_SECONDS)
        wrong: list[OffsetLogError] = []
        found = [each for each in _look(source, listings, read, wrong) if _concerns(each, source, read)]
        losses = [each for each in found if not is_witness_missing(each)]
        if not losses:
            break  # a witness that is missing is no reason for another look
        # A log that was listed before the witnesses were read may have grown since.
        listings = ()
    wrong += [each for each in found if is_witness_missing(each)]
    if doubts is None:
        warn_of(map(str, wrong))
    else:
        doubts += wrong
    return losses


def warn_of(doubts: Iterable[str]) -> None:
    """Logs what is wrong with witnesses."""
    for doubt in doubts:
        _log.warning("%s", doubt)


def refusal(losses: Sequence[CorruptionError], way_out: str) -> CorruptionError:
    """Returns the error for losses: the first of them, how many more there are, and how to go on."""
    first = losses[0]
    more = f", and {len(losses) - 1} more like it" if len(losses) > 1 else ""
    return type(first)(
        f"{first.message}{more}; nothing is read; {way_out} reads the rest",
        path=first.path,
        log_partition=first.log_partition,
        lost_from=first.lost_from,
        lost_below=first.lost_below,
    )


def ask(source: Source, read: ReadOptions, doubts: list[OffsetLogError] | None = None) -> list[CorruptionError]:
    """Returns what is missing with mode=permissive, and raises it otherwise; arguments as of `find_losses`.

    Raises:
        DataLossError, PossibleLossError, CorruptionError: something is missing, and mode=failfast.
        StorageError: the directory cannot be listed.
    """
    found = find_losses(source, read, doubts)
    if found and not read.permissive:
        raise refusal(found, "mode=permissive (--permissive of a job)")
    return found


def _is_whole_directory(source: Source) -> bool:
    return all(each.directory is not None and each.directory != source.path for each in source.listings)


def _directory_of(source: Source) -> tuple[str, int | None]:
    """Returns the log directory of a partition, and of a link to one elsewhere the number by its name there."""
    above = str(PurePosixPath(source.path).parent)
    elsewhere = link_target(source.path) if source.files.arrow is None else None
    if elsewhere is None:
        return above, None
    parsed = parse_directory_name(elsewhere.name)
    return str(elsewhere.parent), None if parsed is None else parsed[1]


def _look(
    source: Source, listings: Sequence[PartitionListing], read: ReadOptions, doubts: list[OffsetLogError]
) -> list[CorruptionError]:
    """Asks the witnesses about what was listed, or where that is empty about what is there after they were read.

    Problems of the witnesses themselves go into `doubts`.
    """
    is_whole = _is_whole_directory(source)
    above, elsewhere = (source.path, None) if is_whole else _directory_of(source)
    try:
        witnesses = Completeness(above, source.files.native)
    except StorageError as failure:
        return [PossibleLossError(f"the witnesses of the directory cannot be read: {failure}", path=above)]
    listings = listings or list_partitions(source.files, source.path)
    found: list[CorruptionError] = []
    # Nobody says that a broker's checkpoints must be beside a partition that is read by itself.
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
        return []  # the task meets it, or finds what took its place
    last = listing.segments[-1].size if listing.segments else 0
    sizes = {each.base_offset: each.size for each in listing.segments}
    return witnesses.losses(listing.number, sizes, LogEnd(end.offset, last > end.position))


def _concerns(loss: CorruptionError, source: Source, read: ReadOptions) -> bool:
    """Tells whether something that is missing lies among what is asked for."""
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
