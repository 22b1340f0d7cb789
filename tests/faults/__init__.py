"""A file system that can stop the machine, and the exception of a stopped one; no part of the wheel."""

from __future__ import annotations

from offsetlog.error_status import STATUS_ERRORS
from offsetlog.errors import OffsetLogError
from offsetlog.status import Status


class SimulatedCrashError(OffsetLogError):
    """The machine that the faulting file system simulates has stopped."""

    status = Status.CRASHED


# The package does not know this status: only the file system below returns it.
STATUS_ERRORS[Status.CRASHED] = SimulatedCrashError

from .fault_fs import FaultFileSystem  # noqa: E402  (its calls raise by the table)

__all__ = ["FaultFileSystem", "SimulatedCrashError"]
