"""Runs seeds: `python -m tests.simulation FIRST COUNT [--planted BUG]`; one that fails prints its trace."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.simulation.bugs import BUGS, MORE
from tests.simulation.planted import plant


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("count", type=int, help="how many seeds")
    parser.add_argument("--planted", choices=sorted(BUGS | MORE), help="a bug to plant before")
    parser.add_argument("--lines", type=int, default=60, help="lines of the trace that are printed (default 60)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsetlog-planted-") as folder:
        if given.planted is not None:
            plant((BUGS | MORE)[given.planted], Path(folder))
        return run(given.first, given.count, given.lines)


def run(first: int, count: int, lines: int) -> int:
    from tests.simulation.coverage import Coverage
    from tests.simulation.world import Failure, simulate

    logging.getLogger("offsetlog").setLevel(logging.ERROR)  # of damage that the faults do
    coverage = Coverage()
    for seed in range(first, first + count):
        try:
            coverage.add(simulate(seed))
        except Failure as failure:
            print("\n".join(failure.trace[-lines:]))
            print(f"FAILED after {seed - first + 1} seeds: {failure}")
            return 1
    print(coverage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
