"""offsetlog on Spark, through PySpark: `spark.read.format("offsetlog")`, streams, a sink, a listener and jobs.

Needs the extra `offsetlog[spark]`.  What executors import (`offsetlog.spark.scan`, the staging of the sink) loads no
store.
"""
