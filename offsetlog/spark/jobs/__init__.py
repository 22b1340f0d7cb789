"""Spark jobs over whole directories: each job is a module of functions on DataFrames.

The module of a job (`offsetlog.spark.jobs.<job>`) contains functions that take and return DataFrames.  The first ones
take the views of the source.  A function `run(spark, path, ...)` reads the views and calls the others.  The command of
the job is `offsetlog.cli.spark.<job>`; only the command defines the command-line arguments.
"""
