"""Questions to whole directories: each job is a module of functions on DataFrames.

A job's module (`offsetlog.spark.jobs.<job>`) holds functions from DataFrames of the source's views to
DataFrames, and a `run(spark, path, ...)` that reads the views.  Its command, the one place where its
arguments are defined, is `offsetlog.cli.spark.<job>`.
"""
