"""Compares the Spark job `compact-report` with `offsetlog compact --dry-run`: both report what a clean would free."""

from __future__ import annotations

import offsetlog
from benchmarks.opening import BY_HAND
from benchmarks.race import Job, Runner, race
from benchmarks.results import Goal
from benchmarks.spark.log import Shape, write_log
from benchmarks.spark.session import WORKER_MIB_MAX, spark_session, worker_peak_mib
from benchmarks.workload import Run, workload
from offsetlog.spark.jobs import compact_report

SECONDS_MAX = 10


@workload("compact-report", "<= 10 s for 10^7 records, no worker above 512 MiB")
def report(run: Run) -> None:
    """Runs compact-report --roll on 10^7 records of 10^6 keys in 50 log partitions, and reads both of its tables."""
    shape = Shape(run.size(10_000_000, 40_000), run.size(1_000_000, 20_000), run.kafka_partitions)
    path, scratch = run.new_directory(), run.new_directory()
    size = write_log(path, shape, run.seed)
    run.condition(f"{shape}, {size / 1e6:,.0f} MB; local[2], driver -Xmx1g; in the page cache")

    def dry_run() -> None:
        with offsetlog.open(path, read_only=True, maintenance=BY_HAND) as store:
            for plan in store.maintenance.plans():
                store.maintenance.survey(plan)

    with spark_session(scratch) as spark:

        def both_tables() -> None:
            made = compact_report.run(spark, path, roll=True)
            freed = [sum(row.freed_records for row in table.collect()) for table in made.tables().values()]
            if freed != [shape.records - shape.keys] * 2:
                raise AssertionError(f"the tables report {freed} freed records, which does not fit {shape}")

        runners = [
            Runner("offsetlog spark compact-report", lambda number: Job(both_tables, shape.records), "records/s"),
            Runner("offsetlog compact --dry-run", lambda number: Job(dry_run, shape.records), "records/s"),
        ]
        figures = race(run.benchmark, runners, run.rounds)
        peak = worker_peak_mib()
    run.report.figures += figures
    seconds = shape.records / figures[0].median
    run.report.goals.append(Goal(f"compact-report: <= {SECONDS_MAX} s", SECONDS_MAX, seconds, at_most=True))
    run.report.goals.append(Goal(f"largest Python worker: <= {WORKER_MIB_MAX} MiB", WORKER_MIB_MAX, peak, at_most=True))
