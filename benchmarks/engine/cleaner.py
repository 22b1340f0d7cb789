"""The speed of cleaning a log whose records are mostly superseded, compared with Kafka's cleaner."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pytest_benchmark.stats import Stats

from benchmarks.engine import cleaner_kafka
from benchmarks.engine.cleaner_log import DirtyLog, dirty_log
from benchmarks.race import Job, Runner, race
from benchmarks.results import Figure
from benchmarks.served_kafka import find_packages
from benchmarks.workload import Run, one_core, workload
from offsetlog import OffsetStore
from offsetlog.types import CleaningReport


@dataclass
class _Cleaning:
    """Cleans a fresh copy of the log in each round."""

    run: Run
    log: DirtyLog
    cpu: Stats = field(default_factory=Stats)
    digests: set[str] = field(default_factory=set)
    reports: list[CleaningReport] = field(default_factory=list)

    def runner(self) -> Runner:
        opened: list[OffsetStore] = []
        cpu_seconds: list[float] = []

        def prepare(number: int) -> Job:
            path = self.log.copy(self.run.new_directory())
            store = self.log.open(path)
            opened.append(store)

            def job() -> None:
                started = time.process_time()
                (report,) = store.compact(roll=False)
                cpu_seconds.append(time.process_time() - started)
                self.reports.append(report)

            return Job(job, self.log.closed_bytes)

        def settle(job: Job) -> None:
            with opened.pop() as store:
                self._check(store)
                path = store.path
            self.run.drop(path)
            # The first round warms up.
            if len(cpu_seconds) > 1:
                self.cpu.update(cpu_seconds[-1])

        return Runner("offsetlog", prepare, unit="bytes/s", settle=settle)

    def _check(self, store: OffsetStore) -> None:
        report = self.reports[-1]
        if not report.cleaned or not report.complete or report.quarantined:
            raise AssertionError(f"{self.run.report.name}: not everything was cleaned: {report}")
        # Each record is read at least once, and the records that remain are those of the table.
        if report.bytes_read < self.log.closed_bytes or report.records_kept > self.log.keys.count:
            raise AssertionError(f"{self.run.report.name}: it did not do the work of a clean: {report}")
        self.digests.add(self.log.digest_of(store))
        if store.verify():
            raise AssertionError(f"{self.run.report.name}: the cleaned log is not sound: {store.verify()[0]}")

    def figures(self, wall: Figure) -> list[Figure]:
        report = self.reports[-1]
        (wall.digest,) = self.digests
        size = self.log.closed_bytes
        wall.note = (
            f"{report.bytes_read / size:.2f} x the log read, {report.passes} pass(es), "
            f"{report.bytes_after / max(1, report.bytes_before):.0%} left, {report.segments_after} segments"
        )
        self.run.report.facts |= {
            "bytes of closed segments": size,
            "bytes read": report.bytes_read,
            "bytes left": report.bytes_after,
            "records left": report.records_kept,
        }
        cpu = Figure.of_rounds("offsetlog, by CPU time", "bytes/s", self.cpu, size, "of the whole process")
        cpu.digest = wall.digest
        return [wall, cpu]


def _add_kafka(run: Run, log: DirtyLog) -> None:
    packages = None if run.options.smoke else find_packages()
    if packages is None:
        run.condition("Kafka's cleaner did not run: this is a smoke run, or there is no Java")
        return
    run.condition("Kafka 4.3.0: the figures that its cleaner logs, in one run with its defaults and 1 cleaner thread;")
    run.condition("its JVM has just started, but the rounds of offsetlog follow a warm-up round that is not counted")
    rates = cleaner_kafka.clean(packages, log, run.new_directory())
    lines = [
        ("Kafka's cleaner", rates.end_to_end),
        ("Kafka, indexing", rates.indexing),
        ("Kafka, copying", rates.copying),
    ]
    for name, rate in lines:
        run.report.figures.append(Figure(name, "bytes/s", rate, rate, rate, digest=rates.digest))
    run.report.figure("Kafka's cleaner").note = f"{rates.seconds:.1f} s"
    run.report.goal_ratio("offsetlog", "Kafka's cleaner", 10)


@workload("clean/1GB", ">= 1 GB/s per core and >= 10 x Kafka's cleaner")
def clean(run: Run) -> None:
    """A clean of a warm log of one-record commits, 90 % superseded: bytes of log per second, on one core."""
    log = dirty_log(run)
    files = log.files()
    cleaning = _Cleaning(run, log)
    run.condition("a fresh copy each round; all of `store.compact(roll=False)`, flushes of the new segments included")
    with one_core() as core:
        run.condition(f"on core {core}")
        runner = cleaning.runner()
        (figure,) = race(run.benchmark, [runner], run.rounds)
    run.report.figures += cleaning.figures(figure)
    run.report.goal_rate("offsetlog", 1e9)
    run.report.goal_rate("offsetlog, by CPU time", 1e9)
    _add_kafka(run, log)
    if log.files() != files:
        raise AssertionError(f"{run.report.name}: the log that was to be copied was changed")
