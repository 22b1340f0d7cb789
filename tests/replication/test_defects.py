"""Every planted defect of the rules is found by some seed."""

from __future__ import annotations

import pytest

from tests.depth import by_depth, first_seed
from tests.replication.cluster import Cluster
from tests.replication.defects import DEFECTS

#: Seeds in which a defect must show.
SEEDS = by_depth(gate=1500, long=5000)
STEPS = 2500


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant, monkeypatch):
    plant(monkeypatch)
    first = first_seed()
    for seed in range(first, first + SEEDS):
        try:
            Cluster(seed).run(STEPS)
        except AssertionError as found:
            print(f"seed {seed}: {found}")
            return
    pytest.fail(f"seeds {first} to {first + SEEDS - 1} did not find it")
