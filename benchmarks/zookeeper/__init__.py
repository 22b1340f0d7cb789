"""The workloads with ZooKeeper; importing this package registers them in the order of the report."""

from importlib import import_module

for _module in ("migrate",):
    import_module(f"benchmarks.zookeeper.{_module}")
