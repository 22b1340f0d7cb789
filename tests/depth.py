"""How deep the tests go. This is the only place that reads the two settings.

OFFSETLOG_DEPTH is "gate" (the default: breadth, without repetition) or "long" (everything, for `make test-long`).
OL_SEED is the first seed of every test that draws random numbers; such a test prints the seed that it used.
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
