"""The workloads of the engine; importing this package registers them in the order of the report."""

from importlib import import_module

for _module in (
    "commit_one",
    "commit_many",
    "disk",
    "load",
    "fetch",
    "memory",
    "cleaner",
    "cleaner_commits",
    "restart",
    "restart_killed",
    "manager",
    "manager_async",
):
    import_module(f"benchmarks.engine.{_module}")
