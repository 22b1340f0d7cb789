"""How deep the tests go. This is the only place that reads these settings.

OFFSETLOG_DEPTH is "gate" (the default: breadth, without repetition) or "long" (everything, for `make test-long`).
OL_SEED is the first seed of every test that draws random numbers; such a test prints the seed that it used.
OFFSETLOG_SOAK_SECONDS is for how long the soak of the server goes on, whatever the depth.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

DEPTHS = ("gate", "long")
DEPTH = os.environ.get("OFFSETLOG_DEPTH", "gate")
if DEPTH not in DEPTHS:
    raise ValueError(f"OFFSETLOG_DEPTH is {DEPTH!r}, and must be one of {', '.join(DEPTHS)}")


def by_depth(*, gate: T, long: T) -> T:
    """Returns how much a test does at the depth of this run."""
    return long if DEPTH == "long" else gate


def first_seed(default: int = 1) -> int:
    """Returns OL_SEED, or the seed that a test uses without it."""
    return int(os.environ.get("OL_SEED", default))


def soak_seconds() -> float:
    """Returns for how long a soak goes on: OFFSETLOG_SOAK_SECONDS, or what the depth says."""
    return float(os.environ.get("OFFSETLOG_SOAK_SECONDS", by_depth(gate=15, long=1800)))
