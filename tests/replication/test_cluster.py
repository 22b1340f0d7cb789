"""Three replicas under every fault, on the rules alone: no seed breaks the promise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.depth import by_depth, first_seed
from tests.replication.cluster import Cluster

SEEDS = by_depth(gate=150, long=5000)
STEPS = 2500


def run(seed: int, **settings: Any) -> Cluster:
    cluster = Cluster(seed, **settings)
    try:
        cluster.run(STEPS)
        cluster.heal()
    except AssertionError as broken:
        pytest.fail(f"seed {seed}: {broken}")
    return cluster


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="power fails"),
        pytest.param({"power_fails": False, "ack": "written"}, id="power never fails"),
    ],
)
def test_no_seed_breaks_the_promise_and_all_become_equal_in_the_end(settings):
    first = first_seed()
    print(f"seeds {first} to {first + SEEDS - 1}")
    clusters = [run(seed, **settings) for seed in range(first, first + SEEDS)]
    # The faults leave something to lose.
    assert sum(len(cluster.promise.committed) for cluster in clusters) > 50 * SEEDS
    assert sum(cluster.promise.reads for cluster in clusters) > 5 * SEEDS
    assert sum(cluster.state.leader_epoch for cluster in clusters) > 5 * SEEDS



def test_a_seed_replays():
    first, second = run(first_seed()), run(first_seed())
    assert first.promise.committed == second.promise.committed
    assert first.state == second.state
    assert first.now == second.now
