"""Runs each workload as a test of pytest-benchmark.  Only `python -m benchmarks` collects these tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.results import Report
from benchmarks.table import format_report
from benchmarks.workload import Options, Run, Workload, stopwatch


class Suite:
    """The pytest plugin that passes workloads to `test_workload` and keeps their reports."""

    def __init__(self, options: Options, workloads: list[Workload]) -> None:
        self.options = options
        self.workloads = workloads
        self.reports: list[Report] = []
        self.failures: list[str] = []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("workload", self.workloads, ids=[found.name for found in self.workloads])

    @pytest.fixture
    def suite(self) -> Suite:
        return self

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.append(report.nodeid.partition("[")[2].rstrip("]"))
            print(report.longreprtext, flush=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failures.append("collection")
            print(report.longreprtext, flush=True)


def test_workload(benchmark: BenchmarkFixture, suite: Suite, workload: Workload) -> None:
    directory = Path(tempfile.mkdtemp(prefix="offsetlog-benchmark-", dir=suite.options.directory))
    run = Run(suite.options, workload, benchmark, directory)
    try:
        with stopwatch(run.report):
            workload.function(run)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    suite.reports.append(run.report)
    print(format_report(run.report, judged=not suite.options.smoke), end="\n\n", flush=True)


def run_suite(options: Options, workloads: list[Workload]) -> Suite:
    """Runs the workloads in this process, one after the other, and prints the report of each when it ends."""
    suite = Suite(options, workloads)
    # Options that a user has set for other tests must not change the benchmarks.
    os.environ.pop("PYTEST_ADDOPTS", None)
    words = [
        __file__, "-c", "/dev/null", "--rootdir", str(Path(__file__).parent), "--capture=no", "-p", "no:terminal",
        "-p", "no:cacheprovider", "-p", "no:randomly", "--benchmark-only", "--benchmark-disable-gc",
    ]  # fmt: skip
    status = pytest.main(words, plugins=[suite])
    if status != 0 and not suite.failures:
        suite.failures.append(f"pytest ended with {status}")
    return suite
