"""The workloads of the engine; importing this package registers them in the order of the report."""

from benchmarks.engine import commit_one, commit_many, disk, load, fetch, memory, cleaner, cleaner_commits, restart  # noqa: F401, I001
