"""The workloads of the server; importing this package registers them in the order of the report."""

from importlib import import_module

for _module in ("commits", "fetches", "idle"):
    import_module(f"benchmarks.server.{_module}")
