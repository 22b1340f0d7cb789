"""The error for a log that the driver does not find at its path, although the executors may see it there."""

from __future__ import annotations

from offsetlog.errors import MissingFileError

#: The reason why such a log cannot be read, and how to read it.
DRIVER_PLANS = (
    "the driver plans a read, so the driver must see the log at the same path as the executors: put the log on storage "
    "that they share (a shared directory, s3://), run the driver on a machine that has the log, or let an executor "
    "plan the read with offsetlog.spark.read_on_executors"
)


def not_on_driver(failure: MissingFileError) -> MissingFileError:
    """Returns the error for a log that the driver does not find on its machine.  It says how to read such a log."""
    return MissingFileError(f"{failure.message}; {DRIVER_PLANS}", errno=failure.errno, path=failure.path)
