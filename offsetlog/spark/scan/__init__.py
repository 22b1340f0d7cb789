"""The reader that runs on Spark's executors: it loads only the files and the engine's scanner, no store or server."""
