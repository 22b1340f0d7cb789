"""The contract suite as a third party runs it: by its command, in a folder of one's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ContractRun:
    """The result of a run.

    Attributes:
        code: of the process.
        output: of pytest.
        outcomes: by manager and test "passed", "failure", "error", "skipped": one of several cases
            is enough for each of them.
    """

    code: int
    output: str
    outcomes: dict[tuple[str, str], set[str]]


def run_contract(harness: str, path: Path, *arguments: str) -> ContractRun:
    """Runs the suite with a harness.

    Args:
        harness: as `--offset-manager` has it.
        path: what Python finds it in.
        arguments: more of them.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="offsetlog-contract-", dir=memory) as folder:
        report = Path(folder, "report.xml")
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "offsetlog.manager.testing.plugin", "--pyargs", "offsetlog.manager.testing"),
            *("--offset-manager", harness, "--basetemp", f"{folder}/run"),
            *(f"--junitxml={report}", *arguments),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        outcomes = _outcomes(report) if report.exists() else {}
    return ContractRun(done.returncode, done.stdout + done.stderr, outcomes)


def _outcomes(report: Path) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test, _, parameters = case.attrib["name"].partition("[")
        manager = re.split(r"[-\]]", parameters)[0]
        ended = {each.tag for each in case} & {"failure", "error", "skipped"}
        found.setdefault((manager, test), set()).update(ended or {"passed"})
    return found
