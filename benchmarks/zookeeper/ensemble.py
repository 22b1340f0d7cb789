"""An ensemble of three servers, started as in the tests, with enough memory for the nodes of the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parents[2] / "tests" / "zookeeper"


def started(directory: Path) -> Any:
    """Returns an ensemble that is started and stopped by `with`."""
    if str(HARNESS) not in sys.path:
        sys.path.insert(0, str(HARNESS))
    from ensemble import Ensemble

    return Ensemble(directory, tick_ms=2000, java=("-Xmx512m",))
