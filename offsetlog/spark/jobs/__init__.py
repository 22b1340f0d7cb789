"""What is asked of whole directories at once: each job a module of functions on DataFrames.

A job's module (`offsetlog.spark.jobs.<job>`) holds functions from DataFrames of the source's views to DataFrames, and a
`run(spark, path, ...)` that reads the views.  Its command, the one place where its arguments are defined, is
`offsetlog.spark.jobs.commands.<job>`, and is named in `offsetlog.spark.jobs.command`.
"""
