"""The error for a log that is not where the driver looks for it: the executors may see it all the same."""

from __future__ import annotations

from offsetlog.errors import MissingFileError

#: Why such a log cannot be read, and the ways to read it.
DRIVER_PLANS = (
    "the driver plans a read, so it must see the log at the path at which the executors do: put the log on storage "
    "that they share (a shared directory, s3://), run the driver on a machine that has it, or plan on an executor with "
    "offsetlog.spark.read_on_executors"
)


def not_on_driver(failure: MissingFileError) -> MissingFileError:
    """Returns the error of a driver that found no log at a path of its machine, with the ways to read it."""
    return MissingFileError(f"{failure.message}; {DRIVER_PLANS}", errno=failure.errno, path=failure.path)
