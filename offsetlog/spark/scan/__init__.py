"""The reader that runs on Spark's executors.  It imports no store and no server."""
