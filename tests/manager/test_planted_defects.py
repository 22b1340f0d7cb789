"""The contract suite is red on each planted defect, and green on the manager without one."""

from __future__ import annotations

import pytest

from tests.manager.contract_run import ROOT, ContractRun, run_contract
from tests.manager.planted_defects import FOUND_BY, SOUND, name_of

pytestmark = pytest.mark.source_tree


@pytest.fixture(scope="module")
def run() -> ContractRun:
    """Runs for each defect the test that finds it, and all of these over what is unbroken."""
    chosen = [f"({name_of(defect)} and {test})" for defect, test in FOUND_BY.items()]
    chosen += [f"({SOUND} and {test})" for test in FOUND_BY.values()]
    harnesses = "tests.manager.planted_defects:HARNESSES"
    return run_contract(harnesses, ROOT, "-k", " or ".join(chosen))


@pytest.mark.parametrize(
    ("defect", "test"), [(name_of(defect), test) for defect, test in FOUND_BY.items()]
)
def test_the_contract_finds_a_defect(run, defect, test):
    assert "failure" in run.outcomes[defect, test], run.output
    assert "error" not in run.outcomes[defect, test], run.output


def test_the_contract_finds_nothing_where_nothing_is(run):
    sound = {key: ended for key, ended in run.outcomes.items() if key[0] == SOUND}
    # A manager that can do everything is not asked to refuse anything.
    asked = set(FOUND_BY.values()) - {"test_what_needs_a_capability_is_refused"}
    assert {test for _, test in sound} == asked
    assert set().union(*sound.values()) == {"passed"}, run.output
