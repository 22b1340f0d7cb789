"""The reader of Spark's executors: no store, no server, only the files and the engine's scanner."""
