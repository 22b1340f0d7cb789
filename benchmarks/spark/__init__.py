"""The workloads of the data source on Spark; importing this package registers them in the order of the report."""

from importlib import import_module

for _module in ("commits", "offsets", "compact_report", "sink"):
    import_module(f"benchmarks.spark.{_module}")
