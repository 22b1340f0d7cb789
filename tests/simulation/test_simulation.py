"""Three replicas on the product's code, by seeds; and bugs that are planted, which the seeds find."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import by_depth, first_seed
from tests.simulation.bugs import BUGS, MORE
from tests.simulation.coverage import Coverage
from tests.simulation.world import ELECTIONS, OPERATIONS, Failure, simulate

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 200
#: Seeds in which a planted bug must be found.
SEARCHED = 500


def run_seeds(first: int, count: int) -> Coverage:
    coverage = Coverage()
    for seed in range(first, first + count):
        if seed % 10 == 0:
            gc.collect()    # the files of former worlds
        try:
            coverage.add(simulate(seed))
        except Failure as failure:
            print("\n".join(failure.trace[-80:]))
            pytest.fail(f"{failure}\nthe same again: python -m tests.simulation {seed} 1")
    print(coverage)
    return coverage


def check(coverage: Coverage) -> None:
    assert coverage.least["operations"] >= min(200, OPERATIONS)
    assert coverage.least["elections"] >= ELECTIONS
    assert coverage.least["power_losses"] >= 1
    assert not coverage.lacking(100)


def test_two_hundred_seeds_keep_every_promise():
    check(run_seeds(first_seed(), SEEDS))


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_seeds_keep_every_promise(part):
    count = by_depth(gate=10, long=500)
    run_seeds(first_seed() + 1_000_000 + part * count, count)


@pytest.mark.parametrize("seed", [first_seed(), first_seed() + 17])
def test_a_seed_replays_step_by_step(seed):
    first, second = simulate(seed), simulate(seed)
    assert first.scheduler.trace == second.scheduler.trace
    assert first.scheduler.steps == second.scheduler.steps
    assert first.coverage == second.coverage


@pytest.mark.source_tree
@pytest.mark.parametrize(
    "bug", [*sorted(BUGS), *(pytest.param(bug, marks=pytest.mark.long) for bug in sorted(MORE))]
)
def test_a_planted_bug_is_found(bug):
    seeds = (str(first_seed()), str(SEARCHED))
    command = [sys.executable, "-m", "tests.simulation", *seeds, "--planted", bug]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
    )
    assert run.returncode == 1, run.stdout[-2000:] + run.stderr[-2000:]
    assert "FAILED after" in run.stdout
    print(run.stdout.splitlines()[-1])
