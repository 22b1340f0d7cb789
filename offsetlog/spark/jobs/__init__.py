"""Spark jobs over whole directories: each job is a module of functions on DataFrames.

The module of a job (`offsetlog.spark.jobs.<job>`) contains functions that take and return DataFrames, beginning with
the views of the source.  Its function `run(spark, path, ...)` reads the views and calls the other functions.  The
command of the job is `offsetlog.cli.spark.<job>`; only the command defines the command-line arguments.
"""
