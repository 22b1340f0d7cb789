"""The time of day, and the check for times in the future."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from offsetlog.errors import InvalidArgumentError

#: How far a time may be ahead of this machine's clock, because the clocks of two machines differ.
SKEW_MS_MAX = 60_000


def wall_ms() -> int:
    """Returns the time of day, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def is_ahead(timestamp_ms: int) -> bool:
    """Returns whether a time is more than SKEW_MS_MAX ahead of this machine's clock."""
    return timestamp_ms > wall_ms() + SKEW_MS_MAX


def future_error(name: str, timestamp_ms: int) -> InvalidArgumentError:
    """Returns the error for a time in the future, which the caller raises.

    Args:
        name: the name of the argument, as the caller knows it.
        timestamp_ms: the value of the argument, in milliseconds since 1970.
    """
    return InvalidArgumentError(
        f"{name}={_text(timestamp_ms)} lies in the future: this machine's clock says {_text(wall_ms())} UTC, and the "
        "log has no record from that time or later"
    )


def _text(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # no datetime can hold it
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00")
