"""Spark jobs over whole directories: each job is a module of functions on DataFrames.

A job's module (`offsetlog.spark.jobs.<job>`) holds functions that take and return DataFrames, beginning with the
source's views, and a `run(spark, path, ...)` that reads the views.  Its command, the only place that defines its
arguments, is `offsetlog.cli.spark.<job>`.
"""
